import { Lexer, type Links } from "marked";

/*
 * The syntax beyond the lexer's own (formulas, footnotes), and components that most texts do not need. They are loaded right
 * after the page; until then such text is rendered unchanged.
 */

export let extras: typeof import("./extras.js") | undefined;
export const loaded: Promise<void> = import("./extras.js").then(
  (m) => void (extras = m),
  () => {},
);

/** The blocks of a text. Known link references may be defined in other segments of the same text. */
export function lex(text: string, known?: Links) {
  const lexer = new Lexer({ gfm: true, extensions: extras?.syntax ?? null });
  Object.assign(lexer.tokens.links, known);
  return lexer.lex(text);
}
