import { useRef } from "react";
import type { ItemOf, Workstream } from "@parley-hq/client";
import { useKept, useShared, laneName } from "./context.js";
import { useDrawn, useView } from "./hooks.js";
import { Icon, type IconName } from "./icons.js";
import { Markdown, safeHref } from "./markdown.js";
import { clock, plain } from "./formats.js";
import type { Texts } from "./texts.js";

/** Reasoning: one line on a rail; opens in place. */
export function Thinking({ item }: { item: ItemOf<"thinking"> }) {
  const { texts } = useShared();
  const [open, setOpen] = useKept(`thinking ${item.id}`, false);
  const text = item.text.text;
  const live = Boolean(item.open);
  const line = live ? lastLine(text) : "";
  return (
    <details className="pl-think" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <Icon name="chevron" size={14} />
        <span className="pl-think-label">{live ? texts.thinking : texts.thought("")}</span>
        {live && !open && <span className="pl-gist">{line}</span>}
      </summary>
      {open && (
        <div className="pl-think-body">
          {text ? <Markdown text={text} open={live} /> : null}
          {item.text.redacted && <p className="pl-muted">{texts.hiddenThought}</p>}
        </div>
      )}
    </details>
  );
}

function lastLine(text: string): string {
  const t = text.trimEnd();
  return t.slice(Math.max(t.lastIndexOf("\n") + 1, t.length - 160));
}

const noticeIcons: Record<string, IconName> = { failed: "cross", session_failed: "cross", stopped: "stop", interrupted: "stop", stop_requested: "stop", session_completed: "check" };

/** One line about the session or a turn. */
export function Notice({ item }: { item: ItemOf<"notice"> }) {
  const shared = useShared();
  const { texts } = shared;
  const n = item.notice;
  const bad = n.code === "failed" || n.code === "session_failed";
  if (n.code === "notification")
    return (
      <div className="pl-notification" role="note">
        <Icon name="dot" /> <span dir="auto">{n.text}</span>
      </div>
    );
  const line = n.about ? laneName(shared, n.about) : "";
  const steered = n.command ? texts.steerNotice[n.command]?.(line) : undefined;
  const words = steered ?? texts.notices[n.code] ?? n.code;
  const about = line && !steered ? ` ${line}` : "";
  const by = n.by && n.by.id !== shared.me ? (n.by.name ?? n.by.id) : undefined;
  return (
    <div className={bad ? "pl-failure" : "pl-notice"}>
      <Icon name={noticeIcons[n.code] ?? "dash"} size={14} />
      <span>
        {words}
        {about}
        {n.code === "stop_requested" && by ? ` · ${by}` : ""}
        {n.code === "resumed" && n.attempt ? ` (${n.attempt})` : ""}
        {n.command && !steered ? ` · ${n.command}` : ""}
        {n.text ? `: ${n.text}` : ""}
      </span>
      <time dateTime={item.at}>{texts.moment(item.at)}</time>
    </div>
  );
}

/** What the agent said it was doing; quiet once its turn is over. */
export function StatusLine({ item }: { item: ItemOf<"status"> }) {
  const { store } = useShared();
  const running = useView(store)?.turns.some((t) => t.turn_id === item.turn_id) ?? false;
  return (
    <div className={`pl-status${running ? " pl-running" : ""}`}>
      <Icon name={running ? "ring" : "dash"} size={14} />
      <span dir="auto">{item.status.message}</span>
    </div>
  );
}

export function ErrorEntry({ item }: { item: ItemOf<"error"> }) {
  return (
    <div className="pl-failure">
      <Icon name="warn" size={14} />
      <span dir="auto">{item.error.message}</span>
      {item.error.code && <code>{item.error.code}</code>}
    </div>
  );
}

