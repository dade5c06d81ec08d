// The chat classes of the three versions, with the smallest state: no page and no framework.
import * as ai5 from "ai5";
import * as ai6 from "ai6";
import * as ai7 from "ai7";
import { api, startServer as start } from "../../testing/server.mjs";

export { api, until } from "../../testing/server.mjs";

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

/** A server; api is the address of its chats. */
export async function startServer(...flags) {
  const server = await start(...flags);
  return { ...server, api: `${server.url}/api/chat` };
}

/** The open prompts of a session. */
export const prompts = async (server, session) => (await api(server, `/sessions/${session}/snapshot`)).state.prompts ?? [];
