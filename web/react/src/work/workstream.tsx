import { useRef, useSyncExternalStore } from "react";
import type { ItemOf, Workstream } from "@parley-hq/client";
import { clock, plain } from "../i18n/formats.js";
import type { Texts } from "../i18n/texts.js";
import { Markdown } from "../markdown/markdown.js";
import { waitsForMessage, workstreamColour, useShared } from "../shared/context.js";
import { useDrawn } from "../shared/hooks.js";
import { Icon, type IconName } from "../shared/icons.js";
import { Thread } from "./thread.js";

const workIcons: Record<string, IconName> = { running: "ring", canceling: "stop", completed: "check", failed: "cross", timeout: "clock", canceled: "dash" };

/** The row of a workstream: what it does and the time it has left. It opens to its transcript. */
export function WorkstreamEntry({ item }: { item: ItemOf<"workstream"> }) {
  const shared = useShared();
  const { client, store, threads } = shared;
  const w = item.workstream;
  const open = useSyncExternalStore(threads.subscribe, () => threads.has(w.id));
  const end = w.summary || w.error || w.reason;
  const name = w.name || w.id;
  // The summary is often the last text of the transcript, which is shown above it.
  const said = () => store.getOrder().some((id) => {
    const i = store.getItem(id);
    return i?.kind === "text" && i.workstream_id === w.id && i.text.text.trim() === end?.trim();
  });
  const rest = open && w.ended_at && end && !said() ? end : undefined;
  return (
    <details className={`pl-tool pl-thread pl-lane-${workstreamColour(shared, w.id)} pl-work-${w.state}`} open={open} onToggle={(e) => e.target === e.currentTarget && threads.set(w.id, e.currentTarget.open)}>
      <summary>
        <Icon name="chevron" size={14} />
        <span className="pl-thread-name">{name}</span>
        <span className="pl-summary" dir="auto">
          {plain((w.ended_at ? end : w.message) || w.task)}
        </span>
        <WorkState work={w} />
        {!w.ended_at && w.deadline && <TimeBar work={w} />}
      </summary>
      {open && (
        <>
          <div className="pl-tool-body">
            <p className="pl-muted" dir="auto">
              {w.task}
            </p>
          </div>
          <Thread id={w.id} name={name} />
          {w.ended_at && (rest || w.files) && (
            <div className="pl-tool-body pl-thread-end">
              {rest && <Markdown text={rest} />}
              {w.files?.map((f) => (
                <a key={f} className="pl-chip" href={client.artifactURL(store.id, f)} download={f.split("/").pop()}>
                  <Icon name="file" size={14} /> {f}
                </a>
              ))}
            </div>
          )}
        </>
      )}
    </details>
  );
}

/** The share of the time until the deadline that is left. */
function TimeBar({ work: w }: { work: Workstream }) {
  const { store } = useShared();
  const fill = useRef<HTMLSpanElement>(null);
  useDrawn(() => {
    const from = Date.parse(w.launched_at ?? "");
    const all = Date.parse(w.deadline ?? "") - from;
    if (fill.current) fill.current.style.inlineSize = `${Math.min(100, Math.max(0, (1 - (store.serverNow() - from) / all) * 100))}%`;
  });
  return (
    <span className="pl-timebar" aria-hidden="true">
      <span ref={fill} />
    </span>
  );
}

function stateText(w: Workstream, texts: Texts): string | undefined {
  if (w.state !== "running") return texts.workStatus[w.state] ?? w.state;
  if (w.paused) return texts.workStatus.paused;
  if (waitsForMessage(w)) return texts.resting;
  if (w.wrapping_up) return texts.wrappingUp;
  if (w.phase === "executing_tool" && w.tool) return texts.usingTool(w.tool);
  return w.phase ? (texts.phases[w.phase] ?? w.phase) : texts.workStatus.running;
}

/** The state of a workstream: phase and time left while it runs, then its outcome and duration. */
export function WorkState({ work: w, timeless = false }: { work: Workstream; timeless?: boolean }) {
  const { texts, store } = useShared();
  const el = useRef<HTMLSpanElement>(null);
  const runs = !w.ended_at;
  const until = w.state === "canceling" ? w.cancel_by : waitsForMessage(w) ? undefined : w.deadline;
  useDrawn(() => {
    if (!el.current || timeless) return;
    if (runs && until) el.current.textContent = `· ${texts.timeLeft(clock((Date.parse(until) - store.serverNow()) / 1000))}`;
    else if (!runs && w.launched_at && w.ended_at) el.current.textContent = `· ${texts.took(Date.parse(w.ended_at) - Date.parse(w.launched_at))}`;
    else el.current.textContent = "";
  });
  const late = runs ? (w.warned ?? 0) : 0;
  return (
    <span className={`pl-state pl-state-${w.state}${late >= 0.9 ? " pl-err" : late >= 0.75 ? " pl-wait" : ""}`}>
      <Icon name={w.paused && runs ? "pause" : (workIcons[w.state] ?? "ring")} size={14} /> {stateText(w, texts)} <span ref={el} />
      {late > 0 && <span className="pl-hidden"> {texts.warned(late)}</span>}
    </span>
  );
}
