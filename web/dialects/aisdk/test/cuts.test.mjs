// An answer with reasoning, a tool and text whose connection breaks behind every chunk, or whose server is killed: the page that resumes,
// and one that is loaded again, show each word once.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { WorkflowChatTransport } from "@ai-sdk/workflow/client";
import WebSocket from "ws";
import { newChat, startServer, until, versions } from "../chat.mjs";

/** What the agent sends, line by line. */
const lines = [
  { type: "thinking", text: "Hm, " }, { type: "thinking", text: "let me look." },
  { type: "tool_call", call_id: "1", tool: "look", params: { at: "sky" } }, { type: "tool_result", call_id: "1", result: "blue" },
  { type: "text", text: "It " }, { type: "text", text: "is " }, { type: "text", text: "blue." }, { type: "done" },
];

/** The first call of a turn gets only so many lines until the rest is released. */
let held = Infinity;
let released;

const agent = createServer(async (req, res) => {
  let body = "";
  for await (const part of req) body += part;
  const first = JSON.parse(body).attempt === 1;
  for (const [i, line] of lines.entries()) {
    if (first && i >= held) await released;
    res.write(`${JSON.stringify(line)}\n`);
  }
  res.end();
});

const dir = mkdtempSync(join(tmpdir(), "parley-cuts-"));
let server;
const errors = console.error;
before(async () => {
  console.error = () => {}; // WorkflowChatTransport reports each cut
  await new Promise((done) => agent.listen(0, "127.0.0.1", done));
  const config = join(dir, "parley.yaml");
  writeFileSync(config, `agents:\n  - name: sky\n    kind: ndjson\n    url: http://127.0.0.1:${agent.address().port}/\n    recover: always\n`, { mode: 0o600 });
  server = await startServer("--config", config, "--agent", "sky");
});
after(async () => {
  console.error = errors;
  await server?.stop();
  agent.closeAllConnections();
  agent.close();
  rmSync(dir, { recursive: true, force: true });
});

/** A fetch whose response to a POST breaks behind n chunks, and which waits while there is no server. */
const cutting = (n) => async (url, init) => {
  await restarted;
  const res = await fetch(url, init);
  if (init?.method !== "POST" || !res.ok) return res;
  let [left, rest] = [n, ""];
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
  );
  return new Response(body.pipeThrough(new TextEncoderStream()), { status: res.status, headers: res.headers });
};
let restarted;

/** A WebSocket that closes behind n frames with chunks. */
const closing = (n) =>
  class extends WebSocket {
    set onmessage(take) {
      let left = n + 1; // one frame is the start
      super.onmessage = (e) => (left-- > 0 ? take(e) : this.terminate());
    }
  };

class ReplayingWorkflow extends WorkflowChatTransport {
  resumeStreamIsReplay = true;
}

const api = (id) => `${server.api}/${encodeURIComponent(id)}`;
const query = (version) => `?replay=finished${version === 5 ? "&sdk=5" : ""}`;
const byHTTP = (version) => (id, n) =>
  new versions[version].DefaultChatTransport({
    api: api(id) + query(version), fetch: cutting(n), prepareReconnectToStreamRequest: () => ({ api: `${api(id)}/stream${query(version)}` }),
  });

/** How the pages of each kind are made. A page with continues goes on by itself. */
const kinds = [
  { name: "version 5", version: 5, transport: byHTTP(5) },
  { name: "version 6", version: 6, transport: byHTTP(6) },
  { name: "version 7", version: 7, transport: byHTTP(7) },
  { name: "WorkflowChatTransport", version: 7, continues: true, transport: (id, n) => new ReplayingWorkflow({ api: api(id), fetch: cutting(n) }) },
  { name: "WebSocketChatTransport", version: 7, transport: (_, n) => new versions[7].WebSocketChatTransport({ url: server.api, webSocket: closing(n), body: { replay: "finished" } }) },
];

let count = 0;
const open = (kind, id, n, messages) => newChat(kind.version, { id, messages, transport: kind.transport(id, n) });

/** The messages of a chat as a page loads them. */
const load = async (kind, id) => (await fetch(`${api(id)}/messages${kind.version === 5 ? "?sdk=5" : ""}`)).json();

