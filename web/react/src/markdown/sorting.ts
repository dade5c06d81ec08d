/** The order of a table: by a column, or as it was sent. */
export type Sort = { column: number; down: boolean } | undefined;

/** The order after a click on a column: ascending, descending, as it was sent. */
export const nextSort = (sort: Sort, column: number): Sort => (sort?.column !== column ? { column, down: false } : sort.down ? undefined : { column, down: true });

/** The rows in an order. Rows with equal values keep theirs; empty values are last in both directions. */
export function sortRows<T>(rows: readonly T[], sort: Sort, value: (row: T, column: number) => unknown): readonly T[] {
  if (!sort) return rows;
  const keyed = rows.map((row) => ({ row, key: keyOf(value(row, sort.column)) }));
  const sign = sort.down ? -1 : 1;
  keyed.sort((a, b) => (a.key === "" || b.key === "" ? Number(a.key === "") - Number(b.key === "") : sign * compare(a.key, b.key)));
  return keyed.map((k) => k.row);
}

/** A cell as people read it: numbers have a real minus sign. */
export const cellShown = (v: unknown): string => (typeof v === "number" ? String(v).replace(/^-/, "\u2212") : cellText(v));

/** A cell as text. */
export const cellText = (v: unknown): string => (v === null || v === undefined ? "" : typeof v === "object" ? JSON.stringify(v) : String(v));

const keyOf = (v: unknown): number | string => {
  const text = cellText(v).trim();
  return numberIn(text) ?? text;
};

/** The number in a cell: with a sign, separators of thousands, and a currency or per cent. */
function numberIn(text: string): number | undefined {
  const bare = text.replace(/^([+\u2212-]?)\s*[$€£¥]\s*/, "$1").replace(/\s*[%€$£¥]$/, "").replace("\u2212", "-");
  if (!/^[+-]?(?:\d{1,3}(?:[,\u00a0\u202f ]\d{3})+|\d+)?(?:\.\d+)?(?:e[+-]?\d+)?$/i.test(bare) || !/\d/.test(bare)) return undefined;
  return Number(bare.replace(/[,\u00a0\u202f ]/g, ""));
}

function compare(a: number | string, b: number | string): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return String(a).localeCompare(String(b), undefined, { numeric: true });
}

/**
 * A table as comma-separated values (RFC 4180). A spreadsheet would run a cell that begins like a formula; such a cell, unless
 * it is a number, begins with an apostrophe.
 */
export function csvOf(rows: readonly (readonly unknown[])[]): string {
  const field = (v: unknown): string => {
    let text = cellText(v);
    if (/^[=+\-@\t\r]/.test(text) && numberIn(text) === undefined) text = `'${text}`;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((r) => `${r.map(field).join(",")}\r\n`).join("");
}
