import { headingOf } from "./heading.js";
import { shapes, type Actor, type AgentPlan, type KnownEvent, type Payloads, type Prompt, type Session, type TurnView, type Usage, type View, type Workstream } from "./types.gen.js";

/*
 * The state of a session: agent, turns, queue, prompts, plan, workstreams. It mirrors State of the Go package chat. A changed
 * value is a new object.
 */

/** An event and its decoded payload. */
export type Decoded = { [K in keyof Payloads]: { type: K; body: Payloads[K]; event: KnownEvent } }[keyof Payloads];

export type Question = Extract<Decoded, { type: "agent.input_request" | "agent.approval_request" | "agent.permission_request" }>;

interface Waiting {
  seq: number;
  line: string;
  /** It was delivered to the running turn, which has not accepted it yet. */
  steered: boolean;
}

const noAgent = "none";

export class State {
  #session: Session;
  #seen: { last: number; updated_at: string } | undefined; // newer than the record
  #turns: TurnView[] = []; // the turn outside of workstreams first
  #queue: Waiting[] = []; // by workstream; messages that were delivered to a turn come first
  #queued: number[] | undefined; // the same for the view
  #prompts: Prompt[] = [];
  #plan: AgentPlan | undefined;
  #usage: Usage = {};
  #workstreams: Workstream[] = [];
  #indexes = new Map<string, number>(); // indexes by workstream id
  #shown: Workstream[] | undefined; // a copy for the view, made on demand because the list may be long
  #view: View | undefined;