/** What a page shows of its answer. */
const shown = (chat) => {
  assert.deepEqual(chat.messages.map((m) => m.role), ["user", "assistant"]);
  return chat.messages[1].parts.filter((p) => p.type !== "step-start").map((p) => (p.type === "dynamic-tool" ? `${p.toolName} ${p.state} ${p.output}` : `${p.type} ${p.text}`));
};

const untilShown = (chats, seen) =>
  until(() => chats.every((chat) => chat.messages.length === 2 && String(shown(chat)) === String(seen)), () => JSON.stringify(chats.map((chat) => chat.messages)));

const whole = ["reasoning Hm, let me look.", "look output-available blue", "text It is blue."];

/** Resumes a page that was cut off, and loads another one. resumed is awaited when both have begun. */
async function check(kind, chat, what, resumed = () => {}) {
  const pages = [open(kind, chat.id, Infinity, await load(kind, chat.id))];
  if (!kind.continues && kind.version !== 5) pages.push(open(kind, chat.id, Infinity, chat.messages)); // version 5 appends
  const done = pages.map((page) => page.resumeStream());
  await resumed(pages);
  await Promise.all(done);
  for (const page of pages) {
    assert.deepEqual(page.errors, [], what);
    assert.equal(page.status, "ready", what);
    assert.deepEqual(shown(page), whole, what);
    page.transport.close?.();
  }
}

for (const kind of kinds) {
  test(`${kind.name}: cut behind every chunk`, async () => {
    const counted = open(kind, `count ${++count}/ü`, Infinity);
    await counted.sendMessage({ text: "sky?" });
    assert.deepEqual(shown(counted), whole);
    const stream = await (await fetch(`${api(counted.id)}/stream${query(kind.version)}`)).text();
    const chunks = stream.split("\n\n").filter((event) => event.startsWith("data: {")).length;
    assert.ok(chunks > 10, `${chunks} chunks`);
    counted.transport.close?.();
    await Promise.all(Array.from({ length: chunks }, async (_, n) => {
      const what = `cut behind ${n} chunks`;
      const chat = open(kind, `cut ${++count}/ü`, n);
      await chat.sendMessage({ text: "sky?" });
      if (kind.continues) {
        assert.deepEqual(chat.errors, [], what);
        assert.deepEqual(shown(chat), whole, what);
      } else {
        assert.equal(chat.status, "error", what);
      }
      await check(kind, chat, what);
      chat.transport.close?.();
    }));
  });
}

/** What pages show behind the first lines of the agent. */
const partly = {
  2: ["reasoning Hm, let me look."],
  3: ["reasoning Hm, let me look.", "look input-available undefined"],
  4: whole.slice(0, 2),
  6: [...whole.slice(0, 2), "text It is "],
};

for (const kind of kinds) {
  test(`${kind.name}: cut behind every chunk before the end of the tool, while the tool runs`, async (t) => {
    let release;
    [held, released] = [3, new Promise((done) => (release = done))];
    t.after(() => {
      held = Infinity;
      release();
    });
    let waiting = 5;
    await Promise.all(Array.from({ length: waiting }, async (_, n) => {
      const what = `cut behind ${n} chunks`;
      const chat = open(kind, `live ${++count}/ü`, n);
      const sent = chat.sendMessage({ text: "sky?" });
      if (kind.continues) {
        await untilShown([chat], partly[3]);
      } else {
        await sent;
        assert.equal(chat.status, "error", what);
      }
      await check(kind, chat, what, async (pages) => {
        await untilShown(pages, partly[3]);
        if (--waiting === 0) release();
      });
      await sent;
      if (kind.continues) assert.deepEqual(shown(chat), whole, what);
      chat.transport.close?.();
    }));
  });
}

for (const [n, seen] of Object.entries(partly)) {
  test(`the server is killed behind ${seen.at(-1)}`, async () => {
    held = Number(n);
    released = new Promise(() => {});
    const chats = kinds.map((kind) => open(kind, `kill ${++count}/ü`, Infinity));
    const sent = chats.map((chat) => chat.sendMessage({ text: "sky?" }));
    await untilShown(chats, seen);
    let up;
    restarted = new Promise((done) => (up = done));
    await server.kill();
    await server.again();
    held = Infinity;
    up();
    await Promise.all(sent);
    await Promise.all(kinds.map(async (kind, i) => {
      if (kind.continues) assert.deepEqual(shown(chats[i]), whole, kind.name);
      await check(kind, chats[i], kind.name);
      chats[i].transport.close?.();
    }));
  });
}
