import { lazy, memo, useLayoutEffect, useRef, useState, type MouseEvent, type Ref, type RefObject } from "react";
import { Virtualizer, type CustomItemComponentProps } from "virtua";
import type { AgentInfo, Prompt, Session } from "@parley-hq/client";
import { Icon, questionOf, roleIn } from "@parley-hq/react";
import { between, filterKeys, type Filter, type FilterKey } from "./filter.js";
import type { People } from "./filters.js";
import { Glyph } from "./glyph.js";
import { Later } from "./later.js";
import { useLanguage, useWords } from "./locale.js";
import type { Marks } from "./marks.js";
import { inboxPath, pathOf } from "./route.js";
import type { Sessions } from "./sessions.js";

const FilterForm = lazy(() => import("./filters.js").then((m) => ({ default: m.FilterForm })));

/** All conversations: with open prompts first, then running, then others. */
export const SessionList = memo(function SessionList(p: { sessions: Sessions; marks: Marks; q: string; setQ: (q: string) => void; filter: Filter; setFilter: (f: Filter) => void; agents: readonly AgentInfo[]; people: People; archive: (s: Session, archived: boolean) => void; current: string | undefined; me: string | undefined; count: number; go: (path: string) => void }) {
  const words = useWords();
  const [form, setForm] = useState(false);
  const body = useRef<HTMLDivElement>(null);
  const filterButton = useRef<HTMLButtonElement>(null);
  const set = filterKeys.filter((k) => p.filter[k]);
  const remove = (k: FilterKey) => {
    const { [k]: _, ...others } = p.filter;
    p.setFilter(others);
  };
  const { list, open, error, more, loadMore } = p.sessions;
  const stale = list !== undefined && error?.code === "unavailable";
  // A viewer cannot answer: for them the agent is at work.
  const needs = (s: Session) => s.open_prompts > 0 && roleIn(s, p.me) !== "viewer";
  const waiting = list?.filter(needs) ?? [];
  const pinned = list?.filter((s) => !needs(s) && p.marks.pinned(s.session_id)) ?? [];
  const others = list?.filter((s) => !needs(s) && !p.marks.pinned(s.session_id)) ?? [];
  const works = (s: Session) => s.status === "running" || s.status === "waiting";
  const running = others.filter(works);
  const rest = others.filter((s) => !works(s));
  return (
    <nav className="co-list" aria-label={words.conversations}>
      <div
        className="co-list-head"
        onKeyDown={(e) => {
          if (e.key !== "Escape" || !form) return;
          e.stopPropagation(); // it closes the list on a phone
          setForm(false);
          filterButton.current?.focus();
        }}
      >
        <button type="button" className="pl-button co-new" onClick={() => p.go("/")}>
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
          <Icon name="search" />
          <input
            type="search"
            aria-label={words.searchConversations}
            placeholder={words.search}
            value={p.q}
            onChange={(e) => p.setQ(e.target.value)}
            onKeyDown={(e) => {
              const last = set.at(-1);
              if (e.key === "Backspace" && p.q === "" && last) remove(last);
            }}
          />
          <button ref={filterButton} type="button" className="pl-iconbutton co-filter-button" aria-label={words.filter} title={words.filter} aria-expanded={form} onClick={() => setForm(!form)}>
            <Glyph name="filter" />
          </button>
        </div>
        {form && (
          <Later>
            <FilterForm filter={p.filter} set={p.setFilter} agents={p.agents} people={p.people} />
          </Later>
        )}
        {set.length > 0 && (
          <ul className="co-chips" aria-label={words.filter}>
            {set.map((k) => (
              <FilterChip key={k} name={k} value={p.filter[k] ?? ""} people={p.people} remove={() => remove(k)} />
            ))}
          </ul>
        )}
      </div>
      <div ref={body} className="co-list-body">
        {error && error.code !== "unauthenticated" && !stale && <p className="co-note">{words.listFailed(error.message)}</p>}
        {list?.length === 0 && <p className="co-note">{set.length > 0 ? words.noMatch : p.q ? words.nothingFound : words.noConversations}</p>}
        <Group title={words.needsYou} open={open} sessions={waiting} marks={p.marks} archive={p.archive} current={p.current} me={p.me} go={p.go} scroller={body} />
        <Group title={words.pinned} sessions={pinned} marks={p.marks} archive={p.archive} current={p.current} me={p.me} go={p.go} scroller={body} />
        <Group title={words.running} sessions={running} marks={p.marks} archive={p.archive} current={p.current} me={p.me} go={p.go} scroller={body} />
        <Group title={words.recent} sessions={rest} marks={p.marks} archive={p.archive} current={p.current} me={p.me} go={p.go} scroller={body} />
        {more && (
          <button type="button" className="pl-link co-more" onClick={loadMore}>
            {words.showMore}
          </button>
        )}
        {stale && <p className="co-note co-stale">{words.listStale}</p>}
      </div>
    </nav>
  );
});

/** A filter that is set; its button removes it, and so does Delete or Backspace on it. */
function FilterChip({ name, value, people, remove }: { name: FilterKey; value: string; people: People; remove: () => void }) {
  const words = useWords();
  const days = between(value);
  const shown =
    name === "person" ? (people.get(value) ?? value)
    : name === "state" ? (words.states[value] ?? value)
    : name === "archived" ? words.archived
    : name === "active" ? (days ? days.join(" – ") : words.lastDays(Number.parseInt(value, 10)))
    : value;
  return (
    <li>
      <button type="button" className="co-chip" aria-label={words.removeFilter(shown)} onClick={remove} onKeyDown={(e) => (e.key === "Delete" || e.key === "Backspace") && remove()}>
        <span dir="auto">{shown}</span>
        <Icon name="cross" size={12} />
      </button>
    </li>
  );
}

