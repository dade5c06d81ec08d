import { memo } from "react";
import type { Session } from "@parley-hq/client";
import { Icon } from "@parley-hq/react";
import { useLanguage, useWords } from "./locale.js";
import { pathOf } from "./route.js";
import type { Sessions } from "./sessions.js";

/** All conversations: with open prompts first, then running, then others. */
export const SessionList = memo(function SessionList(p: { sessions: Sessions; q: string; setQ: (q: string) => void; current: string | undefined; go: (id: string | undefined) => void }) {
  const words = useWords();
  const { list, error, more, loadMore } = p.sessions;
  const waiting = list?.filter((s) => s.open_prompts > 0) ?? [];
  const running = list?.filter((s) => s.open_prompts === 0 && s.status === "running") ?? [];
  const rest = list?.filter((s) => s.open_prompts === 0 && s.status !== "running") ?? [];
  return (
    <nav className="co-list" aria-label={words.conversations}>
      <div className="co-list-head">
        <button type="button" className="pl-primary co-new" onClick={() => p.go(undefined)}>
          <Icon name="plus" /> {words.newConversation}
        </button>
        <div className="co-search">
          <Icon name="search" size={14} />
          <input type="search" aria-label={words.searchConversations} placeholder={words.search} value={p.q} onChange={(e) => p.setQ(e.target.value)} />
        </div>
      </div>
      <div className="co-list-body">
        {error && error.code !== "unauthenticated" && <p className="co-note">{words.listFailed(error.message)}</p>}
        {list?.length === 0 && <p className="co-note">{p.q ? words.nothingFound : words.noConversations}</p>}
        <Group title={words.needsAnswer(waiting.length)} wait sessions={waiting} current={p.current} go={p.go} />
        <Group title={words.running} sessions={running} current={p.current} go={p.go} />
        <Group title={waiting.length + running.length > 0 ? words.other : words.recent} sessions={rest} current={p.current} go={p.go} />
        {more && (
          <button type="button" className="pl-link co-more" onClick={loadMore}>
            {words.showMore}
          </button>
        )}
      </div>
    </nav>
  );
});

function Group(p: { title: string; sessions: Session[]; wait?: boolean; current: string | undefined; go: (id: string) => void }) {
  const { texts } = useLanguage();
  if (p.sessions.length === 0) return null;
  return (
    <section>
      <h2 className={p.wait ? "co-wait" : undefined}>{p.title}</h2>
      <ul>
        {p.sessions.map((s) => (
          <li key={s.session_id}>
            <a
              href={pathOf(s.session_id)}
              className={p.wait ? "co-session co-session-wait" : "co-session"}
              aria-current={p.current === s.session_id ? "page" : undefined}
              onClick={(e) => {
                if (e.metaKey || e.ctrlKey || e.shiftKey) return;
                e.preventDefault();
                p.go(s.session_id);
              }}
            >
              <span className="co-title" dir="auto">
                {s.title || s.session_id}
              </span>
              <span className="co-about">
                <Status session={s} /> · {texts.ago(s.updated_at)}
              </span>
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Status({ session: s }: { session: Session }) {
  const words = useWords();
  if (s.open_prompts > 0) return <span className="co-wait">{words.questions(s.open_prompts)}</span>;
  if (s.status === "failed") return <span className="co-err">{words.failed}</span>;
  return <span>{s.status === "running" ? words.working : s.status === "idle" ? (s.agent === "none" ? words.noAgent : s.agent) : (words.status[s.status] ?? s.status)}</span>;
}
