import { forwardRef, useCallback, useEffect, useImperativeHandle, useMemo, useRef, useState, type ReactNode, type Ref } from "react";
import type { Answer, Event, Item, ParleyClient, ParleyError, Part, Prompt, SessionStore, Status, StopResult } from "@parley-hq/client";
import { Announcer } from "./announce.js";
import { Banner, StatusDot } from "./banner.js";
import { Composer, type ComposerHandle } from "./composer.js";
import { InView, SharedProvider, useShared, type Mode, type Renderers, type Shared } from "./context.js";
import { laneName } from "./entry.js";
import { useConnection, usePlan, usePrompts, useRecord, useSession, useView, useWorkstreams } from "./hooks.js";
import { Icon } from "./icons.js";
import { Ledger, type LedgerHandle } from "./ledger.js";
import { tasksDone } from "./machinery.js";
import { Panel, type PanelName } from "./panel.js";
import { TokenMeter } from "./panels.js";
import { itemAt, SearchBar } from "./search.js";
import { PromptStrip } from "./strip.js";
import { english, type Texts } from "./texts.js";
import type { UploadRules } from "./uploads.js";

export interface ConversationProps {
  client: ParleyClient;
  /** The session to show. Without one, `start` begins it with the first message. */
  session?: string | undefined;
  /** Begins a session for the first message and gives its id; by default it is created on the server. */
  start?: (text: string, files: Part[]) => Promise<string>;
  /** Told when a session was begun here. */
  onStart?: (session: string) => void;
  /** The agent of sessions that are begun here. */
  agent?: string;
  mode?: Mode;
  panels?: { plan?: boolean; workstreams?: boolean; files?: boolean; inspector?: boolean };
  /** The panel that is open; without it the component keeps it itself. "auto" shows work or plan when there is some. */
  panel?: PanelName | "auto" | null;
  onPanel?: (p: PanelName | null) => void;
  /** The event that the inspector shows. */
  inspect?: number | undefined;
  renderers?: Renderers;
  slots?: { header?: ReactNode; headerStart?: ReactNode; headerEnd?: ReactNode; empty?: ReactNode; composerStart?: ReactNode; composerEnd?: ReactNode; footer?: ReactNode };
  filter?: (item: Item) => boolean;
  /** Told to the agent with every message. */
  context?: () => unknown;
  /** false: no files. */
  uploads?: UploadRules | false;
  /** Parts that go with the next message, such as documents that were found in the host's own search. */
  attached?: Part[] | (() => Part[]);
  /** Takes one of them away again; without it they cannot be removed here. */
  onDetach?: (part: Part) => void;
  /** Told when a message, and what was attached, is on its way. */
  onSent?: (text: string, parts: Part[]) => void;
  title?: ReactNode;
  placeholder?: string;
  /** Messages to begin with. */
  starters?: string[];
  /** What an empty conversation says about its agent. */
  about?: string;
  /** Said above the start view of a conversation that has not begun. */
  intro?: ReactNode;
  /** Text in the composer to begin with. */
  draft?: string;
  /** The word on the button that begins a conversation; "Send" otherwise. */
  startText?: string;
  /** The host is busy, with uploads of its own for instance: nothing can be sent. */
  busy?: boolean;
  /** Shows a button that begins anew. */
  onReset?: () => void;
  layout?: "page" | "modal";
  classNames?: { composer?: string; input?: string; ledger?: string };
  hideComposer?: boolean;
  hideHeader?: boolean;
  autoFocus?: boolean;
  onClose?: () => void;
  theme?: "auto" | "light" | "dark";
  density?: "comfortable" | "compact";
  width?: "measure" | "full";
  locale?: string;
  messages?: Partial<Texts>;
  className?: string;
  /** The id of the person here, to tell "you" from others. */
  me?: string;
  tokenLimit?: number;
  /** Dialects that the inspector offers beside Parley's own. */
  dialects?: readonly string[];
  /** The address of an HTML artifact's sandboxed view, where the server has one. */
  pageURL?: (session: string, path: string) => string;
  onEvent?: (e: Event) => void;
  onPrompt?: (open: Prompt[]) => void;
  onStatus?: (s: Status) => void;
  onError?: (e: ParleyError) => void;
  onLinkClick?: (href: string, e: React.MouseEvent) => void;
}

