import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import type { Workstream } from "@parley-hq/client";
import { clock, plain } from "../i18n/formats.js";
import { workstreamColour, useRowState, useShared } from "../shared/context.js";
import { useDrawn, useWorkstreams } from "../shared/hooks.js";
import { Icon } from "../shared/icons.js";
import { SteeringMenu, useSteering } from "./steering.js";
import { Thread } from "./thread.js";
import { WorkState } from "./workstream.js";

/** With more lanes than this, ended workstreams are hidden. */
const many = 8;

/** The time axis of all lanes. */
interface Axis {
  from: number;
  to: number;
}

/** The workstreams on one time axis, or as a table. */
export function WorkPanel({ workstream, setWorkstream }: { workstream: string | undefined; setWorkstream: (id: string | undefined) => void }) {
  const shared = useShared();
  const { store, texts } = shared;
  const all = useWorkstreams(store);
  const [asTable, setAsTable] = useRowState("work as table", false);
  const [ended, setEnded] = useRowState("work ended", false);
  const [timeline, setTimeline] = useState(false);
  if (all.length === 0) return <p className="pl-panel-empty">{texts.noWork}</p>;
  const active = all.filter((w) => !w.ended_at);
  const done = all.filter((w) => w.ended_at);
  const shown = all.length > many && !ended && active.length > 0 ? active : [...active, ...done];
  const axis = axisOf(active, store.serverNow());
  return (
    <section className="pl-section" aria-label={texts.work}>
      <header>
        <h3>{texts.work}</h3>
        <span className="pl-grow">{active.length > 0 ? texts.running(active.length) : texts.allDone(done.length)}</span>
        <button type="button" className="pl-link" onClick={() => setAsTable(!asTable)}>
          {asTable ? texts.asLanes : texts.asTable}
        </button>
        <button type="button" className="pl-link" onClick={() => setTimeline(true)}>
          {texts.timeline}
        </button>
      </header>
      {timeline && <Timeline list={all} workstream={workstream} setWorkstream={setWorkstream} close={() => setTimeline(false)} />}
      {asTable ? (
        <WorkTable list={shown} workstream={workstream} setWorkstream={setWorkstream} />
      ) : (
        <ul className="pl-lanes">
          {shown.map((w) => (
            <Lane key={w.id} work={w} axis={axis} chosen={workstream === w.id} choose={() => setWorkstream(workstream === w.id ? undefined : w.id)} />
          ))}
        </ul>
      )}
      {all.length > many && active.length > 0 && done.length > 0 && (
        <button type="button" className="pl-link pl-small" aria-expanded={ended} onClick={() => setEnded(!ended)}>
          {ended ? texts.hideEnded : texts.showEnded(done.length)}
        </button>
      )}
    </section>
  );
}

function axisOf(list: Workstream[], now: number): Axis {
  let from = now;
  let to = 0;
  for (const w of list) {
    from = Math.min(from, time(w.launched_at) ?? now);
    to = Math.max(to, (w.ended_at ? time(w.ended_at) : time(w.deadline)) ?? now);
  }
  return { from, to: Math.max(to, from + 1000) };
}

const time = (at: string | undefined): number | undefined => (at ? Date.parse(at) : undefined);

/** The nesting depth of a workstream. */
function depth(all: Workstream[], w: Workstream): number {
  let n = 0;
  for (let p = w.parent; p && n < 5; n++) p = all.find((x) => x.id === p)?.parent;
  return n;
}