  constructor(session?: Session, view?: View, lineOf: (seq: number) => string = () => "") {
    this.#session = session ?? ({ session_id: "", agent: "", status: "idle", open_prompts: 0, last: 0 } as unknown as Session);
    if (!view) return;
    this.#view = view;
    this.#turns = view.turns;
    this.#prompts = view.prompts;
    this.#plan = view.plan;
    this.#usage = view.usage;
    this.#shown = view.workstreams;
    this.#workstreams = [...view.workstreams];
    this.#workstreams.forEach((w, i) => this.#indexes.has(w.id) || this.#indexes.set(w.id, i));
    this.#queued = view.queued;
    // A view contains neither the workstream of a queued message nor whether it was
    // delivered to the turn. The item has the first; the second follows from it.
    this.#queue = view.queued.map((seq) => {
      const line = lineOf(seq);
      const turn = this.#on(line);
      return { seq, line, steered: view.policy === "steer" && turn !== undefined && !turn.stopping };
    });
  }

  /** The session's record. */
  get session(): Session {
    if (this.#seen) this.#session = { ...this.#session, ...this.#seen };
    this.#seen = undefined;
    return this.#session;
  }

  /** The view; the same object when nothing changed. */
  get view(): View {
    const s = this.#session;
    this.#shown ??= [...this.#workstreams];
    return (this.#view ??= withoutEmpty<View>(
      {
        title: s.title, agent: s.agent, policy: s.policy, status: s.status, error: s.error,
        turns: this.#turns, queued: (this.#queued ??= this.#queue.map((q) => q.seq)), prompts: this.#prompts, plan: this.#plan, workstreams: this.#shown, usage: this.#usage,
      },
      "status",
    ));
  }

  /** Reports whether a message is queued. */
  waits(seq: number): boolean {
    return this.#queue.some((q) => q.seq === seq);
  }

  workstream(id: string): Workstream | undefined {
    return this.#workstreams[this.#indexes.get(id) ?? -1];
  }

  /** Folds one event; u is undefined when its type is not known. It returns whether the view changed. */
  apply(seq: number, at: string, u: Decoded | undefined): boolean {
    this.#seen = { last: seq, updated_at: at };
    if (!u) return false;
    if (u.type === "session.completed") this.#record({ status: "completed", error: "" });
    else if (u.type === "session.failed") this.#record({ status: "failed", error: u.body.error_message ?? "" });
    else {
      this.#fold(u);
      this.#updateStatus();
    }
    return this.#view === undefined;
  }

  #fold(u: Decoded): void {
    const e = u.event;
    const line = e.workstream_id ?? "";
    switch (u.type) {
      case "session.started":
        if (e.sequence === 1) this.#begin(e, u.body);
        return;
      case "session.updated": {
        const { detached, ...change } = u.body;
        return this.#record(detached ? { ...change, parent: "", grant_id: "", served_by: "" } : change);
      }
      case "user.message":
        if (!this.#session.title && !this.#session.heading) this.#record({ heading: headingOf(u.body.text) });
        return this.#enqueue(e.sequence, line);
      case "user.message_withdrawn":
        return this.#unqueue((q) => q.seq === u.body.sequence);
      case "turn.started": {
        const { turn_id, trigger, agent } = u.body;
        this.#unqueue((q) => q.seq === trigger && q.line === line && !q.steered);
        const turn = withoutEmpty<TurnView>(
          { turn_id, workstream_id: line, agent, trigger, attempt: 1, started_at: e.timestamp, usage: {} },
          "turn_id",
          "trigger",
        );
        this.#clock(line, e.timestamp, true);
        const others = this.#turns.filter((t) => lineOf(t) !== line);
        return this.#set((this.#turns = [...others, turn].sort((a, b) => compare(lineOf(a), lineOf(b)))));
      }
      case "turn.resumed":
        return this.#turn(u.body.turn_id, () => ({ attempt: u.body.attempt }));
      case "turn.input":
        return this.#unqueue((q) => q.steered && u.body.sequences.includes(q.seq));
      case "turn.stop_requested":
        return this.#turn(u.body.turn_id, () => ({ stopping: true }));
      case "turn.completed":
        if (this.#on(line)?.turn_id !== u.body.turn_id) return;
        // Delivered messages are already first in the queue.
        for (const q of this.#queue) if (q.line === line) q.steered = false;
        this.#clock(line, e.timestamp, false);
        return this.#set((this.#turns = this.#turns.filter((t) => lineOf(t) !== line)));
      case "agent.plan":
        return line ? undefined : this.#set((this.#plan = u.body)); // the plan of a workstream is not the session's plan
      case "agent.usage":
        this.#turn(e.turn_id, (t) => ({ usage: addUsage(t.usage, u.body) }));
        return this.#set((this.#usage = addUsage(this.#usage, u.body)));
      case "agent.input_request":
        return u.body.input_type === "notification" ? undefined : this.#ask(e, u);
      case "agent.approval_request":
      case "agent.permission_request":
        return this.#ask(e, u);
      case "user.input_response":
      case "user.approval_response":
      case "user.permission_response":
      case "prompt.closed": {
        const open = this.#prompts.filter((p) => p.request_id !== u.body.request_id);
        if (open.length < this.#prompts.length) this.#set((this.#prompts = open));
        return;
      }
      case "workstream.launched":
        if (!this.#indexes.has(u.body.id)) this.#indexes.set(u.body.id, this.#workstreams.length);
        this.#workstreams.push(launched(e, u.body));
        if (u.body.agent && u.body.agent !== this.#session.agent && !this.#session.agents?.includes(u.body.agent))
          this.#record({ agents: [...(this.#session.agents ?? []), u.body.agent] });
        return this.#set((this.#shown = undefined));
      default: {
        const w = this.workstream(workstreamOf(u));
        if (!w) return;
        this.#workstreams[this.#indexes.get(w.id) ?? 0] = progressed(w, u);
        this.#set((this.#shown = undefined));
      }
    }
  }

  /** Starts and stops the working time of an interactive workstream, which counts only while it works. */
  #clock(line: string, at: string, works: boolean): void {
    const w = line ? this.workstream(line) : undefined;
    if (!w?.interactive || (!works && !w.working_since)) return;
    const passed = works ? 0 : Date.parse(at) - Date.parse(w.working_since ?? at);
    const phase = works && w.phase === "done" ? "planning" : w.phase; // done refers to the previous message
    this.#workstreams[this.#indexes.get(line) ?? 0] = trim({ ...w, phase, working_since: works ? at : undefined, worked_ms: (w.worked_ms ?? 0) + passed });
    this.#set((this.#shown = undefined));
  }

  /** Invalidates the view. */
  #set(_: unknown): void {
    this.#view = undefined;
  }

  /** Updates the session's record; undefined fields are not changed. */
  #record(change: Partial<Session>): void {
    const next: Session = { ...this.#session };
    for (const [k, v] of Object.entries(change)) if (v !== undefined) Object.assign(next, { [k]: v });
    this.#set((this.#session = record(next)));
  }

  #begin(e: KnownEvent, b: Payloads["session.started"]): void {
    const at = e.timestamp;
    this.#set(
      (this.#session = record({
        ...b, session_id: e.session_id, workspace: b.workspace || "default", owner: e.actor as Actor, agent: b.agent ?? "",
        policy: b.policy || "queue", status: "idle", open_prompts: 0, created_at: at, updated_at: at, last: 1,
      })),
    );
  }

  /** Inserts a message into the queue. */
  #enqueue(seq: number, line: string): void {
    const { status, agent, policy } = this.#session;
    if (status === "completed" || status === "failed") this.#record({ status: "idle", error: "" });
    if (((line && this.workstream(line)?.agent) || agent) === noAgent) return;
    const turn = this.#on(line);
    const place = (q: Waiting) => `${q.line} ${q.steered ? 0 : 1}`;
    const q = { seq, line, steered: turn !== undefined && !turn.stopping && policy === "steer" };
    const last = this.#queue.at(-1);
    this.#queue.push(q);
    if (last && place(last) > place(q)) this.#queue.sort((a, b) => compare(place(a), place(b)));
    this.#set((this.#queued = undefined));
  }

  #unqueue(gone: (q: Waiting) => boolean): void {
    const left = this.#queue.filter((q) => !gone(q));
    if (left.length === this.#queue.length) return;
    this.#queue = left;
    this.#set((this.#queued = undefined));
  }

  #on(line: string): TurnView | undefined {
    return this.#turns.find((t) => lineOf(t) === line);
  }

  #turn(id: string | undefined, change: (t: TurnView) => Partial<TurnView>): void {
    if (id && this.#turns.some((t) => t.turn_id === id))
      this.#set((this.#turns = this.#turns.map((t) => (t.turn_id === id ? { ...t, ...change(t) } : t))));
  }

  #ask(e: KnownEvent, u: Question): void {
    const { sequence, turn_id, workstream_id, actor, timestamp } = e;
    const prompt = withoutEmpty<Prompt>({ ...asked(u), sequence, turn_id, workstream_id, agent: actor?.id, asked_at: timestamp }, "request_id");
    this.#set((this.#prompts = [...this.#prompts, prompt]));
  }

  /** Derives the status. */
  #updateStatus(): void {
    const { status: was, open_prompts } = this.#session;
    const open = this.#prompts.length;
    const status = was === "completed" || was === "failed" ? was : open > 0 ? "waiting" : this.#turns.length > 0 ? "running" : "idle";
    if (status !== was || open !== open_prompts) this.#record({ status, open_prompts: open });
  }
}

