import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { localOutbox, ParleyClient, type AgentInfo, type Prompt } from "@parley-hq/client";
import { Conversation, Icon, titleOf, type PanelName } from "@parley-hq/react";
import { Keys } from "./keys.js";
import { SessionList } from "./list.js";
import { SessionMenu } from "./menu.js";
import { usePlace, useSetting } from "./route.js";
import { useSessions } from "./sessions.js";
import { SignIn, whoAmI, type Me } from "./signin.js";

type Theme = "auto" | "light" | "dark";
const themes: Theme[] = ["auto", "light", "dark"];
const themeIcons = { auto: "half", light: "sun", dark: "moon" } as const;

export function App() {
  const [theme, setTheme] = useSetting<Theme>("theme", "auto");
  const [me, setMe] = useState<Me | null>(); // null: a token is needed
  const [fault, setFault] = useState<string>();
  const look = useCallback(() => {
    whoAmI().then(
      (m) => setMe(m ?? null),
      (err: unknown) => setFault(err instanceof Error ? err.message : String(err)),
    );
  }, []);
  useEffect(look, [look]);
  return (
    <div className="pl-root co-root" data-theme={theme === "auto" ? undefined : theme}>
      {me === null ? (
        <SignIn done={look} />
      ) : me ? (
        <Console me={me} theme={theme} setTheme={setTheme} signIn={() => setMe(null)} />
      ) : fault ? (
        <main className="co-signin">
          <p role="alert">Parley cannot be reached: {fault}</p>
          <button type="button" className="pl-button" onClick={() => location.reload()}>
            Try again
          </button>
        </main>
      ) : null}
    </div>
  );
}

