import { useRef } from "react";
import type { ItemOf, Task, Workstream } from "@parley-hq/client";
import { useKept, useShared } from "./context.js";
import { useTick, useView } from "./hooks.js";
import { Icon, type IconName } from "./icons.js";
import { Markdown, safeHref } from "./markdown.js";
import { bytes, clock, moment, took } from "./texts.js";

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
  const { texts } = useShared();
  const n = item.notice;
  const bad = n.code === "failed" || n.code === "session_failed";
  if (n.code === "notification")
    return (
      <div className="pl-notification" role="note">
        <Icon name="dot" /> <span dir="auto">{n.text}</span>
      </div>
    );
  const words = texts.notices[n.code] ?? n.code;
  const about = n.about ? ` ${n.about}` : "";
  const by = n.by?.name ?? n.by?.id;
  return (
    <div className={bad ? "pl-failure" : "pl-notice"}>
      <Icon name={noticeIcons[n.code] ?? "dash"} size={14} />
      <span>
        {words}
        {about}
        {n.code === "stop_requested" && by ? ` · ${by}` : ""}
        {n.code === "resumed" && n.attempt ? ` (${n.attempt})` : ""}
        {n.command ? ` · ${n.command.replaceAll("_", " ")}` : ""}
        {n.text ? `: ${n.text}` : ""}
      </span>
      <time dateTime={item.at}>{moment(item.at)}</time>
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
      {f.size !== undefined && <span className="pl-muted">{bytes(f.size)}</span>}
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

const taskIcons: Record<string, IconName> = { done: "check", in_progress: "dot", failed: "cross", skipped: "dash", pending: "ring" };

/** The steps of a plan. */
export function Tasks({ tasks }: { tasks: Task[] }) {
  const { texts } = useShared();
  return (
    <ol className="pl-tasks">
      {tasks.map((t) => (
        <li key={t.id} className={`pl-task-${t.status}`}>
          <Icon name={taskIcons[t.status] ?? "ring"} size={14} />
          <span className="pl-task-title" dir="auto">
            {t.title}
            {t.detail && <span className="pl-muted"> {t.detail}</span>}
          </span>
          <span className="pl-hidden">{texts.taskStatus[t.status] ?? t.status}</span>
        </li>
      ))}
    </ol>
  );
}

export const tasksDone = (tasks: Task[]): number => tasks.filter((t) => t.status === "done" || t.status === "skipped").length;

export function PlanEntry({ item }: { item: ItemOf<"plan"> }) {
  const { texts } = useShared();
  const [open, setOpen] = useKept(`plan ${item.id}`, false);
  const { tasks, comment, revision } = item.plan;
  const active = tasks.find((t) => t.status === "in_progress");
  return (
    <details className="pl-tool" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <Icon name="chevron" size={14} />
        <span className="pl-tool-name">{texts.plan}</span>
        <span className="pl-gist">{active?.title ?? ""}</span>
        <span className="pl-state">{texts.planProgress(tasksDone(tasks), tasks.length)}</span>
      </summary>
      {open && (
        <div className="pl-tool-body">
          <Tasks tasks={tasks} />
          {comment && <p className="pl-muted">{comment}</p>}
          {revision > 1 && <p className="pl-muted">{texts.planRevised(revision - 1)}</p>}
        </div>
      )}
    </details>
  );
}

export const workIcons: Record<string, IconName> = { running: "ring", canceling: "stop", completed: "check", failed: "cross", timeout: "clock", canceled: "dash" };

/** The launch of a line of work, which becomes its summary. */
export function WorkstreamEntry({ item }: { item: ItemOf<"workstream"> }) {
  const [open, setOpen] = useKept(`work ${item.id}`, false);
  const w = item.workstream;
  const body = w.summary || w.error || w.message;
  return (
    <details className={`pl-tool pl-work-${w.state}`} open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <Icon name="chevron" size={14} />
        <span className="pl-tool-name">{w.name || w.id}</span>
        <span className="pl-gist" dir="auto">
          {w.state === "running" ? w.task : (w.summary ?? w.error ?? w.task)}
        </span>
        <WorkState work={w} />
      </summary>
      {open && (
        <div className="pl-tool-body">
          <p dir="auto">{w.task}</p>
          {body && <Markdown text={body} />}
        </div>
      )}
    </details>
  );
}

/** Where a line of work stands: phase and time left while it runs, how it ended after. */
export function WorkState({ work: w }: { work: Workstream }) {
  const { texts, store } = useShared();
  const el = useRef<HTMLSpanElement>(null);
  const runs = w.state === "running" || w.state === "canceling";
  useTick(() => {
    if (!el.current) return;
    if (runs && w.deadline) el.current.textContent = `· ${texts.timeLeft(clock((Date.parse(w.deadline) - store.serverNow()) / 1000))}`;
    else if (!runs && w.launched_at && w.ended_at) el.current.textContent = `· ${took(Date.parse(w.ended_at) - Date.parse(w.launched_at))}`;
    else el.current.textContent = "";
  }, true);
  const word = w.paused ? texts.workStatus.paused : runs && w.state === "running" && w.phase ? (texts.phases[w.phase] ?? w.phase) : (texts.workStatus[w.state] ?? w.state);
  return (
    <span className={`pl-state pl-state-${w.state}`}>
      <Icon name={workIcons[w.state] ?? "ring"} size={14} /> {word} <span ref={el} />
    </span>
  );
}
