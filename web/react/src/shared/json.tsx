import { lazyPart } from "./lazy.js";

/** The names of fields whose values are hidden until a person reveals them; the terminal has the same. */
export const secret = /secret|token(?!s)|password|passwd|api[_-]?key|authorization|credential/i;

/** Hides the values of secret fields, for JSON.stringify. */
export const hidden = (k: string, v: unknown): unknown => (v && secret.test(k) ? "••••••" : v);

export const pretty = (v: unknown, replace?: typeof hidden): string => (typeof v === "string" ? v : (JSON.stringify(v, replace, 2) ?? ""));

export const Value = lazyPart(() => import("./value.js").then((m) => m.Value), <div className="pl-value" />);

/** The arguments of a call in one short line. */
export function paramsSummary(params: unknown): string {
  if (params === undefined || params === null) return "";
  if (typeof params !== "object") return String(params);
  if (Array.isArray(params)) return params.map(shortValue).join(", ").slice(0, 160);
  return Object.entries(params as Record<string, unknown>)
    .map(([k, v]) => `${k} ${shortValue(hidden(k, v))}`)
    .join(" · ")
    .slice(0, 160);
}

function shortValue(v: unknown): string {
  if (typeof v === "string") return v.length > 60 ? `${v.slice(0, 59)}…` : v;
  if (v === null || typeof v !== "object") return String(v);
  const s = JSON.stringify(v, hidden);
  return s.length > 60 ? `${s.slice(0, 59)}…` : s;
}
