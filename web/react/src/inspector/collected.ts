import type { Event, ParleyClient, SessionStore } from "@parley-hq/client";

const page = 1000;
const most = 20_000;

/** The newest events of some types, up to a limit, and new events as they arrive. */
export class Collected {
  readonly #client: ParleyClient;
  readonly #store: SessionStore;
  readonly #types: ReadonlySet<string>;
  readonly #listeners = new Set<() => void>();
  #events: readonly Event[] = [];
  #loading = true;
  #cut = false;
  #fault: string | undefined;
  #version = 0;

  constructor(client: ParleyClient, store: SessionStore, types: readonly string[]) {
    this.#client = client;
    this.#store = store;
    this.#types = new Set(types);
  }

  readonly subscribe = (f: () => void): (() => void) => {
    this.#listeners.add(f);
    return () => void this.#listeners.delete(f);
  };
  get version(): number {
    return this.#version;
  }
  get events(): readonly Event[] {
    return this.#events;
  }
  get loading(): boolean {
    return this.#loading;
  }
  /** Older events were left out. */
  get cut(): boolean {
    return this.#cut;
  }
  get fault(): string | undefined {
    return this.#fault;
  }

  /** Loads and follows until the returned function is called. */
  open(): () => void {
    const stop = new AbortController();
    const leave = this.#store.onEvent((e) => this.#types.has(e.type) && this.#add([e]));
    void this.#load(stop.signal);
    return () => {
      leave();
      stop.abort();
    };
  }

  async #load(signal: AbortSignal): Promise<void> {
    try {
      for (let before: number | undefined; ; ) {
        const p = await this.#client.events(this.#store.id, { types: [...this.#types], limit: page, order: "desc", ...(before ? { before } : {}) }, { signal });
        before = p.events[p.events.length - 1]?.sequence;
        this.#add(p.events);
        this.#cut = p.more && this.#events.length >= most;
        if (!p.more || this.#cut || before === undefined) break;
      }
    } catch (err) {
      if (signal.aborted) return;
      this.#fault = err instanceof Error ? err.message : String(err);
    }
    this.#loading = false;
    this.#notify();
  }

  #add(fresh: readonly Event[]): void {
    const all = new Map(this.#events.map((e) => [e.sequence, e]));
    for (const e of fresh) all.set(e.sequence, e);
    this.#events = [...all.values()].sort((a, b) => a.sequence - b.sequence);
    this.#notify();
  }

  #notify(): void {
    this.#version++;
    for (const f of this.#listeners) f();
  }
}
