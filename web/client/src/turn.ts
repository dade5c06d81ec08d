import { ParleyError } from "./error.js";
import { payloadOf } from "./payload.js";
import type { Socket } from "./link.js";
import type {
  AgentApprovalRequest, AgentArtifact, AgentInputRequest, AgentPermissionRequest, AgentPlan, AgentUsage, Assignment, Decision, Event, EventOf,
  KnownType, Payloads, UserInputResponse, UserMessage, UserPermissionResponse, WorkstreamLaunched,
} from "./types.gen.js";
import { afterBytes, byteLength } from "./utf8.js";
import { isOver, newsText, type Launch, type Progress, type WorkstreamStatus } from "./workstream.js";

/** Somebody stopped the turn. */
export class TurnStopped extends Error {
  constructor() {
    super("somebody stopped the turn");
  }
}

/** The turn was given to another worker or has ended. */
export class TurnLost extends Error {
  constructor() {
    super("the turn was given to another worker or has ended");
  }
}

/** The server's word on a frame. */
export interface Reply {
  events?: Event[];
  workstreams?: WorkstreamStatus[];
}

/** What a turn needs of its worker. */
export interface Desk {
  call(turn: WorkTurn, frame: () => object): Promise<Reply>;
  place(turn: WorkTurn): Promise<Socket>;
}

/** The size at which a block is closed and continued in a new one, in bytes. */
const maxBlock = 512 << 10;

/** The same for what its text takes as JSON, so that the event fits. */
const maxJSON = 700 << 10;

const answers: readonly string[] = ["user.input_response", "user.approval_response", "user.permission_response", "prompt.closed"];

/**
 * A worker's part in a conversation: the answer to one trigger. Its verbs are steps, numbered in the order of their use. A
 * worker that takes up a turn which another one began uses the same verbs again from the start: steps that are in the log
 * give what they gave then and are not done again. So their order must be the same in every attempt.
 */
export class WorkTurn {
  readonly session: string;
  readonly id: string;
  readonly agent: string;
  readonly workstream: string | undefined;
  /** What is answered. */
  readonly trigger: Event;
  attempt = 1;
  readonly #desk: Desk;
  readonly #stop = new AbortController();
  #steps = 0;
  readonly #said = new Map<string, Event>(); // by client id: what is in the log already
  readonly #answers = new Map<string, Event>(); // by request
  #heard: UserMessage[] = [];
  #told: Event[] = [];
  readonly #seen = new Set<number>();
  readonly #launch: WorkstreamLaunched | undefined;
  #paused = false;
  #news = new Set<() => void>();
  #open = new Map<string, string>(); // blocks as far as they were shown
  /** How much of a block the server has, as far as is known. */
  shown = new Map<string, { bytes: number; units: number }>();

  constructor(desk: Desk, a: Assignment) {
    this.#desk = desk;
    this.session = a.session_id;
    this.id = a.turn_id;
    this.agent = a.agent;
    this.workstream = a.workstream_id;
    this.trigger = a.trigger;
    this.#launch = a.launch;
    this.again(a);
  }

  /** Ends when the turn is stopped or lost, or the worker ends; the reason says which. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** What the trigger says. */
  get text(): string {
    const e = this.trigger;
    if (e.type === "workstream.launched") return e.payload.task;
    if (e.type === "workstream.message") return e.payload.text;
    if (e.type !== "user.message") return newsText(e.type, e.payload as object);
    const parts = (e.payload.content ?? []).flatMap((p) => (p.type === "text" && p.text ? [p.text] : []));
    return e.payload.text || parts.join("\n");
  }

  /** What the line of the turn was launched for; undefined on the main line. */
  get launched(): WorkstreamLaunched | undefined {
    return this.#launch;
  }

  /** Takes what came in about workstreams since it was last called: directives and follow-ups, and what became of children. */
  news(): Event[] {
    return this.#told.splice(0);
  }

  /** Takes the user messages that came in since it was last called. */
  heard(): UserMessage[] {
    return this.#heard.splice(0);
  }

  /** Says a whole text at once, as the turn's answer. */
  async say(text: string): Promise<void> {
    await this.append("agent.text", { text, final: true });
  }

  async status(message: string, phase?: string): Promise<void> {
    await this.append("agent.status", phase ? { message, phase } : { message });
  }

  /** Shows the whole plan anew. */
  async plan(plan: AgentPlan): Promise<void> {
    await this.append("agent.plan", plan);
  }

  async usage(usage: AgentUsage): Promise<void> {
    await this.append("agent.usage", usage);
  }

  /** Publishes something the agent made; large files are uploaded first. */
  async artifact(artifact: AgentArtifact): Promise<void> {
    await this.append("agent.artifact", artifact);
  }

