import { defineParleyConversation } from "./element.js";

export { ParleyConversation } from "./element.js";

defineParleyConversation();
