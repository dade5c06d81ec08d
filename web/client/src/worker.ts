import { pause } from "./backoff.js";
import type { ParleyClient } from "./client.js";
import { asParleyError, closedBy, errorOf, byeError, ParleyError, unreachable } from "./error.js";
import { sleep } from "./http.js";
import type { Socket } from "./socket.js";
import type { AgentCommand, Assignment, Event } from "./types.gen.js";
import { TurnLost, TurnStopped, WorkTurn, type TurnTransport, type Reply } from "./turn.js";
import type { WorkstreamStatus } from "./workstream.js";

export { TurnLost, TurnStopped, WorkTurn } from "./turn.js";
export { WorkWriter } from "./writer.js";
export type { Launch, Progress, WorkstreamStatus } from "./workstream.js";

/*
 * An agent outside of the server: it claims the turns of an agent name and answers them. When the connection breaks, the
 * methods of its turns wait until the worker has reconnected.
 */

export interface WorkOptions {
  /** How many turns are answered in parallel; 4. */
  slots?: number;
  /** The commands that the agent understands; clients offer them to people. */
  commands?: AgentCommand[];
  /** How long a turn is held without a connection, in milliseconds; 60 000. */
  grace?: number;
  /** Ends the worker. Its unfinished turns go to another worker. */
  signal?: AbortSignal;
  backoff?: { min: number; max: number };
  /** A connection that receives nothing for this many milliseconds is reopened; 45 000. */
  idleTimeout?: number;
}

const defaultBackoff = { min: 250, max: 15_000 };

interface WorkFrame {
  op: string;
  id?: number;
  turn_id?: string;
  turn?: Assignment;
  event?: Event;
  events?: Event[];
  workstreams?: WorkstreamStatus[];
  error?: unknown;
  retry?: boolean;
}

/**
 * Answers turns of an agent name until the signal aborts or the server refuses the worker. answer is called for each turn;
 * when it throws, the turn fails, unless its signal was aborted. It resolves when all calls of answer have ended.
 */
export async function work(client: ParleyClient, name: string, answer: (turn: WorkTurn) => Promise<void>, o: WorkOptions = {}): Promise<void> {
  const w = new Worker(client, name, answer, o);
  const backoff = o.backoff ?? defaultBackoff;
  for (let attempt = 1; !o.signal?.aborted; attempt++) {
    const error = await w.connect(() => (attempt = 1));
    w.offline();
    if (o.signal?.aborted) break;
    if (!error.retryable) {
      w.endAll(error);
      await w.idle();
      throw error;
    }
    await sleep(pause(backoff, attempt), o.signal).catch(() => {});
  }
  await w.idle();
}

interface Held {
  turn: WorkTurn;
  /** The server has assigned the turn on the current connection. */
  assigned: boolean;
  /** How often the server gave the turn again. */
  given: number;
  lost?: ReturnType<typeof setTimeout>;
  done: Promise<void>;
}

class Worker implements TurnTransport {
  readonly #client: ParleyClient;
  readonly #name: string;
  readonly #answer: (turn: WorkTurn) => Promise<void>;
  readonly #o: WorkOptions;
  readonly #turns = new Map<string, Held>();
  readonly #calls = new Map<number, { resolve: (reply: Reply) => void; reject: (err: Error) => void }>();
  #socket: Socket | undefined;
  #ids = 0;
  #waiting = new Set<() => void>(); // calls that wait for a connection, or for a turn to be assigned on it

  constructor(client: ParleyClient, name: string, answer: (turn: WorkTurn) => Promise<void>, o: WorkOptions) {
    this.#client = client;
    this.#name = name;
    this.#answer = answer;
    this.#o = o;
  }

