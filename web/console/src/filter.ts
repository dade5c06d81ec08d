import type { SessionQuery, Status } from "@parley-hq/client";

/** What narrows the list of conversations. It is kept in the address of the page. */
export interface Filter {
  agent?: string;
  /** The id of a person that owns the conversation or is a member of it. */
  person?: string;
  state?: string;
  /** Last active: a number of days such as 7d, or two days such as 2026-01-01..2026-01-31, either of which may be absent. */
  active?: string;
  archived?: string;
}

export const filterKeys = ["agent", "person", "state", "active", "archived"] as const;
export type FilterKey = (typeof filterKeys)[number];

export const states: readonly Status[] = ["waiting", "running", "idle", "completed", "failed"];

/** Reads the filter of an address; values that cannot be used are left out. */
export function readFilter(search: string): Filter {
  const q = new URLSearchParams(search);
  const f: Filter = {};
  for (const k of filterKeys) {
    const v = q.get(k);
    if (v && valid(k, v)) f[k] = v;
  }
  return f;
}

function valid(k: FilterKey, v: string): boolean {
  if (k === "state") return (states as readonly string[]).includes(v);
  if (k === "archived") return v === "yes";
  return k !== "active" || /^\d{1,4}d$/.test(v) || (between(v) !== undefined && v !== "..");
}

/** The filter as the end of an address. */
export function searchOf(f: Filter): string {
  const q = new URLSearchParams(filterKeys.flatMap((k) => (f[k] ? [[k, f[k]]] : [])));
  return q.size > 0 ? `?${q}` : "";
}

/** The two days of a filter; a day may be empty. */
export function between(active: string): [from: string, to: string] | undefined {
  const m = /^(\d{4}-\d{2}-\d{2})?\.\.(\d{4}-\d{2}-\d{2})?$/.exec(active);
  return m ? [m[1] ?? "", m[2] ?? ""] : undefined;
}

/** The query that lists what the filter shows. Archived conversations are listed alone or not at all. */
export function queryOf(f: Filter, now = new Date()): SessionQuery {
  const q: SessionQuery = { archived: f.archived === "yes" };
  if (f.agent) q.agent = f.agent;
  if (f.person) q.user = f.person;
  if (f.state) q.status = f.state as Status;
  const days = /^(\d+)d$/.exec(f.active ?? "");
  if (days) q.since = midnight(now.getFullYear(), now.getMonth(), now.getDate() + 1 - Number(days[1]));
  const [from, to] = between(f.active ?? "") ?? [];
  if (from) q.since = startOf(from, 0);
  if (to) q.until = startOf(to, 1);
  return q;
}

const midnight = (year: number, month: number, day: number): string => new Date(year, month, day).toISOString();

/** The beginning of a day in the time zone of the browser, some days later. */
function startOf(day: string, later: number): string {
  const [year = 0, month = 1, date = 1] = day.split("-").map(Number);
  return midnight(year, month - 1, date + later);
}
