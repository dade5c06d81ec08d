import { useCallback, useEffect, useState } from "react";
import { readFilter, searchOf, type Filter } from "./filter.js";

/** The route: the inbox, a session or none, and the event that the inspector shows. */
export interface Route {
  inbox: boolean;
  session: string | undefined;
  /** No page has this address. */
  unknown: boolean;
  seq: number | undefined;
  /** The print view. */
  print: boolean;
  /** What narrows the list. It stays when another page is opened. */
  filter: Filter;
}

/** The route of the address now. */
export function read(): Route {
  const m = /^\/s\/([^/]+)$/.exec(location.pathname);
  const seq = /^#seq=(\d+)$/.exec(location.hash);
  return { inbox: location.pathname === inboxPath, session: m?.[1] ? decodeURIComponent(m[1]) : undefined, unknown: !m && ![inboxPath, "/"].includes(location.pathname), seq: seq ? Number(seq[1]) : undefined, print: new URLSearchParams(location.search).has("print"), filter: readFilter(location.search) };
}

export const inboxPath = "/inbox";
export const pathOf = (session: string | undefined): string => (session ? `/s/${encodeURIComponent(session)}` : "/");

export function useRoute(): [Route, (path: string) => void, (f: Filter) => void] {
  const [route, set] = useState(read);
  useEffect(() => {
    const again = () => set(read());
    addEventListener("popstate", again);
    addEventListener("hashchange", again);
    return () => {
      removeEventListener("popstate", again);
      removeEventListener("hashchange", again);
    };
  }, []);
  const go = useCallback((path: string) => {
    const search = searchOf(readFilter(location.search));
    if (path !== location.pathname || location.hash || location.search !== search) history.pushState(null, "", path + search);
    set(read());
  }, []);
  const setFilter = useCallback((f: Filter) => {
    history.replaceState(null, "", location.pathname + searchOf(f) + location.hash);
    set(read());
  }, []);
  return [route, go, setFilter];
}

/** A setting that is stored in the browser. */
export function useSetting<T extends string>(key: string, initial: T): [T, (v: T) => void] {
  const [value, set] = useState<T>(() => {
    try {
      return (localStorage.getItem(`parley.${key}`) as T | null) ?? initial;
    } catch {
      return initial;
    }
  });
  return [
    value,
    (v) => {
      set(v);
      try {
        localStorage.setItem(`parley.${key}`, v);
      } catch {
        // Without storage the setting is kept until the page is closed.
      }
    },
  ];
}
