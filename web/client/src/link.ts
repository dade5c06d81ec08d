import { pause, type Backoff } from "./backoff.js";
import type { Channel } from "./channel.js";
import type { Clock } from "./clock.js";
import { asParleyError, closedBy, errorOf, byeError, ParleyError, unreachable } from "./error.js";
import type { Http } from "./http.js";
import { detach, type Socket, type SocketMaker } from "./socket.js";
import { SSEParser, type SSEFrame } from "./sse.js";
import type { Event, Preview } from "./types.gen.js";

/*
 * The transport of frames: one WebSocket for all sessions, or an event stream per session when a WebSocket cannot be opened.
 * After a lost connection it reconnects from the cursor of each session.
 */

export interface LinkOptions {
  http: Http;
  clock: Clock;
  backoff: Backoff;
  /** A connection that receives nothing for this many milliseconds is reopened. */
  idleTimeout: number;
  /** The timeout for opening a connection, in milliseconds. */
  connectTimeout: number;
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

/** Reports whether an error ends a stream; after any other error it is reopened. */
function final(c: Channel, err: ParleyError): boolean {
  if (err.retryable) return false;
  // An internal error may be temporary; after five in a row, such as for a damaged record, it is reported.
  if (err.code === "internal") return ++c.internalFaults > 4;
  return true;
}

export class Link {
  readonly #o: LinkOptions;
  /** Sessions on the socket, at most one channel for each. */
  readonly #muxed = new Map<string, Channel>();
  /** Further channels of a session that is on the socket; each has its own event stream. */
  readonly #separate = new Set<Channel>();
  #socket: Socket | undefined;
  #connecting = false; // or connected
  #open = false;
  #openedAt = 0;
  #blocked: boolean; // the server can be reached, but not by WebSocket
  #asks = 0;
  #attempt = 0;
  #refused = 0; // WebSockets that could not be opened since the server was last unreachable
  #retry: ReturnType<typeof setTimeout> | undefined;
  #watchdog: ReturnType<typeof setTimeout> | undefined;
  #idleAt = 0; // when the connection counts as lost unless a frame arrives
  #leave: (() => void) | undefined;

  constructor(o: LinkOptions) {
    this.#o = o;
    this.#blocked = o.WebSocket === undefined;
  }

