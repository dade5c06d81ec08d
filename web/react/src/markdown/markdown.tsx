import { Fragment, memo, useEffect, useMemo, useState, type ReactNode } from "react";
import type { Links, Token, Tokens } from "marked";
import { useShared } from "../shared/context.js";
import { lazyPart } from "../shared/lazy.js";
import { CodeBlock } from "./code.js";
import { extras, lex, loaded } from "./extension.js";

/*
 * Renders Markdown as React elements, from the tokens of marked's lexer. No HTML is generated from text, so nothing has to be
 * sanitized: raw HTML is shown as text.
 */

const Table = lazyPart(() => import("./extras.js").then((m) => m.Table), <div className="pl-skeleton" />);
const Picture = lazyPart(() => import("./extras.js").then((m) => m.Picture), null);

/**
 * Renders Markdown. An open text is still being written: unfinished syntax in it is closed temporarily. Its link references
 * may be defined in other segments of the same text.
 */
export const Markdown = memo(function Markdown({ text, open = false, mid = false, known }: { text: string; open?: boolean; mid?: boolean; known?: Links }) {
  const ready = useExtras();
  const tokens = useMemo(() => lex(open && extras ? extras.finish(text) : text, known), [text, open, known, ready]);
  const links = JSON.stringify(tokens.links);
  return (
    <div key={Number(ready)} className={mid ? "pl-md pl-md-mid" : "pl-md"}>
      {tokens.map((t, i) => (
        <Block key={i} token={t} open={open && i === tokens.length - 1} links={links} />
      ))}
    </div>
  );
});

/** Reports whether the extras are loaded. */
function useExtras(): boolean {
  const [ready, setReady] = useState(extras !== undefined);
  useEffect(() => {
    if (!ready) void loaded.then(() => setReady(extras !== undefined));
  }, [ready]);
  return ready;
}

/** One block. While a text grows, only its last block is rendered again, unless a link reference is added. */
const Block = memo(
  function Block({ token, open }: { token: Token; open: boolean; links: string }) {
    return block(token, open);
  },
  (a, b) => a.token.raw === b.token.raw && a.token.type === b.token.type && a.open === b.open && a.links === b.links,
);

export function blocks(tokens: Token[] = [], open = false): ReactNode {
  return tokens.map((t, i) => <Fragment key={i}>{block(t, open && i === tokens.length - 1)}</Fragment>);
}

function block(t: Token, open = false): ReactNode {
  switch (t.type) {
    case "space":
    case "def":
      return null;
    case "paragraph":
      return <p dir="auto">{inline(t.tokens)}</p>;
    case "heading": {
      // The page has its own h1 and h2; the headings of an agent begin at h3.
      const Tag = `h${Math.min(6, (t as Tokens.Heading).depth + 2)}` as "h3";
      return (
        <Tag dir="auto" className={`pl-h${(t as Tokens.Heading).depth}`}>
          {inline(t.tokens)}
        </Tag>
      );
    }
    case "code":
      return <CodeBlock code={t.text as string} lang={(t as Tokens.Code).lang ?? ""} closed={!open} />;
    case "blockquote":
      return <blockquote dir="auto">{blocks(t.tokens, open)}</blockquote>;
    case "list":
      return <List list={t as Tokens.List} open={open} />;
    case "table":
      return <Table table={t as Tokens.Table} />;
    case "hr":
      return <hr />;
    case "html":
      return <p className="pl-rawhtml">{(t.raw ?? "").trim()}</p>;
    case "text":
      return t.tokens ? inline(t.tokens) : decode((t as Tokens.Text).text);
    default:
      return inline([t]);
  }
}

function List({ list, open }: { list: Tokens.List; open: boolean }) {
  const { texts } = useShared();
  const items = list.items.map((it, i) => (
    <li key={i} dir="auto" className={it.task ? "pl-task" : undefined}>
      {it.task && <input type="checkbox" checked={it.checked ?? false} disabled readOnly aria-label={texts.taskBox(it.checked ?? false)} />}
      {it.tokens.map((t, n) =>
        t.type === "checkbox" ? null : <Fragment key={n}>{t.type === "text" && list.loose ? <p>{block(t)}</p> : block(t, open && i === list.items.length - 1 && n === it.tokens.length - 1)}</Fragment>,
      )}
    </li>
  ));
  return list.ordered ? <ol start={list.start === "" ? 1 : list.start}>{items}</ol> : <ul>{items}</ul>;
}

