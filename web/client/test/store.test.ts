import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { openSession, ParleyClient, Transcript, type Event, type ItemOf, type Snapshot } from "../src/index.js";
import { chance, FakeServer } from "./fake.js";
import { vectors } from "./vectors.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const settle = (ms = 50) => vi.advanceTimersByTimeAsync(ms);

const empty = (last = 0): Snapshot => ({
  session: {
    session_id: "s", workspace: "default", owner: { kind: "user", id: "u" }, agent: "none", policy: "queue", status: "idle", open_prompts: 0,
    created_at: "2026-01-01T00:00:00.000000Z", updated_at: "2026-01-01T00:00:00.000000Z", last,
  },
  state: { agent: "none", policy: "queue", status: "idle", turns: [], queued: [], prompts: [], workstreams: [], usage: {} },
  items: [], more: false, open: [], cursor: String(last), server_now: "2026-01-01T00:00:00.000000Z",
});

/** A client of a fake server; post answers the requests, and fill completes the snapshot. */
function setup(post: (draft: { client_id: string; type: string; payload: unknown }) => Promise<Response>, fill: (snap: Snapshot) => void = () => {}) {
  const snap = empty();
  fill(snap);
  const server = new FakeServer();
  const client = new ParleyClient({
    url: "http://fake",
    WebSocket: server.Socket,
    fetch: (input, init) =>
      init?.method === "POST" ? post(JSON.parse(String(init.body)) as never) : Promise.resolve(Response.json(String(input).includes("snapshot") ? snap : {})),
  });
  return { server, client };
}

test("an optimistic message is replaced in one step, whether the answer or the event arrives first", async () => {
  for (const first of ["answer", "event"] as const) {
    let answer: (r: Response) => void = () => {};
    const { server, client } = setup(() => new Promise((resolve) => (answer = resolve)));
    const store = openSession(client, "s");
    await settle();
    const said = store.say("hello", { client_id: "c1" });
    await settle();
    expect(store.getOrder()).toEqual(["pending-c1"]);
    expect((store.getItem("pending-c1") as ItemOf<"message">).message.text).toBe("hello");
    const orders: (readonly string[])[] = [];
    store.subscribe("order", () => orders.push(store.getOrder()));
    let event: Event | undefined;
    const append = () => (event ??= server.event("user.message", { text: "hello" }, { client_id: "c1" }));
    if (first === "event") {
      append();
      await settle();
    }
    const stored = { session_id: "s", sequence: 1, client_id: "c1" } as Event;
    answer(Response.json({ events: [stored] }));
    await settle();
    append();
    await settle();
    expect((await said).sequence).toBe(1);
    expect(orders).toEqual([["i1"]]); // never gone, never twice
    expect(client.outbox.entries("s")).toEqual([]);
    store.close();
  }
});

test("a message that the snapshot contains is not shown as pending beside it", async () => {
  let answer: (r: Response) => void = () => {};
  const { server, client } = setup(() => new Promise((resolve) => (answer = resolve)), (snap) => {
    snap.items = [{ id: "i1", kind: "message", at: snap.session.created_at, seq: 1, message: { text: "hello", client_id: "c1", state: "sent" } }];
    snap.session.last = 1;
    snap.cursor = "1";
  });
  server.event("user.message", { text: "hello" }, { client_id: "c1" });
  const said = client.say("s", "hello", { client_id: "c1" });
  const store = openSession(client, "s");
  expect(store.getOrder()).toEqual(["pending-c1"]); // until the snapshot has been read
  await settle();
  expect(store.getOrder()).toEqual(["i1"]);
  answer(Response.json({ events: [{ session_id: "s", sequence: 1, client_id: "c1" } as Event] }));
  await said;
  await settle();
  expect(store.getOrder()).toEqual(["i1"]);
  expect(client.outbox.entries("s")).toEqual([]);
  store.close();
});