function Console({ me, theme, setTheme, signIn }: { me: Me; theme: Theme; setTheme: (t: Theme) => void; signIn: () => void }) {
  const client = useMemo(() => new ParleyClient({ storage: localOutbox() }), []);
  const [place, go] = usePlace();
  const [q, setQ] = useState("");
  const sessions = useSessions(client, q);
  const [agents, setAgents] = useState<AgentInfo[]>([]);
  const [agent, setAgent] = useSetting<string>("agent", "");
  const [panel, setPanel] = useSetting<PanelName | "none" | "auto">("panel", "auto");
  const [menu, setMenu] = useState(false);
  const [wide, setWide] = useState(() => matchMedia("(min-width: 1100px)").matches);
  const [narrowPanel, setNarrowPanel] = useState<PanelName | null>(null);
  const [prompts, setPrompts] = useState(0);

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

  const chosen = agents.find((a) => a.name === agent) ?? agents.find((a) => a.name === "demo") ?? agents[0];
  const others = sessions.list?.reduce((n, s) => (s.session_id === place.session ? n : n + s.open_prompts), 0) ?? 0;
  const waiting = prompts + others;
  const current = sessions.list?.find((s) => s.session_id === place.session);
  useEffect(() => {
    const title = current?.title || (place.session ? "Conversation" : "New conversation");
    document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${title} · Parley`;
  }, [waiting, current?.title, place.session]);

  const { refresh } = sessions;
  const onPrompt = useCallback(
    (open: Prompt[]) => {
      setPrompts(open.length);
      refresh();
    },
    [refresh],
  );
  const onStatus = useCallback(() => refresh(), [refresh]);
  useEffect(() => {
    if (!place.session) setPrompts(0);
  }, [place.session]);
  const start = useCallback(
    async (text: string) => {
      const s = await client.create({ ...(chosen ? { agent: chosen.name } : {}), title: titleOf(text) || "New conversation" });
      return s.session_id;
    },
    [client, chosen],
  );
  const onStart = useCallback(
    (id: string) => {
      go(id);
      refresh();
    },
    [go, refresh],
  );
  const visit = useCallback(
    (id: string | undefined) => {
      setMenu(false);
      go(id);
    },
    [go],
  );
  const leave = useCallback(() => {
    go(undefined);
    refresh();
  }, [go, refresh]);
  const pageURL = useCallback((session: string, path: string) => `/page/${encodeURIComponent(session)}/${path.split("/").map(encodeURIComponent).join("/")}`, []);
  const drawer = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!menu) return;
    const key = (e: KeyboardEvent) => e.key === "Escape" && setMenu(false);
    document.addEventListener("keydown", key);
    drawer.current?.querySelector<HTMLElement>("button, a, input")?.focus();
    return () => document.removeEventListener("keydown", key);
  }, [menu]);

  const shownPanel = wide ? (panel === "none" ? null : panel) : narrowPanel;
  const changePanel = (n: PanelName | null) => (wide ? setPanel(n ?? "none") : setNarrowPanel(n));
  const menuButton = (extra: string) => (
    <button type="button" className={`pl-iconbutton ${extra}`} aria-label="Conversations" aria-expanded={menu} onClick={() => setMenu(!menu)}>
      <Icon name="menu" />
    </button>
  );
  const themeButton = (extra: string) => (
    <button
      type="button"
      className={`pl-iconbutton ${extra}`}
      aria-label={`Theme: ${theme}`}
      title={`Theme: ${theme}`}
      onClick={() => setTheme(themes[(themes.indexOf(theme) + 1) % themes.length] ?? "auto")}
    >
      <Icon name={themeIcons[theme]} />
    </button>
  );
  return (
    <div className={place.session ? "co-grid co-inside" : "co-grid"}>
      <a className="co-skip" href="#conversation">
        Skip to the conversation
      </a>
      <header className="co-bar">
        {menuButton("co-menu")}
        <a
          className="co-brand"
          href="/"
          onClick={(e) => {
            e.preventDefault();
            visit(undefined);
          }}
        >
          Parley
        </a>
        {waiting > 0 && <span className="co-badge">{waiting === 1 ? "1 needs you" : `${waiting} need you`}</span>}
        <span className="pl-grow" />
        {!place.session && agents.length > 1 && (
          <label className="co-agent">
            <span className="pl-hidden">Agent</span>
            <select value={chosen?.name ?? ""} onChange={(e) => setAgent(e.target.value)}>
              {agents.map((a) => (
                <option key={a.name} value={a.name}>
                  {a.name}
                  {a.healthy ? "" : " (away)"}
                </option>
              ))}
            </select>
          </label>
        )}
        {themeButton("")}
        {place.session && (
          <button type="button" className="pl-iconbutton co-panelbutton" aria-label="Plan, work, files, raw events" onClick={() => changePanel(shownPanel && shownPanel !== "auto" ? null : "plan")}>
            <Icon name="panel" />
          </button>
        )}
      </header>
      <div ref={drawer} className={menu ? "co-side co-side-open" : "co-side"}>
        <SessionList sessions={sessions} q={q} setQ={setQ} current={place.session} go={visit} />
      </div>
      {menu && <button type="button" className="co-shade" aria-label="Close the list" onClick={() => setMenu(false)} />}
      <main id="conversation" className="co-main" tabIndex={-1}>
        <Conversation
          client={client}
          session={place.session}
          start={start}
          onStart={onStart}
          agent={chosen?.name ?? ""}
          about={chosen?.description ?? ""}
          starters={chosen?.starters ?? []}
          autoFocus
          theme={theme}
          panel={shownPanel}
          onPanel={changePanel}
          inspect={place.seq}
          onPrompt={onPrompt}
          onStatus={onStatus}
          hideHeader={!place.session}
          slots={{
            headerStart: menuButton("co-narrow"),
            headerEnd: current && <SessionMenu key={current.session_id} client={client} session={current} changed={refresh} erased={leave} />,
          }}
          pageURL={pageURL}
          {...(!me.open && me.id ? { me: me.id } : {})}
        />
      </main>
      <Keys />
    </div>
  );
}
