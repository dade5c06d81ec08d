import type { Item, SessionStore, ShownItem } from "@parley-hq/client";
import { Segmenter, type Segment } from "../markdown/segments.js";
import { workingTurn } from "./activity.js";
import { isAttachment } from "../files/uploads.js";
import { isOwn } from "./author.js";

/*
 * The rows of the list, made from the items of the store: a long text becomes several rows, adjacent tool calls become one.
 */

interface RowBase {
  key: string;
  workstream: string;
  /** It shows the name of its workstream. */
  named: boolean;
  /** It shows its author. */
  signed: boolean;
}
export type Row = RowBase & ({ kind: "item"; id: string; tools?: readonly string[] | undefined } | { kind: "segment"; id: string; index: number; of: number; more: boolean; cut: boolean } | { kind: "tools"; ids: string[] } | { kind: "activity" });

/** What the list shows, and to whom. */
export interface ListView {
  workstream: string | undefined;
  filter: ((item: Item) => boolean) | undefined;
  me: string | undefined;
  /** folded: the entries of a workstream are in its own row. own: this list is in such a row. Otherwise all are shown. */
  threads?: "folded" | "own" | undefined;
}

const foldTools = 3;
const longText = 12_000;

/** Makes rows; unchanged rows keep their identity. */
export class Rows {
  readonly segmenter = new Segmenter();
  readonly #store: SessionStore;
  #rows: readonly Row[] = [];
  #byKey = new Map<string, Row>();
  readonly #folded = new Map<string, boolean>();
  #waiting: ReadonlySet<string> = new Set(); // the keys of the rows of messages that wait for their turn
  /** Called when a text is unfolded. */
  changed: (() => void) | undefined;
  /** The number of texts that were unfolded. */
  unfolded = 0;

  constructor(store: SessionStore) {
    this.#store = store;
  }

  get rows(): readonly Row[] {
    return this.#rows;
  }

  /** The key of the last entry; the row of a running turn is none. */
  get lastKey(): string | undefined {
    return this.#rows.findLast((r) => r.kind !== "activity")?.key;
  }

  segments(item: ShownItem): readonly Segment[] {
    return item.kind === "text" ? this.segmenter.of(item.id, item.text.text) : [];
  }

  /** The number of characters of a text. */
  length(id: string): number {
    const item = this.#store.getItem(id);
    return item?.kind === "text" ? item.text.text.length : 0;
  }

  /** Shows the whole of a folded text. */
  unfold(id: string): void {
    this.#folded.set(id, false);
    this.unfolded++;
    this.changed?.();
  }

  /** Reports whether only the beginning of a text is shown. That is decided when the text is first seen, so that nothing moves later. */
  #isFolded(id: string, fold: boolean): boolean {
    if (!this.#folded.has(id)) this.#folded.set(id, fold && this.length(id) > longText);
    return this.#folded.get(id) ?? false;
  }

  /** Reports whether another list shows an item: that of the conversation or of a workstream. */
  elsewhere(item: ShownItem, { workstream, threads }: ListView): boolean {
    const of = item.workstream_id ?? "";
    if (threads === "own") return item.kind === "prompt" || of !== workstream;
    // Without the row of the workstream its entries are shown here.
    return threads === "folded" && of !== "" && workstream === undefined && item.kind !== "prompt" && this.#store.getItem(`w-${of}`) !== undefined;
  }

