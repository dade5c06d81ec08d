import type { ItemOf } from "@parley-hq/client";
import { Markdown } from "../markdown/markdown.js";
import { useRowState, useShared } from "../shared/context.js";
import { Icon } from "../shared/icons.js";

/** Reasoning: one line that can be expanded. */
export function Thinking({ item }: { item: ItemOf<"thinking"> }) {
  const { texts } = useShared();
  const [open, setOpen] = useRowState(`thinking ${item.id}`, false);
  const text = item.text.text;
  const live = Boolean(item.open);
  const line = live ? lastLine(text) : "";
  return (
    <details className="pl-think" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <Icon name="chevron" size={14} />
        <span className="pl-think-label">{live ? texts.thinking : texts.thought("")}</span>
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

function lastLine(text: string): string {
  const t = text.trimEnd();
  return t.slice(Math.max(t.lastIndexOf("\n") + 1, t.length - 160));
}