export const side = (align: string | null): string | undefined => (align === "right" ? "pl-end" : align === "center" ? "pl-center" : undefined);

export function inline(tokens: Token[] | undefined): ReactNode {
  return tokens?.map((t, i) => <Fragment key={i}>{span(t)}</Fragment>);
}

function span(t: Token): ReactNode {
  switch (t.type) {
    case "text":
      return t.tokens ? inline(t.tokens) : decode((t as Tokens.Text).text);
    case "escape":
      return (t as Tokens.Escape).text;
    case "strong":
      return <strong>{inline(t.tokens)}</strong>;
    case "em":
      return <em>{inline(t.tokens)}</em>;
    case "del":
      return <del>{inline(t.tokens)}</del>;
    case "codespan":
      return <code dir="ltr">{(t as Tokens.Codespan).text}</code>;
    case "br":
      return <br />;
    case "link":
      return <Link href={(t as Tokens.Link).href}>{inline(t.tokens)}</Link>;
    case "image":
      return <Picture href={(t as Tokens.Image).href} alt={(t as Tokens.Image).text} />;
    default:
      return extras?.draw(t) ?? t.raw; // for example raw HTML
  }
}

/** The URL of a link if its scheme is allowed. */
export function safeHref(href: string): string | undefined {
  // Browsers ignore control characters and spaces inside a scheme.
  const seen = decode(href).replace(/[\u0000-\u0020\u007f-\u009f\u200b-\u200f\u2028-\u202e]/g, "");
  if (/^(https?:\/\/|mailto:)/i.test(seen)) return seen;
  if (/^\/(?![\/\\])/.test(seen) || /^#/.test(seen)) return seen;
  return undefined;
}

export function hostOf(href: string): string {
  try {
    return new URL(href, location.href).host || href;
  } catch {
    return href;
  }
}

export function Link({ href, children }: { href: string; children: ReactNode }) {
  const { onLinkClick } = useShared();
  const safe = safeHref(href);
  if (!safe) return <>{children}</>;
  const away = !safe.startsWith("/") && !safe.startsWith("#");
  return (
    <a
      href={safe}
      title={away ? hostOf(safe) : undefined}
      {...(away ? { target: "_blank", rel: "noopener noreferrer nofollow" } : {})}
      onClick={onLinkClick ? (e) => onLinkClick(safe, e) : undefined}
    >
      {children}
    </a>
  );
}

/**
 * Reports whether a URL is that of a file of the session. A text may contain any URL, and rendering an image requests it with
 * the reader's credentials: the API must not be reachable that way.
 */
export function ownFile(href: string, session: string): boolean {
  try {
    const base = "http://here.invalid";
    const url = new URL(href, base); // resolves dot segments as a browser does
    const folder = new URL(`/parley/v1/sessions/${encodeURIComponent(session)}/artifacts/`, base).pathname;
    return href.startsWith("/") && url.origin === base && url.pathname.startsWith(folder) && url.pathname.length > folder.length && url.search === "";
  } catch {
    return false;
  }
}

const named: Record<string, string> = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©", reg: "®", trade: "™", hellip: "…", mdash: "—", ndash: "–",
  laquo: "«", raquo: "»", lsquo: "‘", rsquo: "’", ldquo: "“", rdquo: "”", times: "×", deg: "°", euro: "€", middot: "·", bull: "•", rarr: "→", larr: "←",
};

/** Decodes character references. */
export function decode(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(/&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|([a-z]+));/gi, (whole, hex, dec, name) => {
    if (name) return named[name as string] ?? whole;
    const n = hex ? Number.parseInt(hex, 16) : Number(dec);
    return n > 0 && n <= 0x10ffff && !(n >= 0xd800 && n <= 0xdfff) ? String.fromCodePoint(n) : "\ufffd";
  });
}
