import { pause, type Backoff } from "./backoff.js";
import { asParleyError, type ParleyError } from "./error.js";
import { sleep, type Http } from "./http.js";
import { listen } from "./listen.js";
import type { Answer, Draft, Event } from "./types.gen.js";

/*
 * Messages and answers that are not known to be stored. Each entry has an idempotency key: it is sent until the server has
 * stored it, and is stored once. Entries of one session are sent in order. With a storage they survive a reload.
 */

/** A message or answer that is being sent. */
export interface Sending {
  client_id: string;
  session_id: string;
  /** When it was created, in milliseconds of the local clock. */
  at: number;
  /** sent: stored, but the stream has not delivered it yet. */
  status: "queued" | "sending" | "sent" | "failed";
  /** Its sequence, once it is stored. */
  sequence?: number;
  /** An event to append, or the answer to a prompt. */
  draft?: Draft;
  request_id?: string;
  answer?: Answer;
  /** Why it failed, or why it is queued. */
  error?: { code: string; message: string };
}

/** Storage of entries that survives a reload. */
export interface OutboxStorage {
  load(): Sending[] | Promise<Sending[]>;
  save(entries: Sending[]): void | Promise<void>;
}

/** Stores entries in the browser: in localStorage by default, or per tab with sessionStorage. */
export function localOutbox(key = "parley.outbox", kept: Pick<Storage, "getItem" | "setItem"> = globalThis.localStorage): OutboxStorage {
  return {
    load: () => JSON.parse(kept.getItem(key) ?? "[]") as Sending[],
    save: (entries) => kept.setItem(key, JSON.stringify(entries)),
  };
}

interface Entry extends Sending {
  done: (e: Event) => void;
  fail: (err: ParleyError) => void;
  promise: Promise<Event>;
}

export class Outbox {
  readonly #http: Http;
  readonly #backoff: Backoff;
  readonly #storage: OutboxStorage | undefined;
  readonly #entries = new Map<string, Entry>(); // in the order of creation
  readonly #busy = new Map<string, AbortController>(); // sessions with a send in progress
  readonly #listeners = new Map<string, Set<() => void>>();
  readonly #loaded: Promise<void>;

  constructor(http: Http, backoff: Backoff, storage?: OutboxStorage) {
    this.#http = http;
    this.#backoff = backoff;
    this.#storage = storage;
    this.#loaded = this.#load();
  }

