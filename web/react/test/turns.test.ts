import { expect, test } from "vitest";
import type { Event, ParleyClient, SessionStore, Workstream } from "@parley-hq/client";
import { Collected } from "../src/inspector/collected.js";
import { spansOf, turnsOf } from "../src/inspector/spans.js";
import { marksOf, treeOf } from "../src/work/work.js";

let seq = 0;
const at = (s: number) => new Date(Date.UTC(2026, 0, 1) + s * 1000).toISOString();
const event = (type: string, second: number, payload: object, more: object = {}): Event =>
  ({ session_id: "s", sequence: ++seq, timestamp: at(second), type, turn_id: "t1", payload, actor: { kind: "agent", id: "a" }, ...more }) as unknown as Event;

test("token usage per turn, and outside of turns", () => {
  const rows = turnsOf([
    event("turn.started", 0, { turn_id: "t1" }),
    event("agent.trace", 1, { trace_id: "abc" }),
    event("agent.usage", 1, { model: "m1", input_tokens: 10, output_tokens: 2 }),
    event("agent.usage", 2, { model: "m1", input_tokens: 5, cache_read_input_tokens: 4 }),
    event("turn.completed", 3, { turn_id: "t1", outcome: "done" }),
    event("agent.usage", 4, { output_tokens: 7 }, { turn_id: undefined }),
  ]);
  expect(rows.map((r) => [r.id, r.usage, r.models, r.traces, r.outcome])).toEqual([
    ["t1", { input_tokens: 15, output_tokens: 2, cache_read_input_tokens: 4 }, ["m1"], ["abc"], "done"],
    ["", { output_tokens: 7 }, [], [], undefined],
  ]);
});

test("the spans of a turn have start and end", () => {
  const events = [
    event("turn.started", 0, { turn_id: "t1" }),
    event("agent.tool_call", 1, { call_id: "c", tool: "look" }),
    event("agent.tool_call", 1, { call_id: "d", tool: "fetch" }),
    event("agent.tool_error", 3, { call_id: "c", error: "no" }),
    event("agent.input_request", 4, { request_id: "q", input_type: "text", text: "?" }),
    event("user.input_response", 9, { request_id: "q" }, { turn_id: undefined }),
    event("workstream.launched", 9, { id: "w1", name: "Part 1", task: "x" }),
    event("agent.text", 10, { text: "done" }),
    event("agent.tool_call", 10, { call_id: "x", tool: "other" }, { turn_id: "t2" }),
    event("turn.completed", 11, { turn_id: "t1", outcome: "failed" }),
    event("workstream.timeout", 20, { id: "w1" }, { turn_id: undefined }),
  ];
  const turn = turnsOf(events)[0];
  if (!turn) throw new Error("no turn");
  const second = (ms: number | undefined) => (ms === undefined ? undefined : (ms - Date.parse(at(0))) / 1000);
  expect(spansOf(events, turn).map((s) => [s.kind, s.name, second(s.from), second(s.to), s.bad])).toEqual([
    ["turn", "", 0, 11, true],
    ["tool", "look", 1, 3, true],
    ["tool", "fetch", 1, 11, false], // never answered: over with the turn
    ["prompt", "input", 4, 9, false],
    ["work", "Part 1", 9, 20, true],
    ["text", "", 9, 10, false],
  ]);
  // A turn that is under way has an open end.
  const first = turnsOf(events.slice(0, 2))[0];
  expect(first && spansOf(events.slice(0, 2), first).map((s) => s.to)).toEqual([undefined, undefined]);
});

test("workstreams form a tree: children below their parents, none missing", () => {
  const w = (id: string, parent?: string) => ({ id, parent }) as unknown as Workstream;
  const list = [w("a"), w("b"), w("a1", "a"), w("b1", "b"), w("a11", "a1"), w("lost", "gone"), w("self", "self")];
  expect(treeOf(list).map((t) => `${" ".repeat(t.depth)}${t.work.id}`)).toEqual(["a", " a1", "  a11", "b", " b1", "lost", "self"]);
});

test("events of some types are collected over pages, with new events", async () => {
  seq = 0;
  const all = Array.from({ length: 2500 }, (_, i) => event("agent.usage", i, {}));
  let live: (e: Event) => void = () => {};
  const asked: unknown[] = [];
  const client = {
    events: async (_: string, q: { before?: number; limit: number; types: string[] }) => {
      asked.push(q.types);
      const to = q.before ? q.before - 1 : all.length;
      const from = Math.max(0, to - q.limit);
      return { events: all.slice(from, to).reverse(), more: from > 0 };
    },
  } as unknown as ParleyClient;
  const store = { id: "s", onEvent: (f: (e: Event) => void) => ((live = f), () => {}) } as unknown as SessionStore;
  const c = new Collected(client, store, ["agent.usage"]);
  const done = new Promise<void>((over) => c.subscribe(() => c.loading || over()));
  const close = c.open();
  live(event("agent.usage", 1, {})); // comes in before the pages do
  live(event("agent.text", 1, {}));
  await done;
  expect(c.events.map((e) => e.sequence)).toEqual(Array.from({ length: 2501 }, (_, i) => i + 1));
  expect([c.cut, c.fault, asked.length]).toEqual([false, undefined, 3]);
  close();
});

test("the marks of a time axis are at round steps", () => {
  const seconds = (span: number) => marksOf(span * 1000).map((m) => m / 1000);
  expect(seconds(1)).toEqual([0, 1]);
  expect(seconds(100)).toEqual([0, 30, 60, 90]);
  expect(seconds(250)).toEqual([0, 60, 120, 180, 240]);
  expect(seconds(1200)).toEqual([0, 300, 600, 900, 1200]);
  expect(seconds(6 * 3600)).toEqual([0, 1, 2, 3, 4, 5, 6].map((h) => h * 3600));
  expect(seconds(48 * 3600)).toEqual([0, 8, 16, 24, 32, 40, 48].map((h) => h * 3600));
});
