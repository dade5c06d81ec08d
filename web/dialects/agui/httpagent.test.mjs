// The unmodified HttpAgent of both majors: it verifies the schema and the order of every event.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { HttpAgent as Agent1 } from "@ag-ui/client";
import { HttpAgent as Agent0 } from "ag-ui-client-0";
import { answers, api, startProxy, startServer, until, uuid } from "./harness.mjs";

let server;
before(async () => (server = await startServer()));
after(() => server.stop());

const versions = { "1.0.0": Agent1, "0.0.59": Agent0 };

// The client cancels the body of a broken connection and does not handle that this fails; the test runner would count it.
async function cancelQuietly(url, init) {
  const res = await fetch(url, init);
  const open = res.body.getReader.bind(res.body);
  res.body.getReader = () => {
    const reader = open();
    const cancel = reader.cancel.bind(reader);
    reader.cancel = (reason) => cancel(reason).catch(() => {});
    return reader;
  };
  return res;
}

function open(HttpAgent, options = {}) {
  const agent = new HttpAgent({ url: `${options.base ?? server.url}/ag-ui/demo`, threadId: options.threadId ?? uuid(), ...(options.base && { fetch: cancelQuietly }) });
  const types = [];
  return {
    agent,
    types,
    /** Says something and waits for the end of the run. */
    async say(content, parameters) {
      if (content) agent.addMessage({ id: uuid(), role: "user", content });
      types.length = 0;
      return agent.runAgent(parameters, { onEvent: ({ event }) => void types.push(event.type) });
    },
  };
}

