import { ParleyError } from "./error.js";
import { payloadOf } from "./payload.js";
import type { Socket } from "./socket.js";
import type {
  AgentApprovalRequest, AgentArtifact, AgentInputRequest, AgentPermissionRequest, AgentPlan, AgentUsage, Assignment, Decision, Event, EventOf,
  KnownType, Payloads, UserInputResponse, UserMessage, UserPermissionResponse, WorkstreamLaunched,
} from "./types.gen.js";
import { byteLength } from "./utf8.js";
import { isOver, workstreamText, type Launch, type Progress, type WorkstreamStatus } from "./workstream.js";
import { WorkWriter } from "./writer.js";

/** The turn was stopped. */
export class TurnStopped extends Error {
  constructor() {
    super("the turn was stopped");
  }
}

/** The turn was given to another worker or has ended. */
export class TurnLost extends Error {
  constructor() {
    super("the turn was given to another worker or has ended");
  }
}

/** The server's reply to a frame. */
export interface Reply {
  events?: Event[];
  workstreams?: WorkstreamStatus[];
}

/** The connection of a turn to the server. */
export interface TurnTransport {
  call(turn: WorkTurn, frame: () => object): Promise<Reply>;
  socketFor(turn: WorkTurn): Promise<Socket>;
}

const answers: readonly string[] = ["user.input_response", "user.approval_response", "user.permission_response", "prompt.closed"];

/**
 * A turn that a worker answers. Its methods are steps, numbered in the order of their calls. A worker that continues a turn
 * of another worker calls the same methods from the start: a step that is in the log returns its stored result and is not
 * repeated. So the order of the calls must be the same in every attempt.
 */
export class WorkTurn {
  readonly session: string;
  readonly id: string;
  readonly agent: string;
  readonly workstream: string | undefined;
  /** The event that is answered. */
  readonly trigger: Event;
  attempt = 1;
  readonly #transport: TurnTransport;
  readonly #stop = new AbortController();
  #steps = 0;
  readonly #stored = new Map<string, Event>(); // by client id: steps that are in the log
  readonly #answers = new Map<string, Event>(); // by request
  #messages: UserMessage[] = [];
  #workstreamEvents: Event[] = [];
  readonly #seen = new Set<number>();
  readonly #launch: WorkstreamLaunched | undefined;
  #paused = false;
  #arrivals = new Set<() => void>();
  #open = new Map<string, string>(); // previewed text of open blocks
  /** How much of each open block was sent. */
  shown = new Map<string, { bytes: number; units: number }>();

  constructor(transport: TurnTransport, a: Assignment) {
    this.#transport = transport;
    this.session = a.session_id;
    this.id = a.turn_id;
    this.agent = a.agent;
    this.workstream = a.workstream_id;
    this.trigger = a.trigger;
    this.#launch = a.launch;
    this.load(a);
  }

  /** Aborts when the turn is stopped or lost, or the worker ends; the reason says which. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** The text of the trigger. */
  get text(): string {
    const e = this.trigger;
    if (e.type === "workstream.launched") return e.payload.task;
    if (e.type === "workstream.message") return e.payload.text;
    if (e.type !== "user.message") return workstreamText(e.type, e.payload as object);
    const parts = (e.payload.content ?? []).flatMap((p) => (p.type === "text" && p.text ? [p.text] : []));
    return e.payload.text || parts.join("\n");
  }

  /** The launch of the turn's workstream; undefined outside of workstreams. */
  get launched(): WorkstreamLaunched | undefined {
    return this.#launch;
  }

  /** Returns the workstream events since the last call: steering commands and messages, and progress of launched workstreams. */
  newEvents(): Event[] {
    return this.#workstreamEvents.splice(0);
  }

  /** Returns the user messages since the last call. */
  newMessages(): UserMessage[] {
    return this.#messages.splice(0);
  }

  /** Sends a whole text as the turn's answer. */
  async say(text: string): Promise<void> {
    await this.append("agent.text", { text, final: true });
  }

