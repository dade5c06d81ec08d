import { newClientID, type ParleyClient, type SayOptions } from "./client.js";
import { asParleyError, type ParleyError } from "./error.js";
import { Transcript } from "./fold.js";
import { sleep } from "./http.js";
import type { Connection } from "./channel.js";
import { listen } from "./listen.js";
import type { Sending } from "./outbox.js";
import type { Frame } from "./track.js";
import type { Actor, Answer, Event, FileInfo, Item, ItemOf, Session, StopResult, UserMessage, View } from "./types.gen.js";
import type { UploadOptions } from "./upload.js";

/*
 * The state of one session for display: snapshot, stream and fold. Values change only when listeners are called, once per
 * animation frame, and keep their identity until then, as useSyncExternalStore requires.
 */

/** A message that was sent from here and is not in the log yet. */
export type PendingItem = ItemOf<"message"> & { pending: Sending };
export type ShownItem = Item | PendingItem;

export interface StoreOptions {
  /** How many items are loaded first; 200. */
  items?: number;
  /** Schedules one call of flush; by default in the next animation frame. */
  schedule?: (flush: () => void) => void;
}

/** Whether there are items older than the loaded ones. */
export interface Older {
  more: boolean;
  loading: boolean;
  error?: ParleyError;
}

export type Topic = "order" | "state" | "connection" | "older";

const nothing: readonly string[] = [];

/** A store and how often it was opened. */
type Opened = { store: SessionStore; users: number };

const stores = new WeakMap<ParleyClient, Map<string, Opened>>();

/** Opens a session for display. Opening it again returns the same store; it is released when every caller has closed it. */
export function openSession(client: ParleyClient, id: string, o: StoreOptions = {}): SessionStore {
  const all = stores.get(client) ?? new Map<string, Opened>();
  stores.set(client, all);
  let opened = all.get(id);
  if (!opened) {
    const fresh: Opened = { store: new SessionStore(client, id, o, () => --fresh.users === 0 && all.delete(id)), users: 0 };
    all.set(id, (opened = fresh));
  }
  opened.users++;
  return opened.store;
}

export class SessionStore {
  readonly id: string;
  /** Resolves when the session is loaded; rejects when it cannot be loaded. */
  readonly ready: Promise<void>;
  /** How often the session was reloaded because its history was replaced on the server. */
  reloads = 0;
  readonly #client: ParleyClient;
  readonly #o: StoreOptions;
  readonly #release: () => boolean;
  readonly #topics = new Map<Topic, Set<() => void>>();
  readonly #watchers = new Map<string, Set<() => void>>(); // by item
  readonly #eventListeners = new Set<(e: Event) => void>();
  readonly #stop = new AbortController();
  #transcript: Transcript | undefined;
  #order: readonly string[] = nothing;
  #pending = new Map<string, PendingItem>();
  #stored = new Set<unknown>(); // client ids of the messages in the snapshot
  #connection: Connection = { state: "connecting", since: Date.now(), attempt: 0 };
  #older: Older = { more: false, loading: false };
  #before = 0;
  #caller: Actor | undefined;
  #leave: (() => void)[] = [];
  #inbox: Frame[] = [];
  #stale = { pending: false, items: false, connection: undefined as Connection | undefined };
  #scheduled = false;

  /** Created by openSession. */
  constructor(client: ParleyClient, id: string, o: StoreOptions, release: () => boolean) {
    this.#client = client;
    this.id = id;
    this.#o = o;
    this.#release = release;
    this.#leave.push(client.outbox.subscribe(id, () => this.#soon(() => (this.#stale.pending = true))));
    this.#readPending();
    this.#order = [...this.#pending.keys()];
    this.ready = this.#begin();
    this.ready.catch(() => {}); // the connection state reports the error, too
  }

  // Reading. Each method returns the same object until its topic changes.

  /** Ids of all items, in order: the log, open blocks, then pending messages. */
  getOrder(): readonly string[] {
    return this.#order;
  }

  getItem(id: string): ShownItem | undefined {
    return this.#pending.get(id) ?? this.#transcript?.item(id);
  }

  getState(): View | undefined {
    return this.#transcript?.state;
  }

  getSession(): Session | undefined {
    return this.#transcript?.session;
  }