for (const [version, HttpAgent] of Object.entries(versions)) {
  test(`${version}: text, reasoning, tools, plans, files, subagents`, async () => {
    for (const [text, want] of [
      ["hello", "You said: hello"],
      ["/think about it", "Done thinking."],
      ['/tool search {"q":1}', 'search gave {"q":1}'],
      ["/toolfail fetch", "fetch failed."],
      ["/plan 2 0.02", "All 2 tasks are done."],
      ["/artifact table", "Here is the table."],
      ["/usage 3 4", "Used 3 tokens in and 4 out."],
    ]) {
      const { agent, say } = open(HttpAgent);
      await say(text);
      assert.equal(answers(agent.messages).at(-1), want);
    }
    const { agent, types, say } = open(HttpAgent);
    await say("/work 3 0");
    assert.ok(types.includes("SUBAGENT_STARTED") && types.includes("SUBAGENT_FINISHED"));
    assert.match(answers(agent.messages).at(-1), /All 3 workstreams have ended/);
  });

  test(`${version}: a conversation of several runs`, async () => {
    const { agent, say } = open(HttpAgent);
    await say("one");
    await say("two");
    assert.deepEqual(agent.messages.map((m) => m.content), ["one", "You said: one", "two", "You said: two"]);
    const events = await api(server, `/sessions/${agent.threadId}/events?types=user.message`);
    assert.equal(events.events.length, 2);
  });

  test(`${version}: a failed run`, async () => {
    const { say } = open(HttpAgent);
    const seen = [];
    const { agent } = open(HttpAgent);
    agent.addMessage({ id: uuid(), role: "user", content: "/fail no paper" });
    await agent.runAgent({}, { onRunErrorEvent: ({ event }) => void seen.push(event.message) }).catch((e) => seen.push(e.message));
    assert.match(seen.join(), /no paper/);
    await say("still there?");
  });

  test(`${version}: interrupts are answered in the page`, async () => {
    for (const [text, payload, want] of [
      ["/ask radio", { value: "sms" }, "You answered: sms"],
      ["/ask checkbox", { value: ["email", "push"] }, "You answered: email, push"],
      ["/approve deploy {}", { approved: true }, "deploy gave {}"],
      ["/approve deploy {}", { approved: false, reason: "not today" }, "Denied: not today"],
      ["/approve deploy {}", { approved: true, editedArgs: { env: "test" } }, 'deploy gave {"env":"test"}'],
      ["/permission mail", { granted: ["mail"] }, "Granted: mail"],
    ]) {
      const { agent, say } = open(HttpAgent);
      await say(text);
      assert.equal(agent.pendingInterrupts.length, 1, text);
      await assert.rejects(() => say("something else"), /interrupt/i);
      agent.messages.pop();
      await say("", { resume: agent.pendingInterrupts.map((i) => ({ interruptId: i.id, status: "resolved", payload })) });
      assert.equal(answers(agent.messages).at(-1), want);
      assert.equal(agent.pendingInterrupts.length, 0);
    }
  });

  test(`${version}: a question is answered on another device`, async () => {
    const { agent, say } = open(HttpAgent);
    await say("/ask radio");
    const [{ id }] = agent.pendingInterrupts;
    await api(server, `/sessions/${agent.threadId}/prompts/${id}/answer`, { values: ["push"] });
    const custom = [];
    await agent.runAgent({ resume: [{ interruptId: id, status: "resolved", payload: { value: "sms" } }] }, { onCustomEvent: ({ event }) => void custom.push(event.name) });
    assert.deepEqual(custom, ["parley.answered"]);
    assert.equal(answers(agent.messages).at(-1), "You answered: push");
  });

  test(`${version}: a question whose deadline has passed does not lock the thread`, async () => {
    const { agent, say } = open(HttpAgent);
    await say("/ask radio timeout=0.5");
    const [{ id }] = agent.pendingInterrupts;
    await until(async () => (await api(server, `/sessions/${agent.threadId}/snapshot`)).state.prompts?.length !== 1, "the deadline");
    await say("", { resume: [{ interruptId: id, ...(HttpAgent === Agent1 ? { status: "cancelled" } : { status: "resolved", payload: { value: "sms" } }) }] });
    assert.equal(answers(agent.messages).at(-1), "No answer in time.");
    await say("hello");
    assert.equal(answers(agent.messages).at(-1), "You said: hello");
  });

  test(`${version}: a tool of the page`, async () => {
    const tools = [{ name: "paint", description: "paints", parameters: { type: "object", properties: {} } }];
    const { agent, say } = open(HttpAgent);
    await say('/approve paint {"color":"red"}', { tools });
    const call = agent.messages.find((m) => m.toolCalls)?.toolCalls[0];
    assert.equal(call.function.name, "paint");
    assert.equal(agent.pendingInterrupts.length, 0);
    agent.addMessage({ id: uuid(), role: "tool", toolCallId: call.id, content: "painted" });
    await say("", { tools });
    assert.equal(answers(agent.messages).at(-1), 'paint gave "painted"');
  });

  test(`${version}: the same run again is not asked twice`, async () => {
    const { agent, say } = open(HttpAgent);
    await say("hello", { runId: "fixed" });
    const before = structuredClone(agent.messages);
    await say("", { runId: "fixed" });
    assert.deepEqual(agent.messages, before);
    const events = await api(server, `/sessions/${agent.threadId}/events?types=turn.started`);
    assert.equal(events.events.length, 1);
  });

  test(`${version}: a broken connection is an error, and the next run has the whole answer`, async () => {
    let cut = 1500;
    const proxy = await startProxy(server.url, () => cut);
    const { agent, say } = open(HttpAgent, { base: proxy.url });
    await assert.rejects(() => say("/stream 300 2000"));
    cut = undefined;
    await say("");
    assert.equal(answers(agent.messages).at(-1), Array.from({ length: 300 }, (_, i) => `tok${i + 1}`).join(" "));
    await proxy.stop();
  });

  test(`${version}: a page that asks again shows thinking once`, async () => {
    const { agent, say } = open(HttpAgent);
    await say("/think about it");
    const whole = agent.messages.map((m) => [m.role, m.content]);
    await say("");
    assert.deepEqual(agent.messages.map((m) => [m.role, m.content]), whole);
    agent.setMessages([agent.messages[0], { ...agent.messages[1], content: "abo" }]); // its connection was lost while the agent thought
    await say("");
    assert.deepEqual(agent.messages.map((m) => [m.role, m.content]), whole);
  });

  test(`${version}: an answer that is sent again after its connection broke`, async () => {
    let cut, broken;
    const proxy = await startProxy(server.url, () => cut);
    try {
      for (let at = 400; at < 1600; at += 67) {
        cut = undefined;
        const { agent, say } = open(HttpAgent, { base: proxy.url });
        await say("/approve deploy {}");
        const resume = agent.pendingInterrupts.map((i) => ({ interruptId: i.id, status: "resolved", payload: { approved: true } }));
        cut = at;
        // The client has the interrupt until a run ends, and refuses runs that do not answer it.
        await say("", { resume }).catch(() => ((cut = undefined), (broken = true), say("", { resume })));
        assert.deepEqual(answers(agent.messages), ["deploy gave {}"], `cut at ${at}`);
        assert.deepEqual(agent.messages.flatMap((m) => m.toolCalls ?? []).map((c) => c.function.arguments), ["{}"]);
      }
      assert.ok(broken);
    } finally {
      await proxy.stop();
    }
  });

  test(`${version}: a server that shuts down or is killed is an error, never a short answer`, async () => {
    for (const end of ["stop", "kill"]) {
      const own = await startServer();
      const { types, say } = open(HttpAgent, { base: own.url });
      const run = assert.rejects(() => say("/stream 100000 200"), undefined, end);
      await until(() => types.length > 5, "some text");
      await own[end]();
      await run;
      await own.stop();
    }
  });

  test(`${version}: a message is answered again, and edited`, async () => {
    const { agent, say } = open(HttpAgent);
    agent.url += "?branch=1";
    await say("one");
    await say("two");
    const two = agent.messages[2];
    for (const content of ["two", "deux"]) {
      agent.setMessages([...agent.messages.slice(0, 2), { ...two, content }]);
      await say("");
      assert.deepEqual(agent.messages.map((m) => m.content), ["one", "You said: one", content, `You said: ${content}`]);
    }
    const { threads } = await (await fetch(`${server.url}/api/copilotkit/threads?limit=200`)).json();
    assert.equal(threads.filter((t) => t.id === agent.threadId).length, 1);
    const { messages } = await (await fetch(`${server.url}/api/copilotkit/threads/${agent.threadId}/messages`)).json();
    assert.deepEqual(messages.map((m) => m.content), ["one", "You said: one", "deux", "You said: deux"]);
    const first = await api(server, `/sessions/${agent.threadId}/events?types=user.message`);
    assert.deepEqual(first.events.map((e) => e.payload.text), ["one", "two"], "the first session keeps what was said");
  });

  test(`${version}: a conversation that began elsewhere`, async () => {
    const agent = new HttpAgent({
      url: `${server.url}/ag-ui/demo`,
      threadId: uuid(),
      initialMessages: [{ id: "u0", role: "user", content: "before" }, { id: "a0", role: "assistant", content: "I said so" }, { id: "u1", role: "user", content: "now" }],
    });
    await agent.runAgent();
    const events = await api(server, `/sessions/${agent.threadId}/events?types=user.message,agent.text`);
    assert.deepEqual(events.events.map((e) => e.payload.text), ["before", "I said so", "now", "You said: now"]);
    const page = open(HttpAgent, { threadId: agent.threadId });
    page.agent.url += "?connect=1";
    await page.say("");
    assert.deepEqual(page.agent.messages.map((m) => [m.role, m.content]), agent.messages.map((m) => [m.role, m.content]));
  });

  test(`${version}: a plan changes by deltas`, async () => {
    const { agent, types, say } = open(HttpAgent);
    await say("/plan 3 0.02");
    assert.ok(types.includes("ACTIVITY_SNAPSHOT") && types.includes("ACTIVITY_DELTA"), types.join());
    const plan = agent.messages.find((m) => m.role === "activity");
    assert.deepEqual(plan.content.tasks.map((t) => t.status), ["done", "done", "done"]);
  });

  test(`${version}: the whole thread with a ten-line subclass`, async () => {
    const { agent, say } = open(HttpAgent);
    await say("one");
    await say("/think about it");
    await say("/tool look {}");
    class Page extends HttpAgent {
      connect(input) {
        const url = this.url;
        this.url = `${url}?connect=1`;
        try {
          return this.run(input);
        } finally {
          this.url = url;
        }
      }
    }
    const page = new Page({ url: `${server.url}/ag-ui/demo`, threadId: agent.threadId });
    await page.connectAgent();
    const view = (m) => [m.role, m.content, m.toolCalls?.length];
    assert.deepEqual(page.messages.map(view), agent.messages.map(view));
    await say("two");
    page.setMessages([]);
    await page.connectAgent(); // as after a lost connection
    assert.deepEqual(page.messages.map(view), agent.messages.map(view));
  });
}

test("a stop ends the run in every page", async () => {
  const { agent, types, say } = open(Agent1);
  const done = say("/sleep 600");
  await until(() => types.includes("RUN_STARTED"), "the start of the run");
  await api(server, `/sessions/${agent.threadId}/stop`, {});
  await done;
  assert.equal(types.at(-1), "RUN_FINISHED");
});

test("bad requests are plain sentences", async () => {
  const agent = new Agent1({ url: `${server.url}/ag-ui/nobody`, threadId: uuid() });
  agent.addMessage({ id: uuid(), role: "user", content: "hello" });
  await assert.rejects(() => agent.runAgent(), /HTTP 404: .*there is no agent/);
});
