// The chat classes of the three versions, with the smallest state: no page and no framework.
import * as ai5 from "ai5";
import * as ai6 from "ai6";
import * as ai7 from "ai7";

export const versions = { 5: ai5, 6: ai6, 7: ai7 };

class State {
  status = "ready";
  error = undefined;
  constructor(messages = []) {
    this.messages = messages;
  }
  pushMessage = (m) => void (this.messages = [...this.messages, m]);
  popMessage = () => void (this.messages = this.messages.slice(0, -1));
  replaceMessage = (i, m) => void (this.messages = [...this.messages.slice(0, i), structuredClone(m), ...this.messages.slice(i + 1)]);
  snapshot = (v) => structuredClone(v);
}

/** A chat of a version over a transport; options are those of useChat. */
export function newChat(version, { id, api, transport, messages, ...options }) {
  const ai = versions[version];
  const errors = [];
  class Chat extends ai.AbstractChat {}
  const chat = new Chat({
    id,
    state: new State(messages),
    transport: transport ?? new ai.DefaultChatTransport({ api: version === 5 ? `${api}${api.includes("?") ? "&" : "?"}sdk=5` : api }),
    onError: (e) => errors.push(e),
    ...options,
  });
  chat.errors = errors;
  return chat;
}

/** The text of the last message. */
export const lastText = (chat) => textOf(chat.messages.at(-1));
export const textOf = (m) => m.parts.filter((p) => p.type === "text").map((p) => p.text).join("");

/** The tool parts of a message. */
export const tools = (m) => m.parts.filter((p) => p.type === "dynamic-tool" || p.type.startsWith("tool-"));

/** Waits until a condition holds, looking again after each change of a chat. */
export async function until(condition, what = condition.toString(), timeout = 30_000) {
  const end = Date.now() + timeout;
  for (;;) {
    const v = await condition();
    if (v) return v;
    if (Date.now() > end) throw new Error(`not within ${timeout} ms: ${what}`);
    await new Promise((r) => setTimeout(r, 10));
  }
}