  /** Puts any event into the log as the next step. */
  append<T extends KnownType>(type: T, payload: Payloads[T]): Promise<EventOf<T>> {
    return this.put(String(++this.#steps), type, payload);
  }

  /** Asks a person and waits for the answer, over broken connections and restarts if need be. */
  async ask(q: AgentInputRequest): Promise<UserInputResponse> {
    const e = await this.append("agent.input_request", q);
    if (q.input_type === "notification") return { request_id: "" };
    return this.#answer(e.payload.request_id, "user.input_response");
  }

  /** Asks a person to approve calls; the decisions come in the order of the calls. */
  async approve(q: AgentApprovalRequest): Promise<Decision[]> {
    const e = await this.append("agent.approval_request", q);
    return (await this.#answer(e.payload.request_id, "user.approval_response")).decisions;
  }

  /** Asks a person to grant scopes. */
  async permit(q: AgentPermissionRequest): Promise<UserPermissionResponse> {
    const e = await this.append("agent.permission_request", q);
    return this.#answer(e.payload.request_id, "user.permission_response");
  }

  async #answer<T extends KnownType>(request = "", type: T): Promise<Payloads[T]> {
    for (;;) {
      const e = this.#answers.get(request);
      if (e?.type === "prompt.closed")
        throw new ParleyError("gone", e.payload.reason === "expired" ? "nobody answered in time" : "the question was withdrawn");
      if (e) return payloadOf({ type, payload: e.payload });
      await this.#arrival();
    }
  }

  /** Waits until something comes in. */
  async #arrival(): Promise<void> {
    this.signal.throwIfAborted();
    await new Promise<void>((resolve) => {
      const wake = () => {
        this.#news.delete(wake);
        this.signal.removeEventListener("abort", wake);
        resolve();
      };
      this.#news.add(wake);
      this.signal.addEventListener("abort", wake);
    });
  }

  /** Waits while the workstream of the turn is paused. */
  async gate(): Promise<void> {
    while (this.#paused) await this.#arrival();
  }

  /** Begins a workstream and returns at once; it runs in the background, also when this turn has ended. */
  launch(launch: Launch): Promise<WorkstreamStatus> {
    return this.#work("launch_workstream", { launch });
  }

  /** Hands a follow-up to a workstream, named by its id or launch id. */
  message(workstream: string, text: string): Promise<WorkstreamStatus> {
    return this.#work("message_workstream", { workstream_id: workstream, text });
  }

  /** Hands a directive to a workstream: add_instruction, set_priority, add_constraint, pause_requested, resume_requested. */
  steer(workstream: string, command: string, text = ""): Promise<WorkstreamStatus> {
    return this.#work("steer_workstream", { workstream_id: workstream, command, text });
  }

  /** Tells a workstream to end. */
  terminate(workstream: string, reason = ""): Promise<WorkstreamStatus> {
    return this.#work("terminate_workstream", { workstream_id: workstream, reason });
  }

  /** Tells the line that launched this one how far it has come. On the main line nothing happens. */
  async progress(progress: Progress): Promise<void> {
    const client_id = this.#key(String(++this.#steps));
    if (!this.workstream) return;
    await this.gate();
    await this.#desk.call(this, () => ({ op: "workstream_progress", client_id, progress }));
  }

  /** Tells how workstreams are; with none named, all that the line of the turn launched. */
  async workstreams(...names: string[]): Promise<WorkstreamStatus[]> {
    const { workstreams: all = [] } = await this.#desk.call(this, () => ({ op: "workstream_status" }));
    if (names.length === 0) return all.filter((w) => (w.parent ?? "") === (this.workstream ?? ""));
    return names.map((name) => {
      const found = all.find((w) => w.workstream_id === name || w.launch_id === name);
      if (!found) throw new ParleyError("not_found", `this session has no workstream ${name}`);
      return found;
    });
  }

  /** Waits until all named workstreams have ended, or rest when they are interactive. */
  async wait(...names: string[]): Promise<WorkstreamStatus[]> {
    for (;;) {
      let news = false; // what arrives during the look is noticed
      const hear = () => (news = true);
      this.#news.add(hear);
      const all = await this.workstreams(...names).finally(() => this.#news.delete(hear));
      if (all.every(isOver)) return all;
      if (!news) await this.#arrival();
    }
  }

  async #work(op: string, frame: object): Promise<WorkstreamStatus> {
    const client_id = this.#key(String(++this.#steps));
    await this.gate();
    const { workstreams: [status] = [] } = await this.#desk.call(this, () => ({ op, client_id, ...frame }));
    if (!status) throw new ParleyError("internal", "the server did not say how the workstream is");
    return status;
  }

  /**
   * Uses a tool: the call is in the log before run starts, its result or error after. A call that has a result is not run again.
   * One that was cut off is run again only if it is repeatable; otherwise it becomes a tool error.
   */
  async call<R>(tool: string, params: unknown, run: () => Promise<R>, o: { repeatable?: boolean } = {}): Promise<R> {
    const step = String(++this.#steps);
    const again = this.#said.has(this.#key(step));
    const call_id = `c${this.#bare}-${step}`;
    const began = await this.put(step, "agent.tool_call", { call_id, tool, params, ...(o.repeatable ? { repeatable: true } : {}) });
    const ended = this.#said.get(this.#key(`${step}-end`));
    if (ended?.type === "agent.tool_result") return ended.payload.result as R;
    if (ended?.type === "agent.tool_error") throw new Error(ended.payload.error);
    const fail = (error: string, code?: string) => this.put(`${step}-end`, "agent.tool_error", { call_id, tool, error, ...(code ? { code } : {}) });
    if (again && !began.payload.repeatable) {
      const error = "the tool was running when the agent was cut off; whether it took effect is not known";
      await fail(error, "unknown_outcome");
      throw new Error(error);
    }
    let result: R;
    try {
      result = await run();
    } catch (err) {
      this.signal.throwIfAborted();
      await fail(err instanceof Error ? err.message : String(err));
      throw err;
    }
    this.signal.throwIfAborted();
    await this.put(`${step}-end`, "agent.tool_result", { call_id, tool, result });
    return result;
  }

  /** Begins a block of text that is shown as it is written; final marks the turn's answer. */
  stream(final = true): WorkWriter {
    return new WorkWriter(this, this.#desk, "text", final, String(++this.#steps));
  }

  /** Begins a block of reasoning. */
  think(): WorkWriter {
    return new WorkWriter(this, this.#desk, "thinking", false, String(++this.#steps));
  }

  // For the worker and its writers.

  get #bare(): string {
    return this.id.replace(/^t-/, "");
  }

  #key(step: string): string {
    return `${this.id}/${step}`;
  }

  /** The name of a step's block. */
  blockOf(step: string): string {
    return `b${this.#bare}-${step.replace(".", "-")}`;
  }

  did(step: string): boolean {
    return this.#said.has(this.#key(step));
  }

  /** What an earlier attempt showed of blocks whose names begin so, by name. */
  left(prefix: string): [string, string][] {
    return [...this.#open].filter(([block]) => block.startsWith(prefix));
  }

  /** Puts one payload into the log as a step, once over all attempts. */
  async put<T extends KnownType>(step: string, type: T, payload: Payloads[T]): Promise<EventOf<T>> {
    const client_id = this.#key(step);
    let e = this.#said.get(client_id);
    if (!e) {
      const draft = { type, payload, client_id, ...(this.workstream ? { workstream_id: this.workstream } : {}) };
      await this.gate();
      const { events } = await this.#desk.call(this, () => ({ op: "append", events: [draft] }));
      e = events?.[0];
      if (!e) throw new ParleyError("internal", "the server did not return the event of a step");
      this.#said.set(client_id, e);
    }
    return e as EventOf<T>;
  }

  /** Takes in what the server knows of the turn, at its start and whenever the connection is back. */
  again(a: Assignment): void {
    this.attempt = a.attempt;
    this.#paused = a.paused ?? false;
    this.#open = new Map((a.open ?? []).map((b) => [b.block, b.text]));
    this.shown = new Map((a.open ?? []).map((b) => [b.block, { bytes: byteLength(b.text), units: b.text.length }]));
    for (const e of a.events ?? []) {
      if (e.client_id && e.actor?.kind === "agent") this.#said.set(e.client_id, e);
      this.#arrive(e);
    }
  }

  /** Hears what came in for the turn. */
  tell(e: Event): void {
    if (e.type === "user.message") this.#heard.push(e.payload);
    if (e.type === "workstream.steered")
      this.#paused = e.payload.command === "pause_requested" || (this.#paused && e.payload.command !== "resume_requested");
    // A connection that is back tells all of it again.
    if (e.type.startsWith("workstream.") && !this.#seen.has(e.sequence)) {
      this.#seen.add(e.sequence);
      this.#told.push(e);
    }
    this.#arrive(e);
  }

  end(cause: Error): void {
    this.#stop.abort(cause);
  }

  #arrive(e: Event): void {
    if (answers.includes(e.type)) {
      const id = (e.payload as { request_id: string }).request_id;
      if (!this.#answers.has(id)) this.#answers.set(id, e);
    }
    for (const f of [...this.#news]) f();
  }
}

/**
 * Streams one block: what is written goes out at once, close makes it a fact. A worker that takes up the turn of another
 * writes the same text again: what was shown is skipped. Text that differs begins a new block; the old one stays as it was shown.
 */
export class WorkWriter {
  readonly #turn: WorkTurn;
  readonly #desk: Desk;
  readonly #kind: "text" | "thinking";
  readonly #final: boolean;
  readonly #step: string;
  #parts = 0; // blocks that were full and closed
  #block = "";
  #text = "";
  #bytes = 0;
  #json = 0; // what the text takes as JSON
  #old = ""; // what an earlier attempt showed of it
  #rest = ""; // the first half of a character
  #done = false; // an earlier attempt finished it

  /** Made by WorkTurn.stream and WorkTurn.think. */
  constructor(turn: WorkTurn, desk: Desk, kind: "text" | "thinking", final: boolean, step: string) {
    this.#turn = turn;
    this.#desk = desk;
    this.#kind = kind;
    this.#final = final;
    this.#step = step;
    this.#begin();
  }

  get #name(): string {
    return this.#parts === 0 ? this.#step : `${this.#step}.${this.#parts}`;
  }

  #begin(): void {
    const t = this.#turn;
    this.#block = t.blockOf(this.#name);
    this.#text = "";
    this.#bytes = 0;
    this.#json = 0;
    this.#done = t.did(this.#name);
    if (t.did(`close-${this.#block}`)) {
      // An earlier attempt abandoned it and perhaps began another.
      this.#block = t.left(`${this.#block}-a`).at(-1)?.[0] ?? `${this.#block}-a${t.attempt}`;
    }
    this.#old = t.left(this.#block).find(([block]) => block === this.#block)?.[1] ?? "";
  }

  /** Shows a piece. */
  async write(text: string): Promise<void> {
    this.#turn.signal.throwIfAborted();
    text = this.#rest + text;
    this.#rest = /[\ud800-\udbff]$/.test(text) ? text.slice(-1) : "";
    if (this.#rest) text = text.slice(0, -1);
    while (this.#bytes + byteLength(text) > maxBlock || this.#json + packed(text) > maxJSON) {
      let rest = afterBytes(text, Math.max(0, maxBlock - this.#bytes - 3));
      if (this.#json + packed(text.slice(0, text.length - rest.length)) > maxJSON)
        rest = afterBytes(text, Math.floor(Math.max(0, maxJSON - this.#json) / 6)); // no byte of text takes more of JSON
      const at = text.length - rest.length;
      const cut = /[\ud800-\udbff]/.test(text[at - 1] ?? "") ? at - 1 : at;
      await this.#show(text.slice(0, cut));
      await this.#finish(false);
      text = text.slice(cut);
      this.#parts++;
      this.#begin();
    }
    await this.#show(text);
  }

  /** Makes the block a fact. */
  async close(): Promise<void> {
    if (this.#rest) await this.#show("\ufffd");
    this.#rest = "";
    await this.#finish(this.#final);
  }

  async #show(text: string): Promise<void> {
    const from = this.#text.length;
    this.#text += text;
    this.#bytes += byteLength(text);
    this.#json += packed(text);
    if (this.#done || !text) return;
    if (from < this.#old.length) {
      const n = Math.min(this.#old.length, this.#text.length);
      if (this.#text.slice(from, n) !== this.#old.slice(from, n)) await this.#abandon();
    }
    await this.#send();
  }

  /** Shows what the server lacks. A piece that is lost is sent again with the next one, and close brings the whole. */
  async #send(): Promise<void> {
    const t = this.#turn;
    const socket = await this.#desk.place(t);
    const { bytes, units } = t.shown.get(this.#block) ?? { bytes: 0, units: 0 };
    if (units >= this.#text.length) return;
    t.shown.set(this.#block, { bytes: this.#bytes, units: this.#text.length });
    const piece = { block: this.#block, offset: bytes, text: this.#text.slice(units), kind: this.#kind, ...(t.workstream ? { workstream_id: t.workstream } : {}) };
    socket.send(JSON.stringify({ op: "preview", turn_id: t.id, previews: [piece] }));
  }

  /** Leaves the old block exactly as it was shown and begins another. */
  async #abandon(): Promise<void> {
    await this.#put(`close-${this.#block}`, { block: this.#block, text: this.#old, partial: true });
    this.#block = `${this.#turn.blockOf(this.#name)}-a${this.#turn.attempt}`;
    this.#old = "";
  }

  async #finish(final: boolean): Promise<void> {
    if (!this.#done && this.#text.length < this.#old.length) await this.#abandon(); // this attempt says less
    await this.#put(this.#name, { block: this.#block, text: this.#text, ...(final ? { final } : {}) });
  }

  #put(step: string, payload: Payloads["agent.text"]): Promise<unknown> {
    return this.#turn.put(step, this.#kind === "text" ? "agent.text" : "agent.thinking", payload);
  }
}

/** What a text takes as JSON, at most: some writers escape what is special in HTML. */
function packed(text: string): number {
  return byteLength(JSON.stringify(text)) + 5 * (text.match(/[<>&\u2028\u2029]/g)?.length ?? 0);
}
