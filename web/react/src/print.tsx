import { useEffect, useMemo, useState } from "react";
import type { SessionStore } from "@parley-hq/client";
import type { ConversationProps } from "./conversation/props.js";
import { Entry } from "./entries/entry.js";
import { Rows } from "./entries/rows.js";
import { english, type Texts } from "./i18n/texts.js";
import { InView, SharedProvider, type Shared } from "./shared/context.js";
import { useItems, useOlder, useRecord, useSession } from "./shared/hooks.js";

/** The maximum number of entries that a browser can lay out. */
const most = 10_000;

export type PrintViewProps = Pick<ConversationProps, "client" | "messages" | "renderers" | "filter" | "dir" | "me" | "pageURL"> & { session: string };

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

function Whole({ store, props: p, texts }: { store: SessionStore; props: PrintViewProps; texts: Texts }) {
  const record = useRecord(store);
  const me = p.me ?? store.caller?.id;
  const shared = useMemo<Shared>(
    () => ({
      client: p.client, store, texts, mode: "read-only", renderers: p.renderers ?? {}, answer: (request, a) => store.answer(request, a), answeredHere: new Set(), me,
      memory: new Map(), inView: new InView(), edit: undefined, inspect: undefined, scrollTo: () => {}, onLinkClick: undefined, pageURL: p.pageURL, loadImage: undefined,
    }),
    [p.client, store, texts, p.renderers, me, p.pageURL],
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
  const rows = useMemo(() => (ready ? rowsOf.make(order, { workstream: undefined, filter: p.filter, me }) : []), [ready, rowsOf, order, p.filter, me]);
  const shown = ready || fault !== undefined;
  return (
    <SharedProvider value={shared}>
      <header className="pl-print-head">
        <div className="pl-grow">
          <h1>{record?.title ?? store.id}</h1>
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
