import { expect, test } from "vitest";
import type { Socket } from "../src/socket.js";
import { ParleyClient } from "../src/index.js";
import { work, type WorkTurn } from "../src/worker.js";

type Frame = Record<string, unknown>;

/** The server's side of a worker: receives a frame on the nth connection and returns the frame to send, or a close code. */
function fakeServer(hear: (f: Frame, connection: number) => Frame[] | number | undefined) {
  const sockets: Socket[] = [];
  const Maker = class implements Socket {
    onopen: Socket["onopen"] = null;
    onmessage: Socket["onmessage"] = null;
    onclose: Socket["onclose"] = null;
    onerror: Socket["onerror"] = null;
    readonly #n: number;

    constructor() {
      this.#n = sockets.push(this);
      queueMicrotask(() => this.onopen?.({} as never));
    }

    send(data: string): void {
      const said = hear(JSON.parse(data) as Frame, this.#n);
      setTimeout(() => {
        if (typeof said === "number") this.onclose?.({ code: said } as never);
        else for (const f of said ?? []) this.onmessage?.({ data: JSON.stringify(f) } as never);
      }, 0);
    }

    close(): void {}
  };
  const client = new ParleyClient({ url: "http://fake", WebSocket: Maker, fetch: () => Promise.reject(new TypeError("no route")) });
  return { client, opened: () => sockets.length, push: (f: Frame) => sockets.at(-1)?.onmessage?.({ data: JSON.stringify(f) } as never) };
}

const backoff = { min: 1, max: 2 };
const turn = { op: "turn", turn: { session_id: "s", turn_id: "t-1", attempt: 1, agent: "a", trigger: { type: "user.message", payload: { text: "hi" } } } };

test("a worker that lost the reply to done releases the turn when the server reports its end", async () => {
  const stop = new AbortController();
  const held: unknown[] = [];
  const { client } = fakeServer((f, n) => {
    if (f["op"] === "done") return 1006; // stored, and the connection breaks
    held.push(f["turns"]);
    if (n === 1) return [turn];
    if (n === 2) return [{ op: "ended", turn_id: "t-1" }, { op: "bye", retry: true }];
    stop.abort(new Error("the worker leaves"));
    return [];
  });
  const done = work(client, "a", () => Promise.resolve(), { signal: stop.signal, backoff, grace: 3_600_000, idleTimeout: 100 });
  await done;
  expect(held).toEqual([[], ["t-1"], []]);
});

test("the end of a turn is reported again, with pauses, while the server cannot store it", async () => {
  const stop = new AbortController();
  const sent: number[] = [];
  const { client } = fakeServer((f) => {
    if (f["op"] !== "done") return [turn];
    sent.push(performance.now());
    if (sent.length < 10) return [{ op: "error", id: f["id"], error: { code: "unavailable", message: "no node can write" } }];
    stop.abort(new Error("the worker leaves"));
    return [{ op: "ok", id: f["id"] }];
  });
  await work(client, "a", () => Promise.resolve(), { signal: stop.signal, backoff: { min: 4, max: 8 }, idleTimeout: 1000 });
  expect(sent.length).toBe(10);
  expect(sent[9]! - sent[0]!).toBeGreaterThan(20);
});

test("a turn that is given again while the report of its end is refused is reported again", async () => {
  const stop = new AbortController();
  let reports = 0;
  const { client } = fakeServer((f) => {
    if (f["op"] !== "done") return [turn];
    if (++reports === 1) return [turn, { op: "error", id: f["id"], error: { code: "conflict", message: "the turn is not yours" } }];
    stop.abort(new Error("the worker leaves"));
    return [{ op: "ok", id: f["id"] }];
  });
  await work(client, "a", () => Promise.resolve(), { signal: stop.signal, backoff, idleTimeout: 1000 });
  expect(reports).toBe(2);
});

test("a turn that is given again just after its grace period has ended is answered from the start", async () => {
  const stop = new AbortController();
  let answers = 0;
  let slow: (() => void) | undefined;
  const { client, push } = fakeServer((f, n) => {
    if (f["op"] === "append") return 1006;
    if (f["op"] === "ready") return n === 1 ? [turn] : [];
    if (f["op"] !== "done") return [];
    slow?.();
    stop.abort(new Error("the worker leaves"));
    return [{ op: "ok", id: f["id"] }];
  });
  const answer = async (t: WorkTurn) => {
    if (++answers > 1) return;
    await t.status("begun").catch(() => {}); // fails when the grace period has ended
    const ended = new Promise<void>((resolve) => (slow = resolve));
    push(turn);
    await ended; // this answer is slow to end
  };
  await work(client, "a", answer, { signal: stop.signal, backoff, grace: 20, idleTimeout: 1000 });
  expect(answers).toBe(2);
});

test("a worker with an expired credential does not reconnect", async () => {
  for (const end of [4401, [{ op: "bye", error: { code: "unauthenticated", message: "expired" }, retry: false }]]) {
    const { client, opened } = fakeServer(() => end);
    await expect(work(client, "a", () => Promise.resolve(), { backoff, idleTimeout: 100 })).rejects.toMatchObject({ code: "unauthenticated" });
    expect(opened()).toBe(1);
  }
});
