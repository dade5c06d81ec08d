// The React hooks of TanStack AI and assistant-ui, unmodified, in a document without a browser.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Window } from "happy-dom";
import { api, startServer, until, uuid } from "./harness.mjs";

const window = new Window({ url: "http://127.0.0.1/" });
Object.assign(globalThis, { window, document: window.document });
for (const name of ["navigator", "Node", "Element", "HTMLElement", "HTMLIFrameElement", "Event", "MutationObserver"]) globalThis[name] ??= window[name];
const { createElement } = await import("react");
const { createRoot } = await import("react-dom/client");
const { AssistantRuntimeProvider } = await import("@assistant-ui/react");
const { useAgUiRuntime } = await import("@assistant-ui/react-ag-ui");
const { fetchServerSentEvents, useChat } = await import("@tanstack/ai-react");
const { HttpAgent } = await import("ag-ui-client-0");

let server;
const roots = [];
before(async () => (server = await startServer()));
after(async () => {
  for (const root of roots) root.unmount();
  await server.stop();
  await window.happyDOM.close();
});

/** Renders a component; hook is called in it, and now() is what it returned last. */
function render(hook, wrap = () => null) {
  let value;
  const Page = () => wrap((value = hook()));
  const root = createRoot(document.body.appendChild(document.createElement("div")));
  root.render(createElement(Page));
  roots.push(root);
  return { now: () => value };
}

const text = (m) => m.parts.filter((p) => p.type === "text").map((p) => p.content).join("");
const view = (messages) => messages.map((m) => [m.role, text(m)]).flat().join("|");

/** A page with useChat of TanStack AI. */
async function tanstack(options) {
  const page = render(() => useChat({ connection: fetchServerSentEvents(`${server.url}/ag-ui/demo`), ...options }));
  await until(() => page.now());
  return page;
}

test("TanStack's hook: a conversation, another answer, a question and a reload of the page", async () => {
  const threadId = uuid();
  const page = await tanstack({ threadId });
  await page.now().sendMessage("one");
  await page.now().sendMessage("two");
  const whole = "user|one|assistant|You said: one|user|two|assistant|You said: two";
  await until(() => view(page.now().messages) === whole, whole);
  await page.now().reload();
  await until(() => view(page.now().messages) === whole, "the answer again");
  const { sessions } = await api(server, "/sessions");
  assert.equal(sessions.length, 2, "another answer is a fork");

  await page.now().sendMessage("/ask radio");
  await until(() => page.now().interrupts.length === 1, "the question");
  page.now().interrupts[0].resolveInterrupt({ value: "sms" });
  await until(() => view(page.now().messages).endsWith("You answered: sms"), "the answer");

  const second = await tanstack({ threadId, persistence: true });
  await until(() => view(second.now().messages) === view(page.now().messages), () => `${view(second.now().messages)}, not ${view(page.now().messages)}`);
});

/** A page with assistant-ui. */
async function assistant(threadId = uuid()) {
  const errors = [];
  const agent = new HttpAgent({ url: `${server.url}/ag-ui/demo?branch=1`, threadId });
  const page = render(() => useAgUiRuntime({ agent, onError: (e) => errors.push(e) }), (runtime) => createElement(AssistantRuntimeProvider, { runtime }));
  await until(() => page.now()?.thread);
  const { thread } = page.now();
  const messages = () => thread.getState().messages;
  const all = () => messages().map((m) => [m.role, m.content.filter((p) => p.type === "text").map((p) => p.text).join("")]).flat().join("|");
  const shows = (want) => until(() => all() === want && !thread.getState().isRunning, () => `${want}, not ${all()} ${errors}`);
  return { thread, messages, all, shows, agent };
}

/** What the agent was told in the thread, in the current branch. */
async function told(threadId) {
  const { messages } = await (await fetch(`${server.url}/api/copilotkit/threads/${threadId}/messages`)).json();
  return messages.filter((m) => m.role === "user").map((m) => m.content);
}

test("assistant-ui: another answer, an edit and a question", async () => {
  const { thread, messages, shows, agent } = await assistant();
  thread.append("one");
  await shows("user|one|assistant|You said: one");
  thread.append("two");
  const before = "user|one|assistant|You said: one|user|two|assistant|You said: two";
  await shows(before);
  const [, answer, two, second] = messages();

  thread.getMessageById(second.id).reload();
  await until(() => messages().at(-1).id !== second.id, "a new answer");
  await shows(before);
  assert.deepEqual(await told(agent.threadId), ["one", "two"]);

  thread.append({ parentId: answer.id, sourceId: two.id, role: "user", content: [{ type: "text", text: "deux" }] });
  await shows("user|one|assistant|You said: one|user|deux|assistant|You said: deux");
  assert.deepEqual(await told(agent.threadId), ["one", "deux"]);

  thread.append("/approve deploy {}");
  await until(() => messages().at(-1).status?.type === "requires-action", "the question");
});
