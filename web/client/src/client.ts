import type { Backoff } from "./backoff.js";
import { Channel, type Connection } from "./channel.js";
import { Clock } from "./clock.js";
import { ParleyError } from "./error.js";
import { Http, type Query, type Request, type Token } from "./http.js";
import { Link } from "./link.js";
import { Outbox, type OutboxStorage } from "./outbox.js";
import type { SocketMaker } from "./socket.js";
import type { Frame } from "./track.js";
import type {
  AgentInfo, Answer, Draft, Event, FileInfo, Fork, ItemPage, Member, NewSession, Policy, Preview, Receipt, SearchPage, Session, SessionPage, Settings, Snapshot,
  Status, StopResult, UserMessage,
} from "./types.gen.js";
import { upload, type UploadOptions } from "./upload.js";

export interface ClientOptions {
  /** The server's address; in a browser the page's own, elsewhere http://127.0.0.1:8000. */
  url?: string;
  /** Sent as a bearer token; a function is called before every request and connection. */
  token?: Token;
  fetch?: typeof fetch;
  /** The WebSocket constructor; null, or a platform without one: sessions are followed by event streams. */
  WebSocket?: SocketMaker | null;
  /** Stores unsent messages, so that they survive a reload; see localOutbox. */
  storage?: OutboxStorage;
  /** Pauses between attempts, in milliseconds: 250 to 15 000. */
  backoff?: Partial<Backoff>;
  /** How often a request that is safe to repeat is retried; 3. */
  retries?: number;
  /** A connection that receives nothing for this many milliseconds is reopened; 45 000. */
  idleTimeout?: number;
  /** How long opening a connection may take, in milliseconds; 10 000. */
  connectTimeout?: number;
}

export interface SayOptions {
  /** The idempotency key; generated when absent. */
  client_id?: string;
  workstream_id?: string;
}

/** The directives that a running workstream accepts. */
export type SteerCommand = "add_instruction" | "add_constraint" | "set_priority" | "pause_requested" | "resume_requested";

export interface CallOptions {
  signal?: AbortSignal;
}

export interface WatchOptions extends CallOptions {
  /** A cursor; "0" is the beginning. Absent: new events only, preceded by the open blocks. */
  after?: string;
  onConnection?: (c: Connection) => void;
}

export interface EventPage {
  events: Event[];
  more: boolean;
}

export interface EventQuery {
  after?: number;
  before?: number;
  limit?: number;
  order?: "asc" | "desc";
  types?: string[];
  /** A workstream id; "main" selects events outside of workstreams. */
  workstream?: string;
}

/** Narrows a list of sessions. */
export type SessionQuery = {
  limit?: number;
  cursor?: string;
  agent?: string;
  /** The id of a user that owns the session or is a member of it. */
  user?: string;
  status?: Status;
  /** Only archived sessions, or only others; absent: both. */
  archived?: boolean;
  /** Last active at this time or later. */
  since?: string;
  /** Last active before this time. */
  until?: string;
  q?: string;
};

/** A client of one server. One client is enough for a page: all sessions share its connection. */
export class ParleyClient {
  readonly url: string;
  readonly outbox: Outbox;
  /** The WebSocket constructor; undefined when there is none. */
  readonly WebSocket: SocketMaker | undefined;
  readonly #http: Http;
  readonly #clock = new Clock();
  readonly #link: Link;

