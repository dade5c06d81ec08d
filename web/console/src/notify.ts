import { useEffect, useRef } from "react";
import type { Session } from "@parley-hq/client";
import { questionOf } from "@parley-hq/react";
import { useLanguage } from "./locale.js";
import { pathOf, questionPath } from "./route.js";
import type { Sessions } from "./sessions.js";

export const canNotify = typeof Notification === "function";

/** Tells of new questions and of finished work with notifications of the browser, while the page is not in front. */
export function useNotifications(on: boolean, { list, open }: Sessions, go: (path: string) => void): void {
  const { words, texts } = useLanguage();
  const asked = useRef<Set<string>>(undefined);
  const running = useRef<Set<string>>(undefined);
  useEffect(() => {
    const tell = (s: Session, title: string, tag: string, path: string) => {
      if (!on || !canNotify || Notification.permission !== "granted" || document.hasFocus()) return;
      const n = new Notification(title, { body: s.title || s.heading || "", tag });
      n.onclick = () => {
        window.focus();
        go(path);
        n.close();
      };
    };
    if (open) {
      const before = asked.current;
      asked.current = new Set(open.flatMap((o) => o.prompts.map((p) => p.request_id)));
      if (before) for (const o of open) for (const p of o.prompts) if (!before.has(p.request_id)) tell(o.session, questionOf(p, texts), p.request_id, questionPath(o.session.session_id, p));
    }
    if (list) {
      const before = running.current;
      running.current = new Set(list.filter((s) => s.status === "running").map((s) => s.session_id));
      for (const s of list) if (before?.has(s.session_id) && s.status !== "running" && s.status !== "waiting") tell(s, words.finished, `done ${s.session_id}`, pathOf(s.session_id));
    }
  }, [on, list, open, go, words, texts]);
}
