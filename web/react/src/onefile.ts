import { defineParleyConversation, ParleyConversation } from "./element.js";

export { ParleyConversation } from "./element.js";

/** The style sheet; the build writes it into the bundle. */
declare const PARLEY_STYLES: string;

const sheet = new CSSStyleSheet();
sheet.replaceSync(PARLEY_STYLES);
ParleyConversation.sheets = [sheet];
defineParleyConversation();
