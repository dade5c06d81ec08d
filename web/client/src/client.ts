import type { Backoff } from "./backoff.js";
import { Clock } from "./clock.js";
import { ParleyError } from "./error.js";
import { Http, type Query, type Request, type Token } from "./http.js";
import { Channel, Link, type Connection, type SocketMaker } from "./link.js";
import { Outbox, type OutboxStorage } from "./outbox.js";
import type { Frame } from "./track.js";
import type {
  AgentInfo, Answer, Draft, Event, FileInfo, ItemPage, Member, NewSession, Policy, Preview, Receipt, SearchPage, Session, SessionPage, Settings, Snapshot,
  Status, StopResult, UserMessage,
} from "./types.gen.js";
import { upload, type UploadOptions } from "./upload.js";

export interface ClientOptions {
  /** The server's address; in a browser the page's own, elsewhere http://127.0.0.1:8000. */
  url?: string;
  /** Sent as a bearer token; a function is asked before every request and connection. */
  token?: Token;
  fetch?: typeof fetch;
  /** Where there is none, and with null, sessions are followed by event streams. */
  WebSocket?: SocketMaker | null;
  /** Keeps what was said and not sent over a reload; see localOutbox. */
  storage?: OutboxStorage;
  /** Pauses between attempts, in milliseconds: 250 to 15 000. */
  backoff?: Partial<Backoff>;
  /** Attempts of a request that is safe to repeat, beyond the first; 3. */
  retries?: number;
  /** A stream without a sign of life for so many milliseconds is taken up again; 45 000. */
  silence?: number;
  /** How long opening a connection may take, in milliseconds; 10 000. */
  patience?: number;
}

export interface SayOptions {
  /** The idempotency key; made when absent. */
  client_id?: string;
  workstream_id?: string;
}

/** What a workstream can be told while it works. */
export type SteerCommand = "add_instruction" | "add_constraint" | "set_priority" | "pause_requested" | "resume_requested";

export interface CallOptions {
  signal?: AbortSignal;
}

export interface WatchOptions extends CallOptions {
  /** A cursor; "0" is the beginning. Absent: from now on, preceded by the blocks that are being written. */
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
  /** "main" is the main line. */
  workstream?: string;
}

