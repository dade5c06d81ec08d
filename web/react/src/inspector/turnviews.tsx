import { useEffect, useMemo, useState, useSyncExternalStore, type ReactNode } from "react";
import { addUsage, type Usage } from "@parley-hq/client";
import { CopyButton } from "../markdown/code.js";
import { safeHref } from "../markdown/markdown.js";
import { workstreamName, useShared } from "../shared/context.js";
import { useEverySecond } from "../shared/hooks.js";
import { Collected } from "./collected.js";
import { spansOf, tokenTypes, traceTypes, turnsOf, type Span, type TurnRow } from "./spans.js";

function useCollected(types: readonly string[]): Collected {
  const { client, store } = useShared();
  const all = useMemo(() => new Collected(client, store, types), [client, store, types]);
  useEffect(() => all.open(), [all]);
  useSyncExternalStore(all.subscribe, () => all.version);
  return all;
}

/** The placeholder of a table that is loading or empty. */
function Placeholder({ of, empty }: { of: Collected; empty: string }): ReactNode {
  const { texts } = useShared();
  return (
    <p className={of.fault ? "pl-panel-empty pl-bad" : "pl-panel-empty"} role="status">
      {of.fault ?? (of.loading ? texts.loading : empty)}
    </p>
  );
}

/** The tokens of each turn, and their sum. */
export function TokensView({ pick }: { pick: (seq: number) => void }) {
  const { texts } = useShared();
  const all = useCollected(tokenTypes);
  const rows = useMemo(() => turnsOf(all.events).filter((r) => r.models.length > 0 || Object.keys(r.usage).length > 0), [all.events]);
  if (rows.length === 0) return <Placeholder of={all} empty={texts.noTokens} />;
  const total = rows.reduce<Usage>((u, r) => addUsage(u, r.usage), {});
  const columns = [
    [texts.tokensIn, "input_tokens"], [texts.tokensOut, "output_tokens"], [texts.tokensCached, "cache_read_input_tokens"], [texts.tokensReasoning, "reasoning_tokens"],
  ] as const;
  return (
    <div className="pl-turnview" tabIndex={0} role="region" aria-label={texts.tokens}>
      <table className="pl-tokentable" aria-label={texts.tokens}>
        <thead>
          <tr>
            <th scope="col">{texts.turn}</th>
            {columns.map(([label, key]) => (
              <th key={key} scope="col" className="pl-end">
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((r) => (
            <tr key={r.id}>
              <th scope="row">
                <button type="button" className="pl-link" onClick={() => pick(r.seq)}>
                  #{r.seq}
                </button>{" "}
                <span className="pl-muted">{[texts.moment(r.at), ...r.models].join(" · ")}</span>
              </th>
              {columns.map(([, key]) => (
                <td key={key} className="pl-end">
                  {r.usage[key] ? texts.number(r.usage[key]) : "–"}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">{texts.total}</th>
            {columns.map(([, key]) => (
              <td key={key} className="pl-end">
                {total[key] ? texts.number(total[key]) : "–"}
              </td>
            ))}
          </tr>
        </tfoot>
      </table>
      {all.cut && <p className="pl-muted pl-small">{texts.olderLeftOut}</p>}
    </div>
  );
}

/** The timeline of a turn: one bar per span. */
export function TraceView({ pick, traceURL }: { pick: (seq: number) => void; traceURL: ((traceID: string) => string) | undefined }) {
  const shared = useShared();
  const { store, texts } = shared;
  const all = useCollected(traceTypes);
  const turns = useMemo(() => turnsOf(all.events).filter((t) => t.id !== ""), [all.events]);
  const [chosen, setChosen] = useState("");
  const turn = turns.find((t) => t.id === chosen) ?? turns.findLast((t) => !t.workstream) ?? turns[turns.length - 1];
  const spans = useMemo(() => (turn ? spansOf(all.events, turn) : []), [all.events, turn]);
  const running = spans.some((s) => s.to === undefined);
  const now = useEverySecond(() => (running ? Math.floor(store.serverNow()) : 0), running);
  if (!turn) return <Placeholder of={all} empty={texts.noTurns} />;
  const end = Math.max(...spans.map((s) => s.to ?? now), turn.at + 1);
  const titleOf = (t: TurnRow) => [`#${t.seq}`, texts.moment(t.at), t.workstream ? workstreamName(shared, t.workstream) : "", t.outcome ? (texts.outcomes[t.outcome] ?? t.outcome) : texts.toolStatus.running].filter(Boolean).join(" · ");
  return (
    <div className="pl-turnview" tabIndex={0} role="region" aria-label={texts.trace}>
      <select className="pl-field" aria-label={texts.turn} value={turn.id} onChange={(e) => setChosen(e.target.value)}>
        {turns.map((t) => (
          <option key={t.id} value={t.id}>
            {titleOf(t)}
          </option>
        ))}
      </select>
      {turn.traces.map((id) => (
        <TraceID key={id} id={id} href={traceURL ? safeHref(traceURL(id)) : undefined} />
      ))}
      <ol className="pl-spans">
        {spans.map((s) => (
          <li key={s.key}>
            <button type="button" className={`pl-span pl-span-${s.kind}${s.bad ? " pl-span-bad" : ""}`} onClick={() => pick(s.seq)}>
              <span className="pl-span-name">
                {texts.spans[s.kind]} {s.name && <code>{s.kind === "turn" ? workstreamName(shared, s.name) : s.name}</code>}
              </span>
              <span className="pl-span-time">{timeOf(s, texts.took, (s.kind === "prompt" ? texts.phases.blocked : texts.toolStatus.running) ?? "")}</span>
              <Bar from={(s.from - turn.at) / (end - turn.at)} to={((s.to ?? now) - turn.at) / (end - turn.at)} />
            </button>
          </li>
        ))}
      </ol>
      {all.cut && <p className="pl-muted pl-small">{texts.olderLeftOut}</p>}
    </div>
  );
}

const timeOf = (s: Span, took: (ms: number) => string, running: string): string => (s.to === undefined ? running : took(s.to - s.from));

function Bar({ from, to }: { from: number; to: number }) {
  const start = Math.min(1, Math.max(0, from));
  const size = Math.min(1 - start, Math.max(0.004, to - from));
  return (
    <span className="pl-span-axis" aria-hidden="true">
      <span className="pl-span-bar" style={{ insetInlineStart: `${start * 100}%`, inlineSize: `${size * 100}%` }} />
    </span>
  );
}

function TraceID({ id, href }: { id: string; href: string | undefined }) {
  const { texts } = useShared();
  return (
    <p className="pl-trace">
      <span className="pl-muted">{texts.traceID}</span>{" "}
      {href ? (
        <a href={href} target="_blank" rel="noopener noreferrer nofollow">
          <code>{id}</code>
        </a>
      ) : (
        <code>{id}</code>
      )}
      <CopyButton text={() => id} label={texts.copy} />
    </p>
  );
}
