import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ParleyClient, fold, type Connection, type Event, type Frame, type Preview } from "../src/index.js";
import { chance, FakeServer } from "./fake.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  expect(vi.getTimerCount()).toBe(0); // no timer is left
  vi.useRealTimers();
});

/** Follows a session and records its frames. */
function reader(server: FakeServer, after: string | undefined = "0", noStreams = true) {
  const frames: Frame[] = [];
  const states: Connection[] = [];
  const client = new ParleyClient({
    url: "http://fake",
    WebSocket: server.Socket,
    ...(noStreams ? { fetch: () => Promise.reject(new TypeError("no route")) } : {}),
  });
  const leave = client.follow("s", after, (f) => frames.push(f), (c) => states.push(c));
  return { client, frames, states, leave, events: () => frames.flatMap((f) => (f.type === "event" ? [f.event.sequence] : [])) };
}

const settle = (ms = 0) => vi.advanceTimersByTimeAsync(ms);

/** A busy session: blocks written in pieces, several at once, finished in any order. */
function live(server: FakeServer, random: (n: number) => number, open: string[], names: { n: number }): void {
  const dice = random(10);
  if (dice < 2 || (dice < 7 && open.length === 0)) {
    if (open.length < 3) open.push(`b${names.n++}`);
    else server.event("agent.status", { message: "busy" });
  } else if (dice < 7) server.piece(open[random(open.length)] as string, ["word ", "é", "日本 ", "👩‍👩‍👧", "x"][random(5)] as string, "t-1");
  else if (dice < 8 && open.length > 0) {
    const [block] = open.splice(random(open.length), 1);
    const text = server.steps.reduce((s, x) => ("preview" in x && x.preview.block === block ? s + x.preview.text : s), "");
    server.event("agent.text", { block, text }, { turn_id: "t-1" });
  } else server.event("agent.status", { message: `step ${random(100)}` }, { turn_id: "t-1" });
}

describe("no frame is lost or repeated", () => {
  for (let seed = 1; seed <= 60; seed++)
    test(`random disconnects, repeats, losses and delays, ${seed}`, async () => {
      const random = chance(seed);
      const server = new FakeServer();
      server.event("session.started", { agent: "demo" });
      server.event("user.message", { text: "go" });
      server.event("turn.started", { turn_id: "t-1", trigger: 2, agent: "demo" }, { turn_id: "t-1" });
      let quiet = false;
      server.mischief = (frame) => {
        if (quiet || frame.includes('"ok"')) return "pass";
        const dice = random(40);
        return dice === 0 ? "cut" : dice < 4 ? "twice" : dice === 4 ? "lose" : "pass";
      };
      const r = reader(server);
      const open: string[] = [];
      const names = { n: 0 };
      for (let i = 0; i < 150; i++) {
        live(server, random, open, names);
        if (random(30) === 0) server.away = !server.away;
        if (random(25) === 0) server.cut();
        await settle(random(4) === 0 ? random(2000) : 0);
      }
      quiet = true;
      server.away = false;
      // A lost frame is noticed when the next one arrives.
      server.event("agent.status", { message: "end" }, { turn_id: "t-1" });
      for (const block of open) server.piece(block, ".", "t-1");
      await settle(60_000);

      expect(r.events()).toEqual(Array.from({ length: server.last }, (_, i) => i + 1));
      const have = new Map<string, number>();
      for (const f of r.frames) {
        if (f.type === "event" && f.event.type === "agent.text") have.delete(f.event.payload.block ?? "");
        if (f.type !== "preview") continue;
        expect(f.preview.offset).toBe(have.get(f.preview.block) ?? 0);
        have.set(f.preview.block, f.preview.end);
      }
      const steps = (list: ({ event: Event } | { preview: Preview } | { type: "hello" })[]) =>
        list.flatMap((s): (Event | { preview: Preview })[] => ("event" in s ? [s.event] : "preview" in s ? [s] : []));
      // A lost beginning may put one open block behind another; ids and texts are the same.
      const shown = (list: Parameters<typeof steps>[0]) => {
        const { items, state } = fold(steps(list));
        return { state, items: items.sort((a, b) => (a.seq ?? Infinity) - (b.seq ?? Infinity) || (a.id < b.id ? -1 : 1)) };
      };
      expect(shown(r.frames)).toEqual(shown(server.steps));
      expect(r.states.at(-1)?.state).toBe("live");
      r.leave();
    });
});

