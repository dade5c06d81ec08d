import { afterEach, expect, inject, test } from "vitest";
import { ParleyClient, type Event, type Frame } from "../src/index.js";
import { work, type WorkTurn } from "../src/worker.js";
import { Server } from "./server.js";

const cleanup: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const f of cleanup.splice(0).reverse()) await f();
});

const backoff = { min: 10, max: 100 };

async function start(...flags: string[]): Promise<Server> {
  const server = new Server(inject("binary"), "--nats=off", ...flags);
  cleanup.push(() => server.remove());
  await server.start();
  return server;
}

function employ(client: ParleyClient, answer: (turn: WorkTurn) => Promise<void>, slots = 4): void {
  const stop = new AbortController();
  const done = work(client, "helper", answer, { signal: stop.signal, backoff, slots });
  cleanup.push(async () => {
    stop.abort(new Error("the worker leaves"));
    await done;
  });
}

async function follow(client: ParleyClient, id: string, seen: (f: Frame) => boolean | void): Promise<Event[]> {
  const events: Event[] = [];
  for await (const f of client.watch(id, { after: "0" })) {
    if (f.type === "event") events.push(f.event);
    if (seen(f)) break;
  }
  return events;
}

/** Waits until so many workers are connected; a short lease does not wait for them. */
async function connected(client: ParleyClient, count: number): Promise<void> {
  while (!(await client.agents()).some((a) => a.name === "helper" && (a.workers ?? 0) >= count)) await new Promise((resolve) => setTimeout(resolve, 10));
}

const ended = (f: Frame) => f.type === "event" && f.event.type === "turn.completed" && !f.event.workstream_id;
const said = (events: Event[]) => events.flatMap((e) => (e.type === "agent.text" ? [e.payload.text] : []));

test("a worker launches workstreams and waits for them", async () => {
  const server = await start();
  const client = new ParleyClient({ url: server.url, backoff });
  employ(client, async (turn) => {
    if (turn.workstream) {
      expect(turn.launched?.task).toBe(turn.text);
      await turn.progress({ phase: "executing_tool", message: "half" });
      await turn.say(`Result of ${turn.text}`);
      return;
    }
    await turn.launch({ id: "a", instruction: "task a", deadline_seconds: 60 });
    await turn.launch({ id: "b", instruction: "task b", name: "B" });
    const all = await turn.wait("a", "b");
    await turn.say(all.map((w) => `${w.workstream_id} ${w.state}: ${w.summary ?? ""}`).join(", "));
  });
  await client.create({ id: "w", agent: "helper" });
  await client.say("w", "split");
  const events = await follow(client, "w", ended);
  expect(said(events).at(-1)).toBe("a completed: Result of task a, b completed: Result of task b");
});

test("two workers share the turns", async () => {
  const server = await start();
  const busy = [0, 0];
  let both: () => void = () => {};
  const shared = new Promise<void>((resolve) => (both = resolve));
  for (const i of [0, 1])
    employ(
      new ParleyClient({ url: server.url, backoff }),
      async (turn) => {
        busy[i] = (busy[i] ?? 0) + 1;
        if (busy.every((n) => n > 0)) both();
        await shared;
        await turn.say(`worker ${i}`);
      },
      2,
    );
  const client = new ParleyClient({ url: server.url, backoff });
  const ids = Array.from({ length: 8 }, (_, i) => `t${i}`);
  for (const id of ids) {
    await client.create({ id, agent: "helper" });
    await client.say(id, "go");
  }
  for (const id of ids) expect(said(await follow(client, id, ended)).length).toBe(1);
  expect((busy[0] ?? 0) + (busy[1] ?? 0)).toBe(8);
});

test("a killed worker is replaced within its lease, and no previewed text is lost or repeated", async () => {
  const server = await start("--lease", "1s");
  const client = new ParleyClient({ url: server.url, backoff });
  // A worker that loses its network looks like one that was killed.
  const sockets: WebSocket[] = [];
  let dead = false;
  class Mortal extends WebSocket {
    constructor(url: string | URL) {
      if (dead) throw new Error("no network");
      super(url);
      sockets.push(this);
    }
  }
  const doomed = new ParleyClient({ url: server.url, backoff, WebSocket: Mortal });
  let runs = 0;
  employ(doomed, async (turn) => {
    await turn.call("count", {}, async () => ++runs);
    await turn.stream().write("one ");
    await new Promise((_, reject) => turn.signal.addEventListener("abort", () => reject(turn.signal.reason as Error)));
  });
  await connected(client, 1);
  await client.create({ id: "v", agent: "helper" });
  await client.say("v", "go");
  await follow(client, "v", (f) => f.type === "preview");
  employ(client, async (turn) => {
    const n = await turn.call("count", {}, async () => ++runs);
    const w = turn.stream();
    await w.write("one ");
    await w.write(`two ${n}`);
    await w.close();
  });
  await connected(client, 2);
  dead = true;
  for (const s of sockets) s.close();
  const events = await follow(client, "v", ended);
  expect(said(events)).toEqual(["one two 1"]);
  expect(runs).toBe(1);
});

test("a text that is long as JSON is split into several blocks", async () => {
  const server = await start();
  const client = new ParleyClient({ url: server.url, backoff });
  const text = 'a\n"日<'.repeat(100_000);
  employ(client, async (turn) => {
    const w = turn.stream();
    for (let i = 0; i < text.length; i += 100_001) await w.write(text.slice(i, i + 100_001));
    await w.close();
  });
  await client.create({ id: "l", agent: "helper" });
  await client.say("l", "go");
  const events = await follow(client, "l", ended);
  expect(events.at(-1)?.payload).toMatchObject({ outcome: "done" });
  expect(said(events).join("")).toBe(text);
});