/** With more rows than this, only those near the view are in the page. */
const windowed = 60;
const rowHeight = 52;

function Group(p: { title: string; sessions: Session[]; marks: Marks; archive: (s: Session, archived: boolean) => void; open?: Sessions["open"]; current: string | undefined; me: string | undefined; go: (path: string) => void; scroller: RefObject<HTMLDivElement | null> }) {
  const { texts } = useLanguage();
  const head = useRef<HTMLHeadingElement>(null);
  const [start, setStart] = useState(0);
  // Other groups and notes above it change where the rows begin.
  useLayoutEffect(() => {
    if (head.current) setStart(head.current.offsetTop + head.current.offsetHeight);
  });
  if (p.sessions.length === 0) return null;
  const row = (s: Session) => (
    <SessionRow
      key={s.session_id}
      session={s}
      when={texts.ago(s.updated_at)}
      current={p.current === pathOf(s.session_id)}
      unread={p.marks.unread(s)}
      pinned={p.marks.pinned(s.session_id)}
      role={roleIn(s, p.me)}
      asked={s.open_prompts > 0 ? p.open?.find((o) => o.session.session_id === s.session_id)?.prompts : undefined}
      togglePin={p.marks.togglePin}
      archive={p.archive}
      go={p.go}
    />
  );
  const at = p.sessions.findIndex((s) => p.current === pathOf(s.session_id));
  return (
    <section>
      <h2 ref={head}>{p.title}</h2>
      {p.sessions.length > windowed ? (
        <Virtualizer as="ul" item={ListItem} data={p.sessions} scrollRef={p.scroller} startMargin={start} itemSize={rowHeight} keepMounted={at < 0 ? [] : [at]}>
          {row}
        </Virtualizer>
      ) : (
        <ul>
          {p.sessions.map((s) => (
            <li key={s.session_id}>{row(s)}</li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** An item of a windowed list. The page does not have all of them, so each has its position. */
const ListItem = ({ ref, style, index, children }: CustomItemComponentProps & { ref?: Ref<HTMLLIElement> }) => (
  <li ref={ref} style={style} aria-posinset={index + 1} aria-setsize={-1}>
    {children}
  </li>
);

/** One conversation. With a thousand of them, only those that changed are rendered again. */
const SessionRow = memo(function SessionRow(p: {
  session: Session;
  /** The time of its last event, as text. */
  when: string;
  current: boolean;
  unread: boolean;
  pinned: boolean;
  role: string | undefined;
  asked: Prompt[] | undefined;
  togglePin: (id: string) => void;
  archive: (s: Session, archived: boolean) => void;
  go: (path: string) => void;
}) {
  const { words, texts } = useLanguage();
  const s = p.session;
  const name = s.title || s.heading || words.newConversation;
  return (
    <>
      <a href={pathOf(s.session_id)} className={p.unread ? "co-session co-unread" : "co-session"} aria-current={p.current ? "page" : undefined} onClick={(e) => follow(e, p.go)}>
        <span className="co-title" dir="auto">
          {name}
          {p.unread && <span className="pl-hidden"> {words.unread}</span>}
        </span>
        <time className="co-when" dateTime={s.updated_at} title={texts.moment(s.updated_at)}>
          <span aria-hidden="true">{texts.agoShort(s.updated_at)}</span>
          <span className="pl-hidden">{p.when}</span>
        </time>
        <span className="co-about">{s.open_prompts > 0 && p.role !== "viewer" ? <Question session={s} asked={p.asked} /> : <Status session={s} />}</span>
      </a>
      <span className="co-actions">
        {isOwner(p.role) && (
          <button type="button" className="pl-mini" aria-label={(s.archived ? words.unarchiveOne : words.archiveOne)(name)} title={s.archived ? words.unarchive : words.archive} onClick={() => p.archive(s, !s.archived)}>
            <Glyph name="archive" size={14} />
          </button>
        )}
        <button type="button" className="pl-mini" aria-label={words.pin(name)} aria-pressed={p.pinned} onClick={() => p.togglePin(s.session_id)}>
          <Icon name="pin" size={14} />
        </button>
      </span>
    </>
  );
});

/** Reports whether a person may rename, archive and erase a conversation in which they have a role; without one the server decides. */
export const isOwner = (role: string | undefined): boolean => role === undefined || role === "owner";

/** Opens a link in this page, unless the person wants another tab. */
export function follow(e: MouseEvent<HTMLAnchorElement>, go: (path: string) => void): void {
  if (e.metaKey || e.ctrlKey || e.shiftKey) return;
  e.preventDefault();
  go(e.currentTarget.pathname + e.currentTarget.hash);
}

/** The question of a session that waits, and the number of further ones. */
function Question({ session: s, asked }: { session: Session; asked: Prompt[] | undefined }) {
  const { words, texts } = useLanguage();
  const first = asked?.[0];
  if (!first) return <span>{words.questions(s.open_prompts)}</span>;
  return (
    <span dir="auto">
      {questionOf(first, texts)}
      {asked.length > 1 && ` +${asked.length - 1}`}
    </span>
  );
}

function Status({ session: s }: { session: Session }) {
  const words = useWords();
  if (s.status === "failed") return <span className="co-err">{words.failed}</span>;
  const mark = s.forked_of ? `${words.branch} · ` : "";
  return <span>{mark}{s.status === "running" ? words.working : s.status === "idle" ? (s.agent === "none" ? words.noAgent : s.agent) : (words.status[s.status] ?? s.status)}</span>;
}