function Lane({ work: w, axis, chosen, choose }: { work: Workstream; axis: Axis; chosen: boolean; choose: () => void }) {
  const shared = useShared();
  const steering = useSteering(w);
  const { threads } = shared;
  const [chosenBeside, setBeside] = useRowState(`beside ${w.id}`, false);
  // A transcript is on the page once: in its row or here.
  const inRow = useSyncExternalStore(threads.subscribe, () => threads.has(w.id));
  useEffect(() => {
    if (inRow) setBeside(false);
  }, [inRow]);
  const beside = chosenBeside && !inRow;
  const show = (open: boolean) => {
    setBeside(open);
    if (open) threads.set(w.id, false);
  };
  const nested = depth(shared.store.getState()?.workstreams ?? [], w);
  return (
    <li className={`pl-lane pl-lane-${workstreamColour(shared, w.id)}`} data-depth={nested || undefined}>
      <div className="pl-lane-line">
        <button type="button" aria-pressed={chosen} className="pl-lane-button" title={w.task} onClick={choose}>
          <span className="pl-lane-title">{w.name || w.id}</span>
          <WorkState work={w} />
          {!w.ended_at && <Track work={w} axis={axis} />}
          {w.message && !w.ended_at && <span className="pl-muted pl-small">{w.message}</span>}
          {w.ended_at && (w.error || w.summary || w.reason) && <span className="pl-muted pl-small" dir="auto">{plain(w.error || w.summary || w.reason || "")}</span>}
        </button>
        <SteeringMenu work={w} steering={steering} />
      </div>
      {steering.form}
      <details className="pl-beside" open={beside} onToggle={(e) => e.target === e.currentTarget && e.currentTarget.open !== beside && show(e.currentTarget.open)}>
        <summary>
          <Icon name="chevron" size={14} />
          {shared.texts.showTranscript}
        </summary>
        {beside && <Thread id={w.id} name={w.name || w.id} />}
      </details>
    </li>
  );
}

/** From launch to deadline, filled up to now, on the axis that all lanes share. A finished track is full and stops at its end. */
function Track({ work: w, axis }: { work: Workstream; axis: Axis }) {
  const { store } = useShared();
  const track = useRef<HTMLSpanElement>(null);
  const fill = useRef<HTMLSpanElement>(null);
  const mark = useRef<HTMLSpanElement>(null);
  useDrawn(() => {
    const now = store.serverNow();
    const to = Math.max(axis.to, w.ended_at ? 0 : now);
    const at = (t: number) => `${Math.min(100, Math.max(0, ((t - axis.from) / (to - axis.from)) * 100))}%`;
    const from = time(w.launched_at) ?? axis.from;
    const until = time(w.ended_at ?? w.deadline) ?? now;
    const filled = w.ended_at ? until : Math.min(until, now);
    if (track.current) {
      track.current.style.insetInlineStart = at(from);
      track.current.style.inlineSize = `${Math.max(1, ((until - from) / (to - axis.from)) * 100)}%`;
    }
    if (fill.current) fill.current.style.inlineSize = until > from ? `${Math.max(1, ((filled - from) / (until - from)) * 100)}%` : "100%";
    if (mark.current) mark.current.style.insetInlineStart = at(now);
  });
  return (
    <span className="pl-axis" aria-hidden="true">
      <span ref={track} className={`pl-track pl-phase-${w.phase ?? "none"} pl-track-${w.state}`}>
        <span ref={fill} className="pl-fill" />
        {w.deadline && !w.ended_at && <span className="pl-tick75" />}
        {w.deadline && !w.ended_at && <span className="pl-tick90" />}
      </span>
      {!w.ended_at && <span ref={mark} className="pl-nowline" />}
    </span>
  );
}

/** Parents before their children, each in the order of launch. */
export function treeOf(all: readonly Workstream[]): { work: Workstream; depth: number }[] {
  const known = new Set(all.map((w) => w.id));
  const below = new Map<string, Workstream[]>();
  for (const w of all) {
    const parent = w.parent && w.parent !== w.id && known.has(w.parent) ? w.parent : "";
    below.set(parent, [...(below.get(parent) ?? []), w]);
  }
  const out: { work: Workstream; depth: number }[] = [];
  const put = (parent: string, depth: number) => {
    for (const work of below.get(parent) ?? []) {
      out.push({ work, depth });
      put(work.id, depth + 1);
    }
  };
  put("", 0);
  return out;
}

const steps = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600].map((s) => s * 1000);

/** The marks of a time axis, in milliseconds from its start: at most seven, at round steps. */
export function marksOf(span: number): number[] {
  const hour = 3_600_000;
  const step = steps.find((s) => span / s <= 6) ?? Math.ceil(span / 6 / hour) * hour;
  return Array.from({ length: Math.floor(span / step) + 1 }, (_, i) => i * step);
}