  add(c: Channel): void {
    this.#leave ??= onReturn(() => this.wake());
    if (this.#muxed.has(c.session)) {
      this.#separate.add(c);
      return this.#startStream(c);
    }
    this.#muxed.set(c.session, c);
    if (this.#blocked) this.#startStream(c);
    else if (this.#open) this.#watch(c);
    else if (!this.#connecting && this.#retry === undefined) this.#connect();
  }

  remove(c: Channel): void {
    this.#removeChannel(c);
    if (this.#open && !this.#muxed.has(c.session)) this.#send({ op: "unwatch", id: ++this.#asks, session_id: c.session });
    if (this.#muxed.size + this.#separate.size > 0) return;
    this.#drop();
    clearTimeout(this.#retry);
    this.#retry = undefined;
    this.#leave?.();
    this.#leave = undefined;
  }

  /** Reconnects at once, and checks an open connection with a ping. */
  wake(): void {
    this.#attempt = 0; // the attempt in progress may still fail
    if (this.#open) {
      this.#send({ op: "ping", id: ++this.#asks });
      // The browser may be wrong about the network, so the server has a second to reply.
      this.#listen(Math.min(globalThis.navigator?.onLine === false ? 1000 : 5000, this.#o.idleTimeout));
    } else if (this.#retry !== undefined) {
      clearTimeout(this.#retry);
      this.#retry = undefined;
      this.#connect();
    }
    for (const c of this.#all()) if (c.timer !== undefined) this.#again(c);
  }

  #all(): Channel[] {
    return [...this.#muxed.values(), ...this.#separate];
  }

  #removeChannel(c: Channel): void {
    clearTimeout(c.timer);
    c.timer = undefined;
    c.asked = 0;
    c.stream?.abort();
    c.stream = undefined;
    if (this.#muxed.get(c.session) === c) this.#muxed.delete(c.session);
    this.#separate.delete(c);
  }

  // The socket.

  #connect(): void {
    const Maker = this.#o.WebSocket;
    if (!Maker || this.#connecting) return;
    this.#connecting = true;
    let socket: Socket | undefined;
    let over = false;
    const timer = setTimeout(() => fail(), this.#o.connectTimeout);
    const fail = () => {
      if (over) return;
      over = true;
      clearTimeout(timer);
      const was = this.#socket === socket && this.#open;
      if (socket) detach(socket);
      if (this.#socket !== socket && socket !== undefined) return;
      this.#drop();
      if (was) {
        // A connection that was open for two seconds does not count as a failed attempt.
        if (Date.now() - this.#openedAt > 2000) this.#attempt = 0;
        return this.#lost(unreachable(this.#o.http.url));
      }
      this.#refused++;
      // If streams can be opened, a proxy blocks WebSockets.
      for (const c of this.#muxed.values()) if (!c.stream) this.#startStream(c);
    };
    void (async () => {
      try {
        const url = await this.#o.http.socketAddress("/ws");
        if (over || this.#muxed.size === 0) return void clearTimeout(timer);
        socket = this.#socket = new Maker(url) as Socket;
      } catch {
        return fail();
      }
      socket.onopen = () => {
        clearTimeout(timer);
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
    if (this.#socket) detach(this.#socket);
    this.#socket = undefined;
    this.#open = this.#connecting = false;
    for (const c of this.#muxed.values()) c.asked = 0;
  }

  /** Marks all sessions of the socket as offline and schedules the next attempt. */
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

  /** The credential of the socket has expired. It reconnects when a new token can be requested; otherwise all its sessions end. */
  #refuse(error: ParleyError): void {
    this.#drop();
    if (this.#o.http.renews) return this.#lost(unreachable(this.#o.http.url, error));
    for (const c of [...this.#muxed.values()]) {
      this.#removeChannel(c);
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

  /** Closes the connection unless a frame arrives within this many milliseconds. */
  #listen(timeout = this.#o.idleTimeout): void {
    clearTimeout(this.#watchdog);
    this.#idleAt = Date.now() + timeout;
    this.#watchdog = setTimeout(() => {
      // Frames only move idleAt: a new timer for each frame would cost more than reading the frame.
      const left = this.#idleAt - Date.now();
      if (left > 0) this.#listen(Math.min(left, this.#o.idleTimeout)); // the clock may have been set back
      else this.#cut();
    }, timeout);
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
    this.#idleAt = Date.now() + this.#o.idleTimeout;
    let f: WireFrame;
    try {
      f = JSON.parse(String(data)) as WireFrame;
    } catch {
      return this.#cut();
    }
    if (f.server_now) this.#o.clock.update(f.server_now);
    if (f.op === "ping" || f.op === "event" || f.op === "preview") this.#attempt = 0;
    if (f.op === "ok" || f.op === "error") {
      const c = this.#all().find((ch) => ch.asked !== 0 && ch.asked === f.id);
      if (!c) return;
      c.asked = 0;
      if (f.op === "error") return this.#fault(c, errorOf(f));
      return this.#guard(c, () => c.hello({ cursor: f.cursor ?? "", last: f.last ?? 0, server_now: f.server_now ?? "" }));
    }
    if (!f.session_id) {
      const error = f.op === "bye" && byeError(f);
      if (error && error.code === "unauthenticated") this.#refuse(error);
      return; // after any other bye the server closes the connection, and the client reconnects
    }
    const c = this.#muxed.get(f.session_id);
    if (!c || c.asked !== 0 || c.timer !== undefined || c.stream) return;
    if (f.op === "event" && f.event) this.#guard(c, () => c.event(f.event as Event, f.cursor ?? ""));
    else if (f.op === "preview" && f.preview) this.#guard(c, () => c.preview(f.preview as Preview, f.cursor ?? ""));
    else if (f.op === "bye") this.#fault(c, byeError(f));
  }

  /** Runs f; when the track refuses a frame, the session is watched again. */
  #guard(c: Channel, f: () => void): void {
    try {
      f();
    } catch (err) {
      this.#fault(c, asParleyError(err));
    }
  }

  /** Handles the failure of one session's stream; other sessions are not affected. */
  #fault(c: Channel, error: ParleyError): void {
    c.faults++;
    if (final(c, error)) {
      this.#removeChannel(c);
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
    if (this.#blocked || this.#separate.has(c)) this.#startStream(c);
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
    if (c.stream !== stop) return; // removed or restarted
    c.stream = undefined;
    if (this.#blocked || this.#separate.has(c) || !error.retryable) return this.#fault(c, error);
    // Neither WebSocket nor stream works: the server is unreachable. All sessions wait for the same attempt.
    for (const other of this.#muxed.values()) {
      other.stream?.abort();
      other.stream = undefined;
    }
    this.#lost(error);
  }

  /** Reads one stream to its end and returns why it ended. */
  async #stream(c: Channel, stop: AbortController): Promise<ParleyError> {
    const { http, idleTimeout, clock } = this.#o;
    let timer = setTimeout(() => stop.abort(), this.#o.connectTimeout);
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => stop.abort(), idleTimeout);
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

  /** A stream was opened after a WebSocket failed. After two such failures WebSockets are no longer tried. */
  #streams(c: Channel): void {
    this.#attempt = 0;
    if (this.#blocked || this.#separate.has(c) || this.#refused === 0) return;
    if (this.#refused > 1) this.#blocked = true;
    else if (this.#retry === undefined) this.#connectIn(this.#o.backoff.max);
  }

  /** Handles one frame of a stream; it returns an error when the stream must be closed. */
  #frame(c: Channel, f: SSEFrame, clock: Clock): ParleyError | undefined {
    try {
      const data = JSON.parse(f.data) as never;
      const { server_now } = data as { server_now?: string };
      if (server_now) clock.update(server_now);
      if (f.event === "event") c.event(data, f.id);
      else if (f.event === "preview") c.preview(data, f.id);
      else if (f.event === "hello") c.hello({ ...(data as { last: number; server_now: string }), cursor: f.id });
      else if (f.event === "bye") {
        const e = byeError(data);
        // It may be reopened with a new token; when that token is refused, the stream ends.
        return e.code === "unauthenticated" && this.#o.http.renews ? unreachable(this.#o.http.url, e) : e;
      }
      return undefined;
    } catch (err) {
      return err instanceof ParleyError ? err : new ParleyError("unavailable", "the stream cannot be read", { cause: err });
    }
  }
}

/** Calls f when the network returns or the page becomes visible. */
function onReturn(f: () => void): () => void {
  const page = globalThis as unknown as Partial<Window>;
  if (typeof page.addEventListener !== "function" || page.document === undefined) return () => {};
  const doc = page.document;
  const stop = new AbortController();
  for (const name of ["online", "offline", "pageshow"]) page.addEventListener(name, f, stop);
  doc.addEventListener("visibilitychange", () => doc.visibilityState === "visible" && f(), stop);
  return () => stop.abort();
}
