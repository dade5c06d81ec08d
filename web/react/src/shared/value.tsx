import { memo, useMemo } from "react";
import { CopyButton } from "../markdown/code.js";
import { useRowState, useShared } from "./context.js";
import { hidden, pretty } from "./json.js";

const maxLines = 200;

/** A value as indented JSON; a long value is truncated until a person expands it, and secrets are hidden until a person reveals them. */
export const Value = memo(function Value({ value, label, keep }: { value: unknown; label: string; keep: string }) {
  const { texts } = useShared();
  const [all, setAll] = useRowState(`value ${keep}`, false);
  const [revealed, reveal] = useRowState(`reveal ${keep}`, false);
  const whole = useMemo(() => pretty(value), [value]);
  const masked = useMemo(() => pretty(value, hidden), [value]);
  const text = revealed ? whole : masked;
  let shown = text;
  if (!all) {
    const lines = text.split("\n", maxLines + 1);
    if (lines.length > maxLines) shown = lines.slice(0, maxLines).join("\n");
    if (shown.length > 20_000) shown = shown.slice(0, 20_000);
  }
  return (
    <div className="pl-value">
      <div className="pl-value-head">
        <span>{label}</span>
        {whole !== masked && (
          <button type="button" className="pl-link" onClick={() => reveal(!revealed)}>
            {revealed ? texts.hide : texts.reveal}
          </button>
        )}
        <CopyButton text={() => text} label={texts.copy} />
      </div>
      <pre tabIndex={0} role="region" aria-label={label} dir="ltr">
        {shown || texts.nothing}
      </pre>
      {shown.length < text.length && (
        <button type="button" className="pl-link" onClick={() => setAll(true)}>
          {texts.showAll(texts.bytes(text.length))}
        </button>
      )}
    </div>
  );
});
