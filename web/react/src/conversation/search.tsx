import { useEffect, useState } from "react";
import type { Hit } from "@parley-hq/client";
import { itemAt } from "../entries/itemat.js";
import { useShared } from "../shared/context.js";
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
  const go = async (seq: number) => {
    const id = await itemAt(store, seq);
    if (id) scrollTo(id);
  };
  return (
    <search className="pl-search" onKeyDown={(e) => e.key === "Escape" && close()}>
      <div className="pl-search-bar pl-ringed pl-ringed-inside">
        <Icon name="search" size={14} />
        <input className="pl-bare" type="search" autoFocus aria-label={texts.search} placeholder={texts.search} value={q} onChange={(e) => setQ(e.target.value)} />
        <button type="button" className="pl-iconbutton" aria-label={texts.close} onClick={close}>
          <Icon name="cross" />
        </button>
      </div>
      {fault && <p className="pl-fault">{fault}</p>}
      {hits && (
        <ul aria-label={texts.found(hits.length)}>
          {hits.length === 0 && <li className="pl-muted">{texts.found(0)}</li>}
          {hits.map((h) => (
            <li key={h.sequence}>
              <button type="button" onClick={() => void go(h.sequence)}>
                <span dir="auto">{h.snippet}</span>
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
