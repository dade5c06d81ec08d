import { expect, test } from "vitest";
import { Transcript, type Event, type SessionStore } from "@parley-hq/client";
import { Rows } from "../src/entries/rows.js";

/** A session whose events are folded as a store does it. */
function session() {
  const t = new Transcript();
  let sequence = 0;
  const order = () => [...t.order, ...t.open.map((it) => it.id)];
  const store = { getItem: (id: string) => t.item(id), getOrder: order, getState: () => t.state } as unknown as SessionStore;
  const rows = new Rows(store);
  return {
    event(type: string, payload: object, turn_id?: string): number {
      t.apply({ session_id: "s", sequence: ++sequence, timestamp: "2026-01-01T00:00:00.000000Z", actor: { kind: "user", id: "u" }, type, payload, ...(turn_id ? { turn_id } : {}) } as unknown as Event);
      return sequence;
    },
    write: (block: string, text: string, turn_id: string) => t.preview({ block, offset: 0, text, kind: "text", turn_id } as never),
    /** The texts of the rows. */
    texts(): string[] {
      return rows.make(order(), { workstream: undefined, filter: undefined, me: "u" }).flatMap((r) => {
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
