// TanStack AI's unmodified client: it resumes by Last-Event-ID, loads threads from the server and answers interrupts.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ChatClient, fetchServerSentEvents } from "@tanstack/ai-client";
import { api, startProxy, startServer, until, uuid } from "./harness.mjs";

let server;
before(async () => (server = await startServer()));
after(() => server.stop());

function open(options = {}) {
  const { base = server.url, reconnect, fetchClient, ...rest } = options;
  const errors = [];
  const client = new ChatClient({
    connection: fetchServerSentEvents(`${base}/ag-ui/demo`, { fetchClient, reconnect: { maxAttempts: 50, delayMs: 5, ...reconnect } }),
    threadId: uuid(),
    onError: (e) => errors.push(e),
    ...rest,
  });
  return { client, errors };
}

/** The text of a message. */
const text = (m) => m.parts.filter((p) => p.type === "text").map((p) => p.content).join("");
const lastText = (client) => text(client.getMessages().at(-1));
const words = (n) => Array.from({ length: n }, (_, i) => `tok${i + 1}`).join(" ");

test("a run", async () => {
  const { client, errors } = open();
  await client.sendMessage("hello");
  await client.sendMessage("again");
  assert.deepEqual(client.getMessages().map((m) => [m.role, text(m)]), [["user", "hello"], ["assistant", "You said: hello"], ["user", "again"], ["assistant", "You said: again"]]);
  assert.deepEqual(errors, []);
});

test("reasoning, tools, plans and subagents", async () => {
  for (const [say, want] of [["/think about it", "Done thinking."], ['/tool search {"q":1}', 'search gave {"q":1}'], ["/plan 2 0.02", "All 2 tasks are done."], ["/work 2 0", /All 2 workstreams have ended/]]) {
    const { client, errors } = open();
    await client.sendMessage(say);
    const all = client.getMessages().map(text).join("\n");
    assert.ok(want instanceof RegExp ? want.test(all) : all.includes(want), `${say}: ${all}`);
    assert.deepEqual(errors, []);
  }
});

test("a connection that is cut again and again loses and repeats nothing", async () => {
  let n = 300;
  const proxy = await startProxy(server.url, () => (n = 300 + ((n * 7919) % 1500)));
  const { client, errors } = open({ base: proxy.url, threadId: "cuts" });
  await client.sendMessage("/stream 400 2000");
  assert.equal(lastText(client), words(400));
  assert.deepEqual(errors, []);
  assert.ok(proxy.broken() > 10, `only ${proxy.broken()} cuts`);
  const events = await api(server, "/sessions/cuts/events?types=user.message");
  assert.equal(events.events.length, 1, "the message was sent more than once");
  await proxy.stop();
});

test("cuts at any byte after the first frame", async () => {
  let cut;
  const proxy = await startProxy(server.url, () => cut);
  try {
    for (let at = 900; at < 1900; at += 29) {
      cut = at;
      const broken = proxy.broken();
      const { client, errors } = open({ base: proxy.url, reconnect: { delayMs: 1 } });
      const done = client.sendMessage("/echo wörd by wörd, and a few more");
      let ended = false;
      done.finally(() => (ended = true));
      await until(() => proxy.broken() > broken || ended, "a cut");
      cut = undefined;
      await done;
      assert.equal(lastText(client), "wörd by wörd, and a few more", `cut at ${at}: ${errors}`);
    }
  } finally {
    await proxy.stop();
  }
});

test("a killed server", async () => {
  const own = await startServer();
  const { client, errors } = open({ base: own.url, threadId: "killed", reconnect: { maxAttempts: 1000, delayMs: 60 } });
  const done = client.sendMessage("/stream 200 100");
  await until(() => client.getMessages().length > 1 && lastText(client).includes("tok20"), "some text");
  await own.kill();
  await own.again();
  await done;
  assert.equal(lastText(client), words(200));
  assert.deepEqual(errors, []);
  const events = await api(own, "/sessions/killed/events?types=user.message");
  assert.equal(events.events.length, 1);
  await own.stop();
});

test("a reloaded page has the thread and follows its run", async () => {
  const threadId = uuid();
  const first = open({ threadId });
  await first.client.sendMessage("hello");
  const done = first.client.sendMessage("/stream 80 40");
  await until(() => lastText(first.client).includes("tok5"), "some text");
  const second = open({ threadId, persistence: true });
  second.client.attach?.();
  await done;
  await until(() => second.client.getMessages().some((m) => text(m).endsWith("tok80")), "the end of the run");
  assert.deepEqual(second.client.getMessages().map((m) => [m.role, text(m)]), [["user", "hello"], ["assistant", "You said: hello"], ["user", "/stream 80 40"], ["assistant", words(80)]]);
});

