import type { Links } from "marked";
import { lex } from "./extension.js";

/*
 * Splits a long message into segments, each with its own row in the list. While the message grows, only its last segment is
 * parsed again, so the cost of rendering does not depend on the length of the message. A sealed segment no longer changes.
 */

/** A part of a message. The texts of all segments, joined, are the message. */
export interface Segment {
  text: string;
  /** Set for a part of a fenced block that is longer than one segment: the block's number, its language, and whether it begins here. */
  fence?: { block: number; lang: string; first: boolean; last: boolean };
  /** The segment begins in the middle of a paragraph. */
  mid?: boolean;
}

interface Cut {
  segments: Segment[];
  sealed: number; // number of characters in sealed segments
  check: string; // the last of them, to detect a different text
  fence: { lang: string; mark: string; block: number } | undefined; // the fence that the tail is in
  mid: boolean;
  text: string;
  done: number; // number of sealed segments
  named: Links; // link references that the sealed segments define
  links: Links; // the same with those of the tail; a new object when one is added
}

const tailLimit = 2560;
const pieceSize = 1536;
const fenceLines = 200;
const paragraphLimit = 8192;
const heldLimit = 65_536;
const noLinks: Links = Object.freeze({});

/** Splits messages and caches the result. */
export class Segmenter {
  /**
   * Messages whose tails are in view or above it while the reader is away from the end. Cutting such a row would move what
   * is read, so these tails stay whole for a while.
   */
  hold: ReadonlySet<string> = new Set();
  readonly #cuts = new Map<string, Cut>();

  /** The segments of a message. Sealed segments keep their identity. */
  of(id: string, text: string): readonly Segment[] {
    let cut = this.#cuts.get(id);
    if (cut?.text === text) return cut.segments;
    if (!cut || text.length < cut.text.length || text.slice(Math.max(0, cut.sealed - cut.check.length), cut.sealed) !== cut.check) {
      cut = { segments: [], sealed: 0, check: "", fence: undefined, mid: false, text: "", done: 0, named: noLinks, links: noLinks };
      this.#cuts.set(id, cut);
    }
    cut.text = text;
    extend(cut, text, this.hold.has(id));
    return cut.segments;
  }

  /** The link references of a message, which hold for all its segments. */
  links(id: string): Links {
    return this.#cuts.get(id)?.links ?? noLinks;
  }

  forget(id: string): void {
    this.#cuts.delete(id);
  }
}

function extend(cut: Cut, text: string, hold: boolean): void {
  // The last segment is the tail, which is replaced.
  const done = cut.segments.slice(0, cut.done);
  for (;;) {
    const tail = text.slice(cut.sealed);
    const piece = hold && tail.length < heldLimit ? undefined : cut.fence ? sealFence(cut, tail) : tail.length > tailLimit ? sealProse(cut, tail) : undefined;
    if (!piece) {
      const last: Segment = { text: tail };
      if (cut.fence) last.fence = { block: cut.fence.block, lang: cut.fence.lang, first: false, last: true };
      if (cut.mid) last.mid = true;
      cut.segments = tail || done.length === 0 ? [...done, last] : done;
      cut.done = done.length;
      const open = !cut.fence && tail.includes("]:") ? lex(tail).links : noLinks;
      cut.links = joined(cut.links, { ...cut.named, ...open, ...cut.named });
      return;
    }
    for (const p of piece) {
      cut.sealed += p.text.length;
      p.text = own(p.text);
    }
    done.push(...piece);
    cut.check = text.slice(Math.max(0, cut.sealed - 64), cut.sealed);
  }
}

/**
 * Copies a text. A substring may keep the whole string in memory, so each sealed segment would keep the message as it was
 * when the segment was sealed.
 */
const own = (text: string): string => ` ${text}`.slice(1);