/** All workstreams in the whole width, as a tree beside one time axis. */
function Timeline({ list, workstream, setWorkstream, close }: { list: Workstream[]; workstream: string | undefined; setWorkstream: (id: string | undefined) => void; close: () => void }) {
  const { store, texts } = useShared();
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const axis = axisOf(list, store.serverNow());
  const span = axis.to - axis.from;
  return (
    <dialog ref={dialog} className="pl-timeline" aria-label={texts.timeline} onClose={close}>
      <header>
        <h3 className="pl-grow">{texts.timeline}</h3>
        <button type="button" className="pl-iconbutton" aria-label={texts.close} onClick={() => dialog.current?.close()}>
          <Icon name="cross" />
        </button>
      </header>
      <div className="pl-timeline-body">
        <div className="pl-timeline-row" aria-hidden="true">
          <span />
          <span className="pl-timeline-scale">
            {marksOf(span).map((m) => (
              <span key={m} style={{ insetInlineStart: `${(m / span) * 100}%` }}>
                {m === 0 ? "0" : texts.took(m).replace(/ 0 \w+$/, "")}
              </span>
            ))}
          </span>
        </div>
        <ul>
          {treeOf(list).map(({ work, depth }) => (
            <TimelineRow
              key={work.id}
              work={work}
              depth={depth}
              axis={axis}
              chosen={workstream === work.id}
              choose={() => {
                setWorkstream(workstream === work.id ? undefined : work.id);
                dialog.current?.close();
              }}
            />
          ))}
        </ul>
      </div>
    </dialog>
  );
}

function TimelineRow({ work: w, depth, axis, chosen, choose }: { work: Workstream; depth: number; axis: Axis; chosen: boolean; choose: () => void }) {
  const shared = useShared();
  return (
    <li className={`pl-timeline-row pl-lane-${workstreamColour(shared, w.id)}`}>
      <button type="button" className="pl-lane-button" aria-pressed={chosen} title={w.task} style={{ paddingInlineStart: `${depth * 12}px` }} onClick={choose}>
        <span className="pl-lane-title">{w.name || w.id}</span>
        <WorkState work={w} />
      </button>
      <Track work={w} axis={axis} />
    </li>
  );
}

/** The workstreams as a table. */
function WorkTable({ list, workstream, setWorkstream }: { list: Workstream[]; workstream: string | undefined; setWorkstream: (id: string | undefined) => void }) {
  const { texts } = useShared();
  return (
    <table className="pl-worktable" aria-label={texts.work}>
      <thead>
        <tr>
          {[texts.workName, texts.workState, texts.workTime, texts.workDoing].map((c) => (
            <th key={c} scope="col">
              {c}
            </th>
          ))}
          <th scope="col">
            <span className="pl-hidden">{texts.menu}</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {list.map((w) => (
          <TableRow key={w.id} work={w} chosen={workstream === w.id} choose={() => setWorkstream(workstream === w.id ? undefined : w.id)} />
        ))}
      </tbody>
    </table>
  );
}

function TableRow({ work: w, chosen, choose }: { work: Workstream; chosen: boolean; choose: () => void }) {
  const { store, texts } = useShared();
  const steering = useSteering(w);
  const left = useRef<HTMLSpanElement>(null);
  useDrawn(() => {
    if (!left.current) return;
    const began = time(w.launched_at) ?? 0;
    left.current.textContent = w.ended_at ? texts.took((time(w.ended_at) ?? 0) - began) : w.deadline ? texts.timeLeft(clock(((time(w.deadline) ?? 0) - store.serverNow()) / 1000)) : "";
  });
  return (
    <>
      <tr>
        <th scope="row">
          <button type="button" className="pl-link" aria-pressed={chosen} onClick={choose}>
            {w.name || w.id}
          </button>
        </th>
        <td>
          <WorkState work={w} timeless />
        </td>
        <td>
          <span ref={left} />
          {!w.ended_at && w.deadline && <span className="pl-muted"> {texts.until(texts.moment(w.deadline))}</span>}
        </td>
        <td dir="auto">{plain((w.ended_at ? w.error || w.summary || w.reason : w.message || w.task) ?? "")}</td>
        <td>
          <SteeringMenu work={w} steering={steering} />
        </td>
      </tr>
      {steering.form && (
        <tr>
          <td colSpan={5}>{steering.form}</td>
        </tr>
      )}
    </>
  );
}
