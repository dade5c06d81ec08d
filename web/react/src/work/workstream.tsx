import { useRef } from "react";
import type { ItemOf, Workstream } from "@parley-hq/client";
import { clock, plain } from "../i18n/formats.js";
import type { Texts } from "../i18n/texts.js";
import { Markdown } from "../markdown/markdown.js";
import { useRowState, useShared } from "../shared/context.js";
import { useDrawn } from "../shared/hooks.js";
import { Icon, type IconName } from "../shared/icons.js";

const workIcons: Record<string, IconName> = { running: "ring", canceling: "stop", completed: "check", failed: "cross", timeout: "clock", canceled: "dash" };

/** The entry of a workstream: its task, later its summary. */
export function WorkstreamEntry({ item }: { item: ItemOf<"workstream"> }) {
  const [open, setOpen] = useRowState(`work ${item.id}`, false);
  const w = item.workstream;
  const { client, store } = useShared();
  const body = w.summary || w.error || w.reason || w.message;
  return (
    <details className={`pl-tool pl-work-${w.state}`} open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <Icon name="chevron" size={14} />
        <span className="pl-tool-name">{w.name || w.id}</span>
        <span className="pl-summary" dir="auto">
          {plain((w.state === "running" ? w.task : (w.summary ?? w.error ?? w.task)) ?? "")}
        </span>
        <WorkState work={w} />
      </summary>
      {open && (
        <div className="pl-tool-body">
          <p dir="auto">{w.task}</p>
          {body && <Markdown text={body} />}
          {w.files?.map((f) => (
            <a key={f} className="pl-chip" href={client.artifactURL(store.id, f)} download={f.split("/").pop()}>
              <Icon name="file" size={14} /> {f}
            </a>
          ))}
        </div>
      )}
    </details>
  );
}

/** Reports whether an interactive workstream has answered and waits for a message. */
const waitsForMessage = (w: Workstream): boolean => Boolean(w.interactive && !w.ended_at && !w.working_since);

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