export interface ConversationHandle {
  send: (text: string, files?: Part[]) => Promise<void>;
  stop: () => Promise<StopResult | undefined>;
  answer: (request: string, answer: Answer) => Promise<Event | undefined>;
  /** Hands a message to one workstream. */
  steer: (workstream: string, text: string) => Promise<void>;
  /** Brings an entry into view: an item's id, or the number of an event. */
  scrollTo: (item: string | number) => void;
  openInspector: (seq?: number) => void;
  focus: () => void;
}

/** A conversation with an agent: ledger, questions, composer, plan, work, files, raw events. */
export const Conversation = forwardRef<ConversationHandle, ConversationProps>(function Conversation(p, ref) {
  const texts = useMemo<Texts>(() => ({ ...english, ...p.messages }), [p.messages]);
  const [begun, setBegun] = useState<string>();
  const id = p.session ?? begun;
  const store = useSession(p.client, id);
  const composer = useRef<ComposerHandle>(null);
  const starting = useRef<Promise<string>>(undefined);
  useEffect(() => {
    starting.current = undefined;
    if (p.session) setBegun(undefined);
  }, [p.session]);

  const latest = useRef(p);
  latest.current = p;
  const line = useRef<string>(undefined); // the workstream that the list is narrowed to
  const ensure = useCallback(async (text: string, files: Part[]): Promise<string> => {
    const { session, start, client, agent, onStart } = latest.current;
    if (session) return session;
    starting.current ??= (start ? start(text, files) : client.create({ ...(agent ? { agent } : {}), ...(text ? { title: titleOf(text) } : {}) }).then((s) => s.session_id)).then((made) => {
      setBegun(made);
      onStart?.(made);
      return made;
    });
    starting.current.catch(() => (starting.current = undefined));
    return starting.current;
  }, []);
  const session = useCallback(() => ensure("", []), [ensure]);
  const send = useCallback(
    async (text: string, files: Part[] = []) => {
      const o = latest.current;
      const parts = [...files, ...(typeof o.attached === "function" ? o.attached() : (o.attached ?? []))];
      const to = await ensure(text, parts);
      const context = o.context?.();
      // What is refused later is shown at the message itself, with a way to try again.
      void o.client.say(to, { text, ...(parts.length > 0 ? { content: [{ type: "text", text }, ...parts] } : {}), ...(context !== undefined ? { context } : {}) }, line.current ? { workstream_id: line.current } : {}).catch(() => {});
      o.onSent?.(text, parts);
    },
    [ensure],
  );

  const empty = p.slots?.empty ?? <Empty texts={texts} intro={p.intro} agent={p.agent ?? ""} about={p.about ?? ""} starters={p.starters ?? []} onStart={(t) => void send(t)} can={(p.mode ?? "interactive") === "interactive"} />;
  const composerFor = (running: boolean, stopping: boolean, agent: string, stop: () => void) =>
    p.hideComposer || (p.mode ?? "interactive") !== "interactive" ? null : (
      <Composer
        handle={composer}
        client={p.client}
        texts={texts}
        placeholder={p.placeholder ?? texts.placeholder(agent)}
        running={running}
        stopping={stopping}
        draftKey={id ?? "new"}
        uploads={p.uploads ?? defaultUploads}
        autoFocus={p.autoFocus ?? false}
        session={session}
        send={send}
        stop={stop}
        sendText={id ? undefined : p.startText}
        busy={p.busy ?? false}
        attached={Array.isArray(p.attached) ? p.attached : nothing}
        onDetach={p.onDetach}
        className={p.classNames?.composer}
        inputClassName={p.classNames?.input}
        start={p.slots?.composerStart}
        end={p.slots?.composerEnd}
      />
    );
  useEffect(() => {
    if (p.draft) composer.current?.set(p.draft);
  }, [p.draft]);

  const inner = useRef<Inner>(null);
  useImperativeHandle(
    ref,
    () => ({
      send,
      stop: async () => inner.current?.store.stop(),
      answer: async (request, answer) => inner.current?.answer(request, answer),
      steer: async (workstream, text) => void (await inner.current?.store.say(text, { workstream_id: workstream })),
      scrollTo: (item) => {
        if (typeof item === "string") return inner.current?.show(item);
        const s = inner.current?.store;
        if (s) void itemAt(s, item).then((found) => found && inner.current?.show(found));
      },
      openInspector: (seq) => inner.current?.inspect(seq),
      focus: () => composer.current?.focus(),
    }),
    [send],
  );

  return (
    <div
      className={`pl-root${p.className ? ` ${p.className}` : ""}`}
      data-theme={p.theme && p.theme !== "auto" ? p.theme : undefined}
      data-density={p.density ?? "comfortable"}
      data-width={p.width ?? "measure"}
      data-layout={p.layout ?? "page"}
      lang={p.locale ?? "en"}
    >
      {store ? (
        <Opened key={store.id} store={store} props={p} texts={texts} empty={empty} composer={composerFor} inner={inner} line={line} />
      ) : (
        <div className="pl-body">
          <div className="pl-main">
            {!p.hideHeader && (p.slots?.header ?? <header className="pl-header"><h2>{p.title}</h2></header>)}
            <div className="pl-ledger">{id ? null : empty}</div>
            <div className="pl-below">{composerFor(false, false, p.agent ?? "", () => {})}</div>
          </div>
        </div>
      )}
    </div>
  );
});

