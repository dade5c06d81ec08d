import { useEffect, useRef, useState } from "react";
import type { ItemOf, Task } from "@parley-hq/client";
import { useRowState, useShared } from "../shared/context.js";
import { usePlan } from "../shared/hooks.js";
import { Icon, type IconName } from "../shared/icons.js";
import { lazyPart } from "../shared/lazy.js";

const PlanHistory = lazyPart(() => import("./planpanel.js").then((m) => m.PlanHistory), <div className="pl-skeleton" />);

const taskIcons: Record<string, IconName> = { done: "check", in_progress: "dot", failed: "cross", skipped: "dash", pending: "ring" };

/** The tasks of a plan. */
export function Tasks({ tasks, onPick }: { tasks: Task[]; onPick?: (task: Task) => void }) {
  const { texts } = useShared();
  const changed = useChanged(tasks);
  return (
    <ol className="pl-tasks">
      {tasks.map((t) => (
        <li key={t.id} className={`pl-task-${t.status}${changed.has(t.id) ? " pl-changed" : ""}`}>
          <Icon name={taskIcons[t.status] ?? "ring"} size={14} />
          <span className="pl-task-title" dir="auto">
            {onPick ? (
              <button type="button" className="pl-task-name" onClick={() => onPick(t)} title={texts.planGo}>
                {t.title}
              </button>
            ) : (
              <span className="pl-task-name">{t.title}</span>
            )}
            {t.detail && <span className="pl-muted"> {t.detail}</span>}
          </span>
          <span className="pl-hidden">{texts.taskStatus[t.status] ?? t.status}</span>
          {changed.has(t.id) && <span className="pl-changed-word">{texts.changed}</span>}
        </li>
      ))}
    </ol>
  );
}

/** The tasks that changed recently; none when a plan is first rendered. */
function useChanged(tasks: Task[]): ReadonlySet<string> {
  const before = useRef<Task[]>(tasks);
  const [changed, set] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => {
    const was = before.current;
    before.current = tasks;
    if (was === tasks) return;
    const ids = tasks.filter((t) => !was.some((w) => w.id === t.id && w.status === t.status && w.title === t.title)).map((t) => t.id);
    if (ids.length === 0) return;
    set(new Set(ids));
    const timer = setTimeout(() => set(new Set()), 1000);
    return () => clearTimeout(timer);
  }, [tasks]);
  return changed;
}

export const tasksDone = (tasks: Task[]): number => tasks.filter((t) => t.status === "done" || t.status === "skipped").length;

/** A plan in the conversation. It is one line while the panel shows its tasks. */
export function PlanEntry({ item }: { item: ItemOf<"plan"> }) {
  const { store, texts, planBeside } = useShared();
  const newest = usePlan(store);
  const [open, setOpen] = useRowState(`plan ${item.id}`, false);
  const { tasks, comment, revision } = item.plan;
  const active = tasks.find((t) => t.status === "in_progress");
  const line = (
    <>
      <span className="pl-thread-name">{texts.plan}</span>
      <span className="pl-summary">{active?.title ?? ""}</span>
      <span className="pl-state">{texts.planProgress(tasksDone(tasks), tasks.length)}</span>
    </>
  );
  if (planBeside && JSON.stringify(tasks) === JSON.stringify(newest?.tasks)) {
    return (
      <div className="pl-tool">
        <div className="pl-line">{line}</div>
      </div>
    );
  }
  return (
    <details className="pl-tool" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <Icon name="chevron" size={14} />
        {line}
      </summary>
      {open && (
        <div className="pl-tool-body">
          <Tasks tasks={tasks} />
          {comment && <p className="pl-muted">{comment}</p>}
          {revision > 1 && <PlanHistory newest={item.plan} />}
        </div>
      )}
    </details>
  );
}
