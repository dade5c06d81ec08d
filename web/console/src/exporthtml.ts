import type { Item, ParleyClient, Session } from "@parley-hq/client";
import { escapeHTML as esc, htmlOfMarkdown } from "@parley-hq/react/html";
import { answerOf, itemsOf, nameOf, questionOf, titleOf } from "./export.js";

/* A conversation as one HTML file: no script, nothing that is loaded, readable in light and in dark. */

const style = `
:root { color-scheme: light dark; --line: light-dark(#dadfd9, #2c3432); --soft: light-dark(#eef0ec, #1b211f); --muted: light-dark(#5a6461, #9ba6a2); }
body { margin: 0 auto; max-width: 46rem; padding: 2rem 1rem 4rem; font: 15px/1.6 system-ui, sans-serif; color: light-dark(#161c1a, #e6ebe8); background: light-dark(#f8f9f6, #121614); overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1rem; margin: 0 0 .25rem; } h3, h4, h5, h6 { font-size: 1rem; margin: 1.25rem 0 .5rem; }
time, .muted, aside { color: var(--muted); font-size: .85rem; font-weight: 400; }
header, article, section, details { margin-bottom: 1.5rem; } .said { background: var(--soft); border-radius: 12px; padding: .75rem 1rem; } .said > div { white-space: pre-wrap; }
details { border: 1px solid var(--line); border-radius: 8px; padding: .4rem .75rem; } summary { cursor: pointer; }
pre { overflow-x: auto; padding: .75rem; border-radius: 8px; background: var(--soft); font: 13px/1.5 ui-monospace, monospace; } code { font-family: ui-monospace, monospace; font-size: .9em; }
blockquote { margin: 0; padding-left: .75rem; border-left: 3px solid var(--line); white-space: pre-line; } table { border-collapse: collapse; } th, td { padding: .3rem .75rem; border-bottom: 1px solid var(--line); text-align: left; } .right { text-align: right; } .center { text-align: center; }
.bad { color: light-dark(#a3262a, #f08a86); }
`;

const when = (at: string | undefined): string => (at ? `<time datetime="${esc(at)}">${esc(new Date(at).toLocaleString())}</time>` : "");
const value = (v: unknown): string => (v === undefined ? "" : `<pre>${esc(typeof v === "string" ? v : JSON.stringify(v, null, 2))}</pre>`);

/** One entry as HTML; "" for those that a record does not need. */
async function entry(it: Item): Promise<string> {
  switch (it.kind) {
    case "message": {
      if (it.message.state === "withdrawn") return "";
      const files = it.message.content?.filter((p) => p.type !== "text").map((p) => `<li>${esc(p.name ?? p.path ?? p.type)}</li>`) ?? [];
      return `<article class="said"><h2>${esc(nameOf(it))} ${when(it.at)}</h2><div>${esc(it.message.text)}</div>${files.length > 0 ? `<ul>${files.join("")}</ul>` : ""}</article>`;
    }
    case "text":
      return `<section>${await htmlOfMarkdown(it.text.text)}</section>`;
    case "tool":
      return `<details><summary><strong>${esc(it.tool.tool ?? "")}</strong> <span class="muted">${esc(it.tool.status)}</span></summary>${value(it.tool.params)}${value(it.tool.error || it.tool.result)}</details>`;
    case "prompt":
      return `<section><blockquote>${esc(questionOf(it.prompt))}</blockquote><p>${esc(answerOf(it.prompt))} ${when(it.prompt.ended_at)}</p></section>`;
    case "plan":
      return `<ul>${it.plan.tasks.map((t) => `<li>${t.status === "done" ? "☑" : "☐"} ${esc(t.title)}</li>`).join("")}</ul>`;
    case "artifact":
      return `<section><strong>${esc(it.artifact.title || it.artifact.type)}</strong>${it.artifact.data === undefined ? `<p>${esc(it.artifact.path ?? "")}</p>` : value(it.artifact.data)}</section>`;
    case "workstream":
      return `<p><strong>${esc(it.workstream.name || it.workstream.id)}</strong> <span class="muted">${esc(it.workstream.state)}</span> ${esc(it.workstream.summary || it.workstream.task || "")}</p>`;
    case "error":
      return `<p class="bad">${esc(it.error.message)}</p>`;
    case "notice":
      return it.notice.text ? `<p class="muted">${esc(it.notice.text)}</p>` : "";
    default:
      return "";
  }
}

/** A conversation as an HTML page. */
export async function htmlOf(client: ParleyClient, session: Session, lang: string): Promise<string> {
  const title = esc(titleOf(session));
  const entries = await Promise.all((await itemsOf(client, session.session_id)).map(entry));
  return `<!doctype html>
<html lang="${esc(lang)}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>${title}</title>
<style>${style}</style>
</head>
<body>
<header><h1>${title}</h1><p class="muted">${esc(session.agent)} · ${when(session.created_at)}</p></header>
<main>
${entries.filter(Boolean).join("\n")}
</main>
</body>
</html>
`;
}
