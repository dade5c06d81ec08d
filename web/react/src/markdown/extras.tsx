import type { ReactNode } from "react";
import type { Token, Tokens } from "marked";
import remend from "remend";
import { lazyPart } from "../shared/lazy.js";
import { Formula } from "./formula.js";
import { blocks } from "./markdown.js";
import { NoteRef } from "./notes.js";
import type { FormulaToken, NoteRefToken, NoteToken } from "./syntax.js";

/* Loaded right after the page, see extension.ts. */

const Diagram = lazyPart(() => import("./diagram.js").then((m) => m.Diagram), <div className="pl-skeleton pl-skeleton-chart" />);

export { FileChip, FileEntry, ShareEntry } from "../files/entries.js";
export { ErrorEntry, Notice, StatusLine } from "../entries/notices.js";
export { Thinking } from "../entries/thinking.js";
export { quoted } from "../entries/quote.js";
export { Picture } from "./picture.js";
export { syntax } from "./syntax.js";
export { Table } from "./table.js";

/** Closes unfinished Markdown of an open text. */
export const finish = (text: string): string => remend(text, { katex: false });

/** Draws a token of the additional syntax. */
export function draw(t: Token): ReactNode | undefined {
  switch (t.type) {
    case "note":
      return (
        <div className="pl-note" role="note">
          <sup>{(t as NoteToken).number}</sup>
          <div>{blocks((t as Tokens.Generic).tokens)}</div>
        </div>
      );
    case "noteref":
      return <NoteRef number={(t as NoteRefToken).number} note={(t as NoteRefToken).note} />;
    case "formula":
      return <Formula tex={(t as FormulaToken).tex} display={(t as FormulaToken).display} />;
    default:
      return undefined;
  }
}

/** Draws what a closed code block describes, for some languages. */
export function drawCode(lang: string, code: string, diagramURL: string | undefined): ReactNode | undefined {
  if (code.trim() === "") return undefined;
  if (lang === "math") return <Formula tex={code.trim()} display />;
  return lang === "mermaid" && diagramURL ? <Diagram url={diagramURL} source={code} /> : undefined;
}
