/* The script /embed.js: registers the element that shows a conversation in a frame. */
import { defineParleyFrame } from "@parley-hq/react/frame";

defineParleyFrame();
