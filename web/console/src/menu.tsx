import { useRef, useState, type FormEvent } from "react";
import type { ParleyClient, Session } from "@parley-hq/client";

/** What can be done with a conversation as a whole: give it another name, or erase it. */
export function SessionMenu({ client, session, changed, erased }: { client: ParleyClient; session: Session; changed: () => void; erased: () => void }) {
  const rename = useRef<HTMLDialogElement>(null);
  const erase = useRef<HTMLDialogElement>(null);
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
      >
        <summary className="pl-iconbutton" aria-label="More about this conversation">
          <span aria-hidden="true">⋯</span>
        </summary>
        <div className="co-pop">
          <button
            type="button"
            onClick={() => {
              setTitle(session.title ?? "");
              rename.current?.showModal();
            }}
          >
            Rename
          </button>
          <a href={`/parley/v1/sessions/${encodeURIComponent(session.session_id)}/events?limit=1000`} target="_blank" rel="noopener">
            Events as JSON
          </a>
          <button type="button" className="co-err" onClick={() => erase.current?.showModal()}>
            Erase
          </button>
        </div>
      </details>
      <dialog ref={rename} className="co-dialog" aria-labelledby="rename-title">
        <form onSubmit={save}>
          <h2 id="rename-title">Rename the conversation</h2>
          <input className="pl-field" aria-label="Title" value={title} onChange={(e) => setTitle(e.target.value)} />
          {fault && <p className="pl-fault">{fault}</p>}
          <div className="pl-buttons">
            <button type="submit" className="pl-primary" disabled={title.trim() === ""}>
              Rename
            </button>
            <button type="button" className="pl-button" onClick={() => rename.current?.close()}>
              Cancel
            </button>
          </div>
        </form>
      </dialog>
      <dialog ref={erase} className="co-dialog" aria-labelledby="erase-title">
        <h2 id="erase-title">Erase the conversation for good?</h2>
        <p>Its events and files are removed from the disk. Nobody can bring them back; backups are not touched.</p>
        {fault && <p className="pl-fault">{fault}</p>}
        <div className="pl-buttons">
          <button type="button" className="pl-danger" onClick={() => doing(client.erase(session.session_id), erased)}>
            Erase
          </button>
          <button type="button" className="pl-button" autoFocus onClick={() => erase.current?.close()}>
            Cancel
          </button>
        </div>
      </dialog>
    </>
  );
}
