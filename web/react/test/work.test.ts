import { expect, test } from "vitest";
import type { Event, ParleyClient, SessionStore } from "@parley-hq/client";
import { lostFields } from "../src/inspector/eventdetail.js";
import { EventLog } from "../src/inspector/eventlog.js";
import { diffPlans } from "../src/work/planpanel.js";
import { fetches, readSpec } from "../src/artifacts/spec.js";
import { german } from "../src/i18n/german.js";
import { english } from "../src/i18n/texts.js";

const task = (id: string, title: string, status = "pending") => ({ id, title, status });

test("the changes of a plan's revision are listed", () => {
  const before = [task("1", "Load", "in_progress"), task("2", "Explain"), task("3", "Draft"), task("5", "Send")];
  const after = [task("1", "Load", "done"), task("4", "Check"), task("3", "Draft it"), task("2", "Explain")];
  expect(diffPlans(before, after).map((d) => `${d.kind} ${d.title}`)).toEqual(["status Load", "added Check", "renamed Draft it", "removed Send", "moved Draft it", "moved Explain"]);
  expect(diffPlans(after, after)).toEqual([]);
});

test("fields that a dialect does not contain are listed", () => {
  const payload = { call_id: "c1", tool: "search", params: { q: 'say "hi"', n: 3 }, empty: "", none: null };
  expect(lostFields(payload, [{ name: "Tool: search", body: 'Input: {"q":"say \\"hi\\"","n":3}' }])).toEqual(["call_id"]);
  expect(lostFields(payload, [])).toEqual(["call_id", "tool", "params.q", "params.n"]);
});

test("a chart that loads data is detected", () => {
  const spec = { $schema: "https://vega.github.io/schema/vega-lite/v6.json", data: { values: [{ url: "https://x" }] }, mark: "bar" };
  expect(readSpec(spec)).toBe(spec);
  expect(readSpec({ spec })).toBe(spec);
  expect(readSpec({ type: "bar", x: [1] })).toBeUndefined();
  expect(fetches(spec)).toBe(false); // values may hold anything
  expect(fetches({ ...spec, data: { url: "https://evil.example/x.csv" } })).toBe(true);
  expect(fetches({ layer: [{ data: { url: "/x.json" } }] })).toBe(true);
});

/** Every key with its kind, one path each. */
function shape(v: unknown, path = ""): string[] {
  if (v === null || typeof v !== "object") return [`${path}: ${typeof v}`];
  return Object.entries(v).flatMap(([k, x]) => shape(x, `${path}.${k}`));
}

test("both languages have the same entries", () => {
  expect(shape(german).sort()).toEqual(shape(english).sort());
  expect(german.bytes(1500)).toBe("1,5\u00a0kB");
  expect(english.bytes(1500)).toBe("1.5\u00a0kB");
  expect(german.questionsWaiting(1)).toBe("1 Frage wartet");
  expect(german.tools(2)).toBe("2 Werkzeugaufrufe");
  expect(["high", "Critical", "unknown"].map(german.risk)).toEqual(["Risiko: hoch", "Risiko: kritisch", "Risiko: unknown"]);
});

test("a duration is rounded before it is divided into units", () => {
  const took = [999.4, 999.6, 9949, 9951, 59_499, 59_600, 119_600, 3_599_400, 3_599_600, 7_199_999, 90_000_000].map(english.took);
  expect(took).toEqual(["999 ms", "1.0 s", "9.9 s", "10 s", "59 s", "1 min 0 s", "2 min 0 s", "59 min 59 s", "1 h 0 min", "2 h 0 min", "25 h 0 min"]);
});

test("the inspector's log: pages, live events, a pause, filters", async () => {
  const event = (sequence: number, type = "agent.text"): Event => ({ session_id: "s", sequence, timestamp: "2026-01-01T00:00:00Z", type, id: `e-${sequence}`, payload: { text: `Text ${sequence}` }, actor: { kind: "agent", id: "a" } }) as unknown as Event;
  const all = Array.from({ length: 2500 }, (_, i) => event(i + 1, i % 5 === 0 ? "agent.tool_call" : "agent.text"));
  let live: (e: Event) => void = () => {};
  const client = {
    events: async (_: string, q: { before?: number; limit: number }) => {
      const to = q.before ? Math.min(all.length, q.before - 1) : all.length;
      const from = Math.max(0, to - q.limit);
      return { events: all.slice(from, to).reverse(), more: from > 0 };
    },
  } as unknown as ParleyClient;
  const store = { id: "s", onEvent: (f: (e: Event) => void) => ((live = f), () => {}) } as unknown as SessionStore;
  const log = new EventLog(client, store);
  const close = log.open(undefined);
  await log.everything();
  await new Promise((done) => setTimeout(done));
  await log.everything();
  const none = { words: "", type: "", workstream: "" };
  expect(log.all.map((e) => e.sequence)).toEqual(all.map((e) => e.sequence));
  expect(log.more).toBe(false);
  live(event(2501));
  live(event(2501)); // twice
  expect(log.all.length).toBe(2501);
  log.pause(true);
  live(event(2502));
  expect([log.all.length, log.held]).toEqual([2501, 1]);
  log.pause(false);
  expect(log.all.length).toBe(2502);
  expect(log.filter({ ...none, words: "TEXT 2502" }).map((e) => e.sequence)).toEqual([2502]);
  expect(log.filter({ ...none, type: "agent.tool_call" }).length).toBe(500);
  expect(log.filter({ ...none, workstream: "main" }).length).toBe(2502);
  expect(log.filter(none)).toBe(log.filter({ ...none })); // the same list until something changes
  expect(log.find(1234)?.sequence).toBe(1234);
  expect(log.find(9999)).toBeUndefined();
  close();
});