  async status(message: string, phase?: string): Promise<void> {
    await this.append("agent.status", phase ? { message, phase } : { message });
  }

  /** Replaces the plan. */
  async plan(plan: AgentPlan): Promise<void> {
    await this.append("agent.plan", plan);
  }

  async usage(usage: AgentUsage): Promise<void> {
    await this.append("agent.usage", usage);
  }

  /** Publishes an artifact; upload large files first. */
  async artifact(artifact: AgentArtifact): Promise<void> {
    await this.append("agent.artifact", artifact);
  }

  /** Appends any event as the next step. */
  append<T extends KnownType>(type: T, payload: Payloads[T]): Promise<EventOf<T>> {
    return this.put(String(++this.#steps), type, payload);
  }

  /** Asks a person and waits for the answer, also across reconnects and restarts. */
  async ask(q: AgentInputRequest): Promise<UserInputResponse> {
    const e = await this.append("agent.input_request", q);
    if (q.input_type === "notification") return { request_id: "" };
    return this.#answer(e.payload.request_id, "user.input_response");
  }

  /** Asks a person to approve calls; the decisions are in the order of the calls. */
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
        throw new ParleyError("gone", e.payload.reason === "expired" ? "the prompt expired without an answer" : "the question was withdrawn");
      if (e) return payloadOf({ type, payload: e.payload });
      await this.#arrival();
    }
  }

