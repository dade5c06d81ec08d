/*
 * A reader's position: the sequence of the last event, and the number of bytes received of each open block. As text: 42, or
 * 42~b7.120~b9.4.
 */

export interface Cursor {
  seq: number;
  /** Bytes by block, in the order in which the blocks began. */
  blocks: Map<string, number>;
}

const form = /^(0|[1-9]\d{0,11})((?:~[A-Za-z0-9_-]{1,64}\.\d{1,10})*)$/;

/** Parses a cursor; undefined when the text is not a cursor. */
export function parseCursor(text: string): Cursor | undefined {
  const m = form.exec(text);
  if (!m) return undefined;
  const blocks = new Map<string, number>();
  for (const mark of (m[2] ?? "").split("~").slice(1)) {
    const dot = mark.lastIndexOf(".");
    blocks.set(mark.slice(0, dot), Number(mark.slice(dot + 1)));
  }
  return { seq: Number(m[1]), blocks };
}

/** The cursor's text. */
export function formatCursor(c: Cursor): string {
  let s = String(c.seq);
  for (const [block, bytes] of c.blocks) s += `~${block}.${bytes}`;
  return s;
}
