import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { Icon } from "@parley-hq/react";
import { useWords } from "./locale.js";

/** How long an action can be undone, in milliseconds. */
export const undoTime = 8000;

/** Something that was done and can be undone for a while. */
export interface Undoable {
  key: string;
  text: string;
  undo: () => void;
  /** Called when it can no longer be undone; leaving says that the page is being hidden or closed. */
  end?: (leaving: boolean) => void;
}

/** A sentence about something that failed. */
interface Failure {
  key: string;
  text: string;
}

export interface Undos {
  offered: readonly Undoable[];
  failures: readonly Failure[];
  offer: (u: Undoable) => void;
  fail: (f: Failure) => void;
  /** Removes an entry; with undo it is undone, without it can no longer be. */
  close: (key: string, undo?: boolean) => void;
}

/** What can be undone at the moment. When the page is hidden or closed, all of it ends at once. */
export function useUndos(): Undos {
  const [offered, setOffered] = useState<readonly Undoable[]>([]);
  const [failures, setFailures] = useState<readonly Failure[]>([]);
  const now = useRef(offered);
  const change = useCallback((next: readonly Undoable[]) => setOffered((now.current = next)), []);
  const close = useCallback(
    (key: string, undo?: boolean) => {
      setFailures((old) => old.filter((f) => f.key !== key));
      const u = now.current.find((x) => x.key === key);
      if (!u) return;
      change(now.current.filter((x) => x !== u));
      if (undo) u.undo();
      else u.end?.(false);
    },
    [change],
  );
  const offer = useCallback(
    (u: Undoable) => {
      close(u.key);
      change([...now.current, u]);
    },
    [change, close],
  );
  const fail = useCallback((f: Failure) => setFailures((old) => [...old.filter((x) => x.key !== f.key), f]), []);
  useEffect(() => {
    const leave = () => {
      const all = now.current;
      change([]);
      for (const u of all) u.end?.(true);
    };
    const hide = () => document.visibilityState === "hidden" && leave();
    addEventListener("pagehide", leave);
    document.addEventListener("visibilitychange", hide);
    return () => {
      removeEventListener("pagehide", leave);
      document.removeEventListener("visibilitychange", hide);
      leave();
    };
  }, [change]);
  return useMemo(() => ({ offered, failures, offer, fail, close }), [offered, failures, offer, fail, close]);
}

/** Bars that say what was done, with a button to undo it. */
export function UndoBars({ undos }: { undos: Undos }) {
  const words = useWords();
  return (
    <div className="co-bars" role="status">
      {undos.failures.map((f) => (
        <div key={f.key} className="co-bar">
          <span className="co-err" dir="auto">
            {f.text}
          </span>
          <button type="button" className="pl-mini" aria-label={words.close} onClick={() => undos.close(f.key)}>
            <Icon name="cross" size={14} />
          </button>
        </div>
      ))}
      {undos.offered.map((u) => (
        <UndoBar key={u.key} undoable={u} close={undos.close} />
      ))}
    </div>
  );
}

function UndoBar({ undoable: u, close }: { undoable: Undoable; close: Undos["close"] }) {
  const words = useWords();
  // The time does not run while the pointer or the focus is on the bar.
  const [held, setHeld] = useState(false);
  useEffect(() => {
    if (held) return;
    const timer = setTimeout(() => close(u.key), undoTime);
    return () => clearTimeout(timer);
  }, [held, u.key, close]);
  return (
    <div className="co-bar" onPointerEnter={() => setHeld(true)} onPointerLeave={() => setHeld(false)} onFocus={() => setHeld(true)} onBlur={() => setHeld(false)}>
      <span dir="auto">{u.text}</span>
      <button type="button" className="pl-link" onClick={() => close(u.key, true)}>
        {words.undo}
      </button>
    </div>
  );
}
