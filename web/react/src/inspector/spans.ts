import { addUsage, isKnown, type Event, type Usage } from "@parley-hq/client";

/*
 * The turns for the inspector: the token usage of each, and its spans. Pure functions of the events.
 */

/** The event types that define turns. */
export const tokenTypes = ["turn.started", "turn.completed", "agent.usage"];
export const traceTypes = [
  "turn.started", "turn.completed", "agent.trace", "agent.tool_call", "agent.tool_result", "agent.tool_error", "agent.thinking", "agent.text",
  "agent.input_request", "agent.approval_request", "agent.permission_request", "user.input_response", "user.approval_response",
  "user.permission_response", "prompt.closed", "workstream.launched", "workstream.completed", "workstream.failed", "workstream.timeout", "workstream.canceled",
];

/** One turn of the agent, or the usage outside of turns. */
export interface TurnRow {
  /** "" for usage outside of turns. */
  id: string;
  /** The sequence of its first event. */
  seq: number;
  at: number;
  ended: number | undefined;
  workstream: string;
  outcome: string | undefined;
  models: string[];
  usage: Usage;
  traces: string[];
}

/** The turns in a list of events, in the order of their start. */
export function turnsOf(events: readonly Event[]): TurnRow[] {
  const rows = new Map<string, TurnRow>();
  for (const e of events) {
    if (!isKnown(e)) continue;
    const id = e.turn_id ?? "";
    if (!id && e.type !== "agent.usage" && e.type !== "agent.trace") continue;
    let row = rows.get(id);
    if (!row) rows.set(id, (row = { id, seq: e.sequence, at: Date.parse(e.timestamp), ended: undefined, workstream: e.workstream_id ?? "", outcome: undefined, models: [], usage: {}, traces: [] }));
    switch (e.type) {
      case "agent.usage":
        row.usage = addUsage(row.usage, e.payload);
        if (e.payload.model && !row.models.includes(e.payload.model)) row.models.push(e.payload.model);
        break;
      case "agent.trace":
        if (!row.traces.includes(e.payload.trace_id)) row.traces.push(e.payload.trace_id);
        break;
      case "turn.completed":
        row.ended = Date.parse(e.timestamp);
        row.outcome = e.payload.outcome;
        break;
    }
  }
  return [...rows.values()];
}

/** A span of time; a moment when from and to are equal. */
export interface Span {
  key: string;
  seq: number;
  kind: "turn" | "tool" | "prompt" | "work" | "thinking" | "text";
  name: string;
  from: number;
  /** Absent while it runs. */
  to: number | undefined;
  bad: boolean;
}

/** The spans of a turn. Only the end of a text is known: its start is taken to be the end of the previous span. */
export function spansOf(events: readonly Event[], turn: TurnRow): Span[] {
  const spans: Span[] = [];
  const open = new Map<string, Span>();
  let before = turn.at;
  const begin = (key: string, span: Omit<Span, "key" | "to">) => {
    const s: Span = { ...span, key, to: undefined };
    spans.push(s);
    open.set(key, s);
  };
  const end = (key: string, at: number, bad = false) => {
    const s = open.get(key);
    if (!s) return;
    s.to = at;
    s.bad = bad;
    open.delete(key);
  };
  begin("turn", { seq: turn.seq, kind: "turn", name: turn.workstream, from: turn.at, bad: false });
  for (const e of events) {
    // A workstream that was launched here ends in its own turns.
    if (!isKnown(e) || (e.turn_id !== turn.id && !e.type.startsWith("workstream.") && !e.type.startsWith("user.") && e.type !== "prompt.closed")) continue;
    const at = Date.parse(e.timestamp);
    const seq = e.sequence;
    switch (e.type) {
      case "agent.tool_call":
        begin(`tool ${e.payload.call_id}`, { seq, kind: "tool", name: e.payload.tool ?? "", from: at, bad: false });
        break;
      case "agent.tool_result":
        end(`tool ${e.payload.call_id}`, at);
        break;
      case "agent.tool_error":
        end(`tool ${e.payload.call_id}`, at, true);
        break;
      case "agent.input_request":
      case "agent.approval_request":
      case "agent.permission_request":
        begin(`prompt ${e.payload.request_id}`, { seq, kind: "prompt", name: e.type.slice(6).replace("_request", ""), from: at, bad: false });
        break;
      case "user.input_response":
      case "user.approval_response":
      case "user.permission_response":
        end(`prompt ${e.payload.request_id}`, at);
        break;
      case "prompt.closed":
        end(`prompt ${e.payload.request_id}`, at, true);
        break;
      case "workstream.launched":
        if (e.turn_id === turn.id) begin(`work ${e.payload.id}`, { seq, kind: "work", name: e.payload.name || e.payload.id, from: at, bad: false });
        break;
      case "workstream.completed":
        end(`work ${e.payload.id}`, at);
        break;
      case "workstream.failed":
      case "workstream.timeout":
      case "workstream.canceled":
        end(`work ${e.payload.id}`, at, true);
        break;
      case "agent.thinking":
      case "agent.text":
        spans.push({ key: `text ${seq}`, seq, kind: e.type === "agent.text" ? "text" : "thinking", name: "", from: before, to: at, bad: false });
        break;
      case "turn.completed":
        end("turn", at, e.payload.outcome !== "done");
        break;
    }
    if (e.turn_id === turn.id) before = at;
  }
  // When the turn has ended, open spans end with it, except workstreams.
  if (turn.ended !== undefined) for (const [key, s] of open) if (!key.startsWith("work ")) s.to ??= turn.ended;
  return spans;
}
