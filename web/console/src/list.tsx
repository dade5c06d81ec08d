import { memo, type MouseEvent } from "react";
import type { Prompt, Session } from "@parley-hq/client";
import { Icon, questionOf } from "@parley-hq/react";
import { useLanguage, useWords } from "./locale.js";
import { inboxPath, pathOf } from "./route.js";
import type { Sessions } from "./sessions.js";

/** All conversations: with open prompts first, then running, then others. */
export const SessionList = memo(function SessionList(p: { sessions: Sessions; q: string; setQ: (q: string) => void; current: string | undefined; count: number; go: (path: string) => void }) {
  const words = useWords();
  const { list, open, error, more, loadMore } = p.sessions;
  const waiting = list?.filter((s) => s.open_prompts > 0) ?? [];
  const running = list?.filter((s) => s.open_prompts === 0 && s.status === "running") ?? [];
  const rest = list?.filter((s) => s.open_prompts === 0 && s.status !== "running") ?? [];
  return (
    <nav className="co-list" aria-label={words.conversations}>
      <div className="co-list-head">
        <button type="button" className="pl-primary co-new" onClick={() => p.go("/")}>
          <Icon name="plus" /> {words.newConversation}
        </button>
        <a className="co-nav" href={inboxPath} aria-current={p.current === inboxPath ? "page" : undefined} onClick={(e) => follow(e, p.go)}>
          <Icon name="inbox" />
          <span className="pl-grow">{words.inbox}</span>
          {p.count > 0 && (
            <span className="co-count" aria-hidden="true">
              {p.count}
            </span>
          )}
          {p.count > 0 && <span className="pl-hidden">{words.needAnswer(p.count)}</span>}
        </a>
        <div className="co-search">
          <Icon name="search" size={14} />
          <input type="search" aria-label={words.searchConversations} placeholder={words.search} value={p.q} onChange={(e) => p.setQ(e.target.value)} />
        </div>
      </div>
      <div className="co-list-body">
        {error && error.code !== "unauthenticated" && <p className="co-note">{words.listFailed(error.message)}</p>}
        {list?.length === 0 && <p className="co-note">{p.q ? words.nothingFound : words.noConversations}</p>}
        <Group title={words.needsAnswer(waiting.length)} wait open={open} sessions={waiting} current={p.current} go={p.go} />
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

function Group(p: { title: string; sessions: Session[]; wait?: boolean; open?: Sessions["open"]; current: string | undefined; go: (path: string) => void }) {
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
              className="co-session"
              aria-current={p.current === pathOf(s.session_id) ? "page" : undefined}
              onClick={(e) => follow(e, p.go)}
            >
              <span className="co-title" dir="auto">
                {s.title || s.session_id}
              </span>
              <span className="co-about">
                {s.open_prompts > 0 ? <Question session={s} asked={p.open?.find((o) => o.session.session_id === s.session_id)?.prompts} /> : <Status session={s} />} · {texts.ago(s.updated_at)}
              </span>
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Opens a link in this page, unless the person wants another tab. */
export function follow(e: MouseEvent<HTMLAnchorElement>, go: (path: string) => void): void {
  if (e.metaKey || e.ctrlKey || e.shiftKey) return;
  e.preventDefault();
  go(e.currentTarget.pathname);
}

/** The question of a session that waits, and the number of further ones. */
function Question({ session: s, asked }: { session: Session; asked: Prompt[] | undefined }) {
  const { words, texts } = useLanguage();
  const first = asked?.[0];
  if (!first) return <span className="co-wait">{words.questions(s.open_prompts)}</span>;
  return (
    <span className="co-wait" dir="auto">
      {questionOf(first, texts)}
      {asked.length > 1 && ` +${asked.length - 1}`}
    </span>
  );
}

function Status({ session: s }: { session: Session }) {
  const words = useWords();
  if (s.status === "failed") return <span className="co-err">{words.failed}</span>;
  return <span>{s.status === "running" ? words.working : s.status === "idle" ? (s.agent === "none" ? words.noAgent : s.agent) : (words.status[s.status] ?? s.status)}</span>;
}
