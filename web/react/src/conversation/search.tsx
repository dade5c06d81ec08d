import { useEffect, useRef, useState, type KeyboardEvent } from "react";
import type { Hit } from "@parley-hq/client";
import { itemAt } from "../entries/itemat.js";
import { plain } from "../i18n/formats.js";
import { useShared } from "../shared/context.js";
import { focused } from "../shared/focus.js";
import { Icon } from "../shared/icons.js";

/** Searches the whole conversation with the server's index: the browser's search finds only mounted rows. */
export function SearchBar({ close }: { close: () => void }) {
  const { client, store, texts, scrollTo } = useShared();
  const [q, setQ] = useState("");
  const [hits, setHits] = useState<Hit[]>();
  const [more, setMore] = useState<number>();
  const [fault, setFault] = useState<string>();
  useEffect(() => {
    setHits(undefined);
    if (q.trim().length < 2) return;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      client.search(store.id, q.trim(), { limit: 30 }, { signal: stop.signal }).then(
        (p) => {
          setHits(p.hits);
          setMore(p.more ? p.before : undefined);
          setFault(undefined);
        },
        (err: unknown) => stop.signal.aborted || setFault(err instanceof Error ? err.message : String(err)),
      );
    }, 200);
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [q, client, store.id]);
  const older = () => {
    client.search(store.id, q.trim(), { limit: 30, ...(more ? { before: more } : {}) }).then(
      (p) => {
        setHits((have) => [...(have ?? []), ...p.hits]);
        setMore(p.more ? p.before : undefined);
      },
      (err: unknown) => setFault(err instanceof Error ? err.message : String(err)),
    );
  };
  const go = async (h: Hit) => {
    const at = await itemAt(store, h.sequence);
    const call = callOf(h);
    const id = call && store.getItem(call) ? call : at;
    if (id) scrollTo(id);
  };
  // A call and its result are one row of the list.
  const shown = hits?.filter((h, i) => !h.call_id || hits.findIndex((o) => callOf(o) === callOf(h)) === i);
  const box = useRef<HTMLElement>(null);
  const [opener] = useState(focused);
  const shut = () => {
    close();
    opener?.focus();
  };
  const onKeyDown = (e: KeyboardEvent) => {
    const stops = [...(box.current?.querySelectorAll<HTMLElement>("input, ul button") ?? [])];
    const at = stops.indexOf(e.target as HTMLElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 }[e.key];
    if (e.nativeEvent.isComposing || (at < 0 && e.key !== "Escape")) return;
    if (e.key === "Escape") shut();
    else if (e.key === "Enter" && at === 0 && shown?.[0]) void go(shown[0]);
    else if (to !== undefined) stops[(to + stops.length) % stops.length]?.focus();
    else return;
    e.preventDefault();
  };
  return (
    <search ref={box} className="pl-search" onKeyDown={onKeyDown}>
      <div className="pl-search-bar pl-ringed">
        <Icon name="search" size={14} />
        <input className="pl-bare" role="searchbox" enterKeyHint="search" autoFocus aria-label={texts.search} placeholder={texts.search} value={q} onChange={(e) => setQ(e.target.value)} />
        <button type="button" className="pl-iconbutton" aria-label={texts.close} onClick={shut}>
          <Icon name="cross" />
        </button>
      </div>
      {fault && <p className="pl-fault">{fault}</p>}
      {shown && (
        <ul aria-label={texts.found(shown.length)}>
          {shown.length === 0 && <li className="pl-muted">{texts.found(0)}</li>}
          {shown.map((h) => (
            <li key={h.sequence}>
              <button type="button" onClick={() => void go(h)}>
                <span dir="auto">{plain(h.snippet)}</span>
                <span className="pl-muted pl-small">
                  #{h.sequence} · {texts.moment(h.timestamp)}
                </span>
              </button>
            </li>
          ))}
          {more !== undefined && (
            <li>
              <button type="button" className="pl-link" onClick={older}>
                {texts.searchOlder}
              </button>
            </li>
          )}
        </ul>
      )}
    </search>
  );
}

/** The id of the item of a tool call. */
const callOf = (h: Hit): string | undefined => h.call_id && `c-${h.turn_id ? `${h.turn_id}.` : ""}${h.call_id}`;
