// The chat classes of versions 5, 6 and 7 over DefaultChatTransport.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { api, lastText, newChat, prompts, startServer, textOf, tools, until, versions } from "../chat.mjs";

let server;
before(async () => (server = await startServer()));
after(() => server.stop());

let count = 0;
const chatID = () => `chat ${++count}/ü`;

/** Counts the requests that a transport sends. */
function counting(version, body) {
  const posts = [];
  const transport = new versions[version].DefaultChatTransport({
    api: version === 5 ? `${server.api}?sdk=5` : server.api,
    body,
    fetch: (url, init) => {
      if (init?.method === "POST") posts.push(JSON.parse(init.body));
      return fetch(url, init);
    },
  });
  return { posts, transport };
}

const sessionOf = (chat) => chat.messages.findLast((m) => m.role === "assistant").metadata.session_id;

/** The list of messages as the server has it, checked by the validators of all versions. */
async function list(id, version) {
  const res = await fetch(`${server.api}/${encodeURIComponent(id)}/messages${version === 5 ? "?sdk=5" : ""}`);
  assert.equal(res.status, 200);
  const messages = await res.json();
  for (const [v, ai] of Object.entries(versions)) {
    if (v === "5" && version !== 5) continue;
    await ai.validateUIMessages({ messages });
  }
  return messages;
}

/** What two clients must agree on: everything but what only the streaming page knows. */
const plain = (m) => ({
  ...JSON.parse(JSON.stringify(m)),
  parts: m.parts.map((p) => {
    const { providerMetadata, callProviderMetadata, resultProviderMetadata, rawInput, preliminary, title, approval, id, ...rest } = JSON.parse(JSON.stringify(p));
    return p.type.startsWith("data-") ? { ...rest, id } : rest;
  }),
});

