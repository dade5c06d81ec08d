import { lazy, Suspense, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { filePath, localOutbox, ParleyClient, type AgentInfo, type ParleyError, type Prompt, type Settings } from "@parley-hq/client";
import { Conversation, Icon, titleOf, type PanelName, type Starter } from "@parley-hq/react";
import { traceURL, useAbout } from "./about.js";
import { Keys, useKey } from "./keys.js";
import { follow, SessionList } from "./list.js";
import { languages, LocaleProvider, preferred, useLanguage, useLocale, type Locale } from "./locale.js";
import { inboxPath, pathOf, useRoute, useSetting } from "./route.js";
import { useSessions } from "./sessions.js";
import { SignIn, fetchMe, type Me } from "./signin.js";
import { Welcome } from "./welcome.js";
import type { Words } from "./words.js";

const Inbox = lazy(() => import("./inbox.js").then((m) => ({ default: m.Inbox })));
const Picks = lazy(() => import("./picks.js").then((m) => ({ default: m.Picks })));
const SessionMenu = lazy(() => import("./menu.js").then((m) => ({ default: m.SessionMenu })));
const PrintView = lazy(() => import("@parley-hq/react/print").then((m) => ({ default: m.PrintView })));

const shownPanels = { all: { inspector: false }, developer: {} };

type Theme = "auto" | "light" | "dark";
const themes: Theme[] = ["auto", "light", "dark"];
const themeIcons = { auto: "half", light: "sun", dark: "moon" } as const;

export function App() {
  const [theme, setTheme] = useSetting<Theme>("theme", "auto");
  const [language, setLanguage] = useSetting<string>("language", "");
  const locale = useLocale(preferred(language));
  const [me, setMe] = useState<Me | null>(); // null: a token is needed
  const [fault, setFault] = useState<string>();
  const [route] = useRoute();
  const look = useCallback(() => {
    fetchMe().then(
      (m) => setMe(m ?? null),
      (err: unknown) => setFault(err instanceof Error ? err.message : String(err)),
    );
  }, []);
  useEffect(look, [look]);
  if (!locale) return null;
  if (me && route.print && route.session) return <Printed session={route.session} locale={locale} me={me} />;
  return (
    <LocaleProvider value={locale}>
      <div className="pl-root co-root" data-theme={theme === "auto" ? undefined : theme}>
        {me === null ? (
          <SignIn done={look} />
        ) : me ? (
          <Console me={me} theme={theme} setTheme={setTheme} setLanguage={setLanguage} signIn={() => setMe(null)} />
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
    <Suspense>
      <PrintView client={client} session={session} messages={locale.texts} dir={locale.dir} {...(me.id ? { me: me.id } : {})} />
    </Suspense>
  );
}

function Console({ me, theme, setTheme, setLanguage, signIn }: { me: Me; theme: Theme; setTheme: (t: Theme) => void; setLanguage: (l: string) => void; signIn: () => void }) {
  const { words, texts, name: language, dir } = useLanguage();
  const about = useAbout();
  const trace = useMemo(() => traceURL(about), [about]);
  const client = useMemo(() => new ParleyClient({ storage: localOutbox() }), []);
  const [route, go] = useRoute();
  const [q, setQ] = useState("");
  const sessions = useSessions(client, q);
  const [agents, setAgents] = useState<AgentInfo[]>([]);
  const [agent, setAgent] = useSetting<string>("agent", "");
  const [panel, setPanel] = useSetting<PanelName | "none" | "auto">("panel", "auto");
  const [developer, setDeveloper] = useSetting<"on" | "">("developer", "");
  const [menu, setMenu] = useState(false);
  const [wide, setWide] = useState(() => matchMedia("(min-width: 1100px)").matches);
  const [narrowPanel, setNarrowPanel] = useState<PanelName | null>(null);
  const [asked, setAsked] = useState<Prompt[]>([]);

  useEffect(() => {
    const media = matchMedia("(min-width: 1100px)");
    const change = () => setWide(media.matches);
    media.addEventListener("change", change);
    return () => media.removeEventListener("change", change);
  }, []);
  useEffect(() => {
    client.agents().then(setAgents, () => {});
  }, [client]);
  useEffect(() => {
    if (sessions.error?.code === "unauthenticated") signIn();
  }, [sessions.error, signIn]);

  const chosen = agents.find((a) => a.name === agent) ?? agents.find((a) => a.default) ?? agents[0];
  const others = sessions.open?.reduce((n, s) => (s.session.session_id === route.session ? n : n + s.prompts.length), 0) ?? 0;
  const waiting = asked.length + others;
  const current = sessions.list?.find((s) => s.session_id === route.session);
  useEffect(() => {
    const title = current?.title || (route.inbox ? words.inbox : route.session ? words.conversation : words.newConversation);
    document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${title} · ${words.brand}`;
  }, [waiting, current?.title, route.session, route.inbox, words]);

  const { refresh } = sessions;
  const onPrompt = useCallback(
    (open: Prompt[]) => {
      setAsked(open);
      refresh();
    },
    [refresh],
  );
  const onStatus = useCallback(() => refresh(), [refresh]);
  const onError = useCallback((err: ParleyError) => void (err.code === "unauthenticated" && signIn()), [signIn]);
  useEffect(() => {
    if (!route.session) setAsked([]);
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
      const title = typeof card === "object" ? card.label : titleOf(text) || words.newConversation;
      const s = await client.create({ ...(chosen ? { agent: chosen.name } : {}), title, settings });
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
  const leave = useCallback(() => {
    go("/");
    refresh();
  }, [go, refresh]);
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
        <a className="co-narrow co-count" href={inboxPath} title={words.inbox} aria-label={words.needAnswer(waiting)} onClick={(e) => follow(e, visit)}>
          {waiting}
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
        </div>
        <SessionList sessions={sessions} q={q} setQ={setQ} current={route.inbox ? inboxPath : route.session && pathOf(route.session)} count={waiting} go={visit} />
        <footer className="co-foot">
          <label>
            <span className="pl-hidden">{words.language}</span>
            <select value={language in languages ? language : "en"} onChange={(e) => setLanguage(e.target.value)}>
              {Object.entries(languages).map(([k, label]) => (
                <option key={k} value={k}>
                  {label}
                </option>
              ))}
            </select>
          </label>
          <span className="pl-grow" />
          <Keys />
          <button
            type="button"
            className="pl-iconbutton"
            aria-label={words.theme[theme]}
            title={words.theme[theme]}
            onClick={() => setTheme(themes[(themes.indexOf(theme) + 1) % themes.length] ?? "auto")}
          >
            <Icon name={themeIcons[theme]} />
          </button>
        </footer>
      </div>
      {menu && <button type="button" className="co-shade" aria-label={words.closeList} onClick={() => setMenu(false)} />}
      <main id="conversation" className="co-main" tabIndex={-1}>
        {route.inbox ? (
          <Suspense>
            <Inbox client={client} open={sessions.open} me={me.id} menu={narrow} go={visit} changed={refresh} />
          </Suspense>
        ) : (
        <Conversation
          client={client}
          session={route.session}
          start={start}
          onStart={onStart}
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
                <button type="button" className="pl-button co-narrow" onClick={() => setMenu(true)}>
                  {words.conversations}
                </button>
              </div>
            ),
            composerEnd: (
              <Suspense>
                {(current || !route.session) && <Picks client={client} agents={agents} session={current} me={me.id} picked={picked} pick={pick} changed={refresh} />}
              </Suspense>
            ),
            headerStart: narrow,
            headerEnd: (
              <>
                <button type="button" className="pl-iconbutton co-panelbutton" aria-label={words.panels} title={words.panels} onClick={() => changePanel(shownPanel && shownPanel !== "auto" ? null : "plan")}>
                  <Icon name="panel" />
                </button>
                <Suspense>{current && <SessionMenu key={current.session_id} client={client} session={current} changed={refresh} erased={leave} developer={developer !== ""} toggleDeveloper={toggleDeveloper} />}</Suspense>
              </>
            ),
          }}
          pageURL={pageURL}
          {...(me.id ? { me: me.id } : {})}
        />
        )}
      </main>
    </div>
  );
}

/** The suggested first messages of an agent. Those of the demo agent are commands, so people see what they do instead. */
function startersOf(agent: AgentInfo | undefined, words: Words): readonly Starter[] {
  const all = agent?.starters ?? [];
  if (agent?.name !== "demo") return all;
  return all.flatMap((text) => {
    const [label, about] = words.demo[text.split(" ")[0] ?? ""] ?? [];
    return label && about ? [{ text, label, about }] : [];
  });
}
