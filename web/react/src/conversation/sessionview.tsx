import { useCallback, useEffect, useImperativeHandle, useMemo, useRef, useState, type ReactNode, type Ref } from "react";
import type { Answer, Event, Prompt, SessionStore } from "@parley-hq/client";
import { ArtifactCard } from "../entries/entry.js";
import { itemAt } from "../entries/itemat.js";
import { EntryList, type EntryListHandle } from "../entries/list.js";
import type { Texts } from "../i18n/texts.js";
import { ApprovalForm, InputForm, PermissionForm } from "../prompts/prompt.js";
import { InView, roleIn, waitsForMessage, workstreamName, SharedProvider, type Renderers, type Shared } from "../shared/context.js";
import { useConnection, usePlan, usePrompts, useRecord, useView, useWorkstreams } from "../shared/hooks.js";
import { Icon } from "../shared/icons.js";
import { lazyPart } from "../shared/lazy.js";
import { memoryOf } from "../shared/memory.js";
import { Banner } from "./banner.js";
import { Header } from "./header.js";
import type { PanelName } from "./panel.js";
import type { ConversationProps } from "./props.js";
import { Loading, OpenError } from "./start.js";

const Announcer = lazyPart(() => import("./announce.js").then((m) => m.Announcer), null);
const SearchBar = lazyPart(() => import("./search.js").then((m) => m.SearchBar), null);
const PromptStrip = lazyPart(() => import("./promptstrip.js").then((m) => m.PromptStrip), null);
const PanelStrip = lazyPart(() => import("./panelstrip.js").then((m) => m.PanelStrip), <nav className="pl-strip" />);
const Panel = lazyPart(() => import("./panel.js").then((m) => m.Panel), <aside className="pl-panel" aria-busy="true" />);

/** The methods of an open conversation. */
export interface Inner {
  store: SessionStore;
  answer: (request: string, answer: Answer) => Promise<Event>;
  show: (item: string) => void;
  /** Scrolls to the end. */
  end: () => void;
  inspect: (seq?: number) => void;
}

