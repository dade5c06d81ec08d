import { pause, type Backoff } from "./backoff.js";
import type { Clock } from "./clock.js";
import { asParleyError, closedBy, errorOf, goodbye, ParleyError, unreachable } from "./error.js";
import type { Http } from "./http.js";
import { SSEParser, type SSEFrame } from "./sse.js";
import { Track, type Frame } from "./track.js";
import type { Event, Preview } from "./types.gen.js";

/*
 * How frames get here: one WebSocket for all sessions, or an event stream per session where a WebSocket cannot be opened.
 * Either is taken up again after every cut, from the cursor of each session.
 */

/** How a followed session is connected. */
export interface Connection {
  /** offline: trying again; ended: there is no use in coming back. */
  state: "connecting" | "live" | "catching up" | "offline" | "ended";
  /** When this state began, in milliseconds of the clock here. */
  since: number;
  /** Attempts in a row that failed. */
  attempt: number;
  /** When it is tried again. */
  retryAt?: number;
  /** Events that are still missing. */
  behind?: number;
  error?: ParleyError;
}

/** The part of a WebSocket that is used; the browser's own fits. */
export interface Socket {
  onopen: ((ev: never) => unknown) | null;
  onmessage: ((ev: { data: unknown } & never) => unknown) | null;
  onclose: ((ev: never) => unknown) | null;
  onerror: ((ev: never) => unknown) | null;
  send(data: string): void;
  close(code?: number, reason?: string): void;
}
export type SocketMaker = new (url: string) => unknown;

export interface LinkOptions {
  http: Http;
  clock: Clock;
  backoff: Backoff;
  /** A connection without a sign of life for so many milliseconds is taken up again. */
  silence: number;
  /** How long opening may take. */
  patience: number;
  WebSocket: SocketMaker | undefined;
}

interface WireFrame {
  op: string;
  id?: number;
  session_id?: string;
  cursor?: string;
  last?: number;
  event?: Event;
  preview?: Preview;
  server_now?: string;
  error?: { code: string; message: string };
  retry?: boolean;
}

/** One followed session. */
export class Channel {
  readonly session: string;
  readonly track: Track;
  status: Connection = { state: "connecting", since: Date.now(), attempt: 0 };
  /** Attempts in a row that brought nothing, and those of them that were faults of the server. */
  faults = 0;
  inner = 0;
  /** The watch whose answer is awaited; frames before it belong to an older one. */
  asked = 0;
  stream: AbortController | undefined;
  timer: ReturnType<typeof setTimeout> | undefined;
  #goal = 0;
  readonly #frame: (f: Frame) => void;
  readonly #tell: (c: Connection) => void;

  constructor(session: string, after: string | undefined, frame: (f: Frame) => void, tell: (c: Connection) => void) {
    this.session = session;
    this.track = new Track(after);
    this.#frame = frame;
    this.#tell = tell;
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
    this.#tell(this.status);
  }

  #caughtUp(): void {
    const behind = this.#goal - this.track.seq;
    if (behind <= 0) this.set("live");
    // Told now and then: the number is only for show.
    else if (this.status.state !== "catching up" || behind % 256 === 0) this.set("catching up", { behind });
  }

  #progress(): void {
    this.faults = this.inner = 0;
  }

  #pass(f: Frame | undefined): void {
    if (f) this.#frame(f);
  }
}

/** What is wrong with a stream for good; everything else is tried again. */
function final(c: Channel, err: ParleyError): boolean {
  if (err.retryable) return false;
  // A fault may pass; one that stays, such as a damaged record, is told.
  if (err.code === "internal") return ++c.inner > 4;
  return true;
}

export class Link {
  readonly #o: LinkOptions;
  /** Sessions on the socket; a session can be there once. */
  readonly #muxed = new Map<string, Channel>();
  /** Sessions with a stream of their own beside the socket. */
  readonly #apart = new Set<Channel>();
  #socket: Socket | undefined;
  #connecting = false; // or connected
  #open = false;
  #openedAt = 0;
  #blocked: boolean; // sockets cannot be opened here, though the server can be reached
  #asks = 0;
  #attempt = 0;
  #refused = 0; // sockets that could not be opened since the server was last away
  #retry: ReturnType<typeof setTimeout> | undefined;
  #watchdog: ReturnType<typeof setTimeout> | undefined;
  #silentAt = 0; // when the server will have been silent for too long
  #leave: (() => void) | undefined;

