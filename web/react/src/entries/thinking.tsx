import type { ItemOf, SessionStore } from "@parley-hq/client";
import { Markdown } from "../markdown/markdown.js";
import { useRowState, useShared } from "../shared/context.js";
import { Icon } from "../shared/icons.js";

/** Reasoning: one line that can be expanded. */
export function Thinking({ item }: { item: ItemOf<"thinking"> }) {
  const { store, texts } = useShared();
  const [open, setOpen] = useRowState(`thinking ${item.id}`, false);
  const text = item.text.text;
  const live = Boolean(item.open);
  const line = live ? lastLine(text) : "";
  const ms = live ? 0 : thoughtFor(store, item);
  return (
    <details className="pl-think" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <Icon name="chevron" size={14} />
        <span className="pl-think-label">{live ? texts.thinking : texts.thought(ms >= 1000 ? texts.took(ms) : "")}</span>
        {live && !open && <span className="pl-summary">{line}</span>}
      </summary>
      {open && (
        <div className="pl-think-body">
          {text ? <Markdown text={text} open={live} /> : null}
          {item.text.redacted && <p className="pl-muted">{texts.hiddenThought}</p>}
        </div>
      )}
    </details>
  );
}

/**
 * How long a thought took, in milliseconds; 0 when that is not known. The log has only its end: it began after the end of
 * what precedes it on its line of work.
 */
export function thoughtFor(store: Pick<SessionStore, "getOrder" | "getItem">, item: ItemOf<"thinking">): number {
  let from = 0;
  for (const id of store.getOrder()) {
    const it = store.getItem(id);
    if (!it || it.id === item.id || it.open || (it.seq ?? Infinity) > (item.seq ?? 0) || it.workstream_id !== item.workstream_id) continue;
    const ends = [it.at, it.kind === "tool" && it.tool.ended_at, it.kind === "prompt" && it.prompt.ended_at];
    for (const end of ends) if (end && Date.parse(end) <= Date.parse(item.at ?? "")) from = Math.max(from, Date.parse(end));
  }
  return from > 0 ? Date.parse(item.at ?? "") - from : 0;
}

function lastLine(text: string): string {
  const t = text.trimEnd();
  return t.slice(Math.max(t.lastIndexOf("\n") + 1, t.length - 160));
}