test("repeated frames are ignored without a new watch", async () => {
  const server = new FakeServer();
  server.mischief = () => "twice";
  const r = reader(server);
  for (let i = 0; i < 20; i++) {
    server.event("agent.status", { message: "x" });
    server.piece("b1", "é");
    await settle(1);
  }
  expect(r.frames.length).toBe(41);
  expect(server.received.length).toBe(1);
  r.leave();
});

test("one socket carries many sessions", async () => {
  const server = new FakeServer();
  const client = new ParleyClient({ url: "http://fake", WebSocket: server.Socket });
  const leave = ["a", "b", "c"].map((id) => client.follow(id, "0", () => {}, () => {}));
  await settle(10);
  expect(server.opened).toBe(1);
  expect(server.received.map((f) => f.session_id)).toEqual(["a", "b", "c"]);
  for (const f of leave) f();
  expect(server.sockets.size).toBe(0);
});

test("a silent connection is reopened", async () => {
  const server = new FakeServer();
  const r = reader(server);
  await settle(10);
  expect(server.opened).toBe(1);
  await settle(45_000 + 1000);
  expect(server.opened).toBe(2);
  expect(r.states.map((s) => s.state)).toEqual(["live", "offline", "live"]);
  r.leave();
});

test("pauses grow and are reported", async () => {
  const server = new FakeServer();
  server.away = true;
  const r = reader(server);
  await settle(120_000);
  const attempts = r.states.filter((s) => s.state === "offline");
  expect(attempts.length).toBeGreaterThan(8);
  expect(attempts.map((s) => s.attempt)).toEqual(attempts.map((_, i) => i + 1));
  const last = attempts.at(-1) as Connection;
  expect(last.retryAt).toBeGreaterThan(Date.now() - 15_000);
  expect(last.since).toBe(attempts[0]?.since);
  server.away = false;
  r.client.wake();
  await settle(300);
  expect(r.states.at(-1)?.state).toBe("live");
  r.leave();
});

test("wake reconnects at once, and detects a dead connection", async () => {
  const page = new EventTarget();
  const doc = Object.assign(new EventTarget(), { visibilityState: "visible" });
  vi.stubGlobal("document", doc);
  vi.stubGlobal("addEventListener", page.addEventListener.bind(page));
  vi.stubGlobal("removeEventListener", page.removeEventListener.bind(page));
  const server = new FakeServer();
  server.away = true;
  const r = reader(server);
  await settle(60_000);
  server.away = false;
  page.dispatchEvent(new globalThis.Event("online"));
  await settle(300);
  expect(r.states.at(-1)?.state).toBe("live");

  // After sleep mode: the socket looks open, but the server has closed it.
  server.mischief = () => "lose";
  doc.dispatchEvent(new globalThis.Event("visibilitychange"));
  await settle(4999);
  expect(r.states.at(-1)?.state).toBe("live");
  server.mischief = () => "pass";
  await settle(1000);
  expect(server.opened).toBe(2);
  expect(r.states.at(-1)?.state).toBe("live");
  r.leave();
  page.dispatchEvent(new globalThis.Event("online"));
  await settle(1000);
  expect(server.opened).toBe(2);
  vi.unstubAllGlobals();
});

test("a permanent refusal ends the stream", async () => {
  const server = new FakeServer();
  const r = reader(server, "99");
  await settle(10);
  expect(r.states.at(-1)).toMatchObject({ state: "ended", error: { code: "gone" } });
  r.leave();
});

for (const how of ["bye", "code"] as const) {
  test(`an expired credential ends the sessions of a socket, reported by ${how}`, async () => {
    const server = new FakeServer();
    const r = reader(server);
    await settle(10);
    server.refuse(how);
    await settle(60_000);
    expect(r.states.at(-1)).toMatchObject({ state: "ended", error: { code: "unauthenticated" } });
    expect(server.opened).toBe(1);
    r.leave();
  });

  test(`a client with a token function reconnects with a new token, reported by ${how}`, async () => {
    const server = new FakeServer();
    const states: Connection[] = [];
    let tokens = 0;
    const client = new ParleyClient({ url: "http://fake", WebSocket: server.Socket, token: () => `token-${++tokens}` });
    const leave = client.follow("s", "0", () => {}, (c) => states.push(c));
    await settle(10);
    server.refuse(how);
    await settle(1000);
    expect(states.map((s) => s.state)).toEqual(["live", "offline", "live"]);
    expect(tokens).toBe(2);
    leave();
  });
}