const lineOf = (t: TurnView): string => t.workstream_id ?? "";

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** The sum of two counts, without those that are zero. */
export function addUsage(a: Usage, b: Usage): Usage {
  const out: Usage = {};
  for (const k of (shapes.Usage ?? "").split(" ") as (keyof Usage)[]) {
    const n = (a[k] ?? 0) + (b[k] ?? 0);
    if (n) out[k] = n;
  }
  return out;
}

/** Drops empty fields, as the server's JSON does. */
export function withoutEmpty<T extends object>(o: { [K in keyof T]: T[K] | undefined }, ...keep: (keyof T)[]): T {
  // A new object: deleting fields would make later copies slow.
  const out: Partial<T> = {};
  for (const k in o) {
    const v: unknown = o[k];
    if (v || v === null || (v !== undefined && keep.includes(k))) out[k] = v as T[typeof k];
  }
  return out as T;
}

/** A session's record without its empty fields. */
function record(s: { [K in keyof Session]: Session[K] | undefined }): Session {
  const settings = Object.keys(s.settings ?? {}).length > 0 ? s.settings : undefined;
  return withoutEmpty<Session>({ ...s, settings }, "agent", "open_prompts");
}

/** What a prompt and its item have in common: the request is the field input, approval or permission. */
export const asked = ({ type, body }: Question) => ({ request_id: body.request_id ?? "", deadline: body.deadline, [type.slice(6, -8)]: body });

/** The workstream that an event is about, or "". */
export function workstreamOf(u: Decoded): string {
  return u.type.startsWith("workstream.") ? (u.body as { id: string }).id : "";
}

export function launched(e: KnownEvent, b: Payloads["workstream.launched"]): Workstream {
  return trim({ ...b, state: "running", sequence: e.sequence, parent: e.workstream_id, phase: "planning", launched_at: e.timestamp });
}

/** The workstream after one of its events. */
export function progressed(w: Workstream, u: Decoded): Workstream {
  const at = u.event.timestamp;
  switch (u.type) {
    case "workstream.progress": {
      const b = u.body;
      return trim({
        ...w, phase: b.phase || w.phase, tool: b.phase ? b.tool : w.tool, iteration: Math.max(b.iteration ?? 0, w.iteration ?? 0),
        message: b.message || w.message, summary: b.summary || w.summary, share: b.share, progress_at: at,
      });
    }
    case "workstream.warning":
      return trim({ ...w, warned: u.body.share });
    case "workstream.steered": {
      const c = u.body.command;
      return trim({ ...w, paused: c === "pause_requested" || (w.paused && c !== "resume_requested"), wrapping_up: w.wrapping_up || c === "wrap_up" });
    }
    case "workstream.canceling":
      return trim({ ...w, state: "canceling", cancel_by: u.body.deadline, reason: u.body.reason });
    case "workstream.completed":
    case "workstream.failed":
    case "workstream.timeout":
    case "workstream.canceled": {
      const state = u.type.slice(11);
      const b: { summary?: string; error?: string; reason?: string; files?: string[] } = u.body;
      const end = { ...w, state, ended_at: at, files: b.files, cancel_by: undefined, error: b.error, reason: b.reason || w.reason };
      if (state === "completed") return trim({ ...end, summary: b.summary, phase: "done", tool: undefined });
      return trim(state === "timeout" ? { ...end, summary: b.summary } : end);
    }
  }
  return w;
}

export function trim(w: { [K in keyof Workstream]: Workstream[K] | undefined }): Workstream {
  return withoutEmpty<Workstream>(w, "id", "task", "state", "context", "merge_artifacts");
}
