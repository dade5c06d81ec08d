import { useCallback, useEffect, useRef, useState } from "react";
import { ParleyError, type ParleyClient, type Prompt, type Session } from "@parley-hq/client";

const every = 4000;

/** The old value if the new one is equal, so that nothing is rendered again. */
const same = <T>(old: T | undefined, now: T): T => (old && JSON.stringify(old) === JSON.stringify(now) ? old : now);

/** The open prompts of a session. */
export interface SessionPrompts {
  session: Session;
  prompts: Prompt[];
}

export interface Sessions {
  list: Session[] | undefined;
  /** All open prompts that the person may answer, whatever the search finds. */
  open: SessionPrompts[] | undefined;
  error: ParleyError | undefined;
  more: boolean;
  refresh: () => void;
  loadMore: () => void;
}

/** The session list and the open prompts, reloaded every few seconds while the page is visible. */
export function useSessions(client: ParleyClient, q: string): Sessions {
  const [list, setList] = useState<Session[]>();
  const [open, setOpen] = useState<SessionPrompts[]>();
  const [error, setError] = useState<ParleyError>();
  const [cursor, setCursor] = useState<string>();
  const limit = useRef(60);
  const load = useCallback(
    async (signal: AbortSignal) => {
      try {
        const [page, asked] = await Promise.all([
          client.list({ limit: limit.current, ...(q ? { q } : {}) }, { signal }),
          client.request<{ sessions: SessionPrompts[] }>("/prompts", { query: { limit: 200 }, safe: true, signal }),
        ]);
        setList((old) => same(old, page.sessions));
        setOpen((old) => same(old, asked.sessions));
        setCursor(page.next_cursor || undefined);
        setError(undefined);
      } catch (err) {
        if (!signal.aborted) setError(err instanceof ParleyError ? err : new ParleyError("internal", String(err)));
      }
    },
    [client, q],
  );
  const stop = useRef(new AbortController());
  useEffect(() => {
    const mine = new AbortController();
    stop.current = mine;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const loop = async () => {
      if (document.visibilityState === "visible") await load(mine.signal);
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
  }, [load, q]);
  const refresh = useCallback(() => void load(stop.current.signal), [load]);
  const loadMore = useCallback(() => {
    limit.current = Math.min(1000, limit.current + 100);
    refresh();
  }, [refresh]);
  return { list, open, error, more: cursor !== undefined && limit.current < 1000, refresh, loadMore };
}
