import { useRef } from "react";
import type { SessionStore, TurnView } from "@parley-hq/client";
import type { Texts } from "../i18n/texts.js";
import { useShared, workstreamName } from "../shared/context.js";
import { useDoing, useDrawn, useView } from "../shared/hooks.js";
import { Icon } from "../shared/icons.js";

/** The running turn on a line of work; undefined when none runs, or when it waits for a person. */
export function workingTurn(store: SessionStore, line: string): TurnView | undefined {
  const s = store.getState();
  return s?.prompts.some((p) => (p.workstream_id ?? "") === line) ? undefined : s?.turns.find((t) => (t.workstream_id ?? "") === line);
}

/** What a running turn does now, in words. */
function doing(store: SessionStore, turn: TurnView, texts: Texts): string {
  if (turn.stopping) return texts.stopping;
  const order = store.getOrder();
  let tools: string[] = [];
  let words = "";
  let at = 0;
  for (let i = order.length - 1; i >= 0 && i >= order.length - 60; i--) {
    const item = store.getItem(order[i] ?? "");
    if (item?.turn_id !== turn.turn_id) continue;
    if (item.kind === "tool" && item.tool.status === "running") tools.push(item.tool.tool ?? "");
    else if (item.open) return item.kind === "thinking" ? texts.thinking : texts.writing;
    else if ((item.last ?? 0) > at) {
      at = item.last ?? 0;
      words = item.kind === "status" ? (item.status.message ?? "") : "";
    }
  }
  tools = [...new Set(tools)];
  if (tools.length > 0) return texts.usingTool(tools.reverse().join(", "));
  const parts = store.getState()?.workstreams.filter((w) => !w.ended_at && (w.parent ?? "") === (turn.workstream_id ?? "")).length ?? 0;
  return words || (parts > 0 ? texts.workstreamsRun(parts) : texts.working);
}

/** What the agent does and for how long, at the place of its answer. Where there is a composer, its button stops the main line. */
export function Activity({ line }: { line: string }) {
  const shared = useShared();
  const { store, texts } = shared;
  useView(store);
  const turn = workingTurn(store, line);
  const words = useDoing(store, () => (turn ? doing(store, turn, texts) : ""));
  const time = useRef<HTMLSpanElement>(null);
  useDrawn(() => {
    const ms = turn ? store.serverNow() - Date.parse(turn.started_at ?? "") : 0;
    if (time.current) time.current.textContent = ms >= 1000 ? texts.took(Math.floor(ms / 1000) * 1000) : "";
  });
  if (!turn) return null;
  return (
    <div className="pl-activity">
      <Icon name="ring" size={14} />
      <span className="pl-summary" dir="auto">
        {words}
      </span>
      <span ref={time} role="timer" aria-live="off" />
      {shared.mode === "interactive" && (line || !shared.edit) && (
        <button type="button" className="pl-link" disabled={turn.stopping} onClick={() => void store.stop(line ? { workstream_id: line } : { workstreams: true }).catch(() => {})}>
          {turn.stopping ? texts.stopping : line ? texts.stopWork(workstreamName(shared, line)) : texts.stop}
        </button>
      )}
    </div>
  );
}
