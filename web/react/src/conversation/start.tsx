import type { ReactNode } from "react";
import type { ParleyError } from "@parley-hq/client";
import type { Texts } from "../i18n/texts.js";
import { Icon } from "../shared/icons.js";
import type { Starter } from "./props.js";

/** The start view of a conversation without messages: the agent, and suggested messages. */
export function Empty(p: { texts: Texts; intro: ReactNode; agent: string; about: string; starters: readonly Starter[]; onStart: (text: string) => void; can: boolean }) {
  return (
    <div className="pl-empty">
      {p.intro && <div className="pl-intro">{p.intro}</div>}
      <h2>{p.agent || p.texts.agent}</h2>
      <p>{p.texts.emptyHint(p.about)}</p>
      {p.can && p.starters.length > 0 && (
        <ul className="pl-cards">
          {p.starters.slice(0, 6).map((s) => {
            const { text, label, about } = typeof s === "string" ? { text: s, label: s, about: "" } : s;
            return (
              <li key={text}>
                <button type="button" className="pl-card" onClick={() => p.onStart(text)}>
                  <strong>{label}</strong>
                  {about && <span>{about}</span>}
                </button>
              </li>
            );
          })}
        </ul>
      )}
    </div>
  );
}

export function Loading({ texts }: { texts: Texts }) {
  return (
    <div className="pl-loading" role="status" aria-label={texts.loading}>
      <span />
      <span />
      <span />
    </div>
  );
}

/** The error view of a session that cannot be opened. */
export function OpenError({ texts, error, start, action }: { texts: Texts; error: ParleyError | undefined; start: ReactNode; action: ReactNode }) {
  const why =
    error?.code === "not_found" || error?.code === "denied" ? texts.notFound : error?.code === "gone" ? texts.gone : error?.code === "unauthenticated" ? texts.signInAgain : texts.cannotOpen;
  return (
    <div className="pl-body">
      <div className="pl-main">
        {start && <header className="pl-header">{start}</header>}
        <div className="pl-empty pl-openerror" role="alert">
          <Icon name="search" size={24} />
          <h2>{why}</h2>
          {error && error.code !== "not_found" && error.code !== "gone" && <p>{error.message}</p>}
          {action}
        </div>
      </div>
    </div>
  );
}
