// Connections that break: at every chunk, by kill -9 and by a shutdown, with the three transports.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { WorkflowChatTransport } from "@ai-sdk/workflow/client";
import WebSocket from "ws";
import { lastText, newChat, startServer, textOf, tools, until, versions } from "../chat.mjs";

let server;
before(async () => (server = await startServer()));
after(() => server.stop());

let count = 0;
const chatID = () => `cut ${++count}/ü`;

/** A fetch whose first response to a POST breaks behind n chunks. */
function cutting(n) {
  let left = n;
  let cut = false;
  return async (url, init) => {
    const res = await fetch(url, init);
    if (cut || init?.method !== "POST" || !res.ok) return res;
    cut = true;
    let rest = "";
    const body = res.body.pipeThrough(new TextDecoderStream()).pipeThrough(
      new TransformStream({
        transform(text, controller) {
          const events = (rest + text).split("\n\n");
          rest = events.pop();
          for (const e of events) {
            if (left-- <= 0) return controller.error(new TypeError("network error"));
            controller.enqueue(`${e}\n\n`);
          }
        },
      }),
    ).pipeThrough(new TextEncoderStream());
    return new Response(body, { status: res.status, headers: res.headers });
  };
}

/** Version 5 appends what it resumes, so its pages are loaded again without the unfinished message. */
function reload(version, chat, options) {
  return version === 5 ? newChat(version, { id: chat.id, messages: chat.messages.filter((m) => m.role === "user"), ...options }) : chat;
}

const turn = "/stream 12 15";
const text = (n) => Array.from({ length: n }, (_, i) => `tok${i + 1}`).join(" ");
const whole = text(12);

for (const version of [5, 6, 7]) {
  test(`version ${version}, DefaultChatTransport: cut at every chunk, then resumed`, async () => {
    const cuts = Array.from({ length: 14 }, (_, n) => n);
    await Promise.all(cuts.map(async (n) => {
      const transport = new versions[version].DefaultChatTransport({ api: `${server.api}?replay=finished`, fetch: cutting(n) }); // the turn may have ended
      let chat = newChat(version, { id: chatID(), transport });
      await chat.sendMessage({ text: turn });
      assert.equal(chat.status, "error", `cut at ${n}`);
      chat = reload(version, chat, { transport });
      await chat.resumeStream();
      assert.equal(chat.status, "ready", `cut at ${n}`);
      assert.equal(lastText(chat), whole, `cut at ${n}`);
      assert.deepEqual(chat.messages.map((m) => m.role), ["user", "assistant"], `cut at ${n}`);
    }));
  });
}

test("WorkflowChatTransport: cut at every chunk, continued by index", async () => {
  const errors = console.error;
  console.error = () => {}; // the transport reports each cut
  try {
    const cuts = Array.from({ length: 20 }, (_, n) => n);
    await Promise.all(cuts.map(async (n) => {
      const transport = new WorkflowChatTransport({ api: server.api, fetch: cutting(n) });
      const chat = newChat(7, { id: chatID(), transport });
      await chat.sendMessage({ text: turn });
      assert.deepEqual(chat.errors, [], `cut at ${n}`);
      assert.equal(lastText(chat), whole, `cut at ${n}`);
      assert.equal(chat.messages.at(-1).parts.filter((p) => p.type === "text").length, 1, `cut at ${n}`);
    }));
  } finally {
    console.error = errors;
  }
});

test("WorkflowChatTransport: a failed turn, an approval and a second message", async () => {
  const transport = new WorkflowChatTransport({ api: server.api });
  const chat = newChat(7, { id: chatID(), transport, sendAutomaticallyWhen: versions[7].lastAssistantMessageIsCompleteWithApprovalResponses });
  await chat.sendMessage({ text: "/echo one" });
  await chat.sendMessage({ text: '/approve deploy {"env":"prod"}' });
  await chat.addToolApprovalResponse({ id: tools(chat.messages.at(-1))[0].approval.id, approved: true });
  await until(() => chat.status === "ready" && tools(chat.messages.at(-1))[0].state === "output-available");
  assert.deepEqual(chat.errors, []);
  await chat.sendMessage({ text: "/fail no more ink" });
  assert.match(chat.errors[0].message, /no more ink/);
});

