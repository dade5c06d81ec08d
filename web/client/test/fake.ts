import { formatCursor, parseCursor, type Cursor } from "../src/cursor.js";
import type { Socket } from "../src/socket.js";
import type { Event, Preview } from "../src/types.gen.js";
import { byteLength } from "../src/utf8.js";

/** Pseudo-random numbers, the same for the same seed. */
export function chance(seed: number): (below: number) => number {
  let s = seed >>> 0;
  return (below) => {
    s = (s + 0x6d2b79f5) >>> 0;
    let t = s;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

type Step = { event: Event } | { preview: Preview };

/** Faults of the network that a frame may have. */
export type Mischief = (frame: string) => "pass" | "twice" | "lose" | "cut";

/** A session's log, served over sockets as the server does. */
export class FakeServer {
  steps: Step[] = [];
  sockets = new Set<FakeSocket>();
  mischief: Mischief = () => "pass";
  /** Sockets are refused. */
  away = false;
  opened = 0;
  received: Record<string, unknown>[] = [];

  /** The constructor for a client. */
  readonly Socket: new (url: string) => unknown;

  constructor() {
    const server = this;
    this.Socket = class extends FakeSocket {
      constructor(url: string) {
        super(server, url);
      }
    };
  }

  get last(): number {
    return this.steps.reduce((n, s) => ("event" in s ? s.event.sequence : n), 0);
  }

  event(type: string, payload: unknown, more: Partial<Event> = {}): Event {
    const sequence = this.last + 1;
    const event = {
      session_id: "s", sequence, timestamp: `2026-01-01T00:00:00.${String(sequence).padStart(6, "0")}Z`, type, payload, ...more,
    } as unknown as Event;
    this.#push({ event });
    return event;
  }

  piece(block: string, text: string, turn_id?: string): void {
    const offset = this.#written(block);
    this.#push({ preview: { block, offset, end: offset + byteLength(text), text, kind: "text", ...(turn_id ? { turn_id } : {}) } });
  }

  #written(block: string): number {
    let end = 0;
    for (const s of this.steps) {
      if ("preview" in s && s.preview.block === block) end = s.preview.end;
      else if ("event" in s && finishes(s.event) === block) end = 0;
    }
    return end;
  }

  #push(s: Step): void {
    this.steps.push(s);
    for (const socket of [...this.sockets]) socket.pump();
  }

  /** Ends every connection with an expired credential: with a frame, or by the close code alone. */
  refuse(how: "bye" | "code"): void {
    for (const s of [...this.sockets]) s.refuse(how);
  }

  /** Closes every connection without a frame. */
  cut(): void {
    for (const s of [...this.sockets]) s.die();
  }
}

function finishes(e: Event): string | undefined {
  return e.type === "agent.text" || e.type === "agent.thinking" ? e.payload.block : undefined;
}

/** A socket whose frames arrive asynchronously, as tasks. */
class FakeSocket implements Socket {
  onopen: Socket["onopen"] = null;
  onmessage: Socket["onmessage"] = null;
  onclose: Socket["onclose"] = null;
  onerror: Socket["onerror"] = null;
  readonly url: string;
  readonly #server: FakeServer;
  #dead = false;
  #at: Cursor | undefined;
  #next = 0;

  constructor(server: FakeServer, url: string) {
    this.#server = server;
    this.url = url;
    queueMicrotask(() => {
      if (server.away || this.#dead) return this.die();
      server.sockets.add(this);
      server.opened++;
      this.onopen?.({} as never);
    });
  }

  send(data: string): void {
    const f = JSON.parse(data) as { op: string; id: number; session_id: string; after?: string };
    this.#server.received.push(f);
    if (f.op === "ping") return this.#deliver(JSON.stringify({ op: "ping", id: f.id, server_now: new Date().toISOString() }));
    if (f.op !== "watch") return;
    const at = parseCursor(f.after ?? String(this.#server.last));
    if (!at || at.seq > this.#server.last)
      return this.#deliver(JSON.stringify({ op: "error", id: f.id, error: { code: "gone", message: "the session was replaced" } }));
    this.#at = at;
    this.#deliver(
      JSON.stringify({ op: "ok", id: f.id, session_id: "s", cursor: formatCursor(at), last: this.#server.last, server_now: new Date().toISOString() }),
    );
    // The missed events, then the missing text of open blocks, then live frames.
    for (const s of this.#server.steps) if ("event" in s && s.event.sequence > at.seq) this.#step(s);
    this.#next = this.#server.steps.length;
    const open = new Map<string, Preview>();
    for (const s of this.#server.steps) {
      if ("event" in s) {
        open.delete(finishes(s.event) ?? "");
        continue;
      }
      const was = open.get(s.preview.block);
      open.set(s.preview.block, was ? { ...was, end: s.preview.end, text: was.text + s.preview.text } : s.preview);
    }
    for (const block of [...this.#at.blocks.keys()]) if (!open.has(block)) this.#at.blocks.delete(block);
    for (const p of open.values()) if (p.end > (this.#at.blocks.get(p.block) ?? 0)) this.#step({ preview: p });
  }

  /** Sends the frames since the last call. */
  pump(): void {
    if (!this.#at) return;
    while (this.#next < this.#server.steps.length && !this.#dead) this.#step(this.#server.steps[this.#next++] as Step);
  }

  #step(s: Step): void {
    const at = this.#at as Cursor;
    if ("event" in s) {
      at.seq = s.event.sequence;
      at.blocks.delete(finishes(s.event) ?? "");
      this.#deliver(JSON.stringify({ op: "event", session_id: "s", cursor: formatCursor(at), event: s.event }));
    } else {
      at.blocks.set(s.preview.block, s.preview.end);
      this.#deliver(JSON.stringify({ op: "preview", session_id: "s", cursor: formatCursor(at), preview: s.preview }));
    }
  }

  #deliver(frame: string): void {
    const fate = this.#server.mischief(frame);
    if (fate === "cut") return this.die();
    if (fate === "lose") return;
    for (let n = fate === "twice" ? 2 : 1; n > 0; n--)
      setTimeout(() => {
        if (!this.#dead) this.onmessage?.({ data: frame } as never);
      }, 0);
  }

  refuse(how: "bye" | "code"): void {
    if (how === "bye") this.#deliver(JSON.stringify({ op: "bye", error: { code: "unauthenticated", message: "expired" }, retry: false }));
    else this.die(4401);
  }

  die(code = 1006): void {
    if (this.#dead) return;
    this.#dead = true;
    this.#server.sockets.delete(this);
    setTimeout(() => this.onclose?.({ code } as never), 0);
  }

  close(): void {
    this.#dead = true;
    this.#server.sockets.delete(this);
  }
}
