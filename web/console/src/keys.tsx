import { useEffect, useRef } from "react";

const keys: [string, string][] = [
  ["Enter", "send the message"],
  ["Shift + Enter", "a new line"],
  ["Esc, Esc", "stop the agent, from the composer"],
  ["Alt + Q", "go to the question that waits"],
  ["Ctrl + Enter", "send an answer, from its field"],
  ["Alt + ↑ ↓", "previous and next entry, from the list"],
  ["?", "this list"],
];

/** The list of keys, opened by a question mark outside of fields. */
export function Keys() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      const at = e.target;
      if (e.key !== "?" || e.ctrlKey || e.metaKey || at instanceof HTMLInputElement || at instanceof HTMLTextAreaElement || at instanceof HTMLSelectElement) return;
      e.preventDefault();
      if (!dialog.current?.open) dialog.current?.showModal();
    };
    document.addEventListener("keydown", key);
    return () => document.removeEventListener("keydown", key);
  }, []);
  return (
    <dialog ref={dialog} className="co-dialog" aria-labelledby="keys-title">
      <h2 id="keys-title">Keys</h2>
      <dl className="co-keys">
        {keys.map(([k, what]) => (
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
          Close
        </button>
      </div>
    </dialog>
  );
}