  /** Waits until an event arrives. */
  async #arrival(): Promise<void> {
    this.signal.throwIfAborted();
    await new Promise<void>((resolve) => {
      const wake = () => {
        this.#arrivals.delete(wake);
        this.signal.removeEventListener("abort", wake);
        resolve();
      };
      this.#arrivals.add(wake);
      this.signal.addEventListener("abort", wake);
    });
  }

  /** Waits while the workstream of the turn is paused. */
  async unpaused(): Promise<void> {
    while (this.#paused) await this.#arrival();
  }

  /** Launches a workstream and returns at once; it runs in the background, also after the end of this turn. */
  launch(launch: Launch): Promise<WorkstreamStatus> {
    return this.#work("launch_workstream", { launch });
  }

  /** Sends a message to a workstream, named by its id or launch id. */
  message(workstream: string, text: string): Promise<WorkstreamStatus> {
    return this.#work("message_workstream", { workstream_id: workstream, text });
  }

  /** Sends a steering command to a workstream: add_instruction, set_priority, add_constraint, pause_requested, resume_requested. */
  steer(workstream: string, command: string, text = ""): Promise<WorkstreamStatus> {
    return this.#work("steer_workstream", { workstream_id: workstream, command, text });
  }

  /** Cancels a workstream. */
  terminate(workstream: string, reason = ""): Promise<WorkstreamStatus> {
    return this.#work("terminate_workstream", { workstream_id: workstream, reason });
  }

  /** Reports progress to the parent of the turn's workstream. It does nothing outside of workstreams. */
  async progress(progress: Progress): Promise<void> {
    const client_id = this.#key(String(++this.#steps));
    if (!this.workstream) return;
    await this.unpaused();
    await this.#transport.call(this, () => ({ op: "workstream_progress", client_id, progress }));
  }

  /** Returns the status of the named workstreams; without names, of all that were launched from here. */
  async workstreams(...names: string[]): Promise<WorkstreamStatus[]> {
    const { workstreams: all = [] } = await this.#transport.call(this, () => ({ op: "workstream_status" }));
    if (names.length === 0) return all.filter((w) => (w.parent ?? "") === (this.workstream ?? ""));
    return names.map((name) => {
      const found = all.find((w) => w.workstream_id === name || w.launch_id === name);
      if (!found) throw new ParleyError("not_found", `this session has no workstream ${name}`);
      return found;
    });
  }

  /** Waits until each named workstream has ended, or is interactive and waits for a message. */
  async wait(...names: string[]): Promise<WorkstreamStatus[]> {
    for (;;) {
      let changed = false; // set when an event arrives during the request
      const note = () => (changed = true);
      this.#arrivals.add(note);
      const all = await this.workstreams(...names).finally(() => this.#arrivals.delete(note));
      if (all.every(isOver)) return all;
      if (!changed) await this.#arrival();
    }
  }

  async #work(op: string, frame: object): Promise<WorkstreamStatus> {
    const client_id = this.#key(String(++this.#steps));
    await this.unpaused();
    const { workstreams: [status] = [] } = await this.#transport.call(this, () => ({ op, client_id, ...frame }));
    if (!status) throw new ParleyError("internal", "the server did not return the status of the workstream");
    return status;
  }

  /**
   * Runs a tool: the call is stored before run starts, its result or error after. A call that has a result is not run again.
   * An interrupted call is run again only if it is repeatable; otherwise it becomes a tool error. A call that a person
   * has approved has the call_id of the approval.
   */
  async call<R>(tool: string, params: unknown, run: () => Promise<R>, o: { call_id?: string; repeatable?: boolean } = {}): Promise<R> {
    const step = String(++this.#steps);
    const again = this.#stored.has(this.#key(step));
    const call_id = o.call_id || `c${this.#bare}-${step}`;
    const began = await this.put(step, "agent.tool_call", { call_id, tool, params, ...(o.repeatable ? { repeatable: true } : {}) });
    const ended = this.#stored.get(this.#key(`${step}-end`));
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

  /** Opens a text block that readers see while it is written; final marks the turn's answer. */
  stream(final = true): WorkWriter {
    return new WorkWriter(this, this.#transport, "text", final, String(++this.#steps));
  }

  /** Opens a block of reasoning. */
  think(): WorkWriter {
    return new WorkWriter(this, this.#transport, "thinking", false, String(++this.#steps));
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

  isStored(step: string): boolean {
    return this.#stored.has(this.#key(step));
  }

  /** Open blocks of an earlier attempt whose names have a prefix, with their previewed text. */
  openBlocks(prefix: string): [string, string][] {
    return [...this.#open].filter(([block]) => block.startsWith(prefix));
  }

  /** Appends a payload as a step, once over all attempts. */
  async put<T extends KnownType>(step: string, type: T, payload: Payloads[T]): Promise<EventOf<T>> {
    const client_id = this.#key(step);
    let e = this.#stored.get(client_id);
    if (!e) {
      const draft = { type, payload, client_id, ...(this.workstream ? { workstream_id: this.workstream } : {}) };
      await this.unpaused();
      const { events } = await this.#transport.call(this, () => ({ op: "append", events: [draft] }));
      e = events?.[0];
      if (!e) throw new ParleyError("internal", "the server did not return the event of a step");
      this.#stored.set(client_id, e);
    }
    return e as EventOf<T>;
  }

  /** Loads the server's state of the turn, at its start and after each reconnect. */
  load(a: Assignment): void {
    this.attempt = a.attempt;
    this.#paused = a.paused ?? false;
    this.#open = new Map((a.open ?? []).map((b) => [b.block, b.text]));
    this.shown = new Map((a.open ?? []).map((b) => [b.block, { bytes: byteLength(b.text), units: b.text.length }]));
    for (const e of a.events ?? []) {
      if (e.client_id && e.actor?.kind === "agent") this.#stored.set(e.client_id, e);
      this.#arrive(e);
    }
  }

  /** Handles an event for the turn. */
  receive(e: Event): void {
    if (e.type === "user.message") this.#messages.push(e.payload);
    if (e.type === "workstream.steered")
      this.#paused = e.payload.command === "pause_requested" || (this.#paused && e.payload.command !== "resume_requested");
    // After a reconnect the server sends all of them again.
    if (e.type.startsWith("workstream.") && !this.#seen.has(e.sequence)) {
      this.#seen.add(e.sequence);
      this.#workstreamEvents.push(e);
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
    for (const f of [...this.#arrivals]) f();
  }
}