/** Speaks to one server. One client is enough for a page: it shares its connection among all sessions. */
export class ParleyClient {
  readonly url: string;
  readonly outbox: Outbox;
  /** How sockets are made; undefined where there are none. */
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
      http: this.#http, clock: this.#clock, backoff, silence: o.silence ?? 45_000, patience: o.patience ?? 10_000, WebSocket: this.WebSocket,
    });
  }

  /** The server's time in milliseconds since the epoch, as far as it is known. */
  serverNow(): number {
    return this.#clock.now();
  }

  /** Sends any request of the native API; path is what follows /parley/v1. */
  request<T>(path: string, r: Request = {}): Promise<T> {
    return this.#http.json(path, r);
  }

  /** The token is a function: when it has expired, another one is asked for. */
  get renews(): boolean {
    return this.#http.renews;
  }

  /** Where a WebSocket of the native API is opened. It holds the token: not for logs. */
  socketAddress(path: string): Promise<string> {
    return this.#http.socketAddress(path);
  }

  // Sessions.

  /** Begins a session. With an id of its own the request is safe to repeat. */
  create(n: NewSession = {}, o: CallOptions = {}): Promise<Session> {
    return this.#http.json("/sessions", { method: "POST", json: n, safe: n.id !== undefined, signal: o.signal });
  }

  list(q: { limit?: number; cursor?: string; agent?: string; status?: Status; q?: string } = {}, o: CallOptions = {}): Promise<SessionPage> {
    return this.#get("/sessions", q, o);
  }

  get(id: string, o: CallOptions = {}): Promise<Session> {
    return this.#get(at(id), {}, o);
  }

  update(id: string, change: { title?: string; metadata?: unknown; agent?: string; policy?: Policy; settings?: Settings; compact?: boolean; members?: Member[] }): Promise<Session> {
    return this.#http.json(at(id), { method: "PATCH", json: change, safe: true });
  }

  /** Erases a session for good. */
  erase(id: string): Promise<Receipt> {
    return this.#http.json(at(id), { method: "DELETE" });
  }

  // Saying.

  /** Says something. It is sent until the server has it, over lost connections too, and stands in the log once. */
  say(id: string, message: string | Partial<UserMessage>, o: SayOptions = {}): Promise<Event> {
    const payload: UserMessage = typeof message === "string" ? { text: message } : { text: "", ...message };
    return this.#post(id, { type: "user.message", payload }, o);
  }

  /** Takes back a message that waits behind the running turn. */
  withdraw(id: string, sequence: number, o: SayOptions = {}): Promise<Event> {
    return this.#post(id, { type: "user.message_withdrawn", payload: { sequence } }, o);
  }

  #post(id: string, draft: Draft, o: SayOptions): Promise<Event> {
    if (o.workstream_id) draft.workstream_id = o.workstream_id;
    return this.outbox.post({ client_id: o.client_id ?? newClientID(), session_id: id, draft });
  }

  /** Answers a prompt. The first valid answer wins; a later one is refused as a conflict that says who answered. */
  answer(id: string, requestID: string, answer: Answer): Promise<Event> {
    const { client_id, ...rest } = answer;
    return this.outbox.post({ client_id: client_id ?? newClientID(), session_id: id, request_id: requestID, answer: rest });
  }

  /** Asks the running turn to end. Stopping what does not run is no error. */
  stop(id: string, o: { workstream_id?: string; reason?: string } = {}): Promise<StopResult> {
    return this.#http.json(`${at(id)}/stop`, { method: "POST", json: o, safe: true });
  }

  // Workstreams.

  /** Hands a directive to a line of work. It is kept until the line takes its next step. */
  steer(id: string, workstream: string, command: SteerCommand, text = ""): Promise<unknown> {
    return this.#work(id, workstream, "steer", { command, text });
  }

  /** Speaks to a line of work. */
  message(id: string, workstream: string, text: string): Promise<unknown> {
    return this.#work(id, workstream, "message", { message: text });
  }

  /** Ends a line of work: it has a minute to wrap up. */
  terminate(id: string, workstream: string, reason = ""): Promise<unknown> {
    return this.#work(id, workstream, "terminate", { reason });
  }

  #work(id: string, workstream: string, verb: string, body: object): Promise<unknown> {
    return this.#http.json(`${at(id)}/workstreams/${encodeURIComponent(workstream)}/${verb}`, { method: "POST", json: { ...body, client_id: newClientID() }, safe: true });
  }

  /** Appends drafts as one unit. Drafts without a client_id get one, so that a lost answer does no harm. */
  async append<T extends string>(id: string, drafts: Draft<T> | Draft<T>[], o: CallOptions = {}): Promise<Event[]> {
    const json = (Array.isArray(drafts) ? drafts : [drafts]).map((d) => ({ ...d, client_id: d.client_id ?? newClientID() }));
    const res = await this.#http.json<{ events: Event[] }>(`${at(id)}/events`, { method: "POST", json, safe: true, signal: o.signal });
    return res.events;
  }

  /** Shows pieces of a block that is being written; for agents. */
  async preview(id: string, pieces: (Pick<Preview, "block" | "offset" | "text"> & Partial<Preview>)[]): Promise<void> {
    await this.#http.json(`${at(id)}/previews`, { method: "POST", json: pieces, safe: true });
  }

  // Reading.

  async snapshot(id: string, items?: number, o: CallOptions = {}): Promise<Snapshot> {
    const asked = Date.now();
    const s = await this.#get<Snapshot>(`${at(id)}/snapshot`, { items }, o);
    this.#clock.learn(s.server_now, asked);
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

  /** One event, in Parley's words or in those of another dialect. */
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

  /** An image from elsewhere, fetched by the server; for when a person asks to see it. */
  async image(url: string, o: CallOptions = {}): Promise<Blob> {
    return (await this.#http.send("/image", { method: "POST", json: { url }, signal: o.signal })).blob();
  }

  removeArtifact(id: string, path: string): Promise<void> {
    return this.#http.json(file(id, path), { method: "DELETE" });
  }

  // Following.

  /**
   * Follows a session. It takes the stream up again after every cut, from where it was: events come in order without
   * holes, the pieces of a block without gaps or repeats. It throws when there is no use in coming back.
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

  /** Follows a session by callbacks; the function that is returned ends it. */
  follow(id: string, after: string | undefined, frame: (f: Frame) => void, connection: (c: Connection) => void): () => void {
    const c = new Channel(
      id,
      after,
      (f) => {
        if (f.type === "event") this.outbox.settle(f.event);
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

  /** The page came back to life: connections and sends are tried at once. */
  wake(): void {
    this.#link.wake();
    this.outbox.wake();
  }
}

const at = (id: string): string => `/sessions/${encodeURIComponent(id)}`;

const file = (id: string, path: string): string => `${at(id)}/artifacts/${filePath(path)}`;

/**
 * The path of a file as part of an address. Browsers resolve . and .. there, however they are encoded: left in, the path could
 * lead to any other address of the server.
 */
export function filePath(path: string): string {
  return path
    .split("/")
    .filter((name) => name !== "." && name !== "..")
    .map(encodeURIComponent)
    .join("/");
}

/** A fresh idempotency key. */
export function newClientID(): string {
  const b = crypto.getRandomValues(new Uint8Array(16));
  return `c-${Array.from(b, (x) => x.toString(16).padStart(2, "0")).join("")}`;
}
