import type { Table } from "./table.js";

/** Parses comma-separated values with quotes, at most a number of rows after the first one, which has the names of the columns. */
export function parseCSV(text: string, most = Number.POSITIVE_INFINITY): Table & { more: boolean } {
  const rows: string[][] = [];
  let row: string[] = [];
  for (const m of text.matchAll(/(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|$)/g)) {
    if (m[0] === "" && row.length === 0) break;
    if (rows.length > most) return { columns: rows[0] ?? [], rows: rows.slice(1), more: true };
    row.push(m[1] !== undefined ? m[1].replaceAll('""', '"') : (m[2] ?? ""));
    if (m[3] !== ",") {
      rows.push(row);
      row = [];
    }
  }
  return { columns: rows[0] ?? [], rows: rows.slice(1), more: false };
}
