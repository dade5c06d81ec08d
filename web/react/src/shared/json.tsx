import { memo } from "react";
import { CopyButton } from "../markdown/code.js";
import { useRowState, useShared } from "./context.js";

export const pretty = (v: unknown): string => (typeof v === "string" ? v : (JSON.stringify(v, null, 2) ?? ""));

const maxLines = 200;

/** A value as indented JSON; a long value is truncated until a person expands it. */
export const Value = memo(function Value({ value, label, keep }: { value: unknown; label: string; keep: string }) {
  const { texts } = useShared();
  const [all, setAll] = useRowState(`value ${keep}`, false);
  const text = pretty(value);
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

/** The arguments of a call in one short line. */
export function paramsSummary(params: unknown): string {
  if (params === undefined || params === null) return "";
  if (typeof params !== "object") return String(params);
  if (Array.isArray(params)) return params.map(shortValue).join(", ").slice(0, 160);
  return Object.entries(params as Record<string, unknown>)
    .map(([k, v]) => `${k} ${shortValue(v)}`)
    .join(" · ")
    .slice(0, 160);
}

function shortValue(v: unknown): string {
  if (typeof v === "string") return v.length > 60 ? `${v.slice(0, 59)}…` : v;
  if (v === null || typeof v !== "object") return String(v);
  const s = JSON.stringify(v);
  return s.length > 60 ? `${s.slice(0, 59)}…` : s;
}
