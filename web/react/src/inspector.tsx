import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { VList, type VListHandle } from "virtua";
import type { Event } from "@parley-hq/client";
import { copyText, CopyButton } from "./code.js";
import { useShared } from "./context.js";
import { Icon } from "./icons.js";

const page = 500;

/** The events as they stand in the log. */
export function Inspector({ at, dialects, onPick }: { at: number | undefined; dialects: readonly string[]; onPick?: (seq: number | undefined) => void }) {
  const { client, store, texts } = useShared();
  const [events, setEvents] = useState<Event[]>([]);
  const [more, setMore] = useState(true);
  const [filter, setFilter] = useState("");
  const [follow, setFollow] = useState(at === undefined);
  const [picked, setPicked] = useState<number | undefined>(at);
  const [fault, setFault] = useState<string>();
  const list = useRef<VListHandle>(null);

  const add = useCallback((fresh: Event[]) => {
    setEvents((have) => {
      const last = have[have.length - 1]?.sequence ?? 0;
      const first = have[0]?.sequence ?? Number.POSITIVE_INFINITY;
      const after = fresh.filter((e) => e.sequence > last);
      const before = have.length > 0 ? fresh.filter((e) => e.sequence < first) : [];
      return before.length + after.length > 0 ? [...before, ...have, ...after] : have;
    });
  }, []);
  const load = useCallback(
    async (before?: number) => {
      try {
        const p = await client.events(store.id, { limit: page, order: "desc", ...(before ? { before } : {}) });
        add([...p.events].reverse());
        setMore(p.more);
        setFault(undefined);
      } catch (err) {
        setFault(err instanceof Error ? err.message : String(err));
      }
    },
    [client, store.id, add],
  );
  useEffect(() => {
    setEvents([]);
    void load(at ? at + page / 2 : undefined);
    return store.onEvent((e) => add([e]));
  }, [store, load, add, at]);
  useEffect(() => setPicked(at), [at]);

  const words = filter.toLowerCase();
  const texted = useMemo(() => new WeakMap<Event, string>(), []);
  const shown = useMemo(() => {
    if (!words) return events;
    return events.filter((e) => {
      if (e.type.includes(words)) return true;
      let t = texted.get(e);
      if (t === undefined) texted.set(e, (t = JSON.stringify(e).toLowerCase()));
      return t.includes(words);
    });
  }, [events, words, texted]);
  useEffect(() => {
    if (follow && shown.length > 0) list.current?.scrollToIndex(shown.length - 1, { align: "end" });
  }, [shown, follow]);
  useEffect(() => {
    const i = at === undefined ? -1 : shown.findIndex((e) => e.sequence === at);
    if (i >= 0) list.current?.scrollToIndex(i, { align: "center" });
  }, [at, shown.length > 0]);

  const event = picked === undefined ? undefined : events.find((e) => e.sequence === picked);
  const pick = (seq: number | undefined) => {
    setPicked(seq);
    if (seq !== undefined) setFollow(false);
    onPick?.(seq);
  };
  return (
    <section className="pl-inspector" aria-label={texts.inspector}>
      <div className="pl-inspector-bar">
        <input type="search" className="pl-field" aria-label={texts.inspectorFilter} placeholder={texts.inspectorFilter} value={filter} onChange={(e) => setFilter(e.target.value)} />
        <button type="button" className="pl-mini" aria-pressed={follow} onClick={() => setFollow(!follow)}>
          <Icon name="down" size={14} />
          <span>{texts.follow}</span>
        </button>
        <button type="button" className="pl-mini" onClick={() => void copyText(shown.map((e) => JSON.stringify(e)).join("\n"))} title={texts.copyNDJSON} aria-label={texts.copyNDJSON}>
          <Icon name="copy" size={14} />
        </button>
      </div>
      <div className="pl-inspector-count">
        {texts.eventsShown(shown.length, events.length)}
        {more && events.length > 0 && (
          <button type="button" className="pl-link" onClick={() => void load(events[0]?.sequence)}>
            {texts.loadEarlier}
          </button>
        )}
        {fault && <span className="pl-bad">{fault}</span>}
      </div>
      <VList ref={list} className="pl-events" data={shown} onScroll={(o) => list.current && o + list.current.viewportSize < list.current.scrollSize - 40 && setFollow(false)} tabIndex={0} role="list" aria-label={texts.inspector}>
        {(e: Event, i: number) => {
          const prev = shown[i - 1];
          const gap = !words && prev && e.sequence !== prev.sequence + 1;
          return (
            <div key={e.sequence} role="listitem">
              {gap && <div className="pl-gap">{texts.gap(prev.sequence + 1, e.sequence - 1)}</div>}
              <button type="button" className="pl-event" aria-pressed={picked === e.sequence} onClick={() => pick(picked === e.sequence ? undefined : e.sequence)}>
                <span className="pl-event-seq">{e.sequence}</span>
                <span className="pl-event-type">{e.type}</span>
                <span className="pl-event-lane">{e.workstream_id ?? ""}</span>
                <span className="pl-event-at">{prev ? delta(e, prev) : e.timestamp.slice(11, 19)}</span>
              </button>
            </div>
          );
        }}
      </VList>
      {event && <Detail key={event.sequence} event={event} dialects={dialects} close={() => pick(undefined)} />}
    </section>
  );
}

function delta(e: Event, prev: Event): string {
  const ms = Date.parse(e.timestamp) - Date.parse(prev.timestamp);
  return ms < 1000 ? `+${ms} ms` : `+${(ms / 1000).toFixed(1)} s`;
}

/** One event, in Parley's words and in those of other dialects. */
function Detail({ event, dialects, close }: { event: Event; dialects: readonly string[]; close: () => void }) {
  const { client, store, texts } = useShared();
  const [as, setAs] = useState("");
  const [other, setOther] = useState<{ as: string; text: string }>();
  useEffect(() => {
    if (!as) return;
    const stop = new AbortController();
    client
      .event(store.id, event.sequence, as, { signal: stop.signal })
      .then((v) => setOther({ as, text: v === undefined || v === null || (Array.isArray(v) && v.length === 0) ? texts.dialectSilent : JSON.stringify(v, null, 2) }))
      .catch((err: unknown) => stop.signal.aborted || setOther({ as, text: err instanceof Error ? err.message : String(err) }));
    return () => stop.abort();
  }, [as, client, store.id, event.sequence, texts]);
  const text = as ? (other?.as === as ? other.text : "") : JSON.stringify(event, null, 2);
  return (
    <div className="pl-detail">
      <div className="pl-detail-head">
        <strong>{texts.event(event.sequence)}</strong>
        {dialects.length > 0 && (
          <span className="pl-tabs" role="tablist">
            {["", ...dialects].map((d) => (
              <button key={d} type="button" role="tab" aria-selected={as === d} onClick={() => setAs(d)}>
                {d || texts.canonical}
              </button>
            ))}
          </span>
        )}
        <span className="pl-grow" />
        <CopyButton text={() => text} label={texts.copyJSON} />
        <button type="button" className="pl-mini" aria-label={texts.close} onClick={close}>
          <Icon name="cross" size={14} />
        </button>
      </div>
      <pre tabIndex={0} dir="ltr" role="region" aria-label={texts.event(event.sequence)}>
        {text}
      </pre>
    </div>
  );
}