/** A WebSocket that closes behind n frames. */
const closing = (n) =>
  class extends WebSocket {
    set onmessage(take) {
      let left = n;
      super.onmessage = (e) => (left-- > 0 ? take(e) : this.terminate());
    }
  };

test("WebSocketChatTransport: cut at every frame, then resumed", async () => {
  const { WebSocketChatTransport } = versions[7];
  await Promise.all(Array.from({ length: 14 }, async (_, n) => {
    const id = chatID();
    const first = newChat(7, { id, transport: new WebSocketChatTransport({ url: server.api, webSocket: closing(n) }) });
    await first.sendMessage({ text: turn });
    assert.equal(first.status, "error", `cut at ${n}`);
    const transport = new WebSocketChatTransport({ url: server.api, webSocket: WebSocket, body: { replay: "finished" } });
    const chat = newChat(7, { id, transport, messages: first.messages });
    await chat.resumeStream();
    assert.deepEqual(chat.errors, [], `cut at ${n}`);
    assert.equal(lastText(chat), whole, `cut at ${n}`);
    transport.close();
  }));
});

test("WebSocketChatTransport: headers of a frame bring the credential", async (t) => {
  const { WebSocketChatTransport } = versions[7];
  const token = "a".repeat(32);
  const guarded = await startServer("--token", token);
  t.after(() => guarded.stop());
  const open = (credential) => {
    const transport = new WebSocketChatTransport({ url: guarded.api, webSocket: WebSocket, headers: credential ? { Authorization: `Bearer ${credential}` } : {} });
    t.after(() => transport.close());
    return newChat(7, { id: "guarded", transport });
  };
  const chat = open(token);
  await chat.sendMessage({ text: turn });
  assert.equal(lastText(chat), whole);
  assert.deepEqual(chat.errors, []);
  for (const wrong of [undefined, "wrong".repeat(8)]) {
    const stranger = open(wrong);
    await stranger.sendMessage({ text: "/echo hello" });
    assert.equal(stranger.errors.length, 1);
    assert.equal(stranger.messages.length, 1, "a stranger reads nothing");
  }
});

test("WebSocketChatTransport: many chats on one socket, prompts, errors and nothing to resume", async () => {
  const { WebSocketChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } = versions[7];
  const transport = new WebSocketChatTransport({ url: server.api, webSocket: WebSocket });
  const chats = Array.from({ length: 8 }, () => newChat(7, { id: chatID(), transport, sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses }));
  await Promise.all(chats.map((c, i) => c.sendMessage({ text: `/echo number ${i}` })));
  chats.forEach((c, i) => assert.equal(lastText(c), `number ${i}`));
  await Promise.all(chats.map((c) => c.sendMessage({ text: "/approve deploy {}" })));
  await Promise.all(chats.map((c) => c.addToolApprovalResponse({ id: tools(c.messages.at(-1))[0].approval.id, approved: true })));
  await until(() => chats.every((c) => c.status === "ready" && tools(c.messages.at(-1))[0].state === "output-available"));
  await chats[0].resumeStream();
  assert.equal(chats[0].status, "ready");
  const bad = newChat(7, { id: "x".repeat(1100), transport });
  await bad.sendMessage({ text: "hello" });
  assert.equal(bad.errors[0].message, "The id of a chat has 1 to 1000 bytes.");
  await chats[1].sendMessage({ text: "/echo still there" });
  assert.equal(lastText(chats[1]), "still there");
  assert.deepEqual(chats.flatMap((c) => c.errors), []);
  transport.close();
});

/** The clients whose connections a server ends: how each is made, and what brings it back. */
function clients(up) {
  const api = `${server.api}?replay=finished`;
  const list = [5, 6, 7].map((version) => {
    const chat = newChat(version, { id: chatID(), api });
    return { name: `version ${version}`, chat, back: async () => {
      const page = reload(version, chat, { api });
      await page.resumeStream();
      return page;
    } };
  });
  // It asks again at once, so it is held back while there is no server.
  const workflow = new WorkflowChatTransport({ api: server.api, fetch: async (...request) => (await up(), fetch(...request)) });
  const counting = newChat(7, { id: chatID(), transport: workflow });
  list.push({ name: "WorkflowChatTransport", chat: counting, back: async () => counting });
  const id = chatID();
  const open = (messages) => newChat(7, { id, messages, transport: new versions[7].WebSocketChatTransport({ url: server.api, webSocket: WebSocket, body: { replay: "finished" } }) });
  const socket = open();
  list.push({ name: "WebSocketChatTransport", chat: socket, back: async () => {
    const page = open(socket.messages);
    await page.resumeStream();
    page.transport.close();
    return page;
  } });
  return list;
}

