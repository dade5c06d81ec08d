import { useCallback, useEffect, useMemo, useState } from "react";
import type { Session } from "@parley-hq/client";

/** What this browser knows about conversations: which are pinned, and up to which event each was seen. */
interface Stored {
  pinned: string[];
  seen: Record<string, number>;
}

const key = "parley.marks";
const most = 1000; // conversations whose last seen event is kept

function read(): Stored | undefined {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "null") as Stored | undefined ?? undefined;
  } catch {
    return undefined;
  }
}

export interface Marks {
  pinned: (id: string) => boolean;
  unread: (s: Session) => boolean;
  /** Notes that a conversation was seen up to its last event. */
  see: (s: Session) => void;
  togglePin: (id: string) => void;
}

/** Pinned and unread conversations. The one that is shown is read while the page is visible. */
export function useMarks(list: readonly Session[] | undefined, current: string | undefined): Marks {
  const [marks, set] = useState(read);
  const change = useCallback((next: (old: Stored) => Stored) => {
    set((old) => {
      const now = next(old ?? { pinned: [], seen: {} });
      try {
        localStorage.setItem(key, JSON.stringify(now));
      } catch {
        // Without storage the marks are kept until the page is closed.
      }
      return now;
    });
  }, []);
  const see = useCallback(
    (s: Session) =>
      change((old) => {
        const { [s.session_id]: _, ...others } = old.seen;
        return { ...old, seen: Object.fromEntries([...Object.entries(others), [s.session_id, s.last] as const].slice(-most)) };
      }),
    [change],
  );
  useEffect(() => {
    if (!list) return;
    // At the first visit all conversations count as read.
    if (!marks) return change((old) => ({ ...old, seen: Object.fromEntries(list.map((s) => [s.session_id, s.last])) }));
    const shown = list.find((s) => s.session_id === current);
    if (!shown || document.visibilityState !== "visible" || marks.seen[shown.session_id] === shown.last) return;
    see(shown);
  }, [list, current, marks, change, see]);
  const togglePin = useCallback((id: string) => change((old) => ({ ...old, pinned: old.pinned.includes(id) ? old.pinned.filter((p) => p !== id) : [...old.pinned, id] })), [change]);
  return useMemo(
    () => ({
      pinned: (id) => marks?.pinned.includes(id) ?? false,
      unread: (s) => marks !== undefined && s.session_id !== current && s.last > (marks.seen[s.session_id] ?? 0),
      see,
      togglePin,
    }),
    [marks, current, see, togglePin],
  );
}
