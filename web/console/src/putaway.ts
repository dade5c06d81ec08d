import { useCallback, useMemo, useState } from "react";
import { ParleyError, type ParleyClient, type Session } from "@parley-hq/client";
import { useWords } from "./locale.js";
import type { Undos } from "./undo.js";

export interface PutAway {
  /** Conversations that are not shown, because they will be erased. */
  gone: ReadonlySet<string>;
  erase: (s: Session) => void;
  archive: (s: Session, archived: boolean) => void;
}

/**
 * Erases and archives conversations. An erasure is final on the server, so the request is sent when it can no longer be
 * undone; until then the conversation is only hidden.
 */
export function usePutAway(client: ParleyClient, undos: Undos, changed: () => void, leave: (id: string) => void, open: (id: string) => void): PutAway {
  const words = useWords();
  const [gone, setGone] = useState<ReadonlySet<string>>(new Set());
  const { offer, fail } = undos;
  const show = useCallback((id: string) => setGone((old) => new Set([...old].filter((x) => x !== id))), []);
  const erase = useCallback(
    (s: Session) => {
      const id = s.session_id;
      const name = s.title || s.heading || words.newConversation;
      const shown = location.pathname.endsWith(`/${encodeURIComponent(id)}`);
      setGone((old) => new Set(old).add(id));
      leave(id);
      offer({
        key: `erase ${id}`,
        text: words.deleted(name),
        undo: () => {
          show(id);
          if (shown) open(id);
        },
        end: (leaving) => {
          // A request with keepalive is sent even if the page is closed meanwhile.
          const request = leaving
            ? fetch(`${client.url}/parley/v1/sessions/${encodeURIComponent(id)}`, { method: "DELETE", keepalive: true }).then((res) => {
                if (!res.ok) throw new Error(words.answered(res.status));
              })
            : client.erase(id);
          request.then(changed, (err: unknown) => {
            if (err instanceof ParleyError && (err.code === "gone" || err.code === "not_found")) return changed();
            show(id);
            changed();
            fail({ key: `erase ${id}`, text: words.notDeleted(name, err instanceof Error ? err.message : String(err)) });
          });
        },
      });
    },
    [client, words, offer, fail, show, changed, leave, open],
  );
  const archive = useCallback(
    (s: Session, archived: boolean) => {
      const name = s.title || s.heading || words.newConversation;
      const set = (to: boolean, then: () => void) =>
        client.update(s.session_id, { archived: to }).then(
          () => {
            changed();
            then();
          },
          (err: unknown) => fail({ key: `archive ${s.session_id}`, text: words.notChanged(err instanceof Error ? err.message : String(err)) }),
        );
      const offerUndo = () => offer({ key: `archive ${s.session_id}`, text: archived ? words.archivedNow(name) : words.broughtBack(name), undo: () => void set(!archived, () => {}) });
      void set(archived, offerUndo);
    },
    [client, words, offer, fail, changed],
  );
  return useMemo(() => ({ gone, erase, archive }), [gone, erase, archive]);
}
