import { formatCursor, parseCursor, type Cursor } from "./cursor.js";
import { ParleyError } from "./error.js";
import type { Event, Preview } from "./types.gen.js";
import { afterBytes } from "./utf8.js";

/** One step of a session's stream. */
export type Frame =
  | { type: "hello"; cursor: string; last: number; server_now: string }
  | { type: "event"; cursor: string; event: Event }
  | { type: "preview"; cursor: string; preview: Preview };

/**
 * A reader's place in one session's stream. What it lets through has no holes and no repeats: events in order, the pieces
 * of a block one behind the other. It throws an error that can be retried when something is missing.
 */
export class Track {
  #at: Cursor | undefined;
  #hailed = false;
  #lame = new Set<string>(); // blocks whose beginning is not to be had
  #gapped = ""; // the block that made us come back last time

  /** after is a cursor; without one the stream begins now, preceded by the open blocks. */
  constructor(after?: string) {
    if (after === undefined) return;
    this.#at = parseCursor(after);
    if (!this.#at) throw new ParleyError("invalid", `"${after}" is not a cursor: use a sequence such as 42, or the cursor of the last frame`);
  }

  /** From where to go on. */
  get cursor(): string | undefined {
    return this.#at && formatCursor(this.#at);
  }

  get seq(): number {
    return this.#at?.seq ?? 0;
  }

  /** The stream begins, perhaps again; only the first time is something to show. */
  hello(h: { cursor: string; last: number; server_now: string }): Frame | undefined {
    this.#at ??= parseCursor(h.cursor);
    if (!this.#at) throw new ParleyError("internal", "the server's greeting has no cursor");
    if (this.#hailed) return undefined;
    this.#hailed = true;
    return { type: "hello", cursor: formatCursor(this.#at), last: h.last, server_now: h.server_now };
  }

  event(e: Event, cursor: string): Frame | undefined {
    const at = this.#place();
    if (e.sequence <= at.seq) return undefined;
    if (e.sequence !== at.seq + 1)
      throw new ParleyError("internal", `the stream jumped from event ${at.seq} to ${e.sequence}`, { retryable: true });
    at.seq = e.sequence;
    this.#gapped = "";
    const block = e.type === "agent.text" || e.type === "agent.thinking" ? e.payload.block : undefined;
    if (block) {
      at.blocks.delete(block);
      this.#lame.delete(block);
    }
    return { type: "event", cursor: this.#adopt(cursor), event: e };
  }

  preview(p: Preview, cursor: string): Frame | undefined {
    const at = this.#place();
    const have = at.blocks.get(p.block) ?? 0;
    if (this.#lame.has(p.block) || p.offset > have) {
      if (!this.#lame.has(p.block) && this.#gapped !== p.block) {
        this.#gapped = p.block; // ask once for what is missing
        throw new ParleyError("internal", `the stream left out bytes ${have} to ${p.offset} of block ${p.block}`, { retryable: true });
      }
      this.#lame.add(p.block);
      return undefined;
    }
    if (p.end <= have) return undefined;
    const preview = p.offset === have ? p : { ...p, offset: have, text: afterBytes(p.text, have - p.offset) };
    at.blocks.set(p.block, p.end);
    return { type: "preview", cursor: this.#adopt(cursor), preview };
  }

  #place(): Cursor {
    if (!this.#at) throw new ParleyError("internal", "the stream began without a greeting", { retryable: true });
    return this.#at;
  }

  /** Takes the server's word on the cursor: it knows which blocks have ended without an event. */
  #adopt(text: string): string {
    const mine = this.#place();
    const said = parseCursor(text);
    if (said && said.seq === mine.seq) {
      // How much of them is here is known better here.
      for (const block of said.blocks.keys()) {
        const have = mine.blocks.get(block);
        if (have === undefined) said.blocks.delete(block);
        else said.blocks.set(block, have);
      }
      this.#at = said;
    }
    return formatCursor(this.#at ?? mine);
  }
}
