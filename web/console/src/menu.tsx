import { useRef, useState, type FormEvent } from "react";
import { flushSync } from "react-dom";
import type { ParleyClient, Session } from "@parley-hq/client";
import { Icon } from "@parley-hq/react";
import { onMenuKey } from "@parley-hq/react/menukeys";
import { useWords } from "./locale.js";
import { pathOf } from "./route.js";

/** The menu of a conversation: rename, print, exports, developer mode, archive, erase. */
export function SessionMenu({ client, session, owner, changed, archive, erase, developer, toggleDeveloper }: { client: ParleyClient; session: Session; owner: boolean; changed: () => void; archive: (s: Session, archived: boolean) => void; erase: (s: Session) => void; developer: boolean; toggleDeveloper: () => void }) {
  const words = useWords();
  const rename = useRef<HTMLDialogElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const opener = useRef<HTMLElement>(null);
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
        <summary ref={opener} className="pl-iconbutton" aria-label={words.more}>
          <Icon name="more" />
        </summary>
        <div className="pl-pop co-pop">
          {owner && (
            <button
              type="button"
              onClick={() => {
                flushSync(() => setTitle(session.title || session.heading || ""));
                rename.current?.showModal();
                field.current?.select();
              }}
            >
              {words.rename}
            </button>
          )}
          <a href={`${pathOf(session.session_id)}?print`} target="_blank" rel="noopener">
            {words.printView}
          </a>
          <button
            type="button"
            onClick={() => void import("./export.js").then(async (m) => m.download(m.fileName(session, "md"), "text/markdown", await m.markdownOf(client, session))).catch(() => {})}
          >
            {words.exportMarkdown}
          </button>
          <button
            type="button"
            onClick={() => void Promise.all([import("./export.js"), import("./exporthtml.js")]).then(async ([m, h]) => m.download(m.fileName(session, "html"), "text/html", await h.htmlOf(client, session, document.documentElement.lang))).catch(() => {})}
          >
            {words.exportHTML}
          </button>
          <a href={`/parley/v1/sessions/${encodeURIComponent(session.session_id)}/events?limit=1000`} target="_blank" rel="noopener">
            {words.eventsJSON}
          </a>
          <button type="button" aria-pressed={developer} onClick={toggleDeveloper}>
            {developer ? words.developerOff : words.developerOn} <kbd>.</kbd>
          </button>
          {owner && (
            <>
              <button type="button" onClick={() => archive(session, !session.archived)}>
                {session.archived ? words.unarchive : words.archive}
              </button>
              <button type="button" className="co-err" onClick={() => erase(session)}>
                {words.erase}
              </button>
            </>
          )}
        </div>
      </details>
      {/* The menu, which has the button that opened the dialog, is closed: the focus cannot return to that. */}
      <dialog ref={rename} className="co-dialog" aria-labelledby="rename-title" onClose={() => opener.current?.focus()}>
        <form onSubmit={save}>
          <h2 id="rename-title">{words.renameTitle}</h2>
          <input ref={field} className="pl-field" aria-label={words.title} value={title} onChange={(e) => setTitle(e.target.value)} />
          {fault && <p className="pl-fault">{fault}</p>}
          <div className="pl-buttons">
            <button type="submit" className="pl-primary" disabled={title.trim() === ""}>
              {words.rename}
            </button>
            <button type="button" className="pl-ghost" onClick={() => rename.current?.close()}>
              {words.cancel}
            </button>
          </div>
        </form>
      </dialog>
    </>
  );
}
