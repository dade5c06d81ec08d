import { useCallback, useEffect, useLayoutEffect, useRef, useState, useSyncExternalStore } from "react";
import { openSession } from "@parley-hq/client";
import type { AgentPlan, Connection, Older, ParleyClient, Prompt, Session, SessionStore, ShownItem, View, Workstream } from "@parley-hq/client";

/*
 * Hooks for custom components. Each re-renders only when its value changes.
 */

/** Opens a session while the component is mounted. */
export function useSession(client: ParleyClient, id: string | undefined): SessionStore | undefined {
  const [store, set] = useState<SessionStore>();
  useEffect(() => {
    if (!id) return set(undefined);
    const s = openSession(client, id);
    set(s);
    return () => s.close();
  }, [client, id]);
  return store?.id === id ? store : undefined;
}

/** Ids of all items, in order. */
export function useItems(store: SessionStore): readonly string[] {
  return useSyncExternalStore(
    useCallback((f) => store.subscribe("order", f), [store]),
    () => store.getOrder(),
  );
}

export function useItem(store: SessionStore, id: string): ShownItem | undefined {
  return useSyncExternalStore(
    useCallback((f) => store.subscribeItem(id, f), [store, id]),
    () => store.getItem(id),
  );
}

/** A part of an item; re-renders only when that part changes. */
export function useItemPart<T>(store: SessionStore, id: string, part: (item: ShownItem | undefined) => T): T {
  return useSyncExternalStore(
    useCallback((f) => store.subscribeItem(id, f), [store, id]),
    () => part(store.getItem(id)),
  );
}

/** Why a request of a person failed; it is forgotten when a lost connection is back. */
export function useFault(store: SessionStore): [string | undefined, (fault: string | undefined) => void] {
  const [fault, setFault] = useState<string>();
  const live = useConnection(store).state === "live";
  useEffect(() => {
    if (live) setFault(undefined);
  }, [live]);
  return [fault, setFault];
}

export function useView(store: SessionStore): View | undefined {
  return useSyncExternalStore(
    useCallback((f) => store.subscribe("state", f), [store]),
    () => store.getState(),
  );
}

/** The session's record; it changes with the state. */
export function useRecord(store: SessionStore): Session | undefined {
  return useSyncExternalStore(
    useCallback((f) => store.subscribe("state", f), [store]),
    () => store.getSession(),
  );
}

const none: never[] = [];

/** Open prompts, oldest first. */
export const usePrompts = (store: SessionStore): Prompt[] => useView(store)?.prompts ?? none;
export const useWorkstreams = (store: SessionStore): Workstream[] => useView(store)?.workstreams ?? none;
export const usePlan = (store: SessionStore): AgentPlan | undefined => useView(store)?.plan;

export function useConnection(store: SessionStore): Connection {
  return useSyncExternalStore(
    useCallback((f) => store.subscribe("connection", f), [store]),
    () => store.getConnection(),
  );
}

export function useOlder(store: SessionStore): Older {
  return useSyncExternalStore(
    useCallback((f) => store.subscribe("older", f), [store]),
    () => store.getOlder(),
  );
}

/** A text about the items, read again with every event and every block that begins or ends. */
export function useDoing(store: SessionStore, read: () => string): string {
  return useSyncExternalStore(
    useCallback(
      (f) => {
        const leave = [store.onEvent(f), store.subscribe("order", f)];
        return () => leave.forEach((l) => l());
      },
      [store],
    ),
    read,
  );
}

// One ticker for every countdown and elapsed time on the page.
const ticks = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

function tick(): void {
  for (const f of [...ticks]) f();
}

/** Calls f now, every second, and when the page becomes visible. */
export function onTick(f: () => void): () => void {
  ticks.add(f);
  if (ticks.size === 1) {
    timer = setInterval(tick, 1000);
    document.addEventListener("visibilitychange", tick);
  }
  f();
  return () => {
    ticks.delete(f);
    if (ticks.size > 0) return;
    clearInterval(timer);
    document.removeEventListener("visibilitychange", tick);
  };
}

/** Calls f every second with its newest closure, without rendering. */
export function useTick(f: () => void, active = true): void {
  const latest = useRef(f);
  latest.current = f;
  useEffect(() => (active ? onTick(() => latest.current()) : undefined), [active]);
}

/** Like useTick, for an f that writes into the DOM: it is also called after every render. */
export function useDrawn(f: () => void, active = true): void {
  useLayoutEffect(f);
  useTick(f, active);
}

/** A value that is read every second; re-renders only when it changes. */
export function useEverySecond<T extends string | number | boolean>(read: () => T, active = true): T {
  const [value, set] = useState(read);
  useTick(() => set(read()), active);
  return value;
}
