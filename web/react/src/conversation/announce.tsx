import { useEffect, useRef, useState } from "react";
import { isKnown } from "@parley-hq/client";
import { plain } from "../i18n/formats.js";
import { questionOf } from "../prompts/prompt.js";
import { workstreamName, useShared } from "../shared/context.js";
import { useConnection, usePrompts, useTick } from "../shared/hooks.js";
import { tasksDone } from "../work/plan.js";

/*
 * Announcements for screen readers. The list itself is not a live region, because scrolling mounts rows, which would be read.
 */

const pace = 2000;

export function Announcer() {
  const shared = useShared();
  const { store, texts, mode } = shared;
  const [lines, setLines] = useState<{ key: number; text: string }[]>([]);
  const alert = useRef<HTMLDivElement>(null);
  const alerts = useRef<string[]>([]);
  const waiting = useRef<string[]>([]);
  const next = useRef(1);
  const lastAt = useRef(0);
  const prompts = usePrompts(store);
  const connection = useConnection(store);
  const marks = useRef(new Map<string, number>());
  const lost = useRef(0); // when the announced loss of the connection began

  // Sets the text directly: the same alert can be repeated, and alerts at the same time are joined.
  const setAlert = useRef((text: string) => {
    if (alerts.current.push(text) > 1) return;
    queueMicrotask(() => {
      const all = alerts.current.splice(0).join(" ");
      if (alert.current) alert.current.textContent = all;
    });
  }).current;

  const flush = useRef(() => {
    if (waiting.current.length === 0 || Date.now() - lastAt.current < pace) return;
    lastAt.current = Date.now();
    const text = waiting.current.splice(0).join(" ");
    setLines((l) => [...l.slice(-4), { key: next.current++, text }]);
  });

  useEffect(() => {
    const say = (text: string) => {
      waiting.current.push(text);
      flush.current();
    };
    return store.onEvent((e) => {
      if (!isKnown(e) || e.workstream_id) return;
      switch (e.type) {
        case "turn.started":
          return say(texts.sayStarted);
        case "agent.text":
          return say(e.payload.text.length > 300 ? `${plain(e.payload.text.slice(0, 300))} ${texts.sayContinues}` : plain(e.payload.text));
        case "agent.plan":
          return say(texts.sayPlan(tasksDone(e.payload.tasks), e.payload.tasks.length));
        case "workstream.completed":
        case "workstream.failed":
        case "workstream.timeout":
          return say(texts.sayWork(workstreamName(shared, e.payload.id), texts.workStatus[e.type.slice(11)] ?? ""));
        case "turn.completed":
          if (e.payload.outcome === "failed") setAlert(`${texts.notices.failed}: ${e.payload.error ?? ""}`);
          return;
        case "prompt.closed":
          if (e.payload.reason === "expired") setAlert(texts.sayExpired);
          return;
      }
    });
  }, [store, texts, shared, setAlert]);

  useTick(() => {
    flush.current();
    const open = new Set(prompts.map((p) => p.request_id));
    for (const id of marks.current.keys()) if (!open.has(id)) marks.current.delete(id);
    for (const p of prompts) {
      const left = p.deadline ? (Date.parse(p.deadline) - store.serverNow()) / 1000 : Number.POSITIVE_INFINITY;
      const stage = left <= 20 ? 3 : left <= 60 ? 2 : 1;
      const was = marks.current.get(p.request_id) ?? 0;
      if (stage <= was) continue;
      marks.current.set(p.request_id, stage);
      if (mode === "read-only") continue;
      if (was === 0) setAlert(texts.sayAsked(questionOf(p, texts)));
      else setAlert(stage === 3 ? texts.sayTwenty : texts.saySixty);
    }
    if (connection.state === "offline" && Date.now() - connection.since > 10_000 && lost.current !== connection.since) {
      lost.current = connection.since;
      setAlert(texts.sayLost);
    }
  });

  return (
    <>
      <div className="pl-hidden" role="log" aria-live="polite">
        {lines.map((l) => (
          <p key={l.key}>{l.text}</p>
        ))}
      </div>
      <div ref={alert} className="pl-hidden" role="alert" />
    </>
  );
}