  async #load(): Promise<void> {
    if (!this.#storage) return;
    // Sending works without stored entries when the storage cannot be read.
    const entries = await Promise.resolve()
      .then(() => this.#storage?.load())
      .catch(() => undefined);
    for (const s of entries ?? []) {
      if (this.#entries.has(s.client_id)) continue;
      this.#entries.set(s.client_id, entry({ ...s, status: s.status === "failed" ? "failed" : "queued" }));
      this.#changed(s.session_id);
      void this.#run(s.session_id);
    }
  }

  /** Sends an entry; the promise resolves with the stored event, or rejects when the server refuses it. */
  post(s: Omit<Sending, "status" | "at">): Promise<Event> {
    const known = this.#entries.get(s.client_id);
    if (known) return known.promise;
    const e = entry({ ...s, at: Date.now(), status: "queued" });
    this.#entries.set(s.client_id, e);
    this.#changed(s.session_id);
    void this.#loaded.then(() => this.#run(s.session_id));
    return e.promise;
  }

  /** The entries of a session, oldest first. */
  entries(session: string): Sending[] {
    return [...this.#entries.values()].filter((e) => e.session_id === session).map(plain);
  }

  subscribe(session: string, f: () => void): () => void {
    const leave = listen(this.#listeners, session, f);
    return () => {
      leave();
      // Without listeners no stream is read that would deliver sent entries.
      if (!this.#listeners.has(session)) this.passed(session, Infinity);
    };
  }

  /** Removes sent entries up to a sequence that a reader has received. */
  passed(session: string, sequence: number): void {
    for (const e of this.#entries.values())
      if (e.session_id === session && e.status === "sent" && (e.sequence ?? 0) <= sequence) this.#remove(e);
  }

  /** Removes the entry whose event the stream has delivered. */
  ack(e: Event): void {
    const entry = e.client_id === undefined ? undefined : this.#entries.get(e.client_id);
    if (!entry || entry.session_id !== e.session_id) return;
    this.#remove(entry);
    entry.done(e);
    if (entry.status === "sending") this.#busy.get(e.session_id)?.abort();
  }

  /** Resends a failed entry. */
  retry(clientID: string): void {
    const e = this.#entries.get(clientID);
    if (e?.status !== "failed") return;
    const fresh = entry({ ...plain(e), status: "queued" });
    delete fresh.error;
    this.#entries.set(clientID, fresh);
    this.#changed(e.session_id);
    void this.#run(e.session_id);
  }

  /** Removes a failed entry. */
  discard(clientID: string): void {
    const e = this.#entries.get(clientID);
    if (e?.status === "failed") this.#remove(e);
  }

  /** Ends the pauses between attempts. */
  wake(): void {
    for (const stop of this.#busy.values()) stop.abort("wake");
  }

  #next(session: string): Entry | undefined {
    for (const e of this.#entries.values()) if (e.session_id === session && (e.status === "queued" || e.status === "sending")) return e;
    return undefined;
  }

  /** Sends the entries of a session one after the other. */
  async #run(session: string): Promise<void> {
    if (this.#busy.has(session)) return;
    for (let tries = 0, e = this.#next(session); e; e = this.#next(session)) {
      const stop = new AbortController();
      this.#busy.set(session, stop);
      this.#set(e, "sending", e.error);
      try {
        const stored = await this.#send(e);
        tries = 0;
        if (this.#entries.get(e.client_id) === e) {
          e.sequence = stored.sequence;
          // Stores display it until the stream delivers it.
          if (e.draft && this.#listeners.has(session)) this.#set(e, "sent");
          else this.#remove(e);
          e.done(stored);
        }
      } catch (err) {
        const error = asParleyError(err);
        if (this.#entries.get(e.client_id) !== e) continue; // the stream delivered it
        if (error.retryable || (error.code === "internal" && tries < 4)) {
          this.#set(e, "queued", error);
          // wake ends the pause early.
          await sleep(Math.max(pause(this.#backoff, ++tries), error.retryAfter), stop.signal).catch(() => {});
          continue;
        }
        tries = 0;
        // A person can resend a message, but not an answer that came too late.
        if (e.draft) this.#set(e, "failed", error);
        else this.#remove(e);
        e.fail(error);
      }
    }
    this.#busy.delete(session);
  }

  async #send(e: Entry): Promise<Event> {
    const path = `/sessions/${encodeURIComponent(e.session_id)}`;
    if (e.request_id !== undefined) {
      const json = { ...e.answer, client_id: e.client_id };
      const to = `${path}/prompts/${encodeURIComponent(e.request_id)}/answer`;
      return (await this.#http.json<{ event: Event }>(to, { method: "POST", json })).event;
    }
    const json = { ...e.draft, client_id: e.client_id };
    const { events } = await this.#http.json<{ events: Event[] }>(`${path}/events`, { method: "POST", json });
    return events.find((x) => x.client_id === e.client_id) ?? (events[0] as Event);
  }

  #set(e: Entry, status: Sending["status"], error?: { code: string; message: string }): void {
    e.status = status;
    if (error) e.error = { code: error.code, message: error.message };
    this.#changed(e.session_id);
  }

  #remove(e: Entry): void {
    this.#entries.delete(e.client_id);
    this.#changed(e.session_id);
  }

  #changed(session: string): void {
    for (const f of this.#listeners.get(session) ?? []) f();
    if (!this.#storage) return;
    const all = [...this.#entries.values()].filter((e) => e.status !== "sent").map(plain);
    // A full or forbidden storage must not prevent sending.
    void Promise.resolve()
      .then(() => this.#storage?.save(all))
      .catch(() => {});
  }
}

function entry(s: Sending): Entry {
  let done: Entry["done"] = () => {};
  let fail: Entry["fail"] = () => {};
  const promise = new Promise<Event>((resolve, reject) => {
    done = resolve;
    fail = reject;
  });
  promise.catch(() => {}); // entries() reports the error, too
  return { ...s, done, fail, promise };
}

function plain({ done: _, fail: __, promise: ___, ...s }: Entry): Sending {
  return s;
}
