/* What /embed.js is: the element that shows a conversation in a frame, registered at once. */
import { defineParleyFrame } from "@parley-hq/react/frame";

defineParleyFrame();