  /** Runs one connection and returns why it ended. */
  async connect(progress: () => void): Promise<ParleyError> {
    const Maker = this.#client.WebSocket;
    if (!Maker) return new ParleyError("invalid", "a worker needs a WebSocket: pass one to the client");
    const path = `/agents/${encodeURIComponent(this.#name)}/work`;
    let socket: Socket;
    try {
      socket = new Maker(await this.#client.socketAddress(path)) as Socket;
    } catch (err) {
      return unreachable(this.#client.url, err);
    }
    let opened = false;
    let refused: ParleyError | undefined; // the credential has expired
    await new Promise<void>((resolve) => {
      let timer = setTimeout(resolve, 10_000);
      const alive = () => {
        clearTimeout(timer);
        timer = setTimeout(resolve, this.#o.idleTimeout ?? 45_000);
      };
      const leave = () => resolve();
      this.#o.signal?.addEventListener("abort", leave);
      if (this.#o.signal?.aborted) resolve();
      socket.onopen = () => {
        opened = true;
        alive();
        this.#socket = socket;
        socket.send(JSON.stringify({ op: "ready", slots: this.#o.slots ?? 4, commands: this.#o.commands, turns: [...this.#turns.keys()] }));
      };
      socket.onmessage = (ev: { data: unknown }) => {
        alive();
        progress();
        const f = JSON.parse(String(ev.data)) as WorkFrame;
        if (f.op === "bye") refused = byeError(f);
        this.#receive(f);
      };
      socket.onclose = socket.onerror = (ev: unknown) => {
        refused ??= closedBy(ev);
        clearTimeout(timer);
        this.#o.signal?.removeEventListener("abort", leave);
        resolve();
      };
    });
    // Answers that end because of the signal may still send frames.
    if (this.#o.signal?.aborted) await this.idle();
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.onerror = () => {};
    socket.close();
    // A client that can request a new token reconnects with it.
    if (refused?.code === "unauthenticated" && !this.#client.renews) return refused;
    if (opened || this.#o.signal?.aborted) return unreachable(this.#client.url);
    // A refused handshake has no reason; a plain request returns it.
    const reason = await this.#client.request(path).then(() => unreachable(this.#client.url), asParleyError);
    return ["denied", "conflict", "unauthenticated"].includes(reason.code) ? reason : unreachable(this.#client.url, reason);
  }

  #receive(f: WorkFrame): void {
    const held = this.#turns.get(f.turn_id ?? "");
    if (f.op === "turn" && f.turn) this.#assign(f.turn);
    else if (f.op === "event" && f.event) held?.turn.receive(f.event);
    else if (f.op === "stop") held?.turn.end(new TurnStopped());
    else if (f.op === "ended") held?.turn.end(new TurnLost()); // ends its waiting calls and the report of its end
    else if (f.op === "ok" || f.op === "error") {
      const call = this.#calls.get(f.id ?? 0);
      this.#calls.delete(f.id ?? 0);
      if (f.op === "ok") call?.resolve(f);
      else call?.reject(errorOf(f));
    }
  }

  /** Starts a turn, or continues one that the worker holds. */
  #assign(a: Assignment): void {
    const held = this.#turns.get(a.turn_id);
    if (held && !(held.turn.signal.reason instanceof TurnLost)) {
      held.turn.load(a);
      held.assigned = true;
      held.given++;
      clearTimeout(held.lost);
      this.#notify();
    } else if (!this.#o.signal?.aborted) {
      const turn = new WorkTurn(this, a);
      const leave = () => turn.end(this.#o.signal?.reason as Error);
      this.#o.signal?.addEventListener("abort", leave);
      const fresh: Held = { turn, assigned: true, given: 0, done: Promise.resolve() };
      this.#turns.set(a.turn_id, fresh);
      fresh.done = this.#run(turn).finally(() => {
        this.#o.signal?.removeEventListener("abort", leave);
        clearTimeout(fresh.lost);
        if (this.#turns.get(a.turn_id) === fresh) this.#turns.delete(a.turn_id);
      });
    }
  }

  /** Answers a turn and reports its end. */
  async #run(turn: WorkTurn): Promise<void> {
    let error: unknown;
    try {
      await this.#answer(turn);
    } catch (err) {
      error = err ?? new Error("the agent gave no reason");
    }
    const cause: unknown = turn.signal.reason;
    // An unfinished turn goes to another worker.
    if (cause instanceof TurnLost || (turn.signal.aborted && !(cause instanceof TurnStopped) && error)) return;
    const fail = error !== undefined && !(cause instanceof TurnStopped);
    const text = error instanceof Error ? error.message : String(error);
    await this.#report(turn, fail ? { op: "fail", error: text || "the agent gave no reason" } : { op: "done" });
  }

  /** Reports the end of a turn, again if the server gave the turn to the worker again while it refused the report. */
  async #report(turn: WorkTurn, end: object): Promise<void> {
    for (;;) {
      const held = this.#turns.get(turn.id);
      const given = held?.given;
      await this.call(turn, () => end, true).catch(() => {});
      if (held?.given === given) return;
    }
  }

  /** Sends a frame for a turn until it gets a reply, also after a reconnect and while the server cannot store anything. */
  async call(turn: WorkTurn, frame: () => object, last = false): Promise<Reply> {
    for (let attempt = 1; ; attempt++) {
      const socket = await this.socketFor(turn, last);
      try {
        return await new Promise<Reply>((resolve, reject) => {
          const id = ++this.#ids;
          this.#calls.set(id, { resolve, reject });
          socket.send(JSON.stringify({ ...frame(), id, turn_id: turn.id }));
        });
      } catch (err) {
        if (!(err instanceof ParleyError) || !err.retryable) throw err;
        if (this.#socket === socket) await sleep(pause(this.#o.backoff ?? defaultBackoff, attempt)); // the server refused it
      }
    }
  }

  /** Waits for a connection on which the turn is assigned to this worker. */
  async socketFor(turn: WorkTurn, last = false): Promise<Socket> {
    for (;;) {
      const held = this.#turns.get(turn.id);
      if (held?.turn !== turn) throw new TurnLost();
      if (turn.signal.aborted && (!last || !(this.#socket && held.assigned))) throw turn.signal.reason;
      if (this.#socket && held.assigned) return this.#socket;
      await new Promise<void>((resolve) => {
        const wake = () => {
          this.#waiting.delete(wake);
          turn.signal.removeEventListener("abort", wake);
          resolve();
        };
        this.#waiting.add(wake);
        turn.signal.addEventListener("abort", wake);
      });
    }
  }

  /** Rejects calls that wait for a reply, and starts the grace period of every turn. */
  offline(): void {
    this.#socket = undefined;
    for (const call of this.#calls.values()) call.reject(unreachable(this.#client.url));
    this.#calls.clear();
    for (const held of this.#turns.values()) {
      if (!held.assigned) continue;
      held.assigned = false;
      held.lost = setTimeout(() => held.turn.end(new TurnLost()), this.#o.grace ?? 60_000);
    }
  }

  endAll(cause: Error): void {
    for (const held of this.#turns.values()) held.turn.end(cause);
  }

  async idle(): Promise<void> {
    while (this.#turns.size > 0) await Promise.all([...this.#turns.values()].map((h) => h.done));
  }

  #notify(): void {
    for (const f of [...this.#waiting]) f();
  }
}
