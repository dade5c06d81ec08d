import { useEffect, useState } from "react";
import type { Event } from "@parley-hq/client";
import { CopyButton } from "../markdown/code.js";
import { useShared } from "../shared/context.js";
import { Icon } from "../shared/icons.js";

/** One event, in Parley's form and in that of each other dialect. */
export function EventDetail({ event, dialects, close }: { event: Event; dialects: readonly string[]; close: () => void }) {
  const { client, store, texts } = useShared();
  const [as, setAs] = useState("");
  const [other, setOther] = useState<{ as: string; frames?: unknown; fault?: string }>();
  useEffect(() => {
    if (!as) return;
    const stop = new AbortController();
    client
      .event(store.id, event.sequence, as, { signal: stop.signal })
      .then((frames) => setOther({ as, frames }))
      .catch((err: unknown) => stop.signal.aborted || setOther({ as, fault: err instanceof Error ? err.message : String(err) }));
    return () => stop.abort();
  }, [as, client, store.id, event.sequence]);
  const there = other?.as === as ? other : undefined;
  const silent = there && !there.fault && isNothing(there.frames);
  const text = !as ? JSON.stringify(event, null, 2) : !there ? "" : (there.fault ?? (silent ? texts.dialectSilent : JSON.stringify(there.frames, null, 2)));
  const lost = as && there && !there.fault && !silent ? lostFields(event.payload, there.frames) : [];
  const label = texts.event(event.sequence);
  return (
    <div className="pl-detail">
      <div className="pl-detail-head">
        <strong>{label}</strong>
        <span className="pl-grow" />
        <a className="pl-mini" href={`#seq=${event.sequence}`} title={texts.linkTo(event.sequence)} aria-label={texts.linkTo(event.sequence)}>
          <Icon name="link" size={14} />
        </a>
        <CopyButton text={() => text} label={texts.copyJSON} />
        <button type="button" className="pl-mini" aria-label={texts.close} onClick={close}>
          <Icon name="cross" size={14} />
        </button>
      </div>
      {dialects.length > 0 && (
        <div className="pl-tabs" role="tablist" aria-label={texts.dialects}>
          {["", ...dialects].map((d) => (
            <button key={d} type="button" role="tab" aria-selected={as === d} onClick={() => setAs(d)}>
              {d || texts.canonical}
            </button>
          ))}
        </div>
      )}
      <pre tabIndex={0} dir="ltr" role="region" aria-label={as ? `${label}, ${as}` : label}>
        {text}
      </pre>
      {lost.length > 0 && (
        <p className="pl-lost">
          <span>{texts.lost}</span> {lost.map((f) => <code key={f}>{f}</code>)}
        </p>
      )}
    </div>
  );
}

const isNothing = (v: unknown): boolean => v === undefined || v === null || (Array.isArray(v) && v.length === 0);

/** The fields of a payload whose values are missing in the form of another dialect. */
export function lostFields(payload: unknown, frames: unknown): string[] {
  const shown = JSON.stringify(frames) ?? "";
  const out: string[] = [];
  const walk = (v: unknown, path: string) => {
    if (v === null || v === undefined || v === "") return;
    if (Array.isArray(v)) return v.forEach((x, i) => walk(x, `${path}[${i}]`));
    if (typeof v === "object") {
      for (const [k, x] of Object.entries(v)) walk(x, path ? `${path}.${k}` : k);
      return;
    }
    // A text may be inside a JSON string, with its quotes escaped again.
    const inner = typeof v === "string" ? JSON.stringify(v).slice(1, -1) : String(v);
    if (!shown.includes(inner) && !shown.includes(JSON.stringify(inner).slice(1, -1))) out.push(path);
  };
  walk(payload, "");
  return out;
}
