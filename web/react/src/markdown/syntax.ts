import type { MarkedOptions, Token, TokenizerThis, Tokens } from "marked";

/*
 * Formulas and footnotes for marked's lexer. A formula that is not closed is text, so that a text in progress does not
 * flicker between the two.
 */

/** A formula in TeX. */
export interface FormulaToken extends Tokens.Generic {
  type: "formula";
  tex: string;
  display: boolean;
}

/** The definition of a footnote. */
export interface NoteToken extends Tokens.Generic {
  type: "note";
  number: number;
}

/** A reference to a footnote, with the Markdown of the note. */
export interface NoteRefToken extends Tokens.Generic {
  type: "noteref";
  number: number;
  note: string;
}

// TeX without blank lines, which TeX does not allow in a formula either.
const displayed = /^(?:\$\$((?:\\[^]|[^$\\\n]|\$(?!\$)|\n(?![ \t]*\n))+)\$\$|\\\[((?:\\[^\]]|[^\\\n]|\n(?![ \t]*\n))+)\\\])/;
const bracketed = /^\\\(((?:\\[^)]|[^\\\n]|\n(?![ \t]*\n))+)\\\)/;
const dollars = /^\$(?![\s$])((?:\\.|[^$\\\n])*?(?:\\.|[^\s$\\]))\$(?![\w$])/;

/**
 * Reports whether text between two dollar signs can be an amount of money and what follows it: it begins with a digit, has
 * spaces and none of the characters that only formulas have.
 */
const money = (tex: string): boolean => /^[\d.,]/.test(tex) && /\s/.test(tex) && !/[\\^_={}<>]/.test(tex);

/** The formula at the beginning of a text. */
function formula(src: string): FormulaToken | undefined {
  const big = displayed.exec(src);
  const m = big ?? bracketed.exec(src) ?? dollars.exec(src);
  const tex = (m?.[1] ?? m?.[2] ?? "").trim();
  if (!m || tex === "" || (!big && src[0] === "$" && money(tex))) return undefined;
  return { type: "formula", raw: m[0], tex, display: big !== null };
}

/** A formula that is a block of its own. The lexer would read lines in it as lists or headings. */
function block(src: string): FormulaToken | undefined {
  const m = /^ {0,3}(?=\$\$|\\\[)/.exec(src);
  const found = m ? formula(src.slice(m[0].length)) : undefined;
  const end = m && found ? /^[ \t]*(?:\n+|$)/.exec(src.slice(m[0].length + found.raw.length)) : null;
  return m && found?.display && end ? { ...found, raw: m[0] + found.raw + end[0] } : undefined;
}

/** Footnotes are kept with the link references, under names that no reference can have: those are in lower case. */
const nameOf = (label: string): string => `N^${label.toLowerCase()}`;
const numberOf = (lexer: TokenizerThis["lexer"], name: string): number =>
  Object.keys(lexer.tokens.links)
    .filter((n) => n.startsWith("N^"))
    .indexOf(name) + 1;

const definition = /^ {0,3}\[\^([^\s\]]{1,60})\]:[ \t]*([^\n]*(?:\n(?! {0,3}\[\^)[^\n]*\S[^\n]*|(?:\n[ \t]*)+\n(?: {4}|\t)[^\n]*\S[^\n]*)*)(?:\n+|$)/;

function note(this: TokenizerThis, src: string): NoteToken | undefined {
  const m = definition.exec(src);
  if (!m?.[1] || !m[2]?.trim()) return undefined;
  const name = nameOf(m[1]);
  const text = m[2].replace(/\n(?: {1,4}|\t)/g, "\n");
  this.lexer.tokens.links[name] ??= { href: text, title: "" };
  return { type: "note", raw: m[0], number: numberOf(this.lexer, name), tokens: this.lexer.blockTokens(text, []) };
}

function noteRef(this: TokenizerThis, src: string): NoteRefToken | undefined {
  const m = /^\[\^([^\s\]]{1,60})\](?!\()/.exec(src);
  const name = nameOf(m?.[1] ?? "");
  const note = this.lexer.tokens.links[name];
  return m && note ? { type: "noteref", raw: m[0], number: numberOf(this.lexer, name), note: note.href } : undefined;
}

const first = (re: RegExp) => (src: string) => {
  const at = src.search(re);
  return at < 0 ? undefined : at;
};

export const syntax = {
  renderers: {},
  childTokens: { note: ["tokens"] },
  block: [block, note],
  startBlock: [first(/(?<=\n) {0,3}(?:\$\$|\\\[|\[\^)/)],
  inline: [
    // A dollar sign after a letter or a digit is part of a word, such as US$.
    (src: string, before: Token[]) => (src[0] === "$" && /[\w$]$/.test(before.at(-1)?.raw ?? "") ? undefined : formula(src)),
    noteRef,
  ],
  startInline: [first(/\$|\\[[(]/)],
} as unknown as NonNullable<MarkedOptions["extensions"]>;
