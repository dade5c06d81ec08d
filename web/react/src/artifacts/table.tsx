import { useMemo } from "react";
import { VList } from "virtua";
import { CopyButton } from "../markdown/code.js";
import { cellShown, csvOf, nextSort, sortRows, type Sort } from "../markdown/sorting.js";
import { useRowState, useShared } from "../shared/context.js";
import { Icon } from "../shared/icons.js";

export interface Table {
  columns: string[];
  rows: unknown[][];
}

/** Reads the table formats that agents send: columns and rows, or a list of objects. */
export function readTable(data: unknown): Table | undefined {
  const d = data as { columns?: unknown; rows?: unknown; data?: unknown } | unknown[] | undefined;
  const list = Array.isArray(d) ? d : Array.isArray(d?.rows) ? d.rows : Array.isArray(d?.data) ? d.data : undefined;
  if (!list) return undefined;
  let columns = Array.isArray(d) ? undefined : Array.isArray(d?.columns) ? d.columns.map(nameOf) : undefined;
  const objects = list.some((r) => r !== null && typeof r === "object" && !Array.isArray(r));
  if (!columns) columns = objects ? [...new Set(list.flatMap((r) => Object.keys((r ?? {}) as object)))] : (list[0] as unknown[] | undefined)?.map((_, i) => String(i + 1));
  if (!columns) return undefined;
  const keys = columns;
  return { columns: keys, rows: list.map((r) => (Array.isArray(r) ? r : keys.map((k) => (r as Record<string, unknown> | null)?.[k]))) };
}

const nameOf = (c: unknown): string =>
  typeof c === "string" ? c : String((c as { label?: string; name?: string; key?: string }).label ?? (c as { name?: string }).name ?? (c as { key?: string }).key ?? "");

const few = 10;
const virtualFrom = 100;

/** A table; a click on a column sorts it. It shows few rows at first, unless it is shown whole. */
export function DataTable({ table, keep, whole = false }: { table: Table; keep: string; whole?: boolean }) {
  const { texts } = useShared();
  const [all, setAll] = useRowState(`all ${keep}`, whole);
  const [sort, setSort] = useRowState<Sort>(`sort ${keep}`, undefined);
  const rows = useMemo(() => sortRows(table.rows, sort, (r, i) => r[i]), [table, sort]);
  const numeric = table.columns.map((_, i) => table.rows.length > 0 && table.rows.slice(0, 50).every((r) => typeof r[i] === "number" || r[i] == null || r[i] === ""));
  const shown = all ? rows : rows.slice(0, few);
  const sorted = (i: number) => (sort?.column === i ? (sort.down ? "descending" : "ascending") : undefined);
  const headButton = (c: string, i: number) => (
    <button type="button" title={texts.sortBy(c)} onClick={() => setSort(nextSort(sort, i))}>
      {c}
      {sort?.column === i && <Icon name={sort.down ? "down" : "up"} size={12} />}
    </button>
  );
  const head = (
    <tr>
      {table.columns.map((c, i) => (
        <th key={i} scope="col" className={numeric[i] ? "pl-end" : undefined} aria-sort={sorted(i)}>
          {headButton(c, i)}
        </th>
      ))}
    </tr>
  );
  return (
    <div className="pl-table">
      {all && !whole && rows.length > virtualFrom ? (
        <div className="pl-bigtable" role="table" aria-label={texts.rows(rows.length)} aria-rowcount={rows.length}>
          <div role="rowgroup">
            <div role="row" className="pl-bigtable-row pl-bigtable-head">
              {table.columns.map((c, i) => (
                <span key={i} role="columnheader" className={numeric[i] ? "pl-end" : undefined} aria-sort={sorted(i)}>
                  {headButton(c, i)}
                </span>
              ))}
            </div>
          </div>
          <VList data={rows} className="pl-bigtable-list" role="rowgroup" tabIndex={0}>
            {(r: unknown[], i: number) => (
              <div key={i} role="row" aria-rowindex={i + 1} className="pl-bigtable-row">
                {table.columns.map((_, n) => (
                  <span key={n} role="cell" className={numeric[n] ? "pl-end" : undefined}>
                    {cellShown(r[n])}
                  </span>
                ))}
              </div>
            )}
          </VList>
        </div>
      ) : (
        <div className="pl-scroll" tabIndex={0} role="region" aria-label={texts.rows(rows.length)}>
          <table>
            <thead>{head}</thead>
            <tbody>
              {shown.map((r, i) => (
                <tr key={i}>
                  {table.columns.map((_, n) => (
                    <td key={n} className={numeric[n] ? "pl-end" : undefined} dir="auto">
                      {cellShown(r[n])}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <div className="pl-table-foot">
        {rows.length > few && !whole && (
          <button type="button" className="pl-link pl-small" onClick={() => setAll(!all)}>
            {all ? texts.close : texts.showAll(texts.rows(rows.length))}
          </button>
        )}
        <CopyButton text={() => csvOf([table.columns, ...rows])} label={texts.copyCSV} />
      </div>
    </div>
  );
}
