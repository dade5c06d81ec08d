import { memo, useCallback, useEffect, useImperativeHandle, useLayoutEffect, useMemo, useRef, useState, useSyncExternalStore, type ReactNode, type Ref } from "react";
import { VList, type VListHandle } from "virtua";
import type { Item, SessionStore } from "@parley-hq/client";
import { useShared } from "../shared/context.js";
import { useOlder } from "../shared/hooks.js";
import { Icon } from "../shared/icons.js";
import { workingTurn } from "./activity.js";
import { Entry } from "./entry.js";
import { Rows, type ListView, type Row } from "./rows.js";

export interface EntryListHandle {
  /** Scrolls to an item and focuses it. */
  show: (id: string) => void;
  end: () => void;
  text: (id: string) => string;
}

const settle = 400;
const question = ".pl-prompt-open";

/** Makes the rows again when the order changes, or when an open text needs another row. */
function useRows(rows: Rows, store: SessionStore, view: ListView, kept: () => number): readonly Row[] {
  const version = useRef<{ order: readonly string[]; view: ListView; open: string; turn: string | undefined; unfolded: number }>(undefined);
  const subscribe = useCallback(
    (f: () => void) => {
      let open: (() => void)[] = [];
      const watch = () => {
        for (const leave of open.splice(0)) leave();
        const order = store.getOrder();
        for (const id of order.slice(-40)) {
          const item = store.getItem(id);
          if (item?.open && !rows.elsewhere(item, view)) open.push(store.subscribeItem(id, f));
        }
      };
      const leave = store.subscribe("order", () => {
        watch();
        f();
      });
      const leaveState = store.subscribe("state", f);
      watch();
      rows.changed = f;
      return () => {
        rows.changed = undefined;
        leave();
        leaveState();
        for (const l of open) l();
        open = [];
      };
    },
    [store, rows, view],
  );
  return useSyncExternalStore(subscribe, () => {
    const order = store.getOrder();
    let open = "";
    for (const id of order.slice(-40)) {
      const item = store.getItem(id);
      if (item?.open && item.kind === "text" && !rows.elsewhere(item, view)) open += `${id} ${rows.segments(item).length} `;
    }
    const v = version.current;
    const turn = workingTurn(store, view.workstream ?? "")?.turn_id;
    if (!v || v.order !== order || v.view !== view || v.open !== open || v.turn !== turn || v.unfolded !== rows.unfolded) {
      version.current = { order, view, open, turn, unfolded: rows.unfolded };
      // Another filter shows other rows, so that none stays where it is.
      rows.make(order, view, v?.view === view ? kept() : 0);
    }
    return rows.rows;
  });
}

