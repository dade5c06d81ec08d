import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { ParleyError, type ParleyClient, type Prompt, type Session } from "@parley-hq/client";
import { queryOf, readFilter, searchOf, type Filter } from "./filter.js";

const every = 4000;

/** The old value if the new one is equal, so that nothing is rendered again. */
const same = <T>(old: T | undefined, now: T): T => (old && JSON.stringify(old) === JSON.stringify(now) ? old : now);

/** The sessions of a new list. Those that are equal to the old ones are the old objects, so that their rows are not rendered again. */
function merged(old: Session[] | undefined, now: Session[]): Session[] {
  const before = new Map(old?.map((s) => [s.session_id, s]));
  const next = now.map((s) => same(before.get(s.session_id), s));
  return old?.length === next.length && next.every((s, i) => s === old[i]) ? old : next;
}

/** The open prompts of a session. */
export interface SessionPrompts {
  session: Session;
  prompts: Prompt[];
}

export interface Sessions {
  list: Session[] | undefined;
  /** The shown session, also if the list does not have it. */
  current: Session | undefined;
  /** All open prompts that the person may answer, whatever the search finds. */
  open: SessionPrompts[] | undefined;
  error: ParleyError | undefined;
  more: boolean;
  refresh: () => void;
  loadMore: () => void;
}

/** The session list and the open prompts, reloaded every few seconds while the page is visible, or with `hidden` always. */
export function useSessions(client: ParleyClient, q: string, narrowed: Filter, id: string | undefined, hidden: boolean): Sessions {
  const [list, setList] = useState<Session[]>();
  const [other, setOther] = useState<Session>();
  const filter = searchOf(narrowed); // as text, which is equal when the filter is
  const [open, setOpen] = useState<SessionPrompts[]>();
  const [error, setError] = useState<ParleyError>();
  const [cursor, setCursor] = useState<string>();
  const limit = useRef(60);
  const load = useCallback(
    async (signal: AbortSignal) => {
      try {
        const [page, asked] = await Promise.all([
          client.list({ limit: limit.current, ...(q ? { q } : {}), ...queryOf(readFilter(filter)) }, { signal }),
          client.request<{ sessions: SessionPrompts[] }>("/prompts", { query: { limit: 200 }, safe: true, signal }),
        ]);
        setList((old) => merged(old, page.sessions));
        setOpen((old) => same(old, asked.sessions));
        setCursor(page.next_cursor || undefined);
        setError(undefined);
      } catch (err) {
        if (!signal.aborted) setError(err instanceof ParleyError ? err : new ParleyError("internal", String(err)));
      }
    },
    [client, q, filter],
  );
  const stop = useRef(new AbortController());
  useEffect(() => {
    const mine = new AbortController();
    stop.current = mine;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const loop = async () => {
      if (hidden || document.visibilityState === "visible") await load(mine.signal);
      if (!mine.signal.aborted) timer = setTimeout(() => void loop(), every);
    };
    const seen = () => document.visibilityState === "visible" && void load(mine.signal);
    const first = setTimeout(() => void loop(), q ? 200 : 0);
    document.addEventListener("visibilitychange", seen);
    return () => {
      mine.abort();
      clearTimeout(first);
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [load, q, hidden]);
  const [asked, setAsked] = useState(0);
  const refresh = useCallback(() => {
    setAsked((n) => n + 1);
    void load(stop.current.signal);
  }, [load]);
  const listed = list?.find((s) => s.session_id === id);
  const missing = list !== undefined && id !== undefined && !listed;
  useEffect(() => {
    if (!missing) return;
    const mine = new AbortController();
    client.get(id, { signal: mine.signal }).then(setOther, () => {});
    return () => mine.abort();
  }, [client, id, missing, asked]);
  const loadMore = useCallback(() => {
    limit.current = Math.min(1000, limit.current + 100);
    refresh();
  }, [refresh]);
  const current = listed ?? (other?.session_id === id ? other : undefined);
  const more = cursor !== undefined && limit.current < 1000;
  return useMemo(() => ({ list, current, open, error, more, refresh, loadMore }), [list, current, open, error, more, refresh, loadMore]);
}

/** The people that own a session or are members of one, by id with their names; those of earlier lists stay. */
export function usePeople(list: readonly Session[] | undefined): ReadonlyMap<string, string> {
  const [people, set] = useState<ReadonlyMap<string, string>>(new Map());
  useEffect(() => {
    set((old) => {
      const all = new Map(old);
      for (const s of list ?? []) for (const a of [s.owner, ...(s.members ?? []).map((m) => m.actor)]) if (a.kind === "user" && a.id) all.set(a.id, a.name || all.get(a.id) || a.id);
      return JSON.stringify([...old]) === JSON.stringify([...all]) ? old : all;
    });
  }, [list]);
  return people;
}