  /** The actor of this client. */
  get caller(): Actor | undefined {
    return this.#caller;
  }

  getConnection(): Connection {
    return this.#connection;
  }

  getOlder(): Older {
    return this.#older;
  }

  /** The sequence of the last folded event. */
  get last(): number {
    return this.#transcript?.last ?? 0;
  }

  subscribe(topic: Topic, f: () => void): () => void {
    return listen(this.#topics, topic, f);
  }

  subscribeItem(id: string, f: () => void): () => void {
    return listen(this.#watchers, id, f);
  }

  /** Calls f with every new event. */
  onEvent(f: (e: Event) => void): () => void {
    this.#eventListeners.add(f);
    return () => void this.#eventListeners.delete(f);
  }

  /** The server's time in milliseconds, for countdowns. */
  serverNow(): number {
    return this.#client.serverNow();
  }

  // Writing.

  /** Sends a user message; it is shown as pending until the stream delivers its event. */
  say(message: string | Partial<UserMessage>, o: SayOptions = {}): Promise<Event> {
    return this.#client.say(this.id, message, { client_id: newClientID(), ...o });
  }

  answer(requestID: string, answer: Answer): Promise<Event> {
    return this.#client.answer(this.id, requestID, answer);
  }

  stop(o: { workstream_id?: string; workstreams?: boolean; reason?: string } = {}): Promise<StopResult> {
    return this.#client.stop(this.id, o);
  }

  withdraw(sequence: number): Promise<Event> {
    return this.#client.withdraw(this.id, sequence);
  }

  upload(path: string, body: Blob | ArrayBuffer | Uint8Array<ArrayBuffer> | string, o: UploadOptions = {}): Promise<FileInfo> {
    return this.#client.upload(this.id, path, body, o);
  }

  /** Resends a failed message. */
  retry(clientID: string): void {
    this.#client.outbox.retry(clientID);
  }

  /** Removes a failed message. */
  discard(clientID: string): void {
    this.#client.outbox.discard(clientID);
  }

  /** Loads a page of older items; it returns whether there are more. */
  async loadOlder(limit = 200): Promise<boolean> {
    await this.ready;
    const t = this.#transcript;
    if (!t || !this.#older.more || this.#older.loading) return this.#older.more;
    this.#setOlder({ more: true, loading: true });
    try {
      const page = await this.#client.items(this.id, { before: this.#before, limit }, { signal: this.#stop.signal });
      if (t !== this.#transcript) return this.#older.more; // the session was reloaded
      t.prepend(page);
      this.#before = page.before ?? 0;
      this.#older = { more: page.more && this.#before > 0, loading: false };
      this.#flush("older");
    } catch (err) {
      if (this.#stop.signal.aborted) return false;
      this.#setOlder({ more: true, loading: false, error: asParleyError(err) });
      throw err;
    }
    return this.#older.more;
  }

  /** Releases the session. Pending messages are still sent. */
  close(): void {
    if (!this.#release()) return;
    this.#stop.abort();
    for (const f of this.#leave.splice(0)) f();
  }

  // Loading and following.

  async #begin(): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        const snap = await this.#client.snapshot(this.id, this.#o.items, { signal: this.#stop.signal });
        if (this.#stop.signal.aborted) return;
        this.#inbox = [];
        this.#transcript = new Transcript(snap);
        this.#before = snap.items[0]?.seq ?? snap.session.last + 1;
        this.#older = { more: snap.more, loading: false };
        this.#caller = snap.caller;
        this.#stored = new Set(snap.items.map((it) => it.kind === "message" && it.message.client_id));
        this.#stale.items = this.#stale.pending = true;
        this.#follow(snap.cursor);
        this.#flush("older", "state", "order");
        return;
      } catch (err) {
        if (this.#stop.signal.aborted) return;
        const error = asParleyError(err);
        this.#setConnection({ state: error.retryable ? "offline" : "ended", since: Date.now(), attempt, error });
        if (!error.retryable) throw error;
        // The client has already paused between its own attempts.
        await sleep(1000, this.#stop.signal).catch(() => {});
      }
    }
  }

  #follow(cursor: string): void {
    const leave = this.#client.follow(
      this.id,
      cursor,
      (f) => this.#soon(() => this.#inbox.push(f)),
      (c) => {
        if (c.state === "ended" && c.error?.code === "gone" && this.reloads < 3) return this.#reload();
        this.#setConnection(c);
      },
    );
    this.#leave.push(leave);
  }

  /** The history was replaced on the server: load it again. */
  #reload(): void {
    this.reloads++;
    this.#begin().catch(() => {}); // the connection state reports the error
  }

  #setConnection(c: Connection): void {
    this.#soon(() => (this.#stale.connection = c));
  }

  #setOlder(o: Older): void {
    this.#older = o;
    this.#notify("older");
  }

  /** Runs note and schedules a flush. */
  #soon(note: () => void): void {
    note();
    if (this.#scheduled || this.#stop.signal.aborted) return;
    this.#scheduled = true;
    (this.#o.schedule ?? nextFrame)(() => {
      this.#scheduled = false;
      if (!this.#stop.signal.aborted) this.#flush();
    });
  }

  /** Folds received frames and calls listeners. */
  #flush(...topics: Topic[]): void {
    const changed = new Set<Topic>(topics);
    const t = this.#transcript;
    const frames = this.#inbox;
    this.#inbox = [];
    for (const f of frames) {
      if (f.type === "event") t?.apply(f.event);
      else if (f.type === "preview") t?.preview(f.preview);
    }
    const changes = t?.take();
    const items = changes?.items ?? new Set<string>();
    if (this.#stale.items) for (const id of this.#watchers.keys()) items.add(id);
    this.#stale.items = false;
    if (changes?.state) changed.add("state");
    if (changes?.order) changed.add("order");
    if (t) this.#client.outbox.passed(this.id, t.last);
    if (this.#stale.pending) {
      this.#stale.pending = false;
      if (this.#readPending(items)) changed.add("order");
    }
    if (changed.has("order")) this.#order = [...(t ? t.order : []), ...(t ? t.open.map((it) => it.id) : []), ...this.#pending.keys()];
    if (this.#stale.connection) {
      this.#connection = this.#stale.connection;
      this.#stale.connection = undefined;
      changed.add("connection");
    }
    for (const id of items) for (const f of this.#watchers.get(id) ?? []) f();
    for (const topic of changed) this.#notify(topic);
    for (const f of frames) if (f.type === "event") for (const listener of this.#eventListeners) listener(f.event);
  }

  #notify(topic: Topic): void {
    for (const f of this.#topics.get(topic) ?? []) f();
  }

  /** Reads pending messages from the outbox; it returns whether the list of them changed. */
  #readPending(changed?: Set<string>): boolean {
    const now = new Map<string, PendingItem>();
    for (const s of this.#client.outbox.entries(this.id)) {
      if (s.draft?.type !== "user.message" || this.#stored.has(s.client_id)) continue;
      const id = `pending-${s.client_id}`;
      const old = this.#pending.get(id);
      if (old && old.pending.status === s.status && old.pending.error?.message === s.error?.message) {
        now.set(id, old);
        continue;
      }
      now.set(id, pendingItem(id, s));
      changed?.add(id);
    }
    const other = String([...now.keys()]) !== String([...this.#pending.keys()]);
    for (const id of this.#pending.keys()) if (!now.has(id)) changed?.add(id);
    this.#pending = now;
    return other;
  }
}

function pendingItem(id: string, s: Sending): PendingItem {
  const b = s.draft?.payload as UserMessage;
  const it: PendingItem = {
    id, kind: "message", at: new Date(s.at).toISOString(), message: { ...b, client_id: s.client_id, state: "sent" }, pending: s,
  };
  if (s.draft?.workstream_id) it.workstream_id = s.draft.workstream_id;
  return it;
}

/** Calls flush in the next animation frame, or by a timer when there is none: a hidden page has no animation frames. */
function nextFrame(flush: () => void): void {
  const page = globalThis as { requestAnimationFrame?: (f: () => void) => number };
  let done = false;
  const once = () => {
    if (done) return;
    done = true;
    clearTimeout(timer);
    flush();
  };
  const timer = setTimeout(once, page.requestAnimationFrame ? 250 : 16);
  page.requestAnimationFrame?.(once);
}
