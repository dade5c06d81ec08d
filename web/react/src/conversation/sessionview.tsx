import { useCallback, useEffect, useImperativeHandle, useMemo, useRef, useState, type ReactNode, type Ref } from "react";
import type { Answer, Event, Prompt, SessionStore } from "@parley-hq/client";
import { ArtifactCard } from "../entries/entry.js";
import { EntryList, type EntryListHandle } from "../entries/list.js";
import type { Texts } from "../i18n/texts.js";
import { ApprovalForm, InputForm, PermissionForm } from "../prompts/prompt.js";
import { InView, workstreamName, SharedProvider, type Renderers, type Shared } from "../shared/context.js";
import { useConnection, usePlan, usePrompts, useRecord, useView, useWorkstreams } from "../shared/hooks.js";
import { Icon } from "../shared/icons.js";
import { lazyPart } from "../shared/lazy.js";
import { memoryOf } from "../shared/memory.js";
import { Banner } from "./banner.js";
import { Header } from "./header.js";
import type { PanelName } from "./panel.js";
import type { ConversationProps } from "./props.js";
import { Loading, OpenError } from "./start.js";
import { PanelStrip, PromptStrip } from "./strips.js";

const Announcer = lazyPart(() => import("./announce.js").then((m) => m.Announcer), null);
const SearchBar = lazyPart(() => import("./search.js").then((m) => m.SearchBar), null);
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
  composer: (running: boolean, stopping: boolean, agent: string, stop: () => void) => ReactNode;
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
  const auto = useAutoPanel(work.some((w) => !w.ended_at) ? "work" : plan && plan.tasks.length > 0 ? "plan" : null);
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
  const canInspect = p.panels?.inspector === true;
  const loadImage = useMemo(() => (p.loadImage === false ? undefined : (p.loadImage ?? ((url: string, signal: AbortSignal) => p.client.image(url, { signal })))), [p.client, p.loadImage]);
  const shared = useMemo<Shared>(
    () => ({
      client: p.client, store, texts, mode: p.mode ?? "interactive", renderers: p.renderers ?? none, answer, answeredHere, me, memory, inView: new InView(), threads, edit, branch: p.onBranch,
      thread: (id) => <EntryList className={undefined} store={store} workstream={id} filter={undefined} me={me} threads="own" empty={<p className="pl-panel-empty">{texts.noEntries}</p>} />,
      inspect: canInspect ? inspect : undefined, scrollTo: (id) => list.current?.show(id), onLinkClick: p.onLinkClick, pageURL: p.pageURL, diagramURL: p.diagramURL, loadImage,
    }),
    [p.client, store, texts, p.mode, p.renderers, answer, answeredHere, me, memory, threads, edit, p.onBranch, canInspect, inspect, p.onLinkClick, p.pageURL, p.diagramURL, loadImage],
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
  const record = useRecord(store);
  const connection = useConnection(store);
  const main = state?.turns.find((t) => !t.workstream_id) ?? state?.turns[0];
  const stop = useCallback(() => void store.stop().catch(() => {}), [store]);
  useKeys(prompts, list);
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

  if (connection.state === "ended" && !record) return <OpenError texts={texts} error={connection.error} action={p.slots?.missing} />;
  return (
    <SharedProvider value={shared}>
      <div className="pl-body">
        <div className="pl-main">
          {!p.hideHeader && (p.slots?.header ?? <Header props={p} searching={searching} setSearching={setSearching} />)}
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
            <PromptStrip show={(request) => list.current?.show(`p-${request}`)} />
            {composer(main !== undefined, main?.stopping ?? false, messageTo !== undefined ? workstreamName(shared, messageTo) : (record?.agent ?? p.agent ?? ""), stop)}
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

/**
 * The panel that opens by itself. It stays when the work ends, and changes only from the plan to the work, and not while the
 * pointer or the focus is in it.
 */
function useAutoPanel(now: PanelName | null): PanelName | null {
  const shown = useRef<PanelName | null>(null);
  const used = () => document.querySelector(".pl-panel:is(:hover, :focus-within)") !== null;
  if (shown.current === null || (now === "work" && shown.current !== now && !used())) shown.current = now;
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
function useKeys(prompts: Prompt[], list: React.RefObject<EntryListHandle | null>): void {
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      const first = prompts[0];
      if (!e.altKey || e.code !== "KeyQ" || !first) return;
      e.preventDefault();
      list.current?.show(`p-${first.request_id}`);
    };
    document.addEventListener("keydown", key);
    return () => document.removeEventListener("keydown", key);
  }, [prompts, list]);
}