/** The list of entries. It owns the scroll position. */
export const EntryList = memo(function EntryList(p: {
  handle?: Ref<EntryListHandle>;
  className: string | undefined;
  store: SessionStore;
  workstream: string | undefined;
  filter: ((item: Item) => boolean) | undefined;
  me: string | undefined;
  threads: ListView["threads"];
  empty: ReactNode;
}) {
  const { store } = p;
  const { texts, threads } = useShared();
  const rowsOf = useMemo(() => new Rows(store), [store]);
  const list = useRef<VListHandle>(null);
  const pinned = useRef(true);
  // The number of rows in view and above it, while the reader is away from the end.
  const kept = useCallback(() => {
    const l = list.current;
    return l && !pinned.current ? l.findItemIndex(l.scrollOffset + l.viewportSize) + 1 : 0;
  }, []);
  const view = useMemo<ListView>(() => ({ workstream: p.workstream, filter: p.filter, me: p.me, threads: p.threads }), [p.workstream, p.filter, p.me, p.threads]);
  const rows = useRows(rowsOf, store, view, kept);
  const older = useOlder(store);
  const box = useRef<HTMLDivElement>(null);
  const [away, setAway] = useState<string | undefined>(undefined); // the last row when the reader scrolled up from the end
  const first = useRef<string>(undefined);
  const left = useRef(0); // when the reader last scrolled up
  const lastOffset = useRef(0);
  const target = useRef<string>(undefined);
  // Set when the reader focused a prompt at the end, or came to it from there: the last row at that time, whether it is the prompt, and
  // the prompt that is elsewhere.
  const asked = useRef<{ last: string; own: boolean; from?: string | undefined }>(undefined);
  const opened = useRef(0); // counts the rows that were opened at the end

  // Rows were prepended if the previous first row is further down.
  const before = first.current;
  const shift = before !== undefined && rows[0]?.key !== before && rows.length > 0 && rows.slice(0, 600).some((r) => r.key === before);
  useLayoutEffect(() => {
    first.current = rows[0]?.key;
  }, [rows]);

  const stick = useCallback(() => {
    // Not scrollToIndex: it keeps scrolling while rows are measured, even when the reader has scrolled up meanwhile. The
    // browser limits the value to the end of the content.
    const scroller = box.current?.firstElementChild;
    const a = asked.current;
    // A prompt that is the last row stays in view when it grows or the window shrinks.
    if ((pinned.current || (a?.own && a.last === rowsOf.lastKey)) && scroller) scroller.scrollTop = 1e9;
  }, [rowsOf]);

  const hold = useCallback(() => {
    const held = new Set<string>();
    const n = kept();
    for (const row of rowsOf.rows.slice(Math.max(0, n - 200), n)) if (row.kind === "segment" && row.index === row.of - 1 && store.getItem(row.id)?.open) held.add(row.id);
    rowsOf.segmenter.hold = held;
  }, [rowsOf, store, kept]);
  const unpin = useCallback(() => {
    left.current = performance.now();
    if (!pinned.current && asked.current === undefined) return;
    pinned.current = false;
    asked.current = undefined;
    hold();
    setAway(rowsOf.lastKey ?? "");
  }, [rowsOf, hold]);
  const end = useCallback(() => {
    pinned.current = true;
    asked.current = undefined;
    hold();
    setAway(undefined);
    stick();
  }, [stick, hold]);

  // A focused prompt must not scroll away; after the answer the list follows the end again.
  const onFocus = useCallback(
    (e: React.FocusEvent) => {
      if (!pinned.current || !(e.target instanceof Element) || !e.target.closest(question)) return;
      pinned.current = false;
      hold();
      asked.current = { last: rowsOf.lastKey ?? "", own: e.target.closest<HTMLElement>("article")?.dataset.item === rowsOf.lastKey };
    },
    [rowsOf, hold],
  );
  useLayoutEffect(() => {
    if (asked.current !== undefined) {
      const root = box.current?.getRootNode() as Document | ShadowRoot | undefined;
      const from = store.getItem(asked.current.from ?? "");
      // After an open prompt was left without an answer the view stays where it is.
      if (!root?.activeElement?.closest(question)) return from?.kind === "prompt" && from.prompt.status === "open" ? undefined : end();
      if (rowsOf.lastKey !== asked.current.last) setAway(asked.current.last);
    }
  }, [rows, end, store]);

  // After the view was moved or a row has grown: the end is offered where something is below.
  const look = useCallback(() => {
    const l = list.current;
    if (!l || pinned.current) return;
    if (l.scrollOffset + l.viewportSize < l.scrollSize - 8) setAway(rowsOf.lastKey ?? "");
    else pinned.current = asked.current === undefined;
    hold();
  }, [rowsOf, hold]);

  // An expanded row grows downwards: the content under the pointer does not move, even at the end of the list.
  const onClick = useCallback(
    (e: React.MouseEvent) => {
      if (!pinned.current || !(e.target instanceof Element) || !e.target.closest("summary, .pl-more")) return;
      pinned.current = false;
      const mine = ++opened.current;
      // The row has its new size after the next animation frame. Another row that was expanded meanwhile may not have grown yet.
      setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(() => mine === opened.current && look())), settle);
    },
    [look],
  );

  // Rows grow, too: observe the height of the content and of the viewport.
  useEffect(() => {
    const scroller = box.current?.querySelector<HTMLElement>(".pl-list");
    const inner = scroller?.firstElementChild;
    if (!scroller || !inner) return;
    const watch = new ResizeObserver(stick);
    watch.observe(inner);
    watch.observe(scroller);
    return () => watch.disconnect();
  }, [stick, rows.length === 0]);

  useEffect(() => {
    const select = () => {
      const s = document.getSelection();
      if (s && !s.isCollapsed && box.current?.contains(s.anchorNode)) unpin();
    };
    document.addEventListener("selectionchange", select);
    return () => document.removeEventListener("selectionchange", select);
  }, [unpin]);

  const loadOlder = useCallback(() => {
    const o = store.getOlder();
    if (o.more && !o.loading && !o.error) store.loadOlder().catch(() => {});
  }, [store]);

  const onScroll = useCallback(
    (offset: number) => {
      const l = list.current;
      if (!l) return;
      const down = offset > lastOffset.current;
      lastOffset.current = offset;
      const atEnd = offset + l.viewportSize >= l.scrollSize - 8;
      // The scroll event of stick may arrive after the reader has started to scroll up.
      if (atEnd && down && !pinned.current && target.current === undefined && performance.now() - left.current > 300) {
        pinned.current = true;
        asked.current = undefined;
        setAway(undefined);
      }
      hold();
      if (offset < 800) loadOlder();
    },
    [loadOlder, hold],
  );
  useEffect(() => {
    // When the content does not fill the viewport, the reader cannot scroll to load more.
    const l = list.current;
    if (l && older.more && l.scrollSize <= l.viewportSize) loadOlder();
  }, [rows, older.more, loadOlder]);

  useImperativeHandle(
    p.handle,
    () => ({
      end,
      text: (id) => {
        const item = store.getItem(id);
        return item?.kind === "text" ? item.text.text : "";
      },
      show: (id) => {
        const index = () => rowsOf.rows.findIndex((r) => (r.kind === "tools" ? r.ids.includes(id) : r.kind !== "activity" && (r.id === id || (r.kind === "item" && r.tools?.includes(id)))));
        let at = index();
        const line = store.getItem(id)?.workstream_id;
        if (at < 0 && line) {
          // The entry is in the row of its workstream.
          threads.set(line, true);
          id = `w-${line}`;
          at = index();
        }
        if (at < 0) return;
        const follows = pinned.current || asked.current !== undefined;
        pinned.current = false;
        asked.current = undefined;
        hold();
        target.current = id;
        list.current?.scrollToIndex(at, { align: "center" });
        // Scrolling mounts the row; sizes are measured over a few frames.
        let tries = 0;
        const focus = () => {
          const el = box.current?.querySelector<HTMLElement>(`[data-item="${CSS.escape(id)}"]`);
          const inside = el?.querySelector<HTMLElement>(".pl-prompt :is(input, textarea, select, button:not(.pl-mini), a), summary");
          // The form of a prompt may still be loading.
          if ((!el || (!inside && el.querySelector(question))) && tries++ < 20) return void setTimeout(focus, 50);
          list.current?.scrollToIndex(at, { align: "center" });
          (inside ?? el)?.focus({ preventScroll: true });
          target.current = undefined;
          // After the answer the list follows the end again.
          if (follows && inside?.closest(question)) asked.current = { last: rowsOf.lastKey ?? "", own: id === rowsOf.lastKey, from: id };
          requestAnimationFrame(() => requestAnimationFrame(look));
        };
        setTimeout(focus, 50);
      },
    }),
    [end, rowsOf, store, hold, look, threads],
  );

  if (rows.length === 0) return <div className="pl-entries">{p.empty}</div>;
  const seen = away === undefined ? -1 : lastIndex(rows, away);
  return (
    <div
      className={p.className ? `pl-entries ${p.className}` : "pl-entries"}
      ref={box}
      onWheel={(e) => e.deltaY < 0 && unpin()}
      onTouchMove={unpin}
      onClickCapture={onClick}
      onFocus={onFocus}
      onPointerDown={(e) => e.target instanceof HTMLElement && e.target.classList.contains("pl-list") && unpin()}
      onKeyDown={(e) => {
        if (["PageUp", "ArrowUp", "Home"].includes(e.key) && !(e.target instanceof HTMLTextAreaElement || e.target instanceof HTMLInputElement)) unpin();
        if (e.altKey && (e.key === "ArrowUp" || e.key === "ArrowDown")) step(e, box.current);
      }}
    >
      <VList ref={list} className="pl-list" data={rows} shift={shift} onScroll={onScroll} role="feed" aria-label={texts.transcript} aria-busy={older.loading} tabIndex={0}>
        {(row: Row, i: number) => <Entry key={row.key} row={row} rows={rowsOf} index={i} total={rows.length} first={i === 0 && !older.more} last={i === rows.length - 1} />}
      </VList>
      {older.loading && <div className="pl-older">{texts.loadingOlder}</div>}
      {older.error && (
        <div className="pl-older">
          {texts.olderFailed}{" "}
          <button type="button" className="pl-link" onClick={() => void store.loadOlder().catch(() => {})}>
            {texts.retry}
          </button>
        </div>
      )}
      {away !== undefined && (
        <button type="button" className="pl-new" onClick={end}>
          <Icon name="down" size={14} />
          {texts.newEntries(seen < 0 ? 0 : rows.slice(seen + 1).filter((r) => r.kind !== "activity").length)}
        </button>
      )}
    </div>
  );
});

function lastIndex(rows: readonly Row[], key: string): number {
  for (let i = rows.length - 1; i >= 0; i--) if (rows[i]?.key === key) return i;
  return -1;
}

/** Moves the focus to the previous or next message. */
function step(e: React.KeyboardEvent, box: HTMLElement | null): void {
  if (!box) return;
  e.preventDefault();
  const all = [...box.querySelectorAll<HTMLElement>("article")];
  const at = all.findIndex((el) => el.contains(document.activeElement));
  const next = e.key === "ArrowUp" ? (at < 0 ? all.length - 1 : at - 1) : at + 1;
  all[next]?.focus();
}
