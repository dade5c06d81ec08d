import { afterEach, expect, inject, test } from "vitest";
import { ParleyClient, type Event, type Frame } from "../src/index.js";
import { TurnStopped, work, type WorkTurn } from "../src/worker.js";
import { Server } from "./server.js";

const cleanup: (() => unknown)[] = [];
afterEach(async () => {
  for (const f of cleanup.splice(0).reverse()) await f();
});

async function start(...flags: string[]): Promise<Server> {
  const server = new Server(inject("binary"), ...flags);
  cleanup.push(() => server.remove());
  await server.start();
  return server;
}

const backoff = { min: 10, max: 100 };

/** Runs a worker until the test is over, or until it is stopped. */
function employ(client: ParleyClient, answer: (turn: WorkTurn) => Promise<void>): () => Promise<void> {
  const stop = new AbortController();
  const done = work(client, "helper", answer, { signal: stop.signal, backoff });
  const quit = async () => {
    stop.abort(new Error("the worker leaves"));
    await done;
  };
  cleanup.push(quit);
  return quit;
}

/** Follows a session until an event matches; it returns all events up to there. */
async function follow(client: ParleyClient, id: string, seen: (f: Frame) => boolean | void): Promise<Event[]> {
  const events: Event[] = [];
  for await (const f of client.watch(id, { after: "0" })) {
    if (f.type === "event") events.push(f.event);
    if (seen(f)) break;
  }
  return events;
}

const ended = (f: Frame) => f.type === "event" && f.event.type === "turn.completed";
const types = (events: Event[]) => events.map((e) => e.type as string);

test("a worker asks, runs a tool, streams, and continues after a kill of the server", async () => {
  const server = await start();
  const client = new ParleyClient({ url: server.url, backoff });
  let runs = 0;
  const pieces = Array.from({ length: 40 }, (_, i) => `wörd${i} `);
  let half: () => void = () => {};
  const halfWay = new Promise<void>((resolve) => (half = resolve));
  let go: () => void = () => {};
  const restarted = new Promise<void>((resolve) => (go = resolve));
  employ(client, async (turn) => {
    const city = await turn.ask({ input_type: "text", text: "Which city?" });
    const sky = await turn.call("weather", { city: city.text }, async () => {
      runs++;
      return { sky: "clear" };
    });
    const w = turn.stream();
    for (const [i, p] of pieces.entries()) {
      await w.write(p);
      if (i === 20) {
        half();
        await restarted;
      }
    }
    await w.write(sky.sky);
    await w.close();
  });
  await client.create({ id: "w", agent: "helper" });
  await client.say("w", "How is the weather?");
  await follow(client, "w", (f) => {
    if (f.type !== "event" || f.event.type !== "agent.input_request") return false;
    void client.answer("w", f.event.payload.request_id ?? "", { text: "Bern" });
    return true;
  });
  await halfWay;
  await server.kill();
  await server.start();
  go();
  const events = await follow(client, "w", ended);
  const text = events.find((e) => e.type === "agent.text");
  expect(text?.payload).toMatchObject({ text: `${pieces.join("")}clear`, final: true });
  expect(events.find((e) => e.type === "agent.tool_call")?.payload).toMatchObject({ tool: "weather", params: { city: "Bern" } });
  expect(events.at(-1)?.payload).toMatchObject({ outcome: "done" });
  expect(types(events).filter((t) => t === "agent.tool_result").length).toBe(1);
  expect(runs).toBe(1);
});

test("a call has the id of its approval", async () => {
  const server = await start();
  const client = new ParleyClient({ url: server.url, backoff });
  employ(client, async (turn) => {
    const [d] = await turn.approve({ calls: [{ call_id: "pay-1", tool: "pay", params: {} }] });
    if (d?.approve) await turn.call("pay", {}, async () => "paid", { call_id: "pay-1" });
  });
  await client.create({ id: "a", agent: "helper" });
  await client.say("a", "pay");
  await follow(client, "a", (f) => {
    if (f.type !== "event" || f.event.type !== "agent.approval_request") return false;
    void client.answer("a", f.event.payload.request_id ?? "", { decisions: [{ call_id: "pay-1", approve: true }] });
    return true;
  });
  const events = await follow(client, "a", ended);
  expect(events.filter((e) => /^agent\.tool/.test(e.type)).map((e) => (e.payload as { call_id?: string }).call_id)).toEqual(["pay-1", "pay-1"]);
});

test("another worker takes over a turn and repeats no step", async () => {
  const server = await start("--lease", "1s");
  const client = new ParleyClient({ url: server.url, backoff });
  let runs = 0;
  let begun: () => void = () => {};
  const streaming = new Promise<void>((resolve) => (begun = resolve));
  const answer = (hang: boolean) => async (turn: WorkTurn) => {
    await turn.call("count", {}, async () => ++runs);
    const w = turn.stream();
    await w.write("one ");
    if (hang) {
      begun();
      await new Promise((_, reject) => turn.signal.addEventListener("abort", () => reject(turn.signal.reason as Error)));
    }
    await w.write("two");
    await w.close();
  };
  const quit = employ(client, answer(true));
  await client.create({ id: "t", agent: "helper" });
  await client.say("t", "go");
  await streaming;
  employ(client, answer(false));
  // The lease is short: the second worker must be connected before the first one ends.
  while (!(await client.agents()).some((a) => a.workers === 2)) await new Promise((resolve) => setTimeout(resolve, 10));
  await quit();
  const events = await follow(client, "t", ended);
  expect(runs).toBe(1);
  expect(events.filter((e) => e.type === "agent.text").map((e) => e.payload)).toMatchObject([{ text: "one two" }]);
  expect(events.at(-1)?.payload).toMatchObject({ outcome: "done" });
});

test("a stop reaches the worker; an error fails the turn", async () => {
  const server = await start();
  const client = new ParleyClient({ url: server.url, backoff });
  let cause: unknown;
  let begun: () => void = () => {};
  const running = new Promise<void>((resolve) => (begun = resolve));
  employ(client, async (turn) => {
    if (turn.text === "fail") throw new Error("out of ideas");
    begun();
    await new Promise<void>((resolve) =>
      turn.signal.addEventListener("abort", () => {
        cause = turn.signal.reason;
        resolve();
      }),
    );
  });
  await client.create({ id: "x", agent: "helper" });
  await client.say("x", "wait");
  await running;
  await client.stop("x");
  expect((await follow(client, "x", ended)).at(-1)?.payload).toMatchObject({ outcome: "stopped" });
  expect(cause).toBeInstanceOf(TurnStopped);
  await client.create({ id: "y", agent: "helper" });
  await client.say("y", "fail");
  expect((await follow(client, "y", ended)).at(-1)?.payload).toMatchObject({ outcome: "failed", error: "out of ideas" });
});

test("a refused worker reports the reason", async () => {
  const server = await start();
  const client = new ParleyClient({ url: server.url, backoff });
  await expect(work(client, "demo", () => Promise.resolve())).rejects.toMatchObject({ code: "conflict" });
});
