import { memo, useCallback, useRef, useSyncExternalStore, type ReactNode } from "react";
import type { ItemOf } from "@parley-hq/client";
import { useRowState, useShared } from "../shared/context.js";
import { useDrawn, useItem } from "../shared/hooks.js";
import { Icon, type IconName } from "../shared/icons.js";
import { Value, paramsSummary } from "../shared/json.js";

const icons: Record<string, IconName> = { running: "ring", ok: "check", error: "cross", denied: "dash", unknown: "warn" };

/** A tool call: one line that expands to its arguments and result. An approval adds a note to the line and its decision. */
export const ToolRow = memo(function ToolRow({ id, note, foot }: { id: string; note?: ReactNode; foot?: ReactNode }) {
  const { store, texts, renderers } = useShared();
  const item = useItem(store, id);
  const [open, setOpen] = useRowState(`tool ${id}`, false);
  if (item?.kind !== "tool") return null;
  const t = item.tool;
  const own = t.tool ? renderers.tool?.[t.tool]?.(t, item) : undefined;
  if (own !== undefined) return <>{own}</>;
  const p = t.progress;
  return (
    <details className={`pl-tool pl-tool-${t.status}`} open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <Icon name="chevron" size={14} />
        <span className="pl-tool-name">{t.tool || t.batch_id || t.call_id}</span>
        <span className="pl-summary" dir="auto">
          {t.status === "error" ? t.error?.split("\n", 1)[0] : p && t.status === "running" ? (p.message ?? paramsSummary(t.params)) : paramsSummary(t.params)}
        </span>
        {p && t.status === "running" && p.total ? <progress className="pl-progress" max={p.total} value={p.done} aria-label={texts.progress} /> : null}
        {note}
        <span className={`pl-state pl-state-${t.status}`}>
          <Icon name={icons[t.status] ?? "ring"} size={14} />
          {texts.toolStatus[t.status] ?? t.status}
          <Elapsed item={item} />
        </span>
      </summary>
      {open && (
        <div className="pl-tool-body">
          {foot}
          {t.params !== undefined && <Value value={t.params} label={texts.arguments} keep={`${id} params`} />}
          {p?.items && (
            <ul className="pl-batch">
              {p.items.map((i) => (
                <li key={i.id}>
                  <code>{i.id}</code> {i.status} {i.message}
                </li>
              ))}
            </ul>
          )}
          {t.error ? <Value value={t.error} label={texts.toolStatus.error ?? ""} keep={`${id} error`} /> : null}
          {t.result !== undefined && <Value value={t.result} label={texts.result} keep={`${id} result`} />}
        </div>
      )}
    </details>
  );
});

function Elapsed({ item }: { item: ItemOf<"tool"> }) {
  const { store, texts } = useShared();
  const el = useRef<HTMLSpanElement>(null);
  const t = item.tool;
  const ended = t.started_at && t.ended_at ? texts.took(Date.parse(t.ended_at) - Date.parse(t.started_at)) : "";
  useDrawn(() => {
    if (!el.current || !t.started_at) return;
    const ms = store.serverNow() - Date.parse(t.started_at);
    el.current.textContent = ms > 1000 ? ` · ${texts.took(Math.floor(ms / 1000) * 1000)}` : "";
  }, t.status === "running");
  if (t.status !== "running") return <span>{ended ? ` · ${ended}` : ""}</span>;
  return <span ref={el} />;
}

/** Several adjacent calls, collapsed into one line with their counts. */
export const ToolGroup = memo(function ToolGroup({ ids }: { ids: string[] }) {
  const { store, texts } = useShared();
  const [open, setOpen] = useRowState(`group ${ids[0]}`, false);
  const counts = useSyncExternalStore(
    useCallback(
      (f) => {
        const leave = ids.map((id) => store.subscribeItem(id, f));
        return () => leave.forEach((l) => l());
      },
      [store, ids],
    ),
    () => {
      const by = new Map<string, number>();
      for (const id of ids) {
        const item = store.getItem(id);
        if (item?.kind === "tool") by.set(item.tool.status, (by.get(item.tool.status) ?? 0) + 1);
      }
      return ["running", "ok", "error", "denied", "unknown"].filter((s) => by.has(s)).map((s) => `${by.get(s)} ${s}`).join(",");
    },
  );
  const parts = counts ? counts.split(",").map((c) => c.split(" ") as [string, string]) : [];
  const bad = parts.some(([, s]) => s === "error");
  return (
    <details className={`pl-tool pl-group${bad ? " pl-tool-error" : ""}`} open={open} onToggle={(e) => e.target === e.currentTarget && setOpen(e.currentTarget.open)}>
      <summary>
        <Icon name="chevron" size={14} />
        <span className="pl-tool-count">{texts.tools(ids.length)}</span>
        <span className="pl-summary" />
        {parts.map(([n, s]) => (
          <span key={s} className={`pl-state pl-state-${s}`}>
            <Icon name={icons[s] ?? "ring"} size={14} />
            {n} {texts.toolStatus[s] ?? s}
          </span>
        ))}
      </summary>
      {open && (
        <div className="pl-group-body">
          {ids.map((id) => (
            <ToolRow key={id} id={id} />
          ))}
        </div>
      )}
    </details>
  );
});