const nothing: Part[] = [];
const defaultUploads: UploadRules = { maxFiles: 5, maxBytes: 100_000_000 };

export const titleOf = (text: string): string => {
  const line = text.trim().split("\n", 1)[0] ?? "";
  return line.length > 60 ? `${line.slice(0, 59)}…` : line;
};

interface Inner {
  store: SessionStore;
  answer: (request: string, answer: Answer) => Promise<Event>;
  show: (item: string) => void;
  inspect: (seq?: number) => void;
}

/** The conversation once its session is there. */
function Opened({ store, props: p, texts, empty, composer, inner, line }: {
  store: SessionStore;
  props: ConversationProps;
  texts: Texts;
  empty: ReactNode;
  composer: (running: boolean, stopping: boolean, agent: string, stop: () => void) => ReactNode;
  inner: Ref<Inner>;
  line: React.RefObject<string | undefined>;
}) {
  const ledger = useRef<LedgerHandle>(null);
  const [panel, setOwnPanel] = useState<PanelName | null>(null);
  const [seq, setSeq] = useState<number | undefined>(p.inspect);
  const [lane, setLane] = useState<string>();
  const [searching, setSearching] = useState(false);
  const plan = usePlan(store);
  const work = useWorkstreams(store);
  const auto = work.some((w) => !w.ended_at) ? "work" : plan && plan.tasks.length > 0 ? "plan" : null;
  const shownPanel = p.panel === "auto" ? auto : p.panel !== undefined ? p.panel : panel;
  const onPanel = p.onPanel;
  const setPanel = useCallback(
    (n: PanelName | null) => {
      setOwnPanel(n);
      onPanel?.(n);
    },
    [onPanel],
  );
  const inspect = useCallback(
    (n?: number) => {
      setSeq(n);
      setPanel("raw");
    },
    [setPanel],
  );
  useEffect(() => {
    if (p.inspect !== undefined) inspect(p.inspect);
  }, [p.inspect, inspect]);
  const { answeredHere, memory } = useMemo(() => memoryOf(p.client, store.id), [p.client, store.id]);
  const answer = useCallback(
    async (request: string, a: Answer) => {
      const e = await store.answer(request, a);
      answeredHere.add(request);
      return e;
    },
    [store, answeredHere],
  );
  const canInspect = p.panels?.inspector !== false;
  const shared = useMemo<Shared>(
    () => ({
      client: p.client, store, texts, mode: p.mode ?? "interactive", renderers: p.renderers ?? none, answer, answeredHere, me: p.me, memory, inView: new InView(),
      inspect: canInspect ? inspect : undefined, scrollTo: (id) => ledger.current?.show(id), onLinkClick: p.onLinkClick, pageURL: p.pageURL,
    }),
    [p.client, store, texts, p.mode, p.renderers, answer, answeredHere, p.me, memory, canInspect, inspect, p.onLinkClick, p.pageURL],
  );
  useImperativeHandle(inner, () => ({ store, answer, show: (i) => ledger.current?.show(i), inspect }), [store, answer, inspect]);
  useTold(store, p);
  // Someone who reads one line of work speaks to it, as long as it goes on.
  const target = lane !== undefined && work.some((w) => w.id === lane && !w.ended_at) ? lane : undefined;
  useEffect(() => {
    line.current = target;
    return () => void (line.current = undefined);
  }, [line, target]);

  const state = useView(store);
  const prompts = usePrompts(store);
  const record = useRecord(store);
  const connection = useConnection(store);
  const main = state?.turns.find((t) => !t.workstream_id) ?? state?.turns[0];
  const stop = useCallback(() => void store.stop().catch(() => {}), [store]);
  useKeys(prompts, ledger);

  if (connection.state === "ended" && !record) return <Unopened texts={texts} error={connection.error} />;
  return (
    <SharedProvider value={shared}>
      <div className="pl-body">
        <div className="pl-main">
          {!p.hideHeader &&
            (p.slots?.header ?? (
              <header className="pl-header">
                {p.slots?.headerStart}
                <h2 title={record?.title ?? store.id}>{p.title ?? record?.title ?? store.id}</h2>
                <StatusDot />
                <TokenMeter {...(p.tokenLimit ? { limit: p.tokenLimit } : {})} />
                <button type="button" className="pl-iconbutton" aria-label={texts.search} title={texts.search} aria-expanded={searching} onClick={() => setSearching(!searching)}>
                  <Icon name="search" />
                </button>
                {p.slots?.headerEnd}
                {p.onReset && (
                  <button type="button" className="pl-mini" onClick={p.onReset}>
                    {texts.reset}
                  </button>
                )}
                {p.onClose && (
                  <button type="button" className="pl-iconbutton" aria-label={texts.close} onClick={p.onClose}>
                    <Icon name="cross" />
                  </button>
                )}
              </header>
            ))}
          {searching && <SearchBar close={() => setSearching(false)} />}
          <Banner />
          {store.reloads > 0 && <div className="pl-banner">{texts.reloaded}</div>}
          {lane !== undefined && (
            <div className="pl-lanebar">
              <button type="button" className="pl-chip" onClick={() => setLane(undefined)} aria-label={texts.showEverything}>
                {texts.onlyThis(laneName(shared, lane))} <Icon name="cross" size={12} />
              </button>
            </div>
          )}
          <Ledger handle={ledger} className={p.classNames?.ledger} store={store} lane={lane} filter={p.filter} empty={record ? empty : <Loading texts={texts} />} />
          <div className="pl-below">
            <PromptStrip show={(request) => ledger.current?.show(`p-${request}`)} />
            {composer(main !== undefined, main?.stopping ?? false, target !== undefined ? laneName(shared, target) : (record?.agent ?? p.agent ?? ""), stop)}
            {p.slots?.footer}
          </div>
          <Strip panels={p.panels} open={setPanel} />
        </div>
        {shownPanel && (
          <Panel name={shownPanel} panels={p.panels} setName={setPanel} lane={lane} setLane={setLane} seq={seq} dialects={p.dialects ?? []} />
        )}
      </div>
      <Announcer />
    </SharedProvider>
  );
}

