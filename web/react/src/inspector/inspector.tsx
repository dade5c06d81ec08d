import { useDeferredValue, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { VList, type VListHandle } from "virtua";
import type { Event } from "@parley-hq/client";
import { copyText } from "../markdown/code.js";
import { useShared } from "../shared/context.js";
import { Icon } from "../shared/icons.js";
import { EventDetail } from "./eventdetail.js";
import { EventLog, type Filter } from "./eventlog.js";
import { TokensView, TraceView } from "./turnviews.js";

type View = "events" | "tokens" | "trace";

/** The inspector: the raw events of a session, and the tokens and timeline of its turns. */
export function Inspector({ at, dialects, traceURL, onPick }: { at: number | undefined; dialects: readonly string[]; traceURL?: ((traceID: string) => string) | undefined; onPick?: (seq: number | undefined) => void }) {
  const { texts } = useShared();
  const [view, setView] = useState<View>("events");
  const [picked, setPicked] = useState(at);
  useEffect(() => {
    setPicked(at);
    if (at !== undefined) setView("events");
  }, [at]);
  const pick = (seq: number) => {
    setPicked(seq);
    setView("events");
  };
  const views: [View, string][] = [["events", texts.events], ["tokens", texts.tokens], ["trace", texts.trace]];
  return (
    <section className="pl-inspector" aria-label={texts.inspector}>
      <div className="pl-tabs pl-subtabs" role="tablist" aria-label={texts.inspector}>
        {views.map(([v, label]) => (
          <button key={v} type="button" role="tab" aria-selected={view === v} onClick={() => setView(v)}>
            {label}
          </button>
        ))}
      </div>
      {view === "events" ? <Events at={picked} dialects={dialects} onPick={onPick} /> : view === "tokens" ? <TokensView pick={pick} /> : <TraceView pick={pick} traceURL={traceURL} />}
    </section>
  );
}

/** The raw events. */
function Events({ at, dialects, onPick }: { at: number | undefined; dialects: readonly string[]; onPick: ((seq: number | undefined) => void) | undefined }) {
  const { client, store, texts } = useShared();
  const log = useMemo(() => new EventLog(client, store), [client, store, at]);
  useEffect(() => log.open(at), [log, at]);
  const version = useSyncExternalStore(log.subscribe, () => log.version);
  const [filter, setFilter] = useState<Filter>({ words: "", type: "", workstream: "" });
  const [follow, setFollow] = useState(at === undefined);
  const [picked, setPicked] = useState<number | undefined>(at);
  const list = useRef<VListHandle>(null);
  // Typing has priority over filtering.
  const looked = useDeferredValue(filter);
  const shown = useMemo(() => log.filter(looked), [log, looked, version]);
  const whole = !looked.words && !looked.type && !looked.workstream;
  const prepended = useRef(log.prepended);
  const shift = prepended.current !== log.prepended;
  useEffect(() => void (prepended.current = log.prepended), [log, version]);

  useEffect(() => setPicked(at), [at]);
  useEffect(() => {
    if (follow && shown.length > 0) list.current?.scrollToIndex(shown.length - 1, { align: "end" });
  }, [shown, follow]);
  const there = at !== undefined && shown.some((e) => e.sequence === at);
  useEffect(() => {
    if (there) list.current?.scrollToIndex(shown.findIndex((e) => e.sequence === at), { align: "center" });
  }, [at, there]);

  const event = picked === undefined ? undefined : log.find(picked);
  const pick = (seq: number | undefined) => {
    setPicked(seq);
    if (seq !== undefined) setFollow(false);
    onPick?.(seq);
  };
  const onScroll = (offset: number) => {
    const l = list.current;
    if (!l) return;
    if (offset + l.viewportSize < l.scrollSize - 40) setFollow(false);
    if (offset < 200 && whole && shown.length > 0) void log.earlier();
  };
  const choose = (key: "type" | "workstream", all: Set<string>, any: string) => (
    <select className="pl-field" aria-label={any} value={filter[key]} onChange={(e) => setFilter({ ...filter, [key]: e.target.value })}>
      <option value="">{any}</option>
      {[...all].sort().map((t) => (
        <option key={t}>{t}</option>
      ))}
    </select>
  );
  return (
    <>
      <div className="pl-inspector-bar">
        <input type="search" className="pl-field" aria-label={texts.inspectorFilter} placeholder={texts.inspectorFilter} value={filter.words} onChange={(e) => setFilter({ ...filter, words: e.target.value })} />
        <button type="button" className="pl-mini" aria-pressed={follow} onClick={() => setFollow(!follow)} title={texts.follow} aria-label={texts.follow}>
          <Icon name="down" size={14} />
        </button>
        <button type="button" className="pl-mini" aria-pressed={log.paused} onClick={() => log.pause(!log.paused)} title={texts.pause} aria-label={texts.pause}>
          <Icon name="pause" size={14} />
          {log.held > 0 && <span>{texts.number(log.held)}</span>}
        </button>
        <button type="button" className="pl-mini" onClick={() => void copyText(shown.map((e) => JSON.stringify(e)).join("\n"))} title={texts.copyNDJSON} aria-label={texts.copyNDJSON}>
          <Icon name="copy" size={14} />
        </button>
      </div>
      <div className="pl-inspector-bar">
        {choose("type", log.types, texts.anyType)}
        {log.workstreams.size > 1 && choose("workstream", log.workstreams, texts.anyLane)}
      </div>
      <div className="pl-inspector-count" role="status">
        {texts.eventsShown(shown.length, log.all.length)}
        {log.more && log.all.length > 0 && (
          <>
            <button type="button" className="pl-link" disabled={log.loading} onClick={() => void log.earlier()}>
              {texts.loadEarlier}
            </button>
            <button type="button" className="pl-link" disabled={log.loading} onClick={() => void log.everything()}>
              {texts.loadEverything}
            </button>
          </>
        )}
        {log.fault && <span className="pl-bad">{log.fault}</span>}
      </div>
      <VList ref={list} className="pl-events" data={shown} shift={shift} onScroll={onScroll} tabIndex={0} role="list" aria-label={texts.inspector}>
        {(e: Event, i: number) => <EventRow key={e.sequence} event={e} prev={shown[i - 1]} whole={whole} picked={picked === e.sequence} pick={pick} />}
      </VList>
      {event && <EventDetail key={event.sequence} event={event} dialects={dialects} close={() => pick(undefined)} />}
    </>
  );
}

function EventRow({ event: e, prev, whole, picked, pick }: { event: Event; prev: Event | undefined; whole: boolean; picked: boolean; pick: (seq: number | undefined) => void }) {
  const { texts } = useShared();
  return (
    <div role="listitem">
      {whole && prev && e.sequence > prev.sequence + 1 && <div className="pl-gap">{texts.gap(prev.sequence + 1, e.sequence - 1)}</div>}
      <button type="button" className="pl-event" aria-pressed={picked} onClick={() => pick(picked ? undefined : e.sequence)}>
        <span className="pl-event-seq">{e.sequence}</span>
        <span className="pl-event-time">{e.timestamp.slice(11, 19)}</span>
        <span className="pl-event-type">{e.type}</span>
        <span className="pl-event-lane">{e.workstream_id ?? ""}</span>
        <span className="pl-event-at">{prev ? delta(e, prev) : ""}</span>
        <span className="pl-event-size">{texts.bytes(JSON.stringify(e).length)}</span>
      </button>
    </div>
  );
}

function delta(e: Event, prev: Event): string {
  const ms = Date.parse(e.timestamp) - Date.parse(prev.timestamp);
  return ms < 1000 ? `+${ms} ms` : `+${(ms / 1000).toFixed(1)} s`;
}