for (const version of [5, 6, 7]) {
  const ai = versions[version];

  test(`version ${version}: text, reasoning, tools, plans, files and usage`, async () => {
    const chat = newChat(version, { id: chatID(), api: server.api });
    for (const text of ["/echo Hello there", "/think hard", '/tool weather {"city":"Berlin"}', "/toolfail weather", "/plan 3 0", "/artifact table", "/artifact image", "/usage 10 20", "/work 2 0", "/ask notification"]) {
      await chat.sendMessage({ text });
      assert.deepEqual(chat.errors, [], text);
      assert.equal(chat.status, "ready", text);
    }
    const messages = chat.messages.filter((m) => m.role === "assistant");
    assert.equal(textOf(messages[0]), "Hello there");
    assert.ok(messages[1].parts.some((p) => p.type === "reasoning" && p.text.includes("hard") && p.state === "done"));
    assert.equal(tools(messages[2])[0].state, "output-available");
    assert.deepEqual(tools(messages[2])[0].output, { city: "Berlin" });
    assert.equal(tools(messages[3])[0].state, "output-error");
    assert.equal(messages[4].parts.filter((p) => p.type === "data-plan").length, 1);
    assert.equal(messages[7].metadata.usage.output_tokens, 20);
    assert.equal(messages[8].parts.filter((p) => p.type === "data-workstream").length, 2);
    assert.deepEqual((await list(chat.id, version)).map(plain), chat.messages.map(plain));
  });

  test(`version ${version}: a failed turn is an error of the page`, async () => {
    const chat = newChat(version, { id: chatID(), api: server.api });
    await chat.sendMessage({ text: "/fail no more paper" });
    assert.equal(chat.status, "error");
    assert.match(chat.errors[0].message, /no more paper/);
  });

  test(`version ${version}: a message brings an approval that was not sent`, async () => {
    const { posts, transport } = counting(version);
    const chat = newChat(version, { id: chatID(), transport }); // without sendAutomaticallyWhen
    await chat.sendMessage({ text: '/approve deploy {"env":"prod"}' });
    const part = tools(chat.messages.at(-1))[0];
    if (version === 5) await chat.addToolResult({ tool: "approve_call", toolCallId: part.toolCallId, output: { approved: true } });
    else await chat.addToolApprovalResponse({ id: part.approval.id, approved: true });
    await chat.sendMessage({ text: "/echo next" });
    assert.deepEqual(chat.errors, []);
    assert.equal(posts.length, 2);
    assert.equal(lastText(chat), "next");
    const messages = await list(chat.id, version);
    assert.equal(tools(messages[1]).find((p) => p.toolName === "deploy").state, "output-available");
    assert.deepEqual(messages.map((m) => m.id), chat.messages.map((m) => m.id));
  });

  test(`version ${version}: an approval is given in the page, once`, async () => {
    for (const approved of [true, false]) {
      const { posts, transport } = counting(version);
      const sendAutomaticallyWhen = version === 5 ? ai.lastAssistantMessageIsCompleteWithToolCalls : ai.lastAssistantMessageIsCompleteWithApprovalResponses;
      const chat = newChat(version, { id: chatID(), transport, sendAutomaticallyWhen });
      await chat.sendMessage({ text: '/approve deploy {"env":"prod"}' });
      assert.equal(chat.status, "ready");
      const part = tools(chat.messages.at(-1))[0];
      if (version === 5) {
        assert.equal(part.type, "tool-approve_call");
        await chat.addToolResult({ tool: "approve_call", toolCallId: part.toolCallId, output: { approved } });
      } else {
        assert.equal(part.state, "approval-requested");
        await chat.addToolApprovalResponse({ id: part.approval.id, approved, reason: "because" });
      }
      await until(() => posts.length === 2 && chat.status === "ready");
      assert.deepEqual(chat.errors, []);
      assert.equal(chat.messages.length, 2);
      const end = tools(chat.messages.at(-1)).find((p) => p.toolName === "deploy");
      if (approved) assert.equal(end.state, "output-available");
      else if (version !== 5) assert.equal(end.state, "output-denied");
      assert.deepEqual(await prompts(server, sessionOf(chat)), []);
      await list(chat.id, version);
    }
  });

  test(`version ${version}: an approval beside a call that runs and a tool of the page`, async () => {
    for (const text of ['/tools a {"x":1}; b? {"y":2}', '/tools clip {"x":1}; b? {"y":2}']) {
      const { posts, transport } = counting(version, { tools: { clip: { parameters: { type: "object" } } } });
      const add = (call) => (chat.addToolOutput ?? chat.addToolResult).call(chat, { tool: call.toolName, toolCallId: call.toolCallId, output: "clipped" });
      const chat = newChat(version, {
        id: chatID(), transport,
        sendAutomaticallyWhen: (o) => ai.lastAssistantMessageIsCompleteWithApprovalResponses?.(o) || ai.lastAssistantMessageIsCompleteWithToolCalls(o),
        onToolCall: ({ toolCall }) => void (toolCall.toolName === "clip" && add(toolCall)),
      });
      await chat.sendMessage({ text });
      assert.deepEqual(chat.errors, []);
      assert.equal(posts.length, 1);
      const part = tools(chat.messages.at(-1)).find((p) => (version === 5 ? p.type === "tool-approve_call" : p.approval));
      if (version === 5) await chat.addToolResult({ tool: "approve_call", toolCallId: part.toolCallId, output: { approved: true } });
      else await chat.addToolApprovalResponse({ id: part.approval.id, approved: true });
      await until(() => chat.status === "ready" && /b gave {"y":2}/.test(lastText(chat)), () => JSON.stringify(chat.messages));
      assert.deepEqual(chat.errors, []);
      assert.equal(posts.length, 2);
    }
  });

  test(`version ${version}: a question is answered by the output of its tool, and not sent again`, async () => {
    const { posts, transport } = counting(version);
    const chat = newChat(version, { id: chatID(), transport, sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithToolCalls });
    await chat.sendMessage({ text: "/ask text" });
    const part = tools(chat.messages.at(-1))[0];
    assert.equal(part.type, "tool-ask_person");
    const add = chat.addToolOutput ?? chat.addToolResult;
    await add.call(chat, { tool: "ask_person", toolCallId: part.toolCallId, output: "blue" });
    await until(() => posts.length === 2 && chat.status === "ready");
    assert.match(lastText(chat), /blue/);
    await chat.sendMessage({ text: "/echo next" });
    assert.equal(posts.length, 3);
    assert.equal(lastText(chat), "next");
    assert.deepEqual((await list(chat.id, version)).map((m) => m.id), chat.messages.map((m) => m.id));
  });

  test(`version ${version}: a message answers a question`, async () => {
    const chat = newChat(version, { id: chatID(), api: server.api });
    await chat.sendMessage({ text: "/ask text" });
    await chat.sendMessage({ text: "green" });
    assert.deepEqual(chat.errors, []);
    assert.match(lastText(chat), /green/);
    assert.deepEqual(chat.messages.map((m) => m.role), ["user", "assistant", "user", "assistant"]);
    assert.deepEqual((await list(chat.id, version)).map((m) => m.id), chat.messages.map((m) => m.id));
  });

  test(`version ${version}: another client answers first`, async () => {
    const { posts, transport } = counting(version);
    const sendAutomaticallyWhen = version === 5 ? ai.lastAssistantMessageIsCompleteWithToolCalls : ai.lastAssistantMessageIsCompleteWithApprovalResponses;
    const chat = newChat(version, { id: chatID(), transport, sendAutomaticallyWhen });
    await chat.sendMessage({ text: "/approve deploy {}" });
    const session = sessionOf(chat);
    const [prompt] = await prompts(server, session);
    const events = `/sessions/${session}/prompts/${prompt.request_id}/answer`;
    await api(server, events, { decisions: [{ call_id: prompt.approval.calls[0].call_id, approve: false, reason: "no" }] });
    const part = tools(chat.messages.at(-1))[0];
    if (version === 5) await chat.addToolResult({ tool: "approve_call", toolCallId: part.toolCallId, output: { approved: true } });
    else await chat.addToolApprovalResponse({ id: part.approval.id, approved: true });
    await until(() => posts.length === 2 && chat.status === "ready");
    assert.deepEqual(chat.errors, []);
    const answered = chat.messages.at(-1).parts.find((p) => p.type === "data-answered");
    assert.equal(answered.data.by.kind, "user");
    if (version !== 5) assert.equal(tools(chat.messages.at(-1))[0].state, "output-denied");
  });

  test(`version ${version}: a stop of another client ends the message`, async () => {
    const chat = newChat(version, { id: chatID(), api: server.api });
    const sent = chat.sendMessage({ text: "/stream 100000 50" });
    await until(() => chat.messages.length === 2 && lastText(chat).includes("tok3"));
    const res = await fetch(`${server.api}/${encodeURIComponent(chat.id)}/stop`, { method: "POST" });
    assert.deepEqual(await res.json(), { stopped: true });
    await sent;
    assert.equal(chat.status, "ready");
    assert.deepEqual(chat.errors, []);
  });

  test(`version ${version}: a session with steering and events of others, in two tabs`, async () => {
    const { session_id: session } = await api(server, "/sessions", { agent: "demo", policy: "steer" });
    const first = newChat(version, { id: session, api: server.api });
    const one = first.sendMessage({ text: "/plan 100 100" });
    await until(() => first.messages.at(-1)?.parts.some((p) => p.type === "data-plan"));
    await api(server, `/sessions/${session}/events`, [{ type: "acme.lunch", payload: { at: 12 } }, { type: "user.message", payload: { text: "from elsewhere" } }]);
    const steered = () => first.messages.at(-1).parts.find((p) => p.type === "data-steered");
    await until(steered);
    assert.equal(steered().data.text, "from elsewhere");
    const second = newChat(version, { id: session, api: server.api, messages: await list(session, version) });
    const two = second.sendMessage({ text: "from the second tab" });
    await one; // its message ends where that of the second tab begins
    assert.equal(first.status, "ready");
    await until(() => second.messages.at(-1).role === "assistant" && second.messages.at(-1).parts.some((p) => p.type === "data-plan"));
    await api(server, `/sessions/${session}/stop`, {});
    await two;
    for (const chat of [first, second]) assert.deepEqual(chat.errors, []);
    assert.notEqual(second.messages.at(-1).id, first.messages.at(-1).id);
    assert.deepEqual((await list(session, version)).map((m) => m.id), [...first.messages, ...second.messages.slice(-2)].map((m) => m.id));
  });

  test(`version ${version}: edit and regenerate`, async () => {
    const chat = newChat(version, { id: chatID(), api: server.api });
    await chat.sendMessage({ text: "/echo one" });
    await chat.sendMessage({ text: "/echo two" });
    await chat.sendMessage({ text: "/echo three", messageId: chat.messages[2].id });
    assert.equal(lastText(chat), "three");
    const before = chat.messages.at(-1).id;
    await chat.regenerate();
    assert.equal(lastText(chat), "three");
    assert.notEqual(chat.messages.at(-1).id, before);
    await chat.sendMessage({ text: "/echo four" });
    assert.deepEqual(chat.errors, []);
    // The messages before the edit are copies with other ids.
    const told = (m) => [m.role, textOf(m)];
    assert.deepEqual((await list(chat.id, version)).map(told), chat.messages.map(told));
  });

  test(`version ${version}: a page that sends only its last message`, async () => {
    const transport = new versions[version].DefaultChatTransport({
      api: version === 5 ? `${server.api}?sdk=5` : server.api,
      prepareSendMessagesRequest: ({ id, messages, trigger, messageId, body }) => ({ body: { ...body, id, message: messages.at(-1), trigger, messageId } }),
    });
    const chat = newChat(version, { id: chatID(), transport });
    await chat.sendMessage({ text: "/echo one" });
    await chat.sendMessage({ text: "/echo two" });
    await chat.sendMessage({ text: "/echo three", messageId: chat.messages[2].id });
    await chat.regenerate();
    await chat.sendMessage({ text: "/ask radio" });
    const [part] = tools(chat.messages.at(-1));
    await chat.addToolResult({ tool: "ask_person", toolCallId: part.toolCallId, output: "sms" });
    await chat.sendMessage();
    assert.deepEqual(chat.errors, []);
    assert.equal(lastText(chat), "You answered: sms");
    const told = (m) => [m.role, textOf(m)];
    assert.deepEqual((await list(chat.id, version)).map(told), chat.messages.map(told));
    assert.deepEqual(chat.messages.map(textOf), ["/echo one", "one", "/echo three", "three", "/ask radio", "You answered: sms"]);
  });

  test(`version ${version}: errors are sentences`, async () => {
    const chat = newChat(version, { id: "x".repeat(1100), api: server.api });
    await chat.sendMessage({ text: "hello" });
    assert.equal(chat.errors[0].message, "The id of a chat has 1 to 1000 bytes.");
  });

  test(`version ${version}: a page that is loaded again in mid-turn`, async () => {
    const id = chatID();
    const first = newChat(version, { id, api: server.api });
    const sent = first.sendMessage({ text: "/stream 100000 40" });
    await until(() => first.messages.length === 2 && lastText(first).includes("tok10"));
    const second = newChat(version, { id, api: server.api, messages: await list(id, version) });
    const resumed = second.resumeStream();
    await until(() => second.messages.length === 2 && lastText(second).includes("tok20"));
    await fetch(`${server.api}/${encodeURIComponent(id)}/stop`, { method: "POST" });
    await Promise.all([resumed, sent]);
    assert.deepEqual(second.errors, []);
    assert.deepEqual(second.messages.map(plain), first.messages.map(plain));
    await second.resumeStream();
    assert.equal(second.status, "ready");
    assert.deepEqual(second.messages.map(plain), first.messages.map(plain));
  });

  test(`version ${version}: a page that is loaded again at a question`, async () => {
    const id = chatID();
    const first = newChat(version, { id, api: server.api });
    await first.sendMessage({ text: "/ask text" });
    const second = newChat(version, { id, api: server.api, messages: await list(id, version), sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithToolCalls });
    await second.resumeStream();
    assert.deepEqual(second.messages.map(plain), first.messages.map(plain));
    const add = second.addToolOutput ?? second.addToolResult;
    await add.call(second, { tool: "ask_person", toolCallId: tools(second.messages.at(-1))[0].toolCallId, output: "red" });
    await until(() => second.status === "ready" && /red/.test(lastText(second)));
    await first.resumeStream();
  });
}