  constructor(o: LinkOptions) {
    this.#o = o;
    this.#blocked = o.WebSocket === undefined;
  }

  add(c: Channel): void {
    this.#leave ??= onWake(() => this.wake());
    if (this.#muxed.has(c.session)) {
      this.#apart.add(c);
      return this.#startStream(c);
    }
    this.#muxed.set(c.session, c);
    if (this.#blocked) this.#startStream(c);
    else if (this.#open) this.#watch(c);
    else if (!this.#connecting && this.#retry === undefined) this.#connect();
  }

  remove(c: Channel): void {
    this.#forget(c);
    if (this.#open && !this.#muxed.has(c.session)) this.#send({ op: "unwatch", id: ++this.#asks, session_id: c.session });
    if (this.#muxed.size + this.#apart.size > 0) return;
    this.#drop();
    clearTimeout(this.#retry);
    this.#retry = undefined;
    this.#leave?.();
    this.#leave = undefined;
  }

  /** The page came back to life: try now, and see whether what is open still works. */
  wake(): void {
    this.#attempt = 0; // an attempt that is under way may still fail
    if (this.#open) {
      this.#send({ op: "ping", id: ++this.#asks });
      this.#listen(Math.min(5000, this.#o.silence));
    } else if (this.#retry !== undefined) {
      clearTimeout(this.#retry);
      this.#retry = undefined;
      this.#connect();
    }
    for (const c of this.#all()) if (c.timer !== undefined) this.#again(c);
  }

  #all(): Channel[] {
    return [...this.#muxed.values(), ...this.#apart];
  }

  #forget(c: Channel): void {
    clearTimeout(c.timer);
    c.timer = undefined;
    c.asked = 0;
    c.stream?.abort();
    c.stream = undefined;
    if (this.#muxed.get(c.session) === c) this.#muxed.delete(c.session);
    this.#apart.delete(c);
  }

  // The socket.

  #connect(): void {
    const Maker = this.#o.WebSocket;
    if (!Maker || this.#connecting) return;
    this.#connecting = true;
    let socket: Socket | undefined;
    let over = false;
    const patience = setTimeout(() => fail(), this.#o.patience);
    const fail = () => {
      if (over) return;
      over = true;
      clearTimeout(patience);
      const was = this.#socket === socket && this.#open;
      if (socket) mute(socket);
      if (this.#socket !== socket && socket !== undefined) return;
      this.#drop();
      if (was) {
        // One that held for a while was no failed attempt.
        if (Date.now() - this.#openedAt > 2000) this.#attempt = 0;
        return this.#lost(unreachable(this.#o.http.url));
      }
      this.#refused++;
      // If streams can be opened, something on the way does not let sockets through.
      for (const c of this.#muxed.values()) if (!c.stream) this.#startStream(c);
    };
    void (async () => {
      try {
        const url = await this.#o.http.socketAddress("/ws");
        if (over || this.#muxed.size === 0) return void clearTimeout(patience);
        socket = this.#socket = new Maker(url) as Socket;
      } catch {
        return fail();
      }
      socket.onopen = () => {
        clearTimeout(patience);
        if (this.#socket !== socket) return;
        this.#open = true;
        this.#openedAt = Date.now();
        this.#refused = 0;
        this.#listen();
        for (const c of this.#muxed.values()) {
          c.stream?.abort();
          c.stream = undefined;
          this.#watch(c);
        }
      };
      socket.onmessage = (ev: { data: unknown }) => {
        if (this.#socket === socket) this.#receive(ev.data);
      };
      socket.onerror = fail;
      socket.onclose = (ev: unknown) => {
        const error = closedBy(ev);
        if (error && this.#socket === socket && this.#open) this.#refuse(error);
        else fail();
      };
      this.#cut = fail;
    })();
  }

  #cut: () => void = () => {};

  #drop(): void {
    clearTimeout(this.#watchdog);
    if (this.#socket) mute(this.#socket);
    this.#socket = undefined;
    this.#open = this.#connecting = false;
    for (const c of this.#muxed.values()) c.asked = 0;
  }

  /** The connection is gone: all sessions on it wait for the next attempt. */
  #lost(error: ParleyError): void {
    if (this.#muxed.size === 0) return;
    const wait = pause(this.#o.backoff, ++this.#attempt);
    const retryAt = Date.now() + wait;
    this.#refused = 0;
    for (const c of this.#muxed.values()) {
      clearTimeout(c.timer);
      c.timer = undefined;
      c.faults = this.#attempt;
      c.set("offline", { retryAt, error });
    }
    this.#connectIn(wait);
  }

  /** The credential of the socket has ended. With a new token it is taken up again; otherwise all sessions on it end. */
  #refuse(error: ParleyError): void {
    this.#drop();
    if (this.#o.http.renews) return this.#lost(unreachable(this.#o.http.url, error));
    for (const c of [...this.#muxed.values()]) {
      this.#forget(c);
      c.set("ended", { error });
    }
  }

  #connectIn(ms: number): void {
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      this.#connect();
    }, ms);
  }

  /** Hears from the server within so many milliseconds, or takes it for gone. */
  #listen(patience = this.#o.silence): void {
    clearTimeout(this.#watchdog);
    this.#silentAt = Date.now() + patience;
    this.#watchdog = setTimeout(() => {
      // A timer for each frame would cost more than reading it: frames only move the moment on.
      const left = this.#silentAt - Date.now();
      if (left > 0) this.#listen(Math.min(left, this.#o.silence)); // a clock may be set back
      else this.#cut();
    }, patience);
  }

  #send(frame: object): void {
    try {
      this.#socket?.send(JSON.stringify(frame));
    } catch {
      this.#cut();
    }
  }

  #watch(c: Channel): void {
    c.asked = ++this.#asks;
    this.#send({ op: "watch", id: c.asked, session_id: c.session, after: c.track.cursor });
  }

  #receive(data: unknown): void {
    this.#silentAt = Date.now() + this.#o.silence;
    let f: WireFrame;
    try {
      f = JSON.parse(String(data)) as WireFrame;
    } catch {
      return this.#cut();
    }
    if (f.server_now) this.#o.clock.learn(f.server_now);
    if (f.op === "ping" || f.op === "event" || f.op === "preview") this.#attempt = 0;
    if (f.op === "ok" || f.op === "error") {
      const c = this.#all().find((ch) => ch.asked !== 0 && ch.asked === f.id);
      if (!c) return;
      c.asked = 0;
      if (f.op === "error") return this.#fault(c, errorOf(f));
      return this.#guard(c, () => c.hello({ cursor: f.cursor ?? "", last: f.last ?? 0, server_now: f.server_now ?? "" }));
    }
    if (!f.session_id) {
      const error = f.op === "bye" && goodbye(f);
      if (error && error.code === "unauthenticated") this.#refuse(error);
      return; // after any other bye the server closes, and is tried again
    }
    const c = this.#muxed.get(f.session_id);
    if (!c || c.asked !== 0 || c.timer !== undefined || c.stream) return;
    if (f.op === "event" && f.event) this.#guard(c, () => c.event(f.event as Event, f.cursor ?? ""));
    else if (f.op === "preview" && f.preview) this.#guard(c, () => c.preview(f.preview as Preview, f.cursor ?? ""));
    else if (f.op === "bye") this.#fault(c, goodbye(f));
  }

  /** What a track cannot follow is asked for anew. */
  #guard(c: Channel, f: () => void): void {
    try {
      f();
    } catch (err) {
      this.#fault(c, asParleyError(err));
    }
  }

  /** One session's stream failed; the others go on. */
  #fault(c: Channel, error: ParleyError): void {
    c.faults++;
    if (final(c, error)) {
      this.#forget(c);
      c.set("ended", { error });
      return;
    }
    const wait = Math.max(pause(this.#o.backoff, c.faults), error.retryAfter);
    c.set("offline", { retryAt: Date.now() + wait, error });
    clearTimeout(c.timer);
    c.timer = setTimeout(() => this.#again(c), wait);
  }

  #again(c: Channel): void {
    clearTimeout(c.timer);
    c.timer = undefined;
    if (this.#blocked || this.#apart.has(c)) this.#startStream(c);
    else if (this.#open) this.#watch(c);
  }

  // Streams.

  #startStream(c: Channel): void {
    c.stream?.abort();
    const stop = (c.stream = new AbortController());
    this.#stream(c, stop).then(
      (error) => this.#streamEnded(c, stop, error),
      (err: unknown) => this.#streamEnded(c, stop, asParleyError(err)),
    );
  }

  #streamEnded(c: Channel, stop: AbortController, error: ParleyError): void {
    stop.abort();
    if (c.stream !== stop) return; // left, or begun anew
    c.stream = undefined;
    if (this.#blocked || this.#apart.has(c) || !error.retryable) return this.#fault(c, error);
    // Neither way works: the server is away. All wait together.
    for (const other of this.#muxed.values()) {
      other.stream?.abort();
      other.stream = undefined;
    }
    this.#lost(error);
  }

  /** Reads one stream to its end and returns why it ended. */
  async #stream(c: Channel, stop: AbortController): Promise<ParleyError> {
    const { http, silence, clock } = this.#o;
    let timer = setTimeout(() => stop.abort(), this.#o.patience);
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => stop.abort(), silence);
    };
    let bye: ParleyError | undefined;
    const parser = new SSEParser((f) => (bye ??= this.#frame(c, f, clock)));
    try {
      const path = `/sessions/${encodeURIComponent(c.session)}/stream`;
      const res = await http.send(path, { query: { after: c.track.cursor }, headers: { Accept: "text/event-stream" }, signal: stop.signal });
      if (!res.body) return new ParleyError("invalid", "streams cannot be read here");
      this.#streams(c);
      alive();
      const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done || c.stream !== stop) break;
        alive();
        parser.push(value);
        if (bye) return bye;
      }
    } catch (err) {
      if (err instanceof ParleyError) return err;
    } finally {
      clearTimeout(timer);
    }
    return new ParleyError("unavailable", "the connection was cut");
  }

  /** A stream was opened where a socket could not: so it stays, unless the socket was only unlucky. */
  #streams(c: Channel): void {
    this.#attempt = 0;
    if (this.#blocked || this.#apart.has(c) || this.#refused === 0) return;
    if (this.#refused > 1) this.#blocked = true;
    else if (this.#retry === undefined) this.#connectIn(this.#o.backoff.max);
  }

  /** Reads one frame of a stream; it returns why the stream is of no more use. */
  #frame(c: Channel, f: SSEFrame, clock: Clock): ParleyError | undefined {
    try {
      const data = JSON.parse(f.data) as never;
      const { server_now } = data as { server_now?: string };
      if (server_now) clock.learn(server_now);
      if (f.event === "event") c.event(data, f.id);
      else if (f.event === "preview") c.preview(data, f.id);
      else if (f.event === "hello") c.hello({ ...(data as { last: number; server_now: string }), cursor: f.id });
      else if (f.event === "bye") {
        const e = goodbye(data);
        // With a new token it may be opened again; a refusal of that one is final.
        return e.code === "unauthenticated" && this.#o.http.renews ? unreachable(this.#o.http.url, e) : e;
      }
      return undefined;
    } catch (err) {
      return err instanceof ParleyError ? err : new ParleyError("unavailable", "the stream cannot be read", { cause: err });
    }
  }
}

/** A socket that is left tells nothing more. */
function mute(s: Socket): void {
  s.onopen = s.onmessage = s.onclose = null;
  s.onerror = () => {}; // some sockets throw what nobody listens to
  try {
    s.close();
  } catch {
    // It was not open yet, or is closed already.
  }
}

/** Calls back when the page gets its network or its screen back. */
function onWake(f: () => void): () => void {
  const page = globalThis as unknown as Partial<Window>;
  if (typeof page.addEventListener !== "function" || page.document === undefined) return () => {};
  const doc = page.document;
  const seen = () => doc.visibilityState === "visible" && f();
  const names = ["online", "offline", "pageshow"];
  for (const n of names) page.addEventListener(n, f);
  doc.addEventListener("visibilitychange", seen);
  return () => {
    for (const n of names) page.removeEventListener?.(n, f);
    doc.removeEventListener("visibilitychange", seen);
  };
}
