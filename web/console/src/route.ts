import { useCallback, useEffect, useRef, useState } from "react";
import type { Prompt } from "@parley-hq/client";
import { readFilter, searchOf, type Filter } from "./filter.js";

/** The route: the inbox, a session or none, and the event that the inspector shows. */
export interface Route {
  inbox: boolean;
  session: string | undefined;
  /** No page has this address. */
  unknown: boolean;
  seq: number | undefined;
  /** The event whose entry the conversation is opened at. */
  at: number | undefined;
  /** The print view. */
  print: boolean;
  /** What narrows the list. It stays when another page is opened. */
  filter: Filter;
}

/** The route of the address now. */
export function read(): Route {
  const m = /^\/s\/([^/]+)$/.exec(location.pathname);
  const [, kind, number] = /^#(seq|at)=(\d+)$/.exec(location.hash) ?? [];
  return { inbox: location.pathname === inboxPath, session: m?.[1] ? decodeURIComponent(m[1]) : undefined, unknown: !m && ![inboxPath, "/"].includes(location.pathname), seq: kind === "seq" ? Number(number) : undefined, at: kind === "at" ? Number(number) : undefined, print: new URLSearchParams(location.search).has("print"), filter: readFilter(location.search) };
}

export const inboxPath = "/inbox";
/** The address of a question in its conversation. */
export const questionPath = (session: string, p: Prompt): string => `${pathOf(session)}#at=${p.sequence}`;
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
    const [page, hash] = path.split("#");
    const to = page + search + (hash ? `#${hash}` : "");
    if (to !== location.pathname + location.search + location.hash) history.pushState(null, "", to);
    set(read());
  }, []);
  const setFilter = useCallback((f: Filter) => {
    history.replaceState(null, "", location.pathname + searchOf(f) + location.hash);
    set(read());
  }, []);
  return [route, go, setFilter];
}

const sheetNow = (): string | null => (history.state as { sheet?: string } | null)?.sheet ?? null;

/** The panel that covers the page of a phone. It is an entry of the history, so that Back closes it. */
export function useSheet<T extends string>(): [T | null, (name: T | null) => void] {
  const [name, set] = useState(sheetNow);
  const closing = useRef(false); // the history goes back
  useEffect(() => {
    const again = () => {
      closing.current = false;
      set(sheetNow());
    };
    addEventListener("popstate", again);
    return () => removeEventListener("popstate", again);
  }, []);
  const change = useCallback((to: T | null) => {
    if (closing.current) return;
    const now = sheetNow();
    if (to === null && now !== null) {
      closing.current = true;
      return history.back();
    }
    if (to !== null) history[now === null ? "pushState" : "replaceState"]({ sheet: to }, "");
    set(to);
  }, []);
  return [name as T | null, change];
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
