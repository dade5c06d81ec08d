import { expect, test } from "vitest";
import { Transcript, type Event, type SessionStore } from "@parley-hq/client";
import { firstAfter } from "../src/entries/itemat.js";
import { Rows } from "../src/entries/rows.js";
import { thoughtFor } from "../src/entries/thinking.js";

/** A session whose events are folded as a store does it. */
function session() {
  const t = new Transcript();
  let sequence = 0;
  const order = () => [...t.order, ...t.open.map((it) => it.id)];
  const store = { getItem: (id: string) => t.item(id), getOrder: order, getState: () => t.state } as unknown as SessionStore;
  const rows = new Rows(store);
  const view = { workstream: undefined, filter: undefined, me: "u" };
  const shown = () => rows.make(order(), view).map((r) => (r.kind === "item" ? t.item(r.id) : undefined));
  return {
    event(type: string, payload: object, turn_id?: string): number {
      t.apply({ session_id: "s", sequence: ++sequence, timestamp: "2026-01-01T00:00:00.000000Z", actor: { kind: "user", id: "u" }, type, payload, ...(turn_id ? { turn_id } : {}) } as unknown as Event);
      return sequence;
    },
    /** The text of the first message that was taken after a sequence; with more, older items are not loaded. */
    first(seq: number, more = false, from = 0): string | undefined {
      const id = firstAfter({ getItem: store.getItem, getOrder: () => order().slice(from), getOlder: () => ({ more, loading: false }) }, seq);
      const it = id === undefined ? undefined : t.item(id);
      return it?.kind === "message" ? it.message.text : undefined;
    },
    write: (block: string, text: string, turn_id: string) => t.preview({ block, offset: 0, text, kind: "text", turn_id } as never),
    /** The notices of the rows. */
    notices(): string[] {
      return shown().flatMap((it) => (it?.kind === "notice" ? [`${it.notice.code}${it.notice.attempt ? ` ${it.notice.attempt}` : ""}`] : []));
    },
    /** The kinds of the rows that are no messages. */
    kinds: (): string[] => shown().flatMap((it) => (it && it.kind !== "message" ? [it.kind] : [])),
    /** The paths of the files of the rows. */
    files: (): string[] => shown().flatMap((it) => (it?.kind === "file" ? [it.file.path] : [])),
    /** The texts of the rows; a reader looks at the first `kept` ones. */
    texts(kept = 0): string[] {
      return rows.make(order(), view, kept).flatMap((r) => {
        const it = r.kind === "tools" || r.kind === "activity" ? undefined : t.item(r.id);
        return it?.kind === "message" ? [it.message.text] : it?.kind === "text" ? [it.text.text] : [];
      });
    },
  };
}

test("a message that was queued stands where a turn took it", () => {
  const s = session();
  s.event("session.started", { agent: "demo" });
  const first = s.event("user.message", { text: "A" });
  s.event("turn.started", { turn_id: "t1", trigger: first }, "t1");
  s.write("b1", "answer to", "t1");
  const second = s.event("user.message", { text: "B" });
  s.event("user.message", { text: "C" });
  expect(s.texts()).toEqual(["A", "answer to", "B", "C"]);
  s.event("agent.text", { block: "b1", text: "answer to A" }, "t1");
  s.event("turn.completed", { turn_id: "t1", outcome: "done" }, "t1");
  s.event("turn.started", { turn_id: "t2", trigger: second }, "t2");
  s.event("agent.text", { text: "answer to B" }, "t2");
  expect(s.texts()).toEqual(["A", "answer to A", "B", "answer to B", "C"]);
});

test("an answer continues above the messages that wait for it, also while a reader looks at them", () => {
  const s = session();
  s.event("session.started", { agent: "demo" });
  const first = s.event("user.message", { text: "A" });
  s.event("turn.started", { turn_id: "t1", trigger: first }, "t1");
  s.event("agent.text", { text: "answer to A" }, "t1");
  const second = s.event("user.message", { text: "B" });
  expect(s.texts()).toEqual(["A", "answer to A", "B"]);
  s.event("agent.text", { text: "more of it" }, "t1");
  expect(s.texts(4)).toEqual(["A", "answer to A", "more of it", "B"]);
  s.event("agent.text", { text: "the end" }, "t1");
  s.event("turn.completed", { turn_id: "t1", outcome: "done" }, "t1");
  s.event("turn.started", { turn_id: "t2", trigger: second }, "t2");
  s.event("agent.text", { text: "answer to B" }, "t2");
  expect(s.texts(5)).toEqual(["A", "answer to A", "more of it", "the end", "B", "answer to B"]);
});

