import type { Event, ParleyClient, SessionStore } from "@parley-hq/client";

/*
 * The raw events that the inspector has loaded. They are kept outside of React: up to a hundred thousand events are searched
 * while a person types and new events arrive.
 */

const page = 1000;

export interface Filter {
  words: string;
  type: string;
  workstream: string;
}

export class EventLog {
  readonly #client: ParleyClient;
  readonly #store: SessionStore;
  readonly #listeners = new Set<() => void>();
  #events: Event[] = []; // by sequence
  #texts: string[] = []; // the searched text of each event
  #held: Event[] = []; // events that arrived while paused
  #paused = false;
  #more = true;
  #loading = false;
  #fault: string | undefined;
  #version = 0;
  #prepended = 0;
  #leave: (() => void) | undefined;
  #filtered: { filter: Filter; version: number; list: readonly Event[] } | undefined;
  readonly types = new Set<string>();
  readonly workstreams = new Set<string>();

  constructor(client: ParleyClient, store: SessionStore) {
    this.#client = client;
    this.#store = store;
  }

  /** Loads the newest events, or those around one event. */
  open(around: number | undefined): () => void {
    this.#leave = this.#store.onEvent((e) => {
      if (this.#paused) this.#held.push(e);
      else this.#add([e]);
    });
    void this.earlier(around === undefined ? undefined : around + page / 2);
    return () => this.#leave?.();
  }

  // Reading.

  readonly subscribe = (f: () => void): (() => void) => {
    this.#listeners.add(f);
    return () => void this.#listeners.delete(f);
  };
  get version(): number {
    return this.#version;
  }
  get all(): readonly Event[] {
    return this.#events;
  }
  get more(): boolean {
    return this.#more;
  }
  get loading(): boolean {
    return this.#loading;
  }
  get fault(): string | undefined {
    return this.#fault;
  }
  get paused(): boolean {
    return this.#paused;
  }
  get held(): number {
    return this.#held.length;
  }
  /** How often older events were added. */
  get prepended(): number {
    return this.#prepended;
  }

  find(seq: number): Event | undefined {
    const i = this.#index(seq);
    return this.#events[i]?.sequence === seq ? this.#events[i] : undefined;
  }

  /** The events that match the filter; the same list until something changes. */
  filter(f: Filter): readonly Event[] {
    const was = this.#filtered;
    if (was && was.version === this.#version && same(was.filter, f)) return was.list;
    const words = f.words.toLowerCase();
    // A new list each time, so that React renders it.
    const list = !words && !f.type && !f.workstream ? this.#events.slice() : this.#events.filter((e, i) => (!f.type || e.type === f.type) && (!f.workstream || (e.workstream_id ?? "main") === f.workstream) && (!words || (this.#texts[i] ?? "").includes(words)));
    this.#filtered = { filter: f, version: this.#version, list };
    return list;
  }

  // Loading.

  pause(on: boolean): void {
    this.#paused = on;
    if (!on) this.#add(this.#held.splice(0));
    this.#notify();
  }

  /** Loads a page of older events. */
  async earlier(before = this.#events[0]?.sequence): Promise<void> {
    if (this.#loading || !this.#more) return;
    this.#loading = true;
    this.#notify();
    try {
      const p = await this.#client.events(this.#store.id, { limit: page, order: "desc", ...(before ? { before } : {}) });
      this.#more = p.more;
      this.#fault = undefined;
      this.#add(p.events.reverse());
    } catch (err) {
      this.#fault = err instanceof Error ? err.message : String(err);
    }
    this.#loading = false;
    this.#notify();
  }

  /** Loads all events. */
  async everything(): Promise<void> {
    while (this.#more && !this.#fault && this.#leave) await this.earlier();
  }

  #index(seq: number): number {
    let low = 0;
    let high = this.#events.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if ((this.#events[mid]?.sequence ?? 0) < seq) low = mid + 1;
      else high = mid;
    }
    return low;
  }

  #add(fresh: Event[]): void {
    const first = this.#events[0]?.sequence ?? Number.POSITIVE_INFINITY;
    const last = this.#events[this.#events.length - 1]?.sequence ?? 0;
    const before = this.#events.length > 0 ? fresh.filter((e) => e.sequence < first) : [];
    const after = fresh.filter((e) => e.sequence > last);
    if (before.length + after.length === 0) return;
    for (const e of fresh) {
      this.types.add(e.type);
      this.workstreams.add(e.workstream_id ?? "main");
    }
    if (before.length > 0) {
      this.#events = [...before, ...this.#events];
      this.#texts = [...before.map(text), ...this.#texts];
      this.#prepended++;
    }
    for (const e of after) {
      this.#events.push(e);
      this.#texts.push(text(e));
    }
    this.#notify();
  }

  #notify(): void {
    this.#version++;
    for (const f of this.#listeners) f();
  }
}

const text = (e: Event): string => JSON.stringify(e).toLowerCase();

const same = (a: Filter, b: Filter): boolean => a.words === b.words && a.type === b.type && a.workstream === b.workstream;
