// CopilotKit's unmodified core with Parley as its runtime: no Node server between.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { CopilotKitCore } from "@copilotkit/core";
import { z } from "zod";
import { answers, api, startServer, until, uuid } from "./harness.mjs";

let server;
before(async () => {
  globalThis.window ??= globalThis; // the core connects only in pages
  server = await startServer();
});
after(() => server.stop());

/** A page: its core and its agent in a thread. */
async function open(threadId = uuid(), options = {}) {
  const core = new CopilotKitCore({ runtimeUrl: `${server.url}/api/copilotkit`, ...options });
  core.connectRuntime?.();
  await until(() => core.runtimeConnectionStatus === "connected", "the connection to the runtime");
  const agent = core.getAgent(options.agentId ?? "demo");
  agent.threadId = threadId;
  return {
    core,
    agent,
    async say(content) {
      agent.addMessage({ id: uuid(), role: "user", content });
      return core.runAgent({ agent });
    },
  };
}

for (const runtimeTransport of ["rest", "single"]) {
  test(`${runtimeTransport}: a run, and the thread on a second device`, async () => {
    const { agent, say } = await open(undefined, { runtimeTransport });
    await say("hello");
    await say('/tool search {"q":1}');
    assert.deepEqual(answers(agent.messages), ["You said: hello", 'search gave {"q":1}']);
    const second = await open(agent.threadId, { runtimeTransport });
    await second.core.connectAgent({ agent: second.agent });
    assert.deepEqual(second.agent.messages.map((m) => [m.role, m.content]), agent.messages.map((m) => [m.role, m.content]));
  });
}

test("the agent that pages call default", async () => {
  const { agent, say } = await open(undefined, { agentId: "default" });
  await say("hello");
  assert.deepEqual(answers(agent.messages), ["You said: hello"]);
});

test("a reloaded page follows the running run to its end", async () => {
  const first = await open();
  const done = first.say("/stream 60 40");
  await until(() => answers(first.agent.messages).join("").includes("tok5"), "some text");
  const second = await open(first.agent.threadId);
  await second.core.connectAgent({ agent: second.agent });
  await done;
  const whole = Array.from({ length: 60 }, (_, i) => `tok${i + 1}`).join(" ");
  assert.deepEqual(answers(second.agent.messages), [whole]);
  assert.deepEqual(answers(first.agent.messages), [whole]);
});

test("a reloaded page has the open question and answers it", async () => {
  const first = await open();
  await first.say("/approve deploy {}");
  const second = await open(first.agent.threadId);
  await second.core.connectAgent({ agent: second.agent });
  assert.equal(second.agent.pendingInterrupts.length, 1);
  const [{ id }] = second.agent.pendingInterrupts;
  await second.agent.runAgent({ resume: [{ interruptId: id, status: "resolved", payload: { approved: true } }] });
  assert.equal(answers(second.agent.messages).at(-1), "deploy gave {}");
});

test("a question whose deadline has passed does not lock the thread", async () => {
  const { agent, say } = await open();
  await say("/ask radio timeout=0.5");
  const [{ id }] = agent.pendingInterrupts;
  await until(async () => (await api(server, `/sessions/${agent.threadId}/snapshot`)).state.prompts?.length !== 1, "the deadline");
  const told = [];
  agent.subscribe({ onCustomEvent: ({ event }) => void told.push(event) });
  await agent.runAgent({ resume: [{ interruptId: id, status: "resolved", payload: { value: "sms" } }] });
  assert.deepEqual(told.map((e) => [e.name, e.value.how, e.value.message]), [["parley.answered", "expired", "The deadline of the question has passed, so your answer does not count."]]);
  assert.deepEqual(agent.pendingInterrupts, []);
  assert.equal(answers(agent.messages).at(-1), "No answer in time.");
  await say("hello");
  assert.equal(answers(agent.messages).at(-1), "You said: hello");
});

test("a run that failed does not hide the runs after it", async () => {
  const first = await open();
  await first.say("/fail no paper").catch(() => {});
  await first.say("hello");
  const second = await open(first.agent.threadId);
  await second.core.connectAgent({ agent: second.agent });
  assert.deepEqual(answers(second.agent.messages), ["You said: hello"]);
});

test("regenerate and edit of an earlier message", async () => {
  const { core, agent, say } = await open(undefined, { properties: { parley: { branch: true } } });
  await say("one");
  await say("two");
  await say("three");
  agent.setMessages(agent.messages.slice(0, 3)); // as reloadMessages does it
  await core.runAgent({ agent });
  const shown = () => agent.messages.map((m) => m.content);
  assert.deepEqual(shown(), ["one", "You said: one", "two", "You said: two"]);
  agent.setMessages(agent.messages.slice(0, 2)); // as handlers of onEditMessage do it
  await say("deux");
  assert.deepEqual(shown(), ["one", "You said: one", "deux", "You said: deux"]);
  const second = await open(agent.threadId);
  await second.core.connectAgent({ agent: second.agent });
  assert.deepEqual(second.agent.messages.map((m) => m.content), shown());
});

test("stop ends the turn", async () => {
  const { core, agent, say } = await open();
  const done = say("/sleep 600");
  await until(async () => (await api(server, `/sessions/${agent.threadId}`).catch(() => ({}))).status === "running", "the start of the turn");
  core.stopAgent({ agent });
  await done.catch(() => {});
  const ended = await until(async () => (await api(server, `/sessions/${agent.threadId}/events?types=turn.completed`)).events[0], "the end of the turn");
  assert.equal(ended.payload.outcome, "stopped");
});

test("a tool of the page is run and its result goes to the agent", async () => {
  const { core, agent, say } = await open();
  const seen = [];
  core.addTool({
    name: "paint",
    description: "paints",
    parameters: z.object({ color: z.string() }),
    handler: async ({ color }) => {
      seen.push(color);
      return `painted ${color}`;
    },
  });
  await say('/approve paint {"color":"red"}');
  assert.deepEqual(seen, ["red"]);
  assert.equal(answers(agent.messages).at(-1), 'paint gave "painted red"');
});

test("the threads of an agent are listed", async () => {
  const { agent, say } = await open();
  await say("hello");
  const list = await (await fetch(`${server.url}/api/copilotkit/threads?agentId=demo&limit=100`)).json();
  const one = list.threads.find((t) => t.id === agent.threadId);
  assert.equal(one.agentId, "demo");
  assert.equal(one.name, "hello");
  const { messages } = await (await fetch(`${server.url}/api/copilotkit/threads/${agent.threadId}/messages`)).json();
  assert.deepEqual(messages.map((m) => [m.role, m.content]), [["user", "hello"], ["assistant", "You said: hello"]]);
});

test("what is not offered is a plain 404", async () => {
  const res = await fetch(`${server.url}/api/copilotkit/transcribe`, { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" });
  assert.equal(res.status, 404);
  assert.match((await res.json()).message, /not offered/);
  const stop = await fetch(`${server.url}/api/copilotkit/agent/demo/stop/none`, { method: "POST", headers: { "Content-Type": "application/json" }, body: '{"force":true}' });
  assert.equal(stop.status, 400);
});