const none: Renderers = {};

interface Memory {
  answeredHere: Set<string>;
  memory: Map<string, unknown>;
}
const memories = new WeakMap<ParleyClient, Map<string, Memory>>();

/** What was written and opened in a session, for whoever comes back to it on this page. */
function memoryOf(client: ParleyClient, session: string): Memory {
  const all = memories.get(client) ?? new Map<string, Memory>();
  memories.set(client, all);
  let m = all.get(session);
  if (!m) all.set(session, (m = { answeredHere: new Set(), memory: new Map() }));
  return m;
}

/** Tells the host what it asked to be told. */
function useTold(store: SessionStore, p: ConversationProps): void {
  const { onEvent, onPrompt, onStatus, onError } = p;
  useEffect(() => (onEvent ? store.onEvent(onEvent) : undefined), [store, onEvent]);
  const state = useView(store);
  const { error } = useConnection(store);
  useEffect(() => void (state && onPrompt?.(state.prompts)), [state?.prompts, onPrompt]);
  useEffect(() => void (state && onStatus?.(state.status)), [state?.status, onStatus]);
  useEffect(() => void (error && onError?.(error)), [error, onError]);
}

/** Alt+Q goes to the oldest open question. */
function useKeys(prompts: Prompt[], ledger: React.RefObject<LedgerHandle | null>): void {
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      const first = prompts[0];
      if (!e.altKey || e.code !== "KeyQ" || !first) return;
      e.preventDefault();
      ledger.current?.show(`p-${first.request_id}`);
    };
    document.addEventListener("keydown", key);
    return () => document.removeEventListener("keydown", key);
  }, [prompts, ledger]);
}