export function FileEntry({ item }: { item: ItemOf<"file"> }) {
  const { client, store, texts } = useShared();
  const f = item.file;
  const name = f.name ?? f.path;
  if (f.change === "removed")
    return (
      <div className="pl-notice">
        <Icon name="trash" size={14} />
        {texts.fileRemoved(name)}
      </div>
    );
  return (
    <div className="pl-notice">
      <Icon name="file" size={14} />
      {f.removed ? (
        <span>
          <s>{texts.uploaded(name)}</s> · {texts.removedFile}
        </span>
      ) : (
        <a href={client.artifactURL(store.id, f.path)} download={name}>
          {texts.uploaded(name)}
        </a>
      )}
      {f.size !== undefined && <span className="pl-muted">{texts.bytes(f.size)}</span>}
    </div>
  );
}

export function ShareEntry({ item }: { item: ItemOf<"share"> }) {
  const { texts, client, store } = useShared();
  const s = item.share;
  const title = s.title ?? s.path ?? s.url ?? "";
  const href = s.url ? safeHref(s.url) : s.path ? client.artifactURL(store.id, s.path) : undefined;
  return (
    <div className="pl-notice">
      <Icon name="link" size={14} />
      {href ? (
        <a href={href} target="_blank" rel="noopener noreferrer nofollow">
          {texts.shared(title)}
        </a>
      ) : (
        texts.shared(title)
      )}
    </div>
  );
}

export const workIcons: Record<string, IconName> = { running: "ring", canceling: "stop", completed: "check", failed: "cross", timeout: "clock", canceled: "dash" };

/** The launch of a line of work, which becomes its summary. */
export function WorkstreamEntry({ item }: { item: ItemOf<"workstream"> }) {
  const [open, setOpen] = useKept(`work ${item.id}`, false);
  const w = item.workstream;
  const { client, store } = useShared();
  const body = w.summary || w.error || w.reason || w.message;
  return (
    <details className={`pl-tool pl-work-${w.state}`} open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <Icon name="chevron" size={14} />
        <span className="pl-tool-name">{w.name || w.id}</span>
        <span className="pl-gist" dir="auto">
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

/** An interactive line that has answered and waits for the next message. */
const rests = (w: Workstream): boolean => Boolean(w.interactive && !w.ended_at && !w.working_since);

function wordOf(w: Workstream, texts: Texts): string | undefined {
  if (w.state !== "running") return texts.workStatus[w.state] ?? w.state;
  if (w.paused) return texts.workStatus.paused;
  if (rests(w)) return texts.resting;
  if (w.wrapping_up) return texts.wrappingUp;
  if (w.phase === "executing_tool" && w.tool) return texts.usingTool(w.tool);
  return w.phase ? (texts.phases[w.phase] ?? w.phase) : texts.workStatus.running;
}

/** Where a line of work stands: phase and time left while it runs, how it ended after. */
export function WorkState({ work: w, timeless = false }: { work: Workstream; timeless?: boolean }) {
  const { texts, store } = useShared();
  const el = useRef<HTMLSpanElement>(null);
  const runs = !w.ended_at;
  const until = w.state === "canceling" ? w.cancel_by : rests(w) ? undefined : w.deadline;
  useDrawn(() => {
    if (!el.current || timeless) return;
    if (runs && until) el.current.textContent = `· ${texts.timeLeft(clock((Date.parse(until) - store.serverNow()) / 1000))}`;
    else if (!runs && w.launched_at && w.ended_at) el.current.textContent = `· ${texts.took(Date.parse(w.ended_at) - Date.parse(w.launched_at))}`;
    else el.current.textContent = "";
  });
  const late = runs ? (w.warned ?? 0) : 0;
  return (
    <span className={`pl-state pl-state-${w.state}${late >= 0.9 ? " pl-err" : late >= 0.75 ? " pl-wait" : ""}`}>
      <Icon name={w.paused && runs ? "pause" : (workIcons[w.state] ?? "ring")} size={14} /> {wordOf(w, texts)} <span ref={el} />
      {late > 0 && <span className="pl-hidden"> {texts.warned(late)}</span>}
    </span>
  );
}
