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
 * A reader's position in one session's stream. It passes on events in order and the previews of a block in order, without
 * gaps or repeats. It throws a retryable error when something is missing.
 */
export class Track {
  #at: Cursor | undefined;
  #helloSent = false;
  #headless = new Set<string>(); // blocks whose beginning the server does not have
  #lastGap = ""; // the block with the gap that caused the last reconnect

  /** after is a cursor; without one the stream begins now, preceded by the open blocks. */
  constructor(after?: string) {
    if (after === undefined) return;
    this.#at = parseCursor(after);
    if (!this.#at) throw new ParleyError("invalid", `"${after}" is not a cursor: use "0", or the cursor of a frame`);
  }

  /** The cursor from which to continue. */
  get cursor(): string | undefined {
    return this.#at && formatCursor(this.#at);
  }

  get seq(): number {
    return this.#at?.seq ?? 0;
  }

  /** Handles the start of a stream; only the first start returns a frame. */
  hello(h: { cursor: string; last: number; server_now: string }): Frame | undefined {
    this.#at ??= parseCursor(h.cursor);
    if (!this.#at) throw new ParleyError("internal", "the server's hello has no cursor");
    if (this.#helloSent) return undefined;
    this.#helloSent = true;
    return { type: "hello", cursor: formatCursor(this.#at), last: h.last, server_now: h.server_now };
  }

  event(e: Event, cursor: string): Frame | undefined {
    const at = this.#cursorNow();
    if (e.sequence <= at.seq) return undefined;
    if (e.sequence !== at.seq + 1)
      throw new ParleyError("internal", `the stream skipped events ${at.seq + 1} to ${e.sequence - 1}`, { retryable: true });
    at.seq = e.sequence;
    this.#lastGap = "";
    const block = e.type === "agent.text" || e.type === "agent.thinking" ? e.payload.block : undefined;
    if (block) {
      at.blocks.delete(block);
      this.#headless.delete(block);
    }
    return { type: "event", cursor: this.#adopt(cursor), event: e };
  }

  preview(p: Preview, cursor: string): Frame | undefined {
    const at = this.#cursorNow();
    const have = at.blocks.get(p.block) ?? 0;
    if (this.#headless.has(p.block) || p.offset > have) {
      if (!this.#headless.has(p.block) && this.#lastGap !== p.block) {
        this.#lastGap = p.block; // reconnect once to get the missing bytes
        throw new ParleyError("internal", `the stream skipped bytes ${have} to ${p.offset} of block ${p.block}`, { retryable: true });
      }
      this.#headless.add(p.block);
      return undefined;
    }
    if (p.end <= have) return undefined;
    const preview = p.offset === have ? p : { ...p, offset: have, text: afterBytes(p.text, have - p.offset) };
    at.blocks.set(p.block, p.end);
    return { type: "preview", cursor: this.#adopt(cursor), preview };
  }

  #cursorNow(): Cursor {
    if (!this.#at) throw new ParleyError("internal", "the stream began without a hello", { retryable: true });
    return this.#at;
  }

  /** Adopts the server's cursor, which omits blocks that ended without an event. */
  #adopt(text: string): string {
    const own = this.#cursorNow();
    // Reading the text costs more than all the rest of a piece, so it is read only when a block has ended.
    if ([...own.blocks.keys()].some((block) => !text.includes(`~${block}.`))) {
      const theirs = parseCursor(text);
      if (theirs?.seq === own.seq) for (const block of own.blocks.keys()) if (!theirs.blocks.has(block)) own.blocks.delete(block);
    }
    return formatCursor(own);
  }
}