/** On narrow pages: the panels as one line below the composer. */
function Strip({ panels, open }: { panels: ConversationProps["panels"]; open: (n: PanelName) => void }) {
  const { store, texts } = useShared();
  const plan = usePlan(store);
  const work = useWorkstreams(store);
  const running = work.filter((w) => !w.ended_at).length;
  return (
    <nav className="pl-strip" aria-label={texts.plan}>
      {panels?.plan !== false && plan && plan.tasks.length > 0 && (
        <button type="button" onClick={() => open("plan")}>
          {texts.plan} {tasksDone(plan.tasks)}/{plan.tasks.length}
        </button>
      )}
      {panels?.workstreams !== false && work.length > 0 && (
        <button type="button" onClick={() => open("work")}>
          {texts.work} {running > 0 ? running : work.length}
        </button>
      )}
      {panels?.files !== false && (
        <button type="button" onClick={() => open("files")}>
          {texts.files}
        </button>
      )}
      {panels?.inspector !== false && (
        <button type="button" onClick={() => open("raw")}>
          {texts.inspector}
        </button>
      )}
    </nav>
  );
}

function Empty(p: { texts: Texts; intro: ReactNode; agent: string; about: string; starters: string[]; onStart: (text: string) => void; can: boolean }) {
  return (
    <div className="pl-empty">
      {p.intro && <div className="pl-intro">{p.intro}</div>}
      <h2>{p.agent || p.texts.agent}</h2>
      <p>{p.texts.emptyHint(p.about)}</p>
      {p.can && p.starters.length > 0 && (
        <ul>
          {p.starters.slice(0, 4).map((s) => (
            <li key={s}>
              <button type="button" className="pl-link" onClick={() => p.onStart(s)}>
                {s}
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function Loading({ texts }: { texts: Texts }) {
  return (
    <div className="pl-loading" role="status" aria-label={texts.loading}>
      <span />
      <span />
      <span />
    </div>
  );
}

function Unopened({ texts, error }: { texts: Texts; error: ParleyError | undefined }) {
  const why =
    error?.code === "not_found" || error?.code === "denied" ? texts.notFound : error?.code === "gone" ? texts.gone : error?.code === "unauthenticated" ? texts.signInAgain : texts.cannotOpen;
  return (
    <div className="pl-empty" role="alert">
      <h2>{why}</h2>
      {error && error.code !== "not_found" && <p>{error.message}</p>}
    </div>
  );
}
