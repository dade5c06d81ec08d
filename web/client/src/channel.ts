import type { ParleyError } from "./error.js";
import { Track, type Frame } from "./track.js";
import type { Event, Preview } from "./types.gen.js";

/** The connection state of a followed session. */
export interface Connection {
  /** offline: it will reconnect; ended: it will not. */
  state: "connecting" | "live" | "catching up" | "offline" | "ended";
  /** When this state began, in milliseconds of the local clock. */
  since: number;
  /** Consecutive failed attempts. */
  attempt: number;
  /** The time of the next attempt. */
  retryAt?: number;
  /** Events that have not been received yet. */
  behind?: number;
  error?: ParleyError;
}

/** One followed session. */
export class Channel {
  readonly session: string;
  readonly track: Track;
  status: Connection = { state: "connecting", since: Date.now(), attempt: 0 };
  /** Consecutive attempts without progress, and how many of them were internal errors of the server. */
  faults = 0;
  internalFaults = 0;
  /** The id of the watch request that has no reply yet; frames before the reply belong to an older watch. */
  asked = 0;
  stream: AbortController | undefined;
  timer: ReturnType<typeof setTimeout> | undefined;
  #goal = 0;
  readonly #frame: (f: Frame) => void;
  readonly #notify: (c: Connection) => void;

  constructor(session: string, after: string | undefined, frame: (f: Frame) => void, notify: (c: Connection) => void) {
    this.session = session;
    this.track = new Track(after);
    this.#frame = frame;
    this.#notify = notify;
  }

  get ended(): boolean {
    return this.status.state === "ended";
  }

  hello(h: { cursor: string; last: number; server_now: string }): void {
    this.#goal = h.last;
    this.#pass(this.track.hello(h));
    this.#caughtUp();
  }

  event(e: Event, cursor: string): void {
    this.#progress();
    this.#pass(this.track.event(e, cursor));
    if (this.status.state === "catching up") this.#caughtUp();
  }

  preview(p: Preview, cursor: string): void {
    this.#progress();
    this.#pass(this.track.preview(p, cursor));
  }

  set(state: Connection["state"], more: Partial<Connection> = {}): void {
    const since = state === this.status.state ? this.status.since : Date.now();
    this.status = { state, since, attempt: this.faults, ...more };
    this.#notify(this.status);
  }

  #caughtUp(): void {
    const behind = this.#goal - this.track.seq;
    if (behind <= 0) this.set("live");
    // The number is only displayed, so it is not updated with every event.
    else if (this.status.state !== "catching up" || behind % 256 === 0) this.set("catching up", { behind });
  }

  #progress(): void {
    this.faults = this.internalFaults = 0;
  }

  #pass(f: Frame | undefined): void {
    if (f) this.#frame(f);
  }
}