test("an expired credential ends a stream, unless there is a token function", async () => {
  const bye = 'event: bye\ndata: {"error":{"code":"unauthenticated","message":"expired"},"retry":false}\n\n';
  for (const token of ["fixed", () => "fresh"]) {
    let asked = 0;
    const fetcher = () => Promise.resolve(++asked === 1 ? new Response(bye) : Response.json({ error: { code: "unauthenticated", message: "who?" } }, { status: 401 }));
    const states: Connection[] = [];
    const client = new ParleyClient({ url: "http://fake", WebSocket: null, fetch: fetcher, token });
    const leave = client.follow("s", "0", () => {}, (c) => states.push(c));
    await settle(60_000);
    expect(states.at(-1)).toMatchObject({ state: "ended", error: { code: "unauthenticated" } });
    expect(asked).toBe(token === "fixed" ? 1 : 2);
    leave();
  }
});

test("a reader that is behind reports how many events are missing", async () => {
  const server = new FakeServer();
  for (let i = 0; i < 10; i++) server.event("agent.status", { message: "x" });
  const r = reader(server);
  await settle(10);
  expect(r.states.map((s) => [s.state, s.behind])).toEqual([["catching up", 10], ["live", undefined]]);
  r.leave();
});

/** Streams of the same log, as a fetch function. */
function streams(server: FakeServer, asked: string[]): typeof fetch {
  return (input, init) => {
    const url = new URL(String(input));
    asked.push(url.searchParams.get("after") ?? "");
    const after = Number((url.searchParams.get("after") ?? "0").split("~")[0]);
    const encoder = new TextEncoder();
    const body = new ReadableStream<Uint8Array>({
      start(c) {
        const frame = (event: string, id: string, data: unknown) => c.enqueue(encoder.encode(`event: ${event}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`));
        frame("hello", String(after), { last: server.last, server_now: new Date().toISOString() });
        let sent = after;
        for (const s of server.steps)
          if ("event" in s && s.event.sequence > after && sent < after + 3) frame("event", String((sent = s.event.sequence)), s.event);
        if (sent < server.last) c.close(); // cut after three
        else init?.signal?.addEventListener("abort", () => c.error(new Error("aborted")));
      },
    });
    return Promise.resolve(new Response(body, { headers: { "Content-Type": "text/event-stream" } }));
  };
}

test("streams are used, and resumed, when sockets are blocked", async () => {
  const server = new FakeServer();
  server.away = true; // for sockets only
  for (let i = 0; i < 10; i++) server.event("agent.status", { message: "x" });
  const asked: string[] = [];
  const got: number[] = [];
  const client = new ParleyClient({ url: "http://fake", WebSocket: server.Socket, fetch: streams(server, asked) });
  const leave = client.follow("s", "0", (f) => f.type === "event" && got.push(f.event.sequence), () => {});
  await settle(30_000);
  expect(got).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  expect(asked).toEqual(["0", "3", "6", "9"]);
  leave();
  await settle();
});

test("after one failure the socket is tried again, and takes over the sessions", async () => {
  const server = new FakeServer();
  server.away = true;
  server.event("agent.status", { message: "x" });
  const asked: string[] = [];
  const got: number[] = [];
  const client = new ParleyClient({ url: "http://fake", WebSocket: server.Socket, fetch: streams(server, asked) });
  const leave = client.follow("s", "0", (f) => f.type === "event" && got.push(f.event.sequence), () => {});
  await settle(100);
  expect(asked).toEqual(["0"]);
  server.away = false;
  await settle(20_000);
  expect(server.opened).toBe(1);
  server.event("agent.status", { message: "y" });
  await settle(10);
  expect(got).toEqual([1, 2]);
  leave();
});

test("watch yields frames and ends with its signal", async () => {
  const server = new FakeServer();
  server.event("session.started", {});
  const stop = new AbortController();
  const client = new ParleyClient({ url: "http://fake", WebSocket: server.Socket });
  const seen: string[] = [];
  const done = (async () => {
    for await (const f of client.watch("s", { after: "0", signal: stop.signal })) seen.push(f.type);
  })();
  await settle(10);
  server.piece("b1", "hi");
  await settle(10);
  stop.abort();
  await done;
  expect(seen).toEqual(["hello", "event", "preview"]);
});

test("the server's time is estimated", async () => {
  const server = new FakeServer();
  vi.setSystemTime(new Date("2026-05-01T12:00:00Z"));
  const client = new ParleyClient({
    url: "http://fake",
    fetch: () => Promise.resolve(Response.json({ server_now: "2026-05-01T12:05:00.000000Z" })),
    WebSocket: server.Socket,
  });
  await client.snapshot("s");
  expect(client.serverNow()).toBe(Date.parse("2026-05-01T12:05:00Z"));
});
