import { lazy, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { filePath, localOutbox, ParleyClient, type AgentInfo, type Item, type ParleyError, type Part, type Prompt, type Session, type Settings } from "@parley-hq/client";
import { Conversation, Icon, roleIn, titleOf, type ConversationHandle, type PanelName } from "@parley-hq/react";
import { traceURL, useAbout } from "./about.js";
import { Account, signOut } from "./account.js";
import { Branches, branchOf, isShown, pointsOf, type Point } from "./branches.js";
import { startersOf } from "./starters.js";
import { useIcon } from "./favicon.js";
import { Keys, useKey } from "./keys.js";
import { Later } from "./later.js";
import { follow, isOwner, SessionList } from "./list.js";
import { languages, LocaleProvider, preferred, useLanguage, useLocale, type Locale } from "./locale.js";
import { useMarks } from "./marks.js";
import { canNotify, useNotifications } from "./notify.js";
import { usePutAway } from "./putaway.js";
import { inboxPath, pathOf, read, useRoute, useSetting, useSheet } from "./route.js";
import { usePeople, useSessions, type Sessions } from "./sessions.js";
import { Select } from "./select.js";
import { fetchMe, forgetOthers, SignIn, type Me } from "./signin.js";
import { Welcome } from "./welcome.js";
import { UndoBars, useUndos } from "./undo.js";

const Compose = lazy(() => import("./compose.js").then((m) => ({ default: m.Compose })));
const Inbox = lazy(() => import("./inbox.js").then((m) => ({ default: m.Inbox })));
const Picks = lazy(() => import("./picks.js").then((m) => ({ default: m.Picks })));
const SessionMenu = lazy(() => import("./menu.js").then((m) => ({ default: m.SessionMenu })));
const Palette = lazy(() => import("./palette.js").then((m) => ({ default: m.Palette })));
const PrintView = lazy(() => import("@parley-hq/react/print").then((m) => ({ default: m.PrintView })));

const shownPanels = { all: {}, developer: { inspector: true } };

type Theme = "auto" | "light" | "dark";
const themes: Theme[] = ["auto", "light", "dark"];
const themeIcons = { auto: "half", light: "sun", dark: "moon" } as const;

export function App() {
  const [theme, setTheme] = useSetting<Theme>("theme", "auto");
  const [language, setLanguage] = useSetting<string>("language", "");
  const locale = useLocale(preferred(language));
  const [me, setMe] = useState<Me | null>(); // null: a token is needed
  const [ended, setEnded] = useState(false); // the sign-in, while the page was open
  const [fault, setFault] = useState<string>();
  const [route] = useRoute();
  const look = useCallback(() => {
    fetchMe().then(
      (m) => {
        if (m) forgetOthers(m.id);
        setMe(m ?? null);
      },
      (err: unknown) => setFault(err instanceof Error ? err.message : String(err)),
    );
  }, []);
  useEffect(look, [look]);
  const signIn = useCallback(() => {
    setEnded(true);
    setMe(null);
  }, []);
  if (!locale) return null;
  if (me && route.print && route.session) return <Printed session={route.session} locale={locale} me={me} />;
  return (
    <LocaleProvider value={locale}>
      <div className="pl-root co-root" data-theme={theme === "auto" ? undefined : theme}>
        {me === null ? (
          <SignIn ended={ended} done={look} />
        ) : me ? (
          <Console me={me} theme={theme} setTheme={setTheme} setLanguage={setLanguage} signIn={signIn} />
        ) : fault ? (
          <main className="co-signin">
            <p role="alert">{locale.words.unreachable(fault)}</p>
            <button type="button" className="pl-button" onClick={() => location.reload()}>
              {locale.words.tryAgain}
            </button>
          </main>
        ) : null}
      </div>
    </LocaleProvider>
  );
}

/** The print view of a conversation. */
function Printed({ session, locale, me }: { session: string; locale: Locale; me: Me }) {
  const client = useMemo(() => new ParleyClient(), []);
  return (
    <Later>
      <PrintView client={client} session={session} diagramURL="/diagram" messages={locale.texts} dir={locale.dir} {...(me.id ? { me: me.id } : {})} />
    </Later>
  );
}

function Console({ me, theme, setTheme, setLanguage, signIn }: { me: Me; theme: Theme; setTheme: (t: Theme) => void; setLanguage: (l: string) => void; signIn: () => void }) {
  const { words, texts, name: language, dir } = useLanguage();
  const about = useAbout();
  const trace = useMemo(() => traceURL(about), [about]);
  const client = useMemo(() => new ParleyClient({ storage: localOutbox() }), []);
  const [route, go, setFilter] = useRoute();
  const [q, setQ] = useState("");
  const [notify, setNotify] = useSetting<"on" | "">("notify", "");
  const all = useSessions(client, q, route.filter, route.session, notify !== "");
  const { refresh } = all;
  const undos = useUndos();
  const left = useCallback((id: string) => read().session === id && go("/"), [go]);
  const away = usePutAway(client, undos, refresh, left, useCallback((id) => go(pathOf(id)), [go]));
  const sessions = useMemo<Sessions>(() => {
    if (away.gone.size === 0) return all;
    const stays = (s: Session) => !away.gone.has(s.session_id);
    return { ...all, list: all.list?.filter(stays), open: all.open?.filter((o) => stays(o.session)) };
  }, [all, away.gone]);
  const marks = useMarks(sessions.list, route.session);
  const [agents, setAgents] = useState<AgentInfo[]>([]);
  const [agent, setAgent] = useSetting<string>("agent", "");
  const [panel, setPanel] = useSetting<PanelName | "none" | "auto">("panel", "none");
  const [developer, setDeveloper] = useSetting<"on" | "">("developer", "");
  const [menu, setMenu] = useState(false);
  const [wide, setWide] = useState(() => matchMedia("(min-width: 1100px)").matches);
  const [narrowPanel, setNarrowPanel] = useSheet<PanelName>();
  const [asked, setAsked] = useState<Prompt[]>([]);

  useEffect(() => {
    const media = matchMedia("(min-width: 1100px)");
    const change = () => setWide(media.matches);
    media.addEventListener("change", change);
    return () => media.removeEventListener("change", change);
  }, []);
  useEffect(() => {
    // A worker may have connected meanwhile, also while the person was in a terminal.
    const look = () => void client.agents().then((now) => setAgents((old) => (JSON.stringify(old) === JSON.stringify(now) ? old : now)), () => {});
    look();
    addEventListener("focus", look);
    return () => removeEventListener("focus", look);
  }, [client, route.session]);
  useEffect(() => {
    if (sessions.error?.code === "unauthenticated") signIn();
  }, [sessions.error, signIn]);

  const chosen = agents.find((a) => a.name === agent) ?? agents.find((a) => a.default) ?? agents[0];
  const others = sessions.open?.reduce((n, s) => (s.session.session_id === route.session ? n : n + s.prompts.length), 0) ?? 0;
  const current = sessions.current;
  const role = roleIn(current, me.id);
  const waiting = (role === "viewer" ? 0 : asked.length) + others;
  useIcon(waiting);
  const people = usePeople(sessions.list);
  const name = current?.title || current?.heading;
  useEffect(() => {
    const title = route.unknown ? words.noPage : name || (route.inbox ? words.inbox : route.session ? words.conversation : words.newConversation);
    document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${title} · ${words.brand}`;
  }, [waiting, name, route.session, route.inbox, route.unknown, words]);

  const onPrompt = useCallback(
    (open: Prompt[]) => {
      setAsked(open);
      refresh();
    },
    [refresh],
  );
  const conversation = useRef<ConversationHandle>(null);
  const [loaded, setLoaded] = useState<string>();
  const onStatus = useCallback(() => {
    setLoaded(route.session);
    refresh();
  }, [refresh, route.session]);
  useEffect(() => {
    if (route.at !== undefined && loaded === route.session) conversation.current?.scrollTo(route.at);
  }, [route.at, route.session, loaded]);
  const onError = useCallback(
    (err: ParleyError) => {
      if (err.code === "unauthenticated") signIn();
      // A conversation that was erased, or may not be seen any more, asks nothing.
      if (["gone", "not_found", "denied"].includes(err.code)) setAsked([]);
    },
    [signIn],
  );
  useEffect(() => {
    if (route.session) return;
    setAsked([]);
    setLoaded(undefined);
  }, [route.session]);
  const [settings, setSettings] = useState<Settings>({});
  const picked = { agent: chosen?.name ?? "", settings };
  const pick = (next: typeof picked) => {
    if (next.agent !== picked.agent) setAgent(next.agent);
    setSettings(next.settings);
  };
  const starters = useMemo(() => startersOf(chosen, words), [chosen, words]);
  const start = useCallback(
    async (text: string) => {
      const card = starters.find((s) => typeof s === "object" && s.text === text);
      // Without a title its first message is its heading.
      const title = typeof card === "object" ? card.label : titleOf(text) ? "" : words.newConversation;
      const s = await client.create({ ...(chosen ? { agent: chosen.name } : {}), ...(title ? { title } : {}), settings });
      setSettings({}); // they are a choice for one conversation
      return s.session_id;
    },
    [client, chosen, starters, settings, words],
  );
  const onStart = useCallback(
    (id: string) => {
      go(pathOf(id));
      refresh();
    },
    [go, refresh],
  );
  const visit = useCallback(
    (path: string) => {
      setMenu(false);
      go(path);
    },
    [go],
  );
  const latest = useRef(current);
  latest.current = current;
  const branch = useCallback(
    async (seq: number, text: string, files: Part[]) => {
      if (!latest.current) return;
      const of = await client.get(latest.current.session_id); // with its last event, which has been seen
      const labels = Object.values(words.demo).map(([label]) => label);
      const id = await branchOf(client, of, seq, text, files, of.title !== undefined && !labels.includes(of.title));
      marks.see(of);
      go(pathOf(id));
      refresh();
    },
    [client, go, marks, refresh, words],
  );
  const points = JSON.stringify(current ? pointsOf(sessions.list ?? [], current) : []); // as text, which is equal when the branches are
  const branches = useMemo(() => (JSON.parse(points) as Point[]).map((p) => ({ after: p.after, content: <Branches {...p} go={visit} /> })), [points, visit]);
  const forkedAt = current?.forked_at;
  const shown = useCallback((it: Item) => isShown(it, forkedAt), [forkedAt]);
  useNotifications(notify !== "", sessions, visit);
  const toggleNotify = () => {
    if (notify) return setNotify("");
    void Notification.requestPermission().then((p) => p === "granted" && setNotify("on"));
  };
  const pageURL = useCallback((session: string, path: string) => `/page/${encodeURIComponent(session)}/${filePath(path)}`, []);
  const drawer = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!menu) return;
    const key = (e: KeyboardEvent) => e.key === "Escape" && setMenu(false);
    document.addEventListener("keydown", key);
    drawer.current?.querySelector<HTMLElement>("button, a, input")?.focus();
    return () => document.removeEventListener("keydown", key);
  }, [menu]);

  const wanted = wide ? (panel === "none" ? null : panel) : narrowPanel;
  const shownPanel = wanted === "raw" && !developer ? null : wanted;
  const changePanel = (n: PanelName | null) => (wide ? setPanel(n ?? "none") : setNarrowPanel(n));
  const toggleDeveloper = () => {
    setDeveloper(developer ? "" : "on");
    if (route.session) changePanel(developer ? null : "raw");
  };
  useKey(".", toggleDeveloper);
  const [palette, setPalette] = useState(false);
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.key.toLowerCase() !== "k" || !(e.ctrlKey || e.metaKey) || e.altKey || e.shiftKey || document.querySelector("dialog[open]")) return;
      e.preventDefault();
      setPalette(true);
    };
    document.addEventListener("keydown", key);
    return () => document.removeEventListener("keydown", key);
  }, []);
  const nextTheme = () => setTheme(themes[(themes.indexOf(theme) + 1) % themes.length] ?? "auto");
  // A link to an event opens the inspector.
  useEffect(() => {
    if (route.seq !== undefined) setDeveloper("on");
  }, [route.seq]);
  // Where the list is not visible, the header has a button for it and a link to the inbox.
  const narrow = (
    <>
      <button type="button" className="pl-iconbutton co-narrow" aria-label={words.conversations} aria-expanded={menu} onClick={() => setMenu(!menu)}>
        <Icon name="menu" />
      </button>
      {waiting > 0 && !route.inbox && (
        <a className="pl-iconbutton co-narrow" href={inboxPath} title={words.inbox} aria-label={words.needAnswer(waiting)} onClick={(e) => follow(e, visit)}>
          <Icon name="inbox" />
          <span className="co-count">{waiting}</span>
        </a>
      )}
    </>
  );
  return (
    <div className="co-grid">
      <a className="co-skip" href="#conversation">
        {words.skip}
      </a>
      <div ref={drawer} className={menu ? "co-side co-side-open" : "co-side"}>
        <div className="co-top">
          <h1>
            <a className="co-brand" href="/" onClick={(e) => follow(e, visit)}>
              {words.brand}
            </a>
          </h1>
          <span className="pl-grow" />
          {me.id && <Account me={me} notify={notify !== ""} toggleNotify={canNotify ? toggleNotify : undefined} />}
        </div>
        <SessionList sessions={sessions} marks={marks} q={q} setQ={setQ} filter={route.filter} setFilter={setFilter} agents={agents} people={people} archive={away.archive} current={route.inbox ? inboxPath : route.session && pathOf(route.session)} me={me.id} count={waiting} go={visit} />
        <footer className="co-foot">
          <label>
            <span className="pl-hidden">{words.language}</span>
            <Select value={language in languages ? language : "en"} onChange={(e) => setLanguage(e.target.value)}>
              {Object.entries(languages).map(([k, label]) => (
                <option key={k} value={k}>
                  {label}
                </option>
              ))}
            </Select>
          </label>
          <span className="pl-grow" />
          <Keys />
          <button
            type="button"
            className="pl-iconbutton"
            aria-label={words.theme[theme]}
            title={words.theme[theme]}
            onClick={nextTheme}
          >
            <Icon name={themeIcons[theme]} />
          </button>
        </footer>
      </div>
      {palette && (
        <Later
          around={(failure) => (
            <div className="co-bars">
              <div className="co-bar">
                {failure}
                <button type="button" className="pl-mini" aria-label={words.close} onClick={() => setPalette(false)}>
                  <Icon name="cross" size={14} />
                </button>
              </div>
            </div>
          )}
        >
          <Palette
            client={client}
            sessions={sessions.list ?? []}
            go={visit}
            close={() => setPalette(false)}
            commands={[
              { name: words.newConversation, icon: "plus", run: () => visit("/") },
              { name: words.inbox, icon: "inbox", run: () => visit(inboxPath) },
              ...(current && isOwner(role)
                ? [
                    { name: current.archived ? words.unarchive : words.archive, icon: "down" as const, run: () => away.archive(current, !current.archived) },
                    { name: words.erase, icon: "trash" as const, run: () => away.erase(current) },
                  ]
                : []),
              { name: words.changeTheme, icon: themeIcons[theme], run: nextTheme },
              { name: developer ? words.developerOff : words.developerOn, key: ".", icon: "code", run: toggleDeveloper },
              ...(canNotify ? [{ name: notify ? words.notifyOff : words.notifyOn, icon: "inbox" as const, run: toggleNotify }] : []),
              ...(me.open ? [] : [{ name: words.signOut, icon: "cross" as const, run: () => void signOut() }]),
            ]}
          />
        </Later>
      )}
      {menu && <button type="button" className="co-shade" aria-label={words.closeList} onClick={() => setMenu(false)} />}
      <main id="conversation" className="co-main" tabIndex={-1}>
        {route.unknown ? (
          <div className="co-page">
            <header className="co-head">{narrow}</header>
            <div className="pl-empty pl-openerror" role="alert">
              <Icon name="search" size={24} />
              <h2>{words.noPage}</h2>
              <p>{words.noPageHint}</p>
              <button type="button" className="pl-primary" onClick={() => visit("/")}>
                {words.newConversation}
              </button>
            </div>
          </div>
        ) : route.inbox ? (
          <Later
            around={(failure) => (
              <div className="co-page">
                <header className="co-head">{narrow}</header>
                <div className="pl-empty pl-openerror">{failure}</div>
              </div>
            )}
          >
            <Inbox client={client} open={sessions.open} me={me.id} menu={narrow} go={visit} changed={refresh} />
          </Later>
        ) : (
        <Conversation
          ref={conversation}
          client={client}
          session={route.session}
          start={start}
          onStart={onStart}
          onBranch={branch}
          branches={branches}
          filter={shown}
          agent={chosen?.name ?? ""}
          about={chosen?.description ?? ""}
          starters={starters}
          intro={chosen?.name === "demo" && <Welcome />}
          autoFocus
          theme={theme}
          locale={texts.locale}
          dir={dir}
          messages={texts}
          dialects={about.dialects}
          {...(trace ? { traceURL: trace } : {})}
          {...(about.images ? {} : { loadImage: false as const })}
          panels={developer ? shownPanels.developer : shownPanels.all}
          panel={shownPanel}
          onPanel={changePanel}
          inspect={route.seq}
          onPrompt={onPrompt}
          onStatus={onStatus}
          onError={onError}
          slots={{
            ...(route.session
              ? {}
              : {
                  header: (
                    <header className="co-head">
                      {narrow}
                      <h2>{words.newConversation}</h2>
                    </header>
                  ),
                }),
            missing: (
              <div className="pl-buttons">
                <button type="button" className="pl-primary" onClick={() => visit("/")}>
                  {words.newConversation}
                </button>
              </div>
            ),
            composerEnd: (
              <Later>
                {(current || !route.session) && <Picks client={client} agents={agents} session={current} me={me.id} picked={picked} pick={pick} changed={refresh} />}
                <Compose client={client} id={route.session} session={current} me={me.id} voice commands={(route.session ? agents.find((a) => a.name === current?.agent) : chosen)?.commands} />
              </Later>
            ),
            headerStart: narrow,
            headerEnd: (
              <>
                {current?.archived && <span className="co-archived">{words.archived}</span>}
                <button type="button" className="pl-iconbutton co-panelbutton" aria-label={words.panels} title={words.panels} aria-pressed={shownPanel !== null} onClick={() => (wide ? setPanel(shownPanel ? "none" : "auto") : setNarrowPanel(shownPanel ? null : "plan"))}>
                  <Icon name="panel" />
                </button>
                <Later>{current && <SessionMenu key={current.session_id} client={client} session={current} owner={isOwner(role)} changed={refresh} archive={away.archive} erase={away.erase} developer={developer !== ""} toggleDeveloper={toggleDeveloper} />}</Later>
              </>
            ),
          }}
          pageURL={pageURL}
          diagramURL="/diagram"
          {...(me.id ? { me: me.id } : {})}
        />
        )}
      </main>
      <UndoBars undos={undos} />
    </div>
  );
}
