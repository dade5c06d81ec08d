import type { Token, Tokens } from "marked";
import { lex, loaded } from "./markdown/extension.js";
import { decode, safeHref } from "./markdown/markdown.js";
import type { FormulaToken, NoteRefToken, NoteToken } from "./markdown/syntax.js";

/*
 * Markdown as HTML for files. Everything that is text is escaped, raw HTML too; images are links, so that a file loads
 * nothing.
 */

/** Escapes a text for HTML, also inside of quoted attributes. */
export const escapeHTML = (text: string): string => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

type Formulas = (tex: string, display: boolean) => string;

/** Markdown as HTML. Formulas are MathML. */
export async function htmlOfMarkdown(text: string): Promise<string> {
  await loaded;
  return blocks(lex(text), await formulasOf(text));
}

/** Loads the library if a text may have formulas. */
async function formulasOf(text: string): Promise<Formulas> {
  const plain: Formulas = (tex) => `<code>${escapeHTML(tex)}</code>`;
  if (!/\$|\\[[(]|(?:```|~~~)\s*math/.test(text)) return plain;
  const katex = (await import("katex")).default;
  return (tex, display) => {
    try {
      return katex.renderToString(tex, { displayMode: display, output: "mathml", trust: false, strict: "ignore", maxSize: 20, maxExpand: 500 });
    } catch {
      return plain(tex, display);
    }
  };
}

const blocks = (tokens: Token[] | undefined, f: Formulas): string => tokens?.map((t) => block(t, f)).join("\n") ?? "";
const inline = (tokens: Token[] | undefined, f: Formulas): string => tokens?.map((t) => span(t, f)).join("") ?? "";

function block(t: Token, f: Formulas): string {
  switch (t.type) {
    case "space":
    case "def":
      return "";
    case "paragraph":
      return `<p>${inline(t.tokens, f)}</p>`;
    case "heading": {
      const n = Math.min(6, (t as Tokens.Heading).depth + 2); // the page has its own h1 and h2
      return `<h${n}>${inline(t.tokens, f)}</h${n}>`;
    }
    case "code": {
      const { text, lang } = t as Tokens.Code;
      return lang === "math" ? `<p>${f(text.trim(), true)}</p>` : `<pre><code>${escapeHTML(text)}</code></pre>`;
    }
    case "blockquote":
      return `<blockquote>${blocks(t.tokens, f)}</blockquote>`;
    case "list": {
      const list = t as Tokens.List;
      const items = list.items.map((it) => {
        const inner = it.tokens.filter((x) => x.type !== "checkbox").map((x) => block(x, f));
        return `<li>${it.task ? (it.checked ? "☑ " : "☐ ") : ""}${inner.join("")}</li>`;
      });
      return list.ordered ? `<ol start="${Number(list.start) || 1}">${items.join("")}</ol>` : `<ul>${items.join("")}</ul>`;
    }
    case "table": {
      const table = t as Tokens.Table;
      const row = (tag: string, cells: Tokens.TableCell[]) => `<tr>${cells.map((c) => `<${tag}${c.align === "right" || c.align === "center" ? ` class="${c.align}"` : ""}>${inline(c.tokens, f)}</${tag}>`).join("")}</tr>`;
      return `<table><thead>${row("th", table.header)}</thead><tbody>${table.rows.map((r) => row("td", r)).join("")}</tbody></table>`;
    }
    case "hr":
      return "<hr>";
    case "html":
      return `<p>${escapeHTML(t.raw.trim())}</p>`;
    case "note":
      return `<aside><sup>${(t as NoteToken).number}</sup> ${blocks((t as NoteToken).tokens, f)}</aside>`;
    case "text":
      return t.tokens ? inline(t.tokens, f) : escapeHTML(decode((t as Tokens.Text).text));
    default:
      return `<p>${inline([t], f)}</p>`;
  }
}

function span(t: Token, f: Formulas): string {
  switch (t.type) {
    case "text":
      return t.tokens ? inline(t.tokens, f) : escapeHTML(decode((t as Tokens.Text).text));
    case "escape":
      return escapeHTML((t as Tokens.Escape).text);
    case "strong":
    case "em":
    case "del":
      return `<${t.type}>${inline(t.tokens, f)}</${t.type}>`;
    case "codespan":
      return `<code>${escapeHTML((t as Tokens.Codespan).text)}</code>`;
    case "br":
      return "<br>";
    case "link":
      return link((t as Tokens.Link).href, inline(t.tokens, f));
    case "image":
      return link((t as Tokens.Image).href, escapeHTML((t as Tokens.Image).text || (t as Tokens.Image).href));
    case "formula":
      return f((t as FormulaToken).tex, (t as FormulaToken).display);
    case "noteref":
      return `<sup>${(t as NoteRefToken).number}</sup>`;
    default:
      return escapeHTML(t.raw);
  }
}

/** A link, if it leads to another site: addresses of the server mean nothing in a file. */
function link(href: string, inner: string): string {
  const safe = safeHref(href);
  return safe && !/^[/#]/.test(safe) ? `<a href="${escapeHTML(safe)}" rel="noopener noreferrer nofollow">${inner}</a>` : inner;
}