test("a turn that was resumed several times has one row for it, the last", () => {
  const s = session();
  const a = s.event("user.message", { text: "A" });
  s.event("turn.started", { turn_id: "t1", trigger: a }, "t1");
  for (const attempt of [2, 3, 4]) s.event("turn.resumed", { turn_id: "t1", attempt, reason: "the server was restarted" }, "t1");
  expect(s.notices()).toEqual(["resumed 4"]);
});

test("a stop and the files of a message are shown once", () => {
  const s = session();
  const file = (path: string) => s.event("file.uploaded", { path, name: "n" });
  file("files/0123456789/notes.txt"); // attached; its message is not sent yet
  file("reports/own.csv");
  expect(s.files()).toEqual(["reports/own.csv"]);
  const a = s.event("user.message", { text: "A", content: [{ type: "file", path: "reports/own.csv" }] });
  expect(s.files()).toEqual([]);
  s.event("turn.started", { turn_id: "t1", trigger: a }, "t1");
  s.event("turn.stop_requested", { turn_id: "t1", by: { kind: "user", id: "u" } }, "t1");
  expect(s.notices()).toEqual([]);
  s.event("turn.completed", { turn_id: "t1", outcome: "stopped" }, "t1");
  expect(s.notices()).toEqual(["stopped"]);
});

test("withdrawn messages keep their order below the answer that they waited for", () => {
  const s = session();
  s.event("session.started", { agent: "demo" });
  const a = s.event("user.message", { text: "A" });
  s.event("turn.started", { turn_id: "t1", trigger: a }, "t1");
  s.write("b1", "answer to", "t1");
  const b = s.event("user.message", { text: "B" });
  const c = s.event("user.message", { text: "C" });
  const d = s.event("user.message", { text: "D" });
  s.event("user.message_withdrawn", { sequence: c });
  s.event("user.message_withdrawn", { sequence: b });
  expect(s.texts()).toEqual(["A", "answer to", "B", "C", "D"]);
  s.event("agent.text", { block: "b1", text: "answer to A" }, "t1");
  s.event("turn.completed", { turn_id: "t1", outcome: "done" }, "t1");
  s.event("turn.started", { turn_id: "t2", trigger: d }, "t2");
  s.event("agent.text", { text: "answer to D" }, "t2");
  expect(s.texts()).toEqual(["A", "answer to A", "B", "C", "D", "answer to D"]);
});

test("the first message after a sequence is the first that a turn took after it, if the items before it are loaded", () => {
  const s = session();
  s.event("session.started", { agent: "demo" });
  const a = s.event("user.message", { text: "A" });
  const began = s.event("turn.started", { turn_id: "t1", trigger: a }, "t1");
  const b = s.event("user.message", { text: "B" });
  const c = s.event("user.message", { text: "C" });
  s.event("user.message_withdrawn", { sequence: b });
  const ended = s.event("turn.completed", { turn_id: "t1", outcome: "done" }, "t1");
  s.event("turn.started", { turn_id: "t2", trigger: c }, "t2");
  expect([1, began, ended, ended + 1].map((seq) => s.first(seq))).toEqual(["A", "C", "C", undefined]);
  expect(s.first(1, true, 1)).toBe(undefined);
  expect(s.first(ended, true, 1)).toBe("C");
});

test("the failure of a turn is one row; an error with another text is one of its own", () => {
  const s = session();
  s.event("session.started", { agent: "demo" });
  for (const [turn, error] of [["t1", "The endpoint refused the key."], ["t2", "The first attempt was refused."]] as const) {
    const trigger = s.event("user.message", { text: "hello" });
    s.event("turn.started", { turn_id: turn, trigger }, turn);
    s.event("agent.error", { message: error }, turn);
    s.event("turn.completed", { turn_id: turn, outcome: "failed", error: "The endpoint refused the key." }, turn);
  }
  expect(s.kinds()).toEqual(["notice", "error", "notice"]);
});

test("a thought took the time since what precedes it on its line of work", () => {
  const at = (s: number) => `2026-01-01T00:00:${String(s).padStart(2, "0")}Z`;
  const items = [
    { id: "m", kind: "message", seq: 2, at: at(1), message: { text: "hello", state: "taken" } },
    { id: "t", kind: "tool", seq: 3, at: at(2), tool: { status: "ok", ended_at: at(10) } },
    { id: "w", kind: "text", seq: 4, at: at(14), workstream_id: "w1", text: { text: "elsewhere" } },
    { id: "b", kind: "thinking", seq: 6, at: at(17), text: { text: "so" } },
    { id: "l", kind: "tool", seq: 7, at: at(18), tool: { status: "ok", ended_at: at(19) } },
  ];
  const of = (n: number) => ({ getOrder: () => items.slice(n).map((it) => it.id), getItem: (id: string) => items.find((it) => it.id === id) }) as never;
  expect(thoughtFor(of(0), items[3] as never)).toBe(7000);
  expect(thoughtFor(of(3), items[3] as never)).toBe(0); // what precedes it is not loaded
});