test("reload() gives another answer", async () => {
  const { client, errors } = open({ threadId: "again" });
  await client.sendMessage("one");
  await client.sendMessage("two");
  await client.reload();
  assert.deepEqual(client.getMessages().map(text), ["one", "You said: one", "two", "You said: two"]);
  assert.deepEqual(errors, []);
  const { sessions } = await api(server, "/sessions");
  assert.equal(sessions.filter((s) => s.forked_of === "again").length, 1);
});

test("a reloaded page shows files, and tools with what they gave", async () => {
  const threadId = uuid();
  const first = open({ threadId });
  await first.client.sendMessage({ content: [{ type: "image", source: { type: "url", value: "https://example.com/a.png", mimeType: "image/png" } }] });
  for (const say of ['/tool search {"q":1}', "/tool search", "/toolfail fetch"]) await first.client.sendMessage(say);
  const second = open({ threadId, persistence: true });
  second.client.attach?.();
  await until(() => second.client.getMessages().length === 8, "the thread");
  const shown = (client) => client.getMessages().map((m) => m.parts);
  assert.deepEqual(shown(second.client), shown(first.client));
  const tools = shown(second.client).flat().filter((p) => p.type === "tool-call");
  assert.deepEqual(tools.map((p) => p.state), ["complete", "complete", "error"]);
});

test("older messages are loaded in pages", async () => {
  const threadId = uuid();
  const first = open({ threadId });
  for (const say of ["one", "two", "three"]) await first.client.sendMessage(say);
  const { client } = open({ threadId, persistence: true, history: { pageSize: 2 } });
  client.attach?.();
  await until(() => client.getMessages().length === 2, "the newest messages");
  await client.loadOlderMessages();
  await client.loadOlderMessages();
  await client.loadOlderMessages();
  assert.deepEqual(client.getMessages().map(text), first.client.getMessages().map(text));
});

for (const [say, payload, want] of [
  ["/ask radio", { value: "sms" }, "You answered: sms"],
  ["/approve deploy {}", { approved: true }, "deploy gave {}"],
  ["/permission mail", { granted: ["mail"] }, "Granted: mail"],
]) {
  test(`an interrupt: ${say}`, async () => {
    const { client, errors } = open();
    await client.sendMessage(say);
    const [one] = client.getInterrupts();
    assert.ok(one, `no interrupt: ${errors}`);
    one.resolveInterrupt(payload);
    await until(() => client.getMessages().some((m) => text(m).includes(want)), `${want}, not ${JSON.stringify(client.getMessages())} ${errors}`);
    assert.deepEqual(client.getInterrupts(), []);
  });
}

for (const [say, payload] of [
  ["/ask radio timeout=0.5", { value: "sms" }],
  ["/approve deploy {} timeout=0.5", { approved: true }],
]) {
  test(`the deadline has passed: ${say}`, async () => {
    const told = [];
    const { client, errors } = open({ onCustomEvent: (name, value) => told.push([name, value.how, value.message]) });
    await client.sendMessage(say);
    const [one] = client.getInterrupts();
    await until(async () => (await api(server, `/sessions/${client.threadId}/snapshot`)).state.prompts?.length !== 1, "the deadline");
    one.resolveInterrupt(payload);
    await until(() => lastText(client) === "No answer in time." && !client.getIsLoading(), () => `the rest of the turn, not ${JSON.stringify(client.getMessages())} ${errors}`);
    assert.deepEqual(told, [["parley.answered", "expired", "The deadline of the question has passed, so your answer does not count."]]);
    assert.deepEqual(client.getInterrupts(), []);
    await client.sendMessage("hello");
    assert.equal(lastText(client), "You said: hello");
    assert.deepEqual(errors, []);
  });
}

test("a question of a run that was asked for again", async () => {
  let cut = true; // the first response breaks off before its first frame
  const fetchClient = async (url, init) => {
    const res = await fetch(url, init);
    if (!cut) return res;
    cut = false;
    await res.body.cancel();
    return new Response(new ReadableStream({ start: (c) => c.error(new TypeError("cut")) }), { headers: res.headers });
  };
  const { client, errors } = open({ fetchClient });
  await client.sendMessage("/ask radio");
  assert.equal(errors.length, 1);
  await client.reload();
  const [one] = client.getInterrupts();
  one.resolveInterrupt({ value: "sms" });
  await until(() => client.getMessages().some((m) => text(m) === "You answered: sms"), "the answer");
});

test("a reloaded page has the open question and answers it", async () => {
  const threadId = uuid();
  const first = open({ threadId });
  await first.client.sendMessage("/ask radio");
  const second = open({ threadId, persistence: true });
  second.client.attach?.();
  await until(() => second.client.getInterrupts().length === 1, "the interrupt");
  second.client.getInterrupts()[0].resolveInterrupt({ value: "push" });
  await until(() => second.client.getMessages().some((m) => text(m) === "You answered: push"), "the answer");
});
