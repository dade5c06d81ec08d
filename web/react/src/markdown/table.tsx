import type { Token, Tokens } from "marked";
import { useRowState, useShared } from "../shared/context.js";
import { Icon } from "../shared/icons.js";
import { CopyButton } from "./code.js";
import { decode, inline, side } from "./markdown.js";
import { csvOf, nextSort, sortRows, type Sort } from "./sorting.js";

/** The text of tokens, without their markup. */
const textOf = (tokens: Token[] | undefined): string => tokens?.map((t) => ("tokens" in t && t.tokens ? textOf(t.tokens) : decode("text" in t ? String(t.text) : t.raw))).join("") ?? "";

// A button contains no links, images or other buttons.
const plain = new Set(["text", "escape", "strong", "em", "del", "codespan", "br", "formula"]);

/** A table in a text. A click on a header sorts it. */
export function Table({ table }: { table: Tokens.Table }) {
  const { texts } = useShared();
  const [sort, setSort] = useRowState<Sort>(`sort ${table.raw}`, undefined);
  const rows = sortRows(table.rows, sort, (row, i) => textOf(row[i]?.tokens));
  const csv = () => csvOf([table.header, ...rows].map((row) => row.map((c) => textOf(c.tokens))));
  return (
    <div className="pl-mdtable">
      <div className="pl-scroll" tabIndex={0} role="region" aria-label={texts.tableLabel}>
        <table>
          <thead>
            <tr>
              {table.header.map((c, i) => (
                <th key={i} scope="col" className={side(c.align)} aria-sort={sort?.column === i ? (sort.down ? "descending" : "ascending") : undefined}>
                  <button type="button" title={texts.sortBy(textOf(c.tokens))} onClick={() => setSort(nextSort(sort, i))}>
                    {c.tokens.every((t) => plain.has(t.type)) ? inline(c.tokens) : textOf(c.tokens)}
                    {sort?.column === i && <Icon name={sort.down ? "down" : "up"} size={12} />}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, i) => (
              <tr key={i}>
                {row.map((c, n) => (
                  <td key={n} className={side(c.align)}>
                    {inline(c.tokens)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <CopyButton text={csv} label={texts.copyCSV} />
    </div>
  );
}