  constructor(o: ClientOptions = {}) {
    const here = (globalThis as { location?: Location }).location?.origin;
    const backoff = { min: 250, max: 15_000, ...o.backoff };
    const url = o.url ?? (here && here !== "null" ? here : "http://127.0.0.1:8000");
    this.#http = new Http(url, o.token, backoff, o.retries ?? 3, o.fetch);
    this.url = this.#http.url;
    this.outbox = new Outbox(this.#http, backoff, o.storage);
    this.WebSocket = o.WebSocket === undefined ? (globalThis as { WebSocket?: SocketMaker }).WebSocket : (o.WebSocket ?? undefined);
    this.#link = new Link({
      http: this.#http, clock: this.#clock, backoff, idleTimeout: o.idleTimeout ?? 45_000, connectTimeout: o.connectTimeout ?? 10_000, WebSocket: this.WebSocket,
    });
  }

  /** The estimated server time in milliseconds since the epoch. */
  serverNow(): number {
    return this.#clock.now();
  }

  /** Sends any request of the native API; path is what follows /parley/v1. */
  request<T>(path: string, r: Request = {}): Promise<T> {
    return this.#http.json(path, r);
  }

  /** True when the token is a function, so that an expired token can be replaced. */
  get renews(): boolean {
    return this.#http.renews;
  }

  /** The URL of a WebSocket of the native API. It contains the token: do not log it. */
  socketAddress(path: string): Promise<string> {
    return this.#http.socketAddress(path);
  }

  // Sessions.

  /** Creates a session. When the caller chooses the id, the request is safe to repeat. */
  create(n: NewSession = {}, o: CallOptions = {}): Promise<Session> {
    return this.#http.json("/sessions", { method: "POST", json: n, safe: n.id !== undefined, signal: o.signal });
  }

  list(q: SessionQuery = {}, o: CallOptions = {}): Promise<SessionPage> {
    return this.#get("/sessions", q, o);
  }

  get(id: string, o: CallOptions = {}): Promise<Session> {
    return this.#get(at(id), {}, o);
  }

  /** Creates a session that begins with a copy of another one. With a message it is one step: all of it happens, or nothing. */
  fork(id: string, f: Fork = {}, o: CallOptions = {}): Promise<Session> {
    return this.#http.json(`${at(id)}/fork`, { method: "POST", json: f, signal: o.signal });
  }

  update(id: string, change: { title?: string; metadata?: unknown; agent?: string; policy?: Policy; settings?: Settings; compact?: boolean; members?: Member[]; archived?: boolean }): Promise<Session> {
    return this.#http.json(at(id), { method: "PATCH", json: change, safe: true });
  }

  /** Erases a session permanently. */
  erase(id: string): Promise<Receipt> {
    return this.#http.json(at(id), { method: "DELETE" });
  }

  // Sending.

  /** Sends a user message. It is retried until the server has stored it, and is stored once. */
  say(id: string, message: string | Partial<UserMessage>, o: SayOptions = {}): Promise<Event> {
    const payload: UserMessage = typeof message === "string" ? { text: message } : { text: "", ...message };
    return this.#post(id, { type: "user.message", payload }, o);
  }

  /** Withdraws a message that is queued behind the running turn. */
  withdraw(id: string, sequence: number, o: SayOptions = {}): Promise<Event> {
    return this.#post(id, { type: "user.message_withdrawn", payload: { sequence } }, o);
  }

  #post(id: string, draft: Draft, o: SayOptions): Promise<Event> {
    if (o.workstream_id) draft.workstream_id = o.workstream_id;
    return this.outbox.post({ client_id: o.client_id ?? newClientID(), session_id: id, draft });
  }

  /** Answers a prompt. The first valid answer wins; a later one fails with a conflict whose details name the first answerer. */
  answer(id: string, requestID: string, answer: Answer): Promise<Event> {
    const { client_id, ...rest } = answer;
    return this.outbox.post({ client_id: client_id ?? newClientID(), session_id: id, request_id: requestID, answer: rest });
  }

  /** Requests a stop of the running turn, or with `workstreams` of everything. It is not an error when nothing runs. */
  stop(id: string, o: { workstream_id?: string; workstreams?: boolean; reason?: string } = {}): Promise<StopResult> {
    return this.#http.json(`${at(id)}/stop`, { method: "POST", json: o, safe: true });
  }

  // Workstreams.

  /** Sends a directive to a workstream. It is stored until the workstream takes its next step. */
  steer(id: string, workstream: string, command: SteerCommand, text = ""): Promise<unknown> {
    return this.#work(id, workstream, "steer", { command, text });
  }

  /** Sends a message to a workstream. */
  message(id: string, workstream: string, text: string): Promise<unknown> {
    return this.#work(id, workstream, "message", { message: text });
  }

  /** Cancels a workstream; it has a minute to finish. */
  terminate(id: string, workstream: string, reason = ""): Promise<unknown> {
    return this.#work(id, workstream, "terminate", { reason });
  }

  #work(id: string, workstream: string, verb: string, body: object): Promise<unknown> {
    return this.#http.json(`${at(id)}/workstreams/${encodeURIComponent(workstream)}/${verb}`, { method: "POST", json: { ...body, client_id: newClientID() }, safe: true });
  }

  /** Appends drafts in one commit. Drafts without a client_id get one, so that the request is safe to repeat. */
  async append<T extends string>(id: string, drafts: Draft<T> | Draft<T>[], o: CallOptions = {}): Promise<Event[]> {
    const json = (Array.isArray(drafts) ? drafts : [drafts]).map((d) => ({ ...d, client_id: d.client_id ?? newClientID() }));
    const res = await this.#http.json<{ events: Event[] }>(`${at(id)}/events`, { method: "POST", json, safe: true, signal: o.signal });
    return res.events;
  }

  /** Publishes previews of an open block; for agents. */
  async preview(id: string, pieces: (Pick<Preview, "block" | "offset" | "text"> & Partial<Preview>)[]): Promise<void> {
    await this.#http.json(`${at(id)}/previews`, { method: "POST", json: pieces, safe: true });
  }

  // Reading.

  async snapshot(id: string, items?: number, o: CallOptions = {}): Promise<Snapshot> {
    const asked = Date.now();
    const s = await this.#get<Snapshot>(`${at(id)}/snapshot`, { items }, o);
    this.#clock.update(s.server_now, asked);
    return s;
  }

  items(id: string, q: { before?: number; limit?: number } = {}, o: CallOptions = {}): Promise<ItemPage> {
    return this.#get(`${at(id)}/items`, q, o);
  }

  search(id: string, text: string, q: { before?: number; limit?: number } = {}, o: CallOptions = {}): Promise<SearchPage> {
    return this.#get(`${at(id)}/search`, { q: text, ...q }, o);
  }

  events(id: string, q: EventQuery = {}, o: CallOptions = {}): Promise<EventPage> {
    return this.#get(`${at(id)}/events`, { ...q, types: q.types?.join(",") }, o);
  }

  /** One event, in Parley's form or in that of another dialect. */
  event(id: string, sequence: number, as?: string, o: CallOptions = {}): Promise<unknown> {
    return this.#get(`${at(id)}/events/${sequence}`, { as }, o);
  }

  async agents(o: CallOptions = {}): Promise<AgentInfo[]> {
    return (await this.#get<{ agents: AgentInfo[] | null }>("/agents", {}, o)).agents ?? [];
  }

  #get<T>(path: string, query: Query, o: CallOptions): Promise<T> {
    return this.#http.json(path, { query, safe: true, signal: o.signal });
  }

  // Files.

  upload(id: string, path: string, body: Blob | ArrayBuffer | Uint8Array<ArrayBuffer> | string, o: UploadOptions = {}): Promise<FileInfo> {
    return upload(this.#http, file(id, path), body, o);
  }

  async artifacts(id: string, q: { prefix?: string; after?: string; limit?: number } = {}, o: CallOptions = {}): Promise<{ artifacts: FileInfo[]; more: boolean }> {
    return this.#get(`${at(id)}/artifacts`, q, o);
  }

  /** The address of a file, for links and images on a page that is signed in. */
  artifactURL(id: string, path: string): string {
    return this.#http.address(file(id, path));
  }

  async download(id: string, path: string, o: CallOptions = {}): Promise<Blob> {
    return (await this.#http.send(file(id, path), { signal: o.signal })).blob();
  }

  /** Fetches an external image through the server; call it when a person asks for the image. */
  async image(url: string, o: CallOptions = {}): Promise<Blob> {
    return (await this.#http.send("/image", { method: "POST", json: { url }, signal: o.signal })).blob();
  }

  removeArtifact(id: string, path: string): Promise<void> {
    return this.#http.json(file(id, path), { method: "DELETE" });
  }

  // Following.

  /**
   * Follows a session. After a lost connection it reconnects from its cursor: events arrive in order and without gaps,
   * and the previews of a block without gaps or repeats. It throws when reconnecting cannot succeed.
   */
  async *watch(id: string, o: WatchOptions = {}): AsyncGenerator<Frame, void, void> {
    const frames: Frame[] = [];
    let wake = () => {};
    let error: ParleyError | undefined;
    const leave = this.follow(
      id,
      o.after,
      (f) => {
        frames.push(f);
        wake();
      },
      (c) => {
        if (c.state === "ended") error = c.error ?? new ParleyError("gone", "the stream ended");
        o.onConnection?.(c);
        wake();
      },
    );
    const stop = () => wake();
    o.signal?.addEventListener("abort", stop);
    try {
      for (;;) {
        for (let f = frames.shift(); f && !o.signal?.aborted; f = frames.shift()) yield f;
        if (o.signal?.aborted) return;
        if (error) throw error;
        await new Promise<void>((resolve) => (wake = resolve));
      }
    } finally {
      o.signal?.removeEventListener("abort", stop);
      leave();
    }
  }

  /** Follows a session with callbacks; call the returned function to end it. */
  follow(id: string, after: string | undefined, frame: (f: Frame) => void, connection: (c: Connection) => void): () => void {
    const c = new Channel(
      id,
      after,
      (f) => {
        if (f.type === "event") this.outbox.ack(f.event);
        frame(f);
      },
      (now) => {
        if (now.state === "live") this.outbox.wake();
        connection(now);
      },
    );
    this.#link.add(c);
    return () => this.#link.remove(c);
  }

  /** Retries connections and unsent messages at once; for a page that becomes active again. */
  wake(): void {
    this.#link.wake();
    this.outbox.wake();
  }
}

const at = (id: string): string => `/sessions/${encodeURIComponent(id)}`;

const file = (id: string, path: string): string => `${at(id)}/artifacts/${filePath(path)}`;

/**
 * The path of a file as part of a URL. It drops the segments . and .., which browsers resolve even when they are encoded:
 * with them the URL could point outside of the session's files.
 */
export function filePath(path: string): string {
  return path
    .split("/")
    .filter((name) => name !== "." && name !== "..")
    .map(encodeURIComponent)
    .join("/");
}

/** Returns a new idempotency key. */
export const newClientID = (): string => `c-${crypto.getRandomValues(new Uint32Array(4)).join("")}`;
