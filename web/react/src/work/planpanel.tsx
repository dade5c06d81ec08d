import { useEffect, useState } from "react";
import type { AgentPlan, Event, Task } from "@parley-hq/client";
import { itemAt } from "../entries/itemat.js";
import { useRowState, useShared } from "../shared/context.js";
import { usePlan } from "../shared/hooks.js";
import { Tasks, tasksDone } from "./plan.js";

/** The current plan, its revisions, and a link from each task to the entry where it started. */
export function PlanPanel() {
  const { client, store, texts, scrollTo } = useShared();
  const plan = usePlan(store);
  const [history, setHistory] = useRowState("plan history", false);
  if (!plan || plan.tasks.length === 0) return <p className="pl-panel-empty">{texts.noPlan}</p>;
  const done = tasksDone(plan.tasks);
  const go = async (task: Task) => {
    const plans = await revisions(client.events.bind(client), store.id);
    const begun = plans.find((p) => p.tasks.some((t) => t.id === task.id && t.status !== "pending")) ?? plans.find((p) => p.tasks.some((t) => t.id === task.id));
    const item = begun && (await itemAt(store, begun.sequence));
    if (item) scrollTo(item);
  };
  return (
    <section className="pl-section" aria-label={texts.plan}>
      <header>
        <h3>{texts.plan}</h3>
        <span>{texts.planProgress(done, plan.tasks.length)}</span>
      </header>
      <progress className="pl-progress pl-wide" max={plan.tasks.length} value={done} aria-label={texts.plan} />
      <Tasks tasks={plan.tasks} onPick={(t) => void go(t).catch(() => {})} />
      {plan.comment && <p className="pl-muted pl-small">{plan.comment}</p>}
      <button type="button" className="pl-link pl-small" aria-expanded={history} onClick={() => setHistory(!history)}>
        {history ? texts.hidePlanHistory : texts.showPlanHistory}
      </button>
      {history && <PlanHistory newest={plan} />}
    </section>
  );
}

interface Revision extends AgentPlan {
  sequence: number;
  at: string;
}

/** All revisions of the plan, oldest first. */
async function revisions(events: (id: string, q: { types: string[]; limit: number; order: "desc" }) => Promise<{ events: Event[] }>, session: string): Promise<Revision[]> {
  const page = await events(session, { types: ["agent.plan"], limit: 500, order: "desc" });
  return page.events.reverse().map((e) => ({ ...(e.payload as AgentPlan), sequence: e.sequence, at: e.timestamp }));
}

/** The changes of each revision of the plan. */
export function PlanHistory({ newest }: { newest: AgentPlan }) {
  const { client, store, texts } = useShared();
  const [plans, setPlans] = useState<Revision[]>();
  useEffect(() => {
    let here = true;
    revisions(client.events.bind(client), store.id).then((p) => here && setPlans(p), () => here && setPlans([]));
    return () => void (here = false);
  }, [client, store.id, newest]);
  if (!plans) return <div className="pl-skeleton" />;
  const changes = plans.flatMap((p, i) => {
    const before = plans[i - 1];
    const list = before ? diffPlans(before.tasks, p.tasks) : [];
    return list.length > 0 ? [{ plan: p, list }] : [];
  });
  const revised = changes.filter((c) => c.list.some((d) => d.kind !== "status")).length;
  return (
    <div className="pl-planhistory">
      <p className="pl-muted pl-small">{texts.planRevised(revised)}</p>
      <ol>
        {changes.map(({ plan, list }) => (
          <li key={plan.sequence}>
            <time dateTime={plan.at}>{texts.moment(plan.at)}</time>
            <ul>
              {list.map((d) => (
                <li key={`${d.kind} ${d.id}`} className={`pl-diff-${d.kind}`}>
                  <span className="pl-diff-word">{texts.planChange[d.kind]}</span>
                  <span dir="auto">
                    {d.kind === "renamed" ? (
                      <>
                        <del>{d.from}</del> <ins>{d.title}</ins>
                      </>
                    ) : d.kind === "removed" ? (
                      <del>{d.title}</del>
                    ) : d.kind === "added" ? (
                      <ins>{d.title}</ins>
                    ) : (
                      `${d.title}: ${texts.taskStatus[d.status] ?? d.status}`
                    )}
                  </span>
                </li>
              ))}
            </ul>
          </li>
        ))}
      </ol>
    </div>
  );
}

export type PlanChange = { kind: "added" | "removed" | "renamed" | "moved" | "status"; id: string; title: string; status: string; from?: string };

/** The differences between two revisions of a plan. */
export function diffPlans(before: readonly Task[], after: readonly Task[]): PlanChange[] {
  const old = new Map(before.map((t) => [t.id, t]));
  const out: PlanChange[] = [];
  for (const t of after) {
    const was = old.get(t.id);
    const d = { id: t.id, title: t.title, status: t.status };
    if (!was) out.push({ kind: "added", ...d });
    else {
      if (was.title !== t.title) out.push({ kind: "renamed", from: was.title, ...d });
      if (was.status !== t.status) out.push({ kind: "status", ...d });
    }
    old.delete(t.id);
  }
  for (const t of old.values()) out.push({ kind: "removed", id: t.id, title: t.title, status: t.status });
  // The tasks of both revisions whose order changed.
  const stayed = before.filter((t) => after.some((x) => x.id === t.id)).map((t) => t.id);
  const now = after.filter((t) => stayed.includes(t.id));
  now.forEach((t, i) => {
    if (stayed[i] !== t.id) out.push({ kind: "moved", id: t.id, title: t.title, status: t.status });
  });
  return out;
}
