import { useEffect, useRef, useState } from "react";
import type { FileInfo, Workstream } from "@parley-hq/client";
import { useShared } from "./context.js";
import { laneColour } from "./entry.js";
import { useItems, usePlan, useTick, useView, useWorkstreams } from "./hooks.js";
import { Icon } from "./icons.js";
import { Tasks, WorkState, tasksDone } from "./machinery.js";
import { bytes, compact, moment } from "./texts.js";

/** The newest plan. */
export function PlanPanel() {
  const { store, texts } = useShared();
  const plan = usePlan(store);
  if (!plan || plan.tasks.length === 0) return <p className="pl-panel-empty">{texts.noPlan}</p>;
  const done = tasksDone(plan.tasks);
  return (
    <section className="pl-section" aria-label={texts.plan}>
      <header>
        <h3>{texts.plan}</h3>
        <span>{texts.planProgress(done, plan.tasks.length)}</span>
      </header>
      <progress className="pl-progress pl-wide" max={plan.tasks.length} value={done} aria-label={texts.plan} />
      <Tasks tasks={plan.tasks} />
      {plan.comment && <p className="pl-muted pl-small">{plan.comment}</p>}
    </section>
  );
}

/** Parallel lines of work: a track from launch to deadline each, filled up to now. */
export function WorkPanel({ lane, setLane }: { lane: string | undefined; setLane: (id: string | undefined) => void }) {
  const shared = useShared();
  const { store, texts } = shared;
  const all = useWorkstreams(store);
  if (all.length === 0) return <p className="pl-panel-empty">{texts.noWork}</p>;
  const active = all.filter((w) => !w.ended_at);
  return (
    <section className="pl-section" aria-label={texts.work}>
      <header>
        <h3>{texts.work}</h3>
        <span>{texts.running(active.length)}</span>
      </header>
      <ul className="pl-lanes">
        {[...active, ...all.filter((w) => w.ended_at)].map((w) => (
          <li key={w.id} className={`pl-lane pl-lane-${laneColour(shared, w.id)}${w.parent ? " pl-child" : ""}`}>
            <button type="button" aria-pressed={lane === w.id} className="pl-lane-button" onClick={() => setLane(lane === w.id ? undefined : w.id)}>
              <span className="pl-lane-title">{w.name || w.id}</span>
              <WorkState work={w} />
              <Track work={w} />
              {w.message && !w.ended_at && <span className="pl-muted pl-small">{w.message}</span>}
            </button>
            {!w.ended_at && shared.mode === "interactive" && (
              <button type="button" className="pl-mini" aria-label={texts.stopWorkstream(w.name || w.id)} title={texts.stopWorkstream(w.name || w.id)} onClick={() => void store.stop({ workstream_id: w.id }).catch(() => {})}>
                <Icon name="stop" size={14} />
              </button>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Track({ work: w }: { work: Workstream }) {
  const { store } = useShared();
  const fill = useRef<HTMLSpanElement>(null);
  const from = w.launched_at ? Date.parse(w.launched_at) : 0;
  const to = w.deadline ? Date.parse(w.deadline) : w.ended_at ? Date.parse(w.ended_at) : 0;
  useTick(() => {
    const now = w.ended_at ? Date.parse(w.ended_at) : store.serverNow();
    const share = to > from ? Math.min(1, Math.max(0.01, (now - from) / (to - from))) : 1;
    if (fill.current) fill.current.style.inlineSize = `${share * 100}%`;
  });
  return (
    <span className={`pl-track pl-phase-${w.phase ?? "none"}`} aria-hidden="true">
      <span ref={fill} className="pl-fill" />
      {w.deadline && <span className="pl-tick75" />}
      {w.deadline && <span className="pl-tick90" />}
    </span>
  );
}

/** Every file of the session. */
export function FilesPanel() {
  const { client, store, texts } = useShared();
  const [files, setFiles] = useState<FileInfo[]>();
  const order = useItems(store);
  // The list changes with file and artifact entries; their number is a good enough sign.
  const mark = order.reduce((n, id) => {
    const kind = store.getItem(id)?.kind;
    return kind === "file" || kind === "artifact" ? n + 1 : n;
  }, 0);
  useEffect(() => {
    const stop = new AbortController();
    client
      .artifacts(store.id, { limit: 500 }, { signal: stop.signal })
      .then((p) => setFiles(p.artifacts))
      .catch(() => {});
    return () => stop.abort();
  }, [client, store.id, mark]);
  if (!files) return <div className="pl-ghost" />;
  if (files.length === 0) return <p className="pl-panel-empty">{texts.noFiles}</p>;
  return (
    <section className="pl-section" aria-label={texts.files}>
      <header>
        <h3>{texts.files}</h3>
        <span>{files.length}</span>
      </header>
      <ul className="pl-files">
        {files.map((f) => (
          <li key={f.path}>
            <Icon name={f.media_type.startsWith("image/") ? "image" : "file"} size={14} />
            <a href={client.artifactURL(store.id, f.path)} download={f.path.split("/").pop()} title={f.path}>
              {f.path.split("/").pop()}
            </a>
            <span className="pl-muted pl-small">
              {bytes(f.size)} · {moment(f.stored_at)}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Tokens of the whole session; against a limit when one is known. */
export function TokenMeter({ limit }: { limit?: number }) {
  const { store, texts } = useShared();
  const u = useView(store)?.usage;
  const input = u?.input_tokens ?? 0;
  const output = u?.output_tokens ?? 0;
  if (!u || input + output === 0) return null;
  const share = limit ? (input + output) / limit : 0;
  const detail = [
    [texts.tokensIn, input], [texts.tokensOut, output], [texts.tokensCached, u.cache_read_input_tokens ?? 0], [texts.tokensReasoning, u.reasoning_tokens ?? 0],
  ] as const;
  return (
    <span
      className={`pl-tokens${share >= 0.9 ? " pl-err" : share >= 0.75 ? " pl-wait" : ""}`}
      title={`${texts.tokens}: ${detail.filter(([, n]) => n > 0).map(([w, n]) => `${n} ${w}`).join(", ")}`}
    >
      {compact(input + output)}
      {limit ? `/${compact(limit)}` : ""} <span className="pl-tokens-word">{texts.tokens.toLowerCase()}</span>
    </span>
  );
}
