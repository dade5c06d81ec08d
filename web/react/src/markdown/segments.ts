import { Lexer, type Links } from "marked";

/*
 * A long message is cut into sealed pieces, each a row of the list of its own; only the open tail is read again while it
 * grows. So drawing costs the same however long the message is.
 */

/** A piece of a message. Joined, the texts of all pieces are the message. */
export interface Segment {
  text: string;
  /** Part of a fenced block that is longer than one piece: the block's number, its language, and whether it begins here. */
  fence?: { block: number; lang: string; first: boolean; last: boolean };
  /** Goes on in the middle of a paragraph. */
  mid?: boolean;
}

interface Cut {
  segments: Segment[];
  sealed: number; // characters that are in sealed segments
  check: string; // the last of them, to notice another text
  fence: { lang: string; mark: string; block: number } | undefined; // the tail is inside this fence
  mid: boolean;
  text: string;
  done: number; // how many segments are sealed
  named: Links; // where references lead, by their names, as the sealed segments say
  links: Links; // the same with what the tail says; another object when something is new
}

const tailLimit = 2560;
const pieceSize = 1536;
const fenceLines = 200;
const paragraphLimit = 8192;
const heldLimit = 65_536;
const noLinks: Links = Object.freeze({});

/** Remembers how messages were cut. */
export class Segmenter {
  /**
   * The message whose tail is being read away from the end. Cutting a row that is in view would move what is read, so its
   * tail stays whole for a while.
   */
  hold: string | undefined;
  readonly #cuts = new Map<string, Cut>();

  /** The pieces of a message. Sealed ones are the same objects as before. */
  of(id: string, text: string): readonly Segment[] {
    let cut = this.#cuts.get(id);
    if (cut?.text === text) return cut.segments;
    if (!cut || text.length < cut.text.length || text.slice(Math.max(0, cut.sealed - cut.check.length), cut.sealed) !== cut.check) {
      cut = { segments: [], sealed: 0, check: "", fence: undefined, mid: false, text: "", done: 0, named: noLinks, links: noLinks };
      this.#cuts.set(id, cut);
    }
    cut.text = text;
    extend(cut, text, this.hold === id);
    return cut.segments;
  }

  /** Where the references of a message lead: what is said in one piece is known in all. */
  links(id: string): Links {
    return this.#cuts.get(id)?.links ?? noLinks;
  }

  forget(id: string): void {
    this.#cuts.delete(id);
  }
}

function extend(cut: Cut, text: string, hold: boolean): void {
  // The last segment is the tail; it is made anew.
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
      const open = !cut.fence && tail.includes("]:") ? new Lexer().lex(tail).links : noLinks;
      cut.links = joined(cut.links, { ...open, ...cut.named });
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
 * The same text in memory of its own. A part of a string may keep the whole of it alive, and each sealed piece would keep
 * the message as it was when it was sealed.
 */
const own = (text: string): string => ` ${text}`.slice(1);

/** What is there now, as the object that was there before when they say the same. */
function joined(before: Links, now: Links): Links {
  const names = Object.keys(now);
  return names.length === Object.keys(before).length && names.every((n) => before[n]?.href === now[n]?.href && before[n]?.title === now[n]?.title) ? before : now;
}

/** Takes whole blocks off the front of the tail. */
function sealProse(cut: Cut, tail: string): Segment[] | undefined {
  const tokens = new Lexer().lex(tail);
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
    // Raws may differ from the source in line ends; a cut in the wrong place would lose text.
    if (!tail.startsWith(raw, at)) break;
    if (tokens[i]?.type === "code" && firstLines(raw, fenceLines + 2) !== undefined) break; // is cut by its lines
    at += raw.length;
    piece += raw;
    if (piece.length >= pieceSize) push();
  }
  push();
  if (out.length > 0) {
    cut.mid = false;
    // The first to name one is right, as in one piece of Markdown.
    if (Object.keys(tokens.links).length > 0) cut.named = { ...new Lexer().lex(tail.slice(0, at)).links, ...cut.named };
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

/** Takes lines of an open fence off the front of the tail, up to its end. */
function sealFence(cut: Cut, tail: string): Segment[] | undefined {
  const f = cut.fence;
  if (!f) return undefined;
  const end = new RegExp(`^ {0,3}${f.mark[0]}{${f.mark.length},}[ \\t]*(?:\\n|$)`, "m").exec(tail);
  const lines = firstLines(tail, fenceLines);
  if (lines !== undefined && lines < (end ? end.index : tail.length))
    return [{ text: tail.slice(0, lines), fence: { block: f.block, lang: f.lang, first: false, last: false } }];
  // Without a line end behind it, the mark may be the beginning of something else.
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

/** The code in a piece of a fence, without its fence lines. */
export function codeOf(s: Segment): string {
  let t = s.text;
  if (s.fence?.first) t = t.slice(t.indexOf("\n") + 1);
  if (s.fence?.last) t = t.replace(/\n? {0,3}(`{3,}|~{3,})[ \t]*\n?$/, "");
  return t.replace(/\n$/, "");
}