  /**
   * Makes the rows of items. The first `kept` rows stay where they are, because a reader looks at them. Only messages that wait
   * at their end go down: the answer continues above them.
   */
  make(order: readonly string[], view: ListView, kept = 0): readonly Row[] {
    const { workstream, filter, me, threads } = view;
    const many = this.#people(order, me) > 1;
    const line = workstream ?? "";
    let turn = workingTurn(this.#store, line);
    /** The row of the running turn: after its entries, before the messages that wait for it. */
    const activity = () => {
      if (turn) add({ key: `turn ${turn.turn_id}`, kind: "activity", workstream: line, named: false, signed: many && spoke !== "agent" });
      turn = undefined;
    };
    let spoke = ""; // the author of the row before
    const next: Row[] = [];
    const byKey = new Map<string, Row>();
    const shown = this.#rows.slice(0, kept);
    const still = new Set(shown.slice(0, shown.findLastIndex((r) => r.kind !== "activity" && !this.#waiting.has(r.key)) + 1).map((r) => r.key));
    const waiting = new Set<string>();
    const add = (row: Row) => {
      const old = this.#byKey.get(row.key);
      if (old && same(old, row)) row = old;
      byKey.set(row.key, row);
      next.push(row);
    };
    let tools: ShownItem[] = [];
    let lastWorkstream = "";
    /** With several people, the first row of each answer shows the agent. */
    const signed = (item: ShownItem | undefined): boolean => {
      if (!many || !item || item.workstream_id || !spoken.has(item.kind)) return false;
      const who = item.actor?.kind === "user" ? item.actor.id : "agent";
      const shows = who !== spoke;
      spoke = who;
      return shows;
    };
    const flush = () => {
      if (tools.length >= foldTools && !tools.some((t) => still.has(t.id))) {
        const of = tools[0]?.workstream_id ?? "";
        add({ key: `tools ${tools[0]?.id}`, kind: "tools", ids: tools.map((t) => t.id), workstream: of, named: of !== lastWorkstream, signed: signed(tools[0]) });
        lastWorkstream = of;
      } else
        for (const t of tools) {
          add({ key: t.id, kind: "item", id: t.id, workstream: t.workstream_id ?? "", named: (t.workstream_id ?? "") !== lastWorkstream, signed: signed(t) });
          lastWorkstream = t.workstream_id ?? "";
        }
      tools = [];
    };
    const sorted = this.#arranged(order);
    const { allowed, folded } = this.#approvals(sorted);
    const { sent, stopped, resumed, failed } = this.#shownElsewhere(sorted);
    for (const id of sorted) {
      const item = this.#store.getItem(id);
      if (!item || (filter && !filter(item as Item)) || !belongs(item, workstream) || isBookkeeping(item) || folded.has(id)) continue;
      const of = item.workstream_id ?? "";
      if (this.elsewhere(item, view)) continue;
      if (item.kind === "tool") {
        if (tools.length > 0 && (tools[0]?.workstream_id ?? "") !== of) flush();
        tools.push(item);
        continue;
      }
      flush();
      if (item.kind === "message" && ("pending" in item || item.message.state === "queued")) {
        activity();
        waiting.add(keyOf(item));
      }
      // The row of the turn shows its status while it runs.
      if (item.kind === "status" && turn && item.turn_id === turn.turn_id) continue;
      // A stop is one row, at the end of what it stopped; until then the row of the turn shows it.
      if (item.kind === "notice" && item.notice.code === "stop_requested") continue;
      // The row of a workstream says that it was cancelled.
      if (item.kind === "notice" && item.notice.code === "stopped" && this.#isCanceled(of)) continue;
      // The last resumption of a turn has the number of its attempt.
      if (item.kind === "notice" && item.notice.code === "resumed" && resumed.get(item.turn_id ?? "") !== id && !still.has(id)) continue;
      // The failure of a turn is one row, at its end.
      if (item.kind === "error" && failed.get(item.turn_id ?? "") === item.error.message && !still.has(id)) continue;
      // A message shows the files that were sent with it.
      if (item.kind === "file" && item.file.change !== "removed" && (sent.has(item.file.path) || isAttachment(item.file.path))) continue;
      const named = of !== lastWorkstream;
      if (item.kind === "text") {
        const parts = this.segments(item).length;
        const n = this.#isFolded(id, threads !== undefined && !item.open && id !== sorted[sorted.length - 1]) ? 1 : parts;
        const sign = signed(item);
        for (let i = 0; i < n; i++) add({ key: i === 0 ? id : `${id} ${i}`, kind: "segment", id, index: i, of: parts, more: n < parts && i === n - 1, cut: item.text.partial === true && !stopped.has(item.turn_id ?? ""), workstream: of, named: named && i === 0, signed: sign && i === 0 });
      } else if (item.kind === "message") {
        spoke = "";
        add({ key: keyOf(item), kind: "item", id, workstream: of, named, signed: many || !isOwn(item, me) });
      } else add({ key: keyOf(item), kind: "item", id, tools: allowed.get(id), workstream: of, named, signed: signed(item) });
      lastWorkstream = of;
    }
    flush();
    activity();
    this.#byKey = byKey;
    this.#waiting = waiting;
    this.#rows = still.size > 0 ? keep(next, still, this.#rows) : next;
    return this.#rows;
  }

  #isCanceled(workstream: string): boolean {
    const w = this.#store.getItem(`w-${workstream}`);
    return w?.kind === "workstream" && w.workstream.state === "canceled";
  }

  /** The calls that answered approvals have allowed, by approval; they are part of its row. */
  #approvals(order: readonly string[]): { allowed: Map<string, string[]>; folded: Set<string> } {
    const allowed = new Map<string, string[]>();
    const folded = new Set<string>();
    const calls = new Map<string, string>(); // of an approval, by turn and call
    for (const pass of [0, 1])
      for (const id of order) {
        const item = this.#store.getItem(id);
        if (pass === 0 && item?.kind === "prompt" && item.prompt.status === "answered") for (const c of item.prompt.approval?.calls ?? []) calls.set(`${item.turn_id} ${c.call_id}`, id);
        const by = pass === 1 && item?.kind === "tool" && item.tool.call_id ? calls.get(`${item.turn_id} ${item.tool.call_id}`) : undefined;
        if (!by) continue;
        allowed.set(by, [...(allowed.get(by) ?? []), id]);
        folded.add(id);
      }
    return { allowed, folded };
  }

  /** The files that messages show, the turns that end with a row that says that they were stopped or why they failed, and the last resumption of each turn. */
  #shownElsewhere(order: readonly string[]) {
    const sent = new Set<string>();
    const stopped = new Set<string>();
    const resumed = new Map<string, string>();
    const failed = new Map<string, string | undefined>();
    for (const id of order) {
      const item = this.#store.getItem(id);
      if (item?.kind === "message") for (const p of item.message.content ?? []) if (p.path) sent.add(p.path);
      if (item?.kind === "notice" && item.notice.code === "stopped") stopped.add(item.turn_id ?? "");
      if (item?.kind === "notice" && item.notice.code === "resumed") resumed.set(item.turn_id ?? "", id);
      if (item?.kind === "notice" && item.notice.code === "failed") failed.set(item.turn_id ?? "", item.notice.text);
    }
    return { sent, stopped, resumed, failed };
  }

  /** The number of people in the conversation, with the reader. */
  #people(order: readonly string[], me: string | undefined): number {
    const ids = new Set(me === undefined ? [] : [me]);
    for (const id of order) {
      const item = this.#store.getItem(id);
      if (item?.kind === "message" && item.actor?.kind === "user") ids.add(item.actor.id);
    }
    return ids.size;
  }

  /**
   * Ids in the order of the conversation: a message stands where a turn took it, or below the open blocks while it is queued. A
   * withdrawn one stays below the answer that it waited for.
   */
  #arranged(order: readonly string[]): string[] {
    const items = order.map((id) => this.#store.getItem(id));
    const at = (it: ShownItem | undefined): number => {
      if (it?.kind !== "message") return it?.seq ?? 1e15;
      if ("pending" in it || it.message.state === "queued") return Infinity;
      if (it.message.state !== "withdrawn") return it.last ?? 0;
      const seq = it.seq ?? 0;
      let turn: string | undefined;
      for (const m of items) if (m?.kind === "message" && m.message.taken_by && (m.last ?? 0) < seq && m.workstream_id === it.workstream_id) turn = m.message.taken_by;
      return items.reduce((n, o) => (turn && o?.turn_id === turn ? Math.max(n, at(o)) : n), seq) + 0.5;
    };
    const keys = new Map(order.map((id, i) => [id, at(items[i])]));
    return [...order].sort((a, b) => compare(keys.get(a) ?? 0, keys.get(b) ?? 0));
  }
}

/** Kinds of items that an agent says or does. */
const spoken: ReadonlySet<string> = new Set(["text", "thinking", "tool", "prompt", "plan", "artifact", "status", "error"]);

/** Keeps the rows in `still` together and in their previous order. New rows come after them, older entries before them. */
function keep(next: Row[], still: ReadonlySet<string>, before: readonly Row[]): Row[] {
  const byKey = new Map(next.map((r) => [r.key, r]));
  const first = next.findIndex((r) => still.has(r.key));
  if (first < 0) return next;
  const last = next.findLastIndex((r) => still.has(r.key));
  const out = next.slice(0, first);
  for (const { key } of before) {
    const row = still.has(key) ? byKey.get(key) : undefined;
    if (row) out.push(row);
  }
  const rest = next.slice(last + 1);
  const end = out[out.length - 1];
  // A text is not separated from its next segments.
  while (end?.kind === "segment" && rest[0]?.kind === "segment" && rest[0].id === end.id) out.push(rest.shift() as Row);
  for (const row of next.slice(first, last)) {
    if (still.has(row.key)) continue;
    const at = row.kind === "segment" && row.index > 0 ? out.findLastIndex((r) => r.kind === "segment" && r.id === row.id) : -1;
    out.splice(at < 0 ? out.length : at + 1, 0, row);
  }
  return [...out, ...rest];
}

const compare = (a: number, b: number): number => (a < b ? -1 : a > b ? 1 : 0);

/** A pending message keeps its row key when the stored message replaces it. */
function keyOf(item: ShownItem): string {
  return item.kind === "message" && item.message.client_id ? `m ${item.message.client_id}` : item.id;
}

/** Reports whether an item is shown while the list is filtered by a workstream. Prompts are always shown. */
function belongs(item: ShownItem, workstream: string | undefined): boolean {
  if (workstream === undefined || item.kind === "prompt") return true;
  if (item.kind === "workstream" && item.workstream.id === workstream) return true;
  if (item.kind === "notice" && item.notice.about === workstream) return true;
  return (item.workstream_id ?? "") === workstream;
}

function same(a: Row, b: Row): boolean {
  if (a.kind !== b.kind || a.workstream !== b.workstream || a.named !== b.named || a.signed !== b.signed) return false;
  if (a.kind === "tools" && b.kind === "tools") return a.ids.length === b.ids.length && a.ids.every((id, i) => id === b.ids[i]);
  if (a.kind === "segment" && b.kind === "segment") return a.id === b.id && a.index === b.index && a.of === b.of && a.more === b.more && a.cut === b.cut;
  return a.kind === "item" && b.kind === "item" && a.id === b.id && a.tools?.join() === b.tools?.join();
}

/** Reports whether an item is bookkeeping of a dialect, such as which input has reached an agent. Only the raw events show it. */
const isBookkeeping = (item: ShownItem): boolean => item.kind === "custom" && /^(x1|vertesia|letta|nemo)\./.test(item.custom.type);