/** The conversation of an open session. */
export function SessionView({ store, props: p, texts, empty, composer, edit, inner, target }: {
  store: SessionStore;
  props: ConversationProps;
  texts: Texts;
  empty: ReactNode;
  composer: (running: boolean, stopping: boolean, queues: boolean, agent: string, stop: () => void) => ReactNode;
  edit: Shared["edit"];
  inner: Ref<Inner>;
  target: React.RefObject<string | undefined>;
}) {
  const list = useRef<EntryListHandle>(null);
  const [panel, setOwnPanel] = useState<PanelName | null>(null);
  const [seq, setSeq] = useState<number | undefined>(p.inspect);
  const [workstream, setWorkstream] = useState<string>();
  const [searching, setSearching] = useState(false);
  const plan = usePlan(store);
  const work = useWorkstreams(store);
  const record = useRecord(store);
  const auto = useAutoPanel(!record ? undefined : work.some((w) => !w.ended_at) ? "work" : plan && plan.tasks.length > 0 ? "plan" : work.length > 0 ? "work" : "files");
  const shownPanel = p.panel === "auto" ? (auto ?? null) : p.panel !== undefined ? p.panel : panel;
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
  const { answeredHere, memory, threads } = useMemo(() => memoryOf(p.client, store.id), [p.client, store.id]);
  const answer = useCallback(
    async (request: string, a: Answer) => {
      const e = await store.answer(request, a);
      answeredHere.add(request);
      return e;
    },
    [store, answeredHere],
  );
  const me = p.me ?? store.caller?.id;
  const viewer = roleIn(record, me) === "viewer";
  const mode = viewer ? "read-only" : (p.mode ?? "interactive");
  const planBeside = shownPanel === "plan";
  const canInspect = p.panels?.inspector === true;
  const loadImage = useMemo(() => (p.loadImage === false ? undefined : (p.loadImage ?? ((url: string, signal: AbortSignal) => p.client.image(url, { signal })))), [p.client, p.loadImage]);
  const shared = useMemo<Shared>(
    () => ({
      client: p.client, store, texts, mode, renderers: p.renderers ?? none, answer, answeredHere, me, memory, inView: new InView(), threads, planBeside, edit: viewer ? undefined : edit, branch: p.onBranch, branches: p.branches,
      thread: (id) => <EntryList className={undefined} store={store} workstream={id} filter={undefined} me={me} threads="own" empty={<p className="pl-panel-empty">{texts.noEntries}</p>} />,
      inspect: canInspect ? inspect : undefined, scrollTo: (id) => list.current?.show(id), onLinkClick: p.onLinkClick, pageURL: p.pageURL, diagramURL: p.diagramURL, loadImage,
    }),
    [p.client, store, texts, mode, viewer, p.renderers, answer, answeredHere, me, memory, threads, planBeside, edit, p.onBranch, p.branches, canInspect, inspect, p.onLinkClick, p.pageURL, p.diagramURL, loadImage],
  );
  useImperativeHandle(inner, () => ({ store, answer, show: (i) => list.current?.show(i), end: () => list.current?.end(), inspect }), [store, answer, inspect]);
  useCallbacks(store, p);
  // While the list is filtered by a running workstream, messages go to that workstream.
  const messageTo = workstream !== undefined && work.some((w) => w.id === workstream && !w.ended_at) ? workstream : undefined;
  useEffect(() => {
    target.current = messageTo;
    return () => void (target.current = undefined);
  }, [target, messageTo]);

  const state = useView(store);
  const prompts = usePrompts(store);
  const connection = useConnection(store);
  const main = state?.turns.find((t) => !t.workstream_id);
  const busy = work.filter((w) => !w.ended_at && !waitsForMessage(w));
  const running = main !== undefined || busy.length > 0;
  const stopping = running && (!main || main.stopping === true) && busy.every((w) => w.state === "canceling");
  const stop = useCallback(() => void store.stop({ workstreams: true }).catch(() => {}), [store]);
  const showPrompt = useCallback((q: Prompt) => void itemAt(store, q.sequence).then((id) => id && list.current?.show(id), () => {}), [store]);
  useKeys(prompts[0], showPrompt);
  useEffect(() => {
    // Load them after the first entries, but before the connection may be lost.
    const timer = setTimeout(() => {
      Panel.preload();
      ArtifactCard.preload();
      SearchBar.preload();
      InputForm.preload();
      ApprovalForm.preload();
      PermissionForm.preload();
    }, 1500);
    return () => clearTimeout(timer);
  }, []);

  // What was erased, or may not be seen any more, does not stay on the page.
  const lost = ["gone", "not_found", "denied"].includes(connection.error?.code ?? "");
  if (connection.state === "ended" && (!record || lost)) return <OpenError texts={texts} error={connection.error} start={p.hideHeader ? undefined : p.slots?.headerStart} action={p.slots?.missing} />;
  return (
    <SharedProvider value={shared}>
      <div className="pl-body">
        <div className="pl-main">
          {!p.hideHeader && (p.slots?.header ?? <Header props={p} searching={searching} setSearching={setSearching} panel={panel !== null} open={() => setPanel(panel ? null : (auto ?? null))} />)}
          {searching && <SearchBar close={() => setSearching(false)} />}
          <Banner />
          {store.reloads > 0 && <div className="pl-banner">{texts.reloaded}</div>}
          {workstream !== undefined && (
            <div className="pl-lanebar">
              <button type="button" className="pl-chip" onClick={() => setWorkstream(undefined)} aria-label={texts.showEverything}>
                {texts.onlyThis(workstreamName(shared, workstream))} <Icon name="cross" size={12} />
              </button>
            </div>
          )}
          <EntryList handle={list} className={p.classNames?.entries} store={store} workstream={workstream} filter={p.filter} me={me} threads="folded" empty={record ? empty : <Loading texts={texts} />} />
          <div className="pl-below">
            <PromptStrip show={showPrompt} />
            {viewer ? <p className="pl-readonly">{texts.readOnly}</p> : composer(running, stopping, main !== undefined, messageTo !== undefined ? workstreamName(shared, messageTo) : (record?.agent ?? p.agent ?? ""), stop)}
            {p.slots?.footer}
          </div>
          <PanelStrip panels={p.panels} open={setPanel} />
        </div>
        {shownPanel && (
          <Panel name={shownPanel} panels={p.panels} setName={setPanel} workstream={workstream} setWorkstream={setWorkstream} seq={seq} dialects={p.dialects ?? []} traceURL={p.traceURL} />
        )}
      </div>
      <Announcer />
    </SharedProvider>
  );
}

/** What a panel can show by itself, from the least to the most. */
const ranks: PanelName[] = ["files", "plan", "work"];

/** The panel that chooses what it shows. It changes only to what is more, and not while the pointer or the focus is in it. */
function useAutoPanel(now: PanelName | undefined): PanelName | undefined {
  const shown = useRef<PanelName>(undefined);
  if (now && (!shown.current || (ranks.indexOf(now) > ranks.indexOf(shown.current) && !document.querySelector(".pl-panel:is(:hover, :focus-within)")))) shown.current = now;
  return shown.current;
}

const none: Renderers = {};

/** Calls the host's callbacks. */
function useCallbacks(store: SessionStore, p: ConversationProps): void {
  const { onEvent, onPrompt, onStatus, onError } = p;
  useEffect(() => (onEvent ? store.onEvent(onEvent) : undefined), [store, onEvent]);
  const state = useView(store);
  const { error } = useConnection(store);
  useEffect(() => void (state && onPrompt?.(state.prompts)), [state?.prompts, onPrompt]);
  useEffect(() => void (state && onStatus?.(state.status)), [state?.status, onStatus]);
  useEffect(() => void (error && onError?.(error)), [error, onError]);
}

/** Alt+Q scrolls to the oldest open prompt. */
function useKeys(first: Prompt | undefined, show: (p: Prompt) => void): void {
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (!e.altKey || e.code !== "KeyQ" || !first) return;
      e.preventDefault();
      show(first);
    };
    document.addEventListener("keydown", key);
    return () => document.removeEventListener("keydown", key);
  }, [first, show]);
}