test("listeners are called once per frame, and only for changes", async () => {
  const { server, client } = setup(() => Promise.reject(new TypeError("no")));
  const store = openSession(client, "s");
  await settle();
  server.event("user.message", { text: "a" });
  server.piece("b1", "x");
  await settle();
  let order = 0;
  let message = 0;
  let block = 0;
  store.subscribe("order", () => order++);
  store.subscribeItem("i1", () => message++);
  store.subscribeItem("b-b1", () => block++);
  const before = store.getItem("i1");
  const ids = store.getOrder();
  for (let i = 0; i < 100; i++) server.piece("b1", "y");
  await settle();
  expect([order, message, block]).toEqual([0, 0, 1]);
  expect((store.getItem("b-b1") as ItemOf<"text">).text.text).toBe(`x${"y".repeat(100)}`);
  expect(store.getItem("i1")).toBe(before);
  expect(store.getOrder()).toBe(ids);
  server.event("agent.text", { block: "b1", text: "whole" });
  await settle();
  expect([order, message, block]).toEqual([1, 0, 2]);
  expect(store.getOrder()).toEqual(["i1", "b-b1"]);
  store.close();
});

test("a store is shared and is released by its last user", async () => {
  const { server, client } = setup(() => Promise.reject(new TypeError("no")));
  const a = openSession(client, "s");
  const b = openSession(client, "s");
  expect(b).toBe(a);
  await settle();
  expect(server.sockets.size).toBe(1);
  a.close();
  expect(server.sockets.size).toBe(1);
  b.close();
  expect(server.sockets.size).toBe(0);
  expect(openSession(client, "s")).not.toBe(a);
});

test("a replaced history is reloaded", async () => {
  const { server, client } = setup(() => Promise.reject(new TypeError("no")));
  const store = openSession(client, "s");
  await settle();
  server.event("user.message", { text: "old" });
  server.event("user.message", { text: "old" });
  await settle();
  expect(store.getOrder()).toEqual(["i1", "i2"]);
  server.steps = [];
  server.cut();
  await settle(5000);
  expect(store.reloads).toBe(1);
  expect(store.getOrder()).toEqual([]);
  server.event("user.message", { text: "new" });
  await settle();
  expect((store.getItem("i1") as ItemOf<"message">).message.text).toBe("new");
  expect(store.getConnection().state).toBe("live");
  store.close();
});

/** The snapshot of a server in the middle of a log. */
function snapshotAt(t: Transcript): Snapshot {
  const open = [...t.open];
  return { session: t.session, state: t.state, items: t.items.slice(0, t.order.length), more: false, open, cursor: String(t.last), server_now: "" };
}

test("folding from a snapshot gives the same result as folding the whole log", () => {
  for (const v of vectors) {
    if (v.name === "cut-in-two") continue; // begins in the middle; a snapshot of it would not be whole
    for (let cut = 1; cut < v.events.length; cut++) {
      const play = (t: Transcript, steps: typeof v.events) => {
        for (const s of steps) "preview" in s ? t.preview(s.preview) : t.apply(s);
        return t;
      };
      const half = play(new Transcript(), v.events.slice(0, cut));
      const whole = play(new Transcript(structuredClone(snapshotAt(half))), v.events.slice(cut));
      expect(whole.items, `${v.name} cut at ${cut}`).toEqual(v.items);
      expect(whole.state, `${v.name} cut at ${cut}`).toEqual(v.state);
    }
  }
});

test("an event costs the same in a long session as in a short one", () => {
  vi.useRealTimers();
  const random = chance(1);
  const make = (n: number): Event[] =>
    Array.from({ length: n }, (_, i) => {
      const turn_id = `t-${Math.floor(i / 40)}`;
      const call_id = `c${Math.floor(i / 2)}`;
      const e = i % 40 === 0 ? ["agent.status", { message: String(random(100)) }] : i % 2 ? ["agent.tool_call", { call_id: `c${Math.floor((i + 1) / 2)}`, tool: "x" }] : ["agent.tool_result", { call_id, result: i }];
      return { session_id: "s", sequence: i + 1, timestamp: "2026-01-01T00:00:00.000000Z", type: e[0], payload: e[1], turn_id } as unknown as Event;
    });
  const events = make(100_000);
  const t = new Transcript();
  const time = (from: number, to: number) => {
    // CPU time, not wall-clock time: other programs may run on the machine.
    const start = process.cpuUsage();
    for (let i = from; i < to; i++) {
      t.apply(events[i] as Event);
      t.take();
    }
    return process.cpuUsage(start).user / 1000 / (to - from);
  };
  time(0, 10_000); // warm
  const early = time(10_000, 30_000);
  const late = time(80_000, 100_000);
  // Smaller differences are noise.
  expect(late).toBeLessThan(early * 10 + 0.01);
});
