import { useEffect, useMemo, useState } from "react";
import type { Item, SessionStore } from "@parley-hq/client";
import type { ConversationProps } from "./conversation/props.js";
import { Entry } from "./entries/entry.js";
import { Rows } from "./entries/rows.js";
import { english, type Texts } from "./i18n/texts.js";
import { InView, SharedProvider, type Shared } from "./shared/context.js";
import { useItems, useOlder, useRecord, useSession } from "./shared/hooks.js";

/** The maximum number of entries that a browser can lay out. */
const most = 10_000;

export type PrintViewProps = Pick<ConversationProps, "client" | "messages" | "renderers" | "filter" | "dir" | "me" | "pageURL" | "diagramURL"> & { session: string };

/**
 * A whole conversation with every entry mounted: for printing, saving, and the browser's search. It is not updated after it
 * is loaded, its prompts cannot be answered, and it uses the light theme.
 */
export function PrintView(p: PrintViewProps) {
  const texts = useMemo<Texts>(() => ({ ...english, ...p.messages }), [p.messages]);
  const store = useSession(p.client, p.session);
  return (
    <div className="pl-root pl-print" data-theme="light" lang={texts.locale} dir={p.dir}>
      {store && <Whole key={store.id} store={store} props={p} texts={texts} />}
    </div>
  );
}

/** Every workstream is open: its entries are printed in its row, once. */
class AllOpen extends InView {
  override has(): boolean {
    return true;
  }
}

/** The entries of a workstream. */
function Thread({ store, filter, workstream, me }: { store: SessionStore; filter: ConversationProps["filter"]; workstream: string; me: string | undefined }) {
  const order = useItems(store);
  const rowsOf = useMemo(() => new Rows(store), [store]);
  const rows = useMemo(() => {
    const own = (item: Item) => item.kind !== "prompt" && item.workstream_id === workstream && (!filter || filter(item));
    return rowsOf.make(order, { workstream, filter: own, me });
  }, [rowsOf, order, workstream, filter, me]);
  return rows.map((row, i) => <Entry key={row.key} row={row} rows={rowsOf} index={i} total={rows.length} first={i === 0} last={i === rows.length - 1} />);
}

function Whole({ store, props: p, texts }: { store: SessionStore; props: PrintViewProps; texts: Texts }) {
  const record = useRecord(store);
  const me = p.me ?? store.caller?.id;
  const shared = useMemo<Shared>(
    () => ({
      client: p.client, store, texts, mode: "read-only", renderers: p.renderers ?? {}, answer: (request, a) => store.answer(request, a), answeredHere: new Set(), me,
      memory: new Map(), inView: new InView(), threads: new AllOpen(), thread: (id) => <Thread store={store} filter={p.filter} workstream={id} me={me} />, edit: undefined, branch: undefined, inspect: undefined, scrollTo: () => {}, onLinkClick: undefined, pageURL: p.pageURL, diagramURL: p.diagramURL, loadImage: undefined,
    }),
    [p.client, store, texts, p.renderers, me, p.pageURL, p.diagramURL],
  );
  const order = useItems(store);
  const older = useOlder(store);
  const [fault, setFault] = useState<string>();
  const more = older.more && order.length < most;
  useEffect(() => {
    if (more && !older.loading && !fault) store.loadOlder(500).catch((err: unknown) => setFault(err instanceof Error ? err.message : String(err)));
  }, [store, more, older.loading, fault]);
  const ready = record !== undefined && !more && !older.loading;
  const rowsOf = useMemo(() => new Rows(store), [store]);
  const rows = useMemo(() => {
    const inThread = (item: Item) => Boolean(item.workstream_id && item.kind !== "prompt" && store.getItem(`w-${item.workstream_id}`));
    return ready ? rowsOf.make(order, { workstream: undefined, filter: (item) => !inThread(item) && (!p.filter || p.filter(item)), me }) : [];
  }, [ready, rowsOf, store, order, p.filter, me]);
  const shown = ready || fault !== undefined;
  return (
    <SharedProvider value={shared}>
      <header className="pl-print-head">
        <div className="pl-grow">
          <h1>{record?.title || record?.heading || texts.transcript}</h1>
          <p className="pl-muted">{[record?.agent, texts.moment(record?.created_at), store.id].filter(Boolean).join(" · ")}</p>
        </div>
        {shown && (
          <button type="button" className="pl-button pl-print-button" onClick={() => window.print()}>
            {texts.print}
          </button>
        )}
      </header>
      {fault && <p className="pl-fault">{fault}</p>}
      {!shown && (
        <p className="pl-panel-empty" role="status">
          {texts.printLoading(order.length)}
        </p>
      )}
      {shown && older.more && <p className="pl-muted">{texts.printCut(order.length)}</p>}
      <main className="pl-print-body" role="feed" aria-label={texts.transcript} aria-busy={!shown}>
        {rows.map((row, i) => (
          <Entry key={row.key} row={row} rows={rowsOf} index={i} total={rows.length} first={i === 0} last={i === rows.length - 1} />
        ))}
      </main>
    </SharedProvider>
  );
}