for (const how of ["kill", "shutdown"]) {
  test(`${how} at a random chunk, then resumed, with every version and transport`, async (t) => {
    const errors = console.error;
    console.error = () => {}; // WorkflowChatTransport reports the cut
    t.after(() => (console.error = errors));
    let restarted = Promise.resolve();
    const all = clients(() => restarted);
    const sent = all.map(({ chat }) => chat.sendMessage({ text: "/stream 300 30" }));
    const at = `tok${1 + Math.floor(Math.random() * 30)} `;
    await until(() => all.every(({ chat }) => chat.messages.length === 2 && lastText(chat).includes(at)), at);
    let up;
    restarted = new Promise((done) => (up = done));
    await server[how]();
    await Promise.all(sent.slice(0, 3));
    for (const { name, chat } of all.slice(0, 3)) assert.equal(chat.status, "error", `${name}: a server that ends must not look like the end of the answer`);
    await server.again();
    up();
    await Promise.all(sent);
    await Promise.all(all.map(async ({ name, chat, back }) => {
      const page = await back(); // the turn goes on after a kill; a shutdown may have waited for its end
      assert.equal(page.status, "ready", `${name}, ${at}`);
      assert.equal(lastText(page), text(300), `${name}, ${at}`);
      assert.equal(page.messages.length, 2, `${name}, ${at}`);
      if (name.startsWith("Workflow")) return; // it does not send the id of the chat
      const res = await fetch(`${server.api}/${encodeURIComponent(chat.id)}/messages`);
      assert.equal(textOf((await res.json()).at(-1)), text(300), `${name}, ${at}`);
    }));
  });
}

test("WorkflowChatTransport: a run by a negative index, and by one beyond its end", async () => {
  let run;
  const transport = new WorkflowChatTransport({ api: server.api, onChatSendMessage: (res) => (run = res.headers.get("x-workflow-run-id")) });
  await newChat(7, { id: chatID(), transport }).sendMessage({ text: turn });
  const read = async (startIndex) => {
    const chunks = [];
    for await (const c of await transport.reconnectToStream({ chatId: run, startIndex })) chunks.push(c);
    return chunks;
  };
  const all = await read(0);
  assert.equal(all.filter((c) => c.type === "text-delta").map((c) => c.delta).join(""), whole);
  assert.deepEqual(await read(-2), all);
  assert.deepEqual(await read(-1000), all);
  assert.deepEqual(await read(all.length + 5), all.slice(-1));
});

test("WorkflowChatTransport: an edited message", async () => {
  const chat = newChat(7, { id: chatID(), transport: new WorkflowChatTransport({ api: server.api }) });
  await chat.sendMessage({ text: "/echo one" });
  await chat.sendMessage({ text: "/echo two", messageId: chat.messages[0].id });
  assert.deepEqual(chat.errors, []);
  assert.equal(lastText(chat), "two");
});

test("every chunk passes the schemas of versions 6 and 7, and those of version 5 in its form", async () => {
  const { asSchema } = await import("@ai-sdk/provider-utils");
  await Promise.all([5, 6, 7].map(async (version) => {
    const schema = asSchema(versions[version].uiMessageChunkSchema);
    const id = chatID();
    await Promise.all(["/tools a {}; b! {}; c {}", "/permission mail:read", "/ask checkbox", "/plan 3 0", "/artifact html"].map(async (text) => {
      const res = await fetch(`${server.api}${version === 5 ? "?sdk=5" : ""}`, {
        method: "POST", headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ id: `${id}${text}`, messages: [{ id: "m", role: "user", parts: [{ type: "text", text }] }] }),
      });
      for (const line of (await res.text()).split("\n\n")) {
        if (!line.startsWith("data: {")) continue;
        const chunk = JSON.parse(line.slice(6));
        const result = await schema.validate(chunk);
        assert.ok(result.success, `${version}: ${line} ${result.error}`);
      }
    }));
  }));
});
