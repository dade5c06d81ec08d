import { useEffect, useRef } from "react";
import { useWords } from "./locale.js";

/** Calls f when a person presses a key outside of fields. */
export function useKey(name: string, f: () => void): void {
  const latest = useRef(f);
  latest.current = f;
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      const at = e.target;
      if (e.key !== name || e.ctrlKey || e.metaKey || at instanceof HTMLInputElement || at instanceof HTMLTextAreaElement || at instanceof HTMLSelectElement) return;
      e.preventDefault();
      latest.current();
    };
    document.addEventListener("keydown", key);
    return () => document.removeEventListener("keydown", key);
  }, [name]);
}

/** The list of keys, opened by its button or by a question mark outside of fields. */
export function Keys() {
  const words = useWords();
  const dialog = useRef<HTMLDialogElement>(null);
  useKey("?", () => dialog.current?.open || dialog.current?.showModal());
  return (
    <>
      <button type="button" className="pl-ghost" onClick={() => dialog.current?.showModal()}>
        {words.keys} <kbd>?</kbd>
      </button>
      <dialog ref={dialog} className="co-dialog" aria-labelledby="keys-title">
        <h2 id="keys-title">{words.keys}</h2>
        <dl className="co-keys">
          {words.keyList.map(([k, what]) => (
            <div key={k}>
              <dt>
                <kbd>{k}</kbd>
              </dt>
              <dd>{what}</dd>
            </div>
          ))}
        </dl>
        <div className="pl-buttons">
          <button type="button" className="pl-button" autoFocus onClick={() => dialog.current?.close()}>
            {words.close}
          </button>
        </div>
      </dialog>
    </>
  );
}