/** Returns the previous object if it is equal to the new one. */
function joined(before: Links, now: Links): Links {
  const names = Object.keys(now);
  return names.length === Object.keys(before).length && names.every((n) => before[n]?.href === now[n]?.href && before[n]?.title === now[n]?.title) ? before : now;
}

/** Seals whole blocks at the front of the tail. */
function sealProse(cut: Cut, tail: string): Segment[] | undefined {
  const tokens = lex(tail);
  const out: Segment[] = [];
  let piece = "";
  const mid = cut.mid;
  const push = () => {
    if (!piece) return;
    out.push(out.length === 0 && mid ? { text: piece, mid } : { text: piece });
    piece = "";
  };
  let at = 0;
  for (let i = 0; i < tokens.length - 1; i++) {
    const raw = tokens[i]?.raw ?? "";
    // A token's raw text may differ from the source in line ends; splitting at the wrong position would lose text.
    if (!tail.startsWith(raw, at)) break;
    if (tokens[i]?.type === "code" && firstLines(raw, fenceLines + 2) !== undefined) break; // it is split by lines
    at += raw.length;
    piece += raw;
    if (piece.length >= pieceSize) push();
  }
  push();
  if (out.length > 0) {
    cut.mid = false;
    // The first definition of a reference wins, as in Markdown.
    if (Object.keys(tokens.links).length > 0) cut.named = { ...cut.named, ...lex(tail.slice(0, at)).links, ...cut.named };
    return out;
  }
  const only = tokens[0];
  const open = /^(`{3,}|~{3,})[ \t]*([^\n`]*)\n/.exec(tail);
  if (only?.type === "code" && open) {
    const lines = firstLines(tail, fenceLines + 1);
    if (lines === undefined || lines === tail.length) return undefined;
    const block = cut.sealed;
    cut.fence = { lang: (open[2] ?? "").trim(), mark: open[1] ?? "```", block };
    return [{ text: tail.slice(0, lines), fence: { block, lang: cut.fence.lang, first: true, last: false } }];
  }
  if (only?.type === "paragraph" && tail.length > paragraphLimit) {
    const at = tail.lastIndexOf(" ", tailLimit);
    if (at > tailLimit / 2) {
      const was = cut.mid;
      cut.mid = true;
      return [was ? { text: tail.slice(0, at + 1), mid: true } : { text: tail.slice(0, at + 1) }];
    }
  }
  return undefined;
}

/** Seals lines of an open fence at the front of the tail, up to its end. */
function sealFence(cut: Cut, tail: string): Segment[] | undefined {
  const f = cut.fence;
  if (!f) return undefined;
  const end = new RegExp(`^ {0,3}${f.mark[0]}{${f.mark.length},}[ \\t]*(?:\\n|$)`, "m").exec(tail);
  const lines = firstLines(tail, fenceLines);
  if (lines !== undefined && lines < (end ? end.index : tail.length))
    return [{ text: tail.slice(0, lines), fence: { block: f.block, lang: f.lang, first: false, last: false } }];
  // Without a line end after it, the mark may be incomplete.
  if (!end?.[0].endsWith("\n")) return undefined;
  cut.fence = undefined;
  return [{ text: tail.slice(0, end.index + end[0].length), fence: { block: f.block, lang: f.lang, first: false, last: true } }];
}

/** Where the first n lines end; undefined when there are fewer. */
function firstLines(text: string, n: number): number | undefined {
  let at = 0;
  for (let i = 0; i < n; i++) {
    at = text.indexOf("\n", at) + 1;
    if (at === 0) return undefined;
  }
  return at;
}

/** The code of a segment of a fence, without the fence lines. */
export function codeOf(s: Segment): string {
  let t = s.text;
  if (s.fence?.first) t = t.slice(t.indexOf("\n") + 1);
  if (s.fence?.last) t = t.replace(/\n? {0,3}(`{3,}|~{3,})[ \t]*\n?$/, "");
  return t.replace(/\n$/, "");
}
