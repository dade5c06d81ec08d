import { useRef, useState, type FormEvent } from "react";
import { flushSync } from "react-dom";
import type { ParleyClient, Session } from "@parley-hq/client";
import { onMenuKey } from "@parley-hq/react/menukeys";
import { useWords } from "./locale.js";
import { pathOf } from "./route.js";

/** The menu of a conversation: rename, print, export, developer mode, erase. */
export function SessionMenu({ client, session, changed, erased, developer, toggleDeveloper }: { client: ParleyClient; session: Session; changed: () => void; erased: () => void; developer: boolean; toggleDeveloper: () => void }) {
  const words = useWords();
  const rename = useRef<HTMLDialogElement>(null);
  const erase = useRef<HTMLDialogElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const [title, setTitle] = useState("");
  const [fault, setFault] = useState<string>();
  const doing = (work: Promise<unknown>, then: () => void) => {
    setFault(undefined);
    work.then(then, (err: unknown) => setFault(err instanceof Error ? err.message : String(err)));
  };
  const save = (e: FormEvent) => {
    e.preventDefault();
    doing(client.update(session.session_id, { title: title.trim() }), () => {
      rename.current?.close();
      changed();
    });
  };
  return (
    <>
      <details
        className="co-dots"
        onBlur={(e) => {
          if (!e.currentTarget.contains(e.relatedTarget)) e.currentTarget.open = false;
        }}
        onKeyDown={onMenuKey}
      >
        <summary className="pl-iconbutton" aria-label={words.more}>
          <span aria-hidden="true">⋯</span>
        </summary>
        <div className="pl-pop co-pop">
          <button
            type="button"
            onClick={() => {
              flushSync(() => setTitle(session.title ?? ""));
              rename.current?.showModal();
              field.current?.select();
            }}
          >
            {words.rename}
          </button>
          <a href={`${pathOf(session.session_id)}?print`} target="_blank" rel="noopener">
            {words.printView}
          </a>
          <a href={`/parley/v1/sessions/${encodeURIComponent(session.session_id)}/events?limit=1000`} target="_blank" rel="noopener">
            {words.eventsJSON}
          </a>
          <button type="button" aria-pressed={developer} onClick={toggleDeveloper}>
            {developer ? words.developerOff : words.developerOn} <kbd>.</kbd>
          </button>
          <button type="button" className="co-err" onClick={() => erase.current?.showModal()}>
            {words.erase}
          </button>
        </div>
      </details>
      <dialog ref={rename} className="co-dialog" aria-labelledby="rename-title">
        <form onSubmit={save}>
          <h2 id="rename-title">{words.renameTitle}</h2>
          <input ref={field} className="pl-field" aria-label={words.title} value={title} onChange={(e) => setTitle(e.target.value)} />
          {fault && <p className="pl-fault">{fault}</p>}
          <div className="pl-buttons">
            <button type="submit" className="pl-primary" disabled={title.trim() === ""}>
              {words.rename}
            </button>
            <button type="button" className="pl-button" onClick={() => rename.current?.close()}>
              {words.cancel}
            </button>
          </div>
        </form>
      </dialog>
      <dialog ref={erase} className="co-dialog" aria-labelledby="erase-title">
        <h2 id="erase-title">{words.eraseTitle}</h2>
        <p>{words.eraseNote}</p>
        {fault && <p className="pl-fault">{fault}</p>}
        <div className="pl-buttons">
          <button type="button" className="pl-danger" onClick={() => doing(client.erase(session.session_id), erased)}>
            {words.erase}
          </button>
          <button type="button" className="pl-button" autoFocus onClick={() => erase.current?.close()}>
            {words.cancel}
          </button>
        </div>
      </dialog>
    </>
  );
}
