import { isKnown, payloadOf } from "./payload.js";
import { State, asked, launched, withoutEmpty, progressed, trim, workstreamOf, type Decoded, type Question } from "./state.js";
import type {
  Actor, Answer, Event, FileItem, Item, ItemBase, ItemKind, ItemOf, ItemPage, KnownEvent, MessageItem, NoticeItem, Payloads, Preview, PromptItem, PromptStatus, Session, Snapshot,
  ToolItem, View,
} from "./types.gen.js";
import { afterBytes, byteLength } from "./utf8.js";

/*
 * The fold of a session's log into items. It gives the same result as the Go fold: both pass the vectors in
 * chat/testdata/fold. The cost of an event does not depend on the length of the session. A changed item is a new object, so
 * callers can compare by identity.
 */

/** The changes since the last call of take. */
export interface Changes {
  /** New and changed items. */
  items: Set<string>;
  /** The list of item ids changed. */
  order: boolean;
  state: boolean;
}

type Part<K extends ItemKind, P extends string> = { [N in P]?: ItemOf<K>[N & keyof ItemOf<K>] };
/** An item of any kind, with the fields of all kinds optional. */
type Loose = ItemBase & { kind: ItemKind } & Part<"message", "message"> & Part<"text", "text"> & Part<"tool", "tool"> &
  Part<"prompt", "prompt"> & Part<"plan", "plan"> & Part<"status", "status"> & Part<"file", "file"> & Part<"workstream", "workstream">;
/** The parts of items that later events change. */
type PartName = "message" | "tool" | "prompt" | "plan" | "status" | "file" | "workstream";
type Parts = Partial<Omit<Loose, "id" | "kind">> & Record<string, unknown>;

/** A turn whose end was not folded yet. */
interface Running {
  /** Its start was folded, so all its events are in the loaded window. */
  began: boolean;
  /** Calls without an outcome. */
  calls: Set<string>;
}

export class Transcript {
  /** Ids in order: those of the log, without the open blocks. */
  order: string[] = [];
  /** Open blocks, in the order in which they began. */
  open: Item[] = [];
  #state: State;
  #items = new Map<string, Loose>();
  #bytes = new Map<string, number>(); // of open blocks
  #last = 0;
  #calls = new Map<string, string[]>(); // running calls → ids, oldest first
  #files = new Map<string, string>(); // path → id of its last upload
  #turns = new Map<string, Running>();
  #changes: Changes = { items: new Set(), order: false, state: false };

  /** Starts from a snapshot, or empty. */
  constructor(snapshot?: Snapshot) {
    if (!snapshot) {
      this.#state = new State();
      return;
    }
    const first = snapshot.items[0]?.seq ?? Infinity;
    this.#last = snapshot.session.last;
    for (const it of snapshot.items) this.#adopt(it);
    this.order = snapshot.items.map((it) => it.id);
    this.open = snapshot.open;
    for (const { id, text } of snapshot.open as Loose[]) if (text) this.#bytes.set(id, byteLength(text.text));
    this.#state = new State(snapshot.session, snapshot.state, (seq) => this.#items.get(`i${seq}`)?.workstream_id ?? "");
    for (const t of snapshot.state.turns) if (!snapshot.more || t.trigger >= first) this.#turn(t.turn_id).began = true;
  }

  get state(): View {
    return this.#state.view;
  }

  get session(): Session {
    return this.#state.session;
  }

  /** The sequence of the last folded event. */
  get last(): number {
    return this.#last;
  }

  /** All items: those of the log, then the open blocks. */
  get items(): Item[] {
    return [...this.order.map((id) => this.#items.get(id) as unknown as Item), ...this.open];
  }

  item(id: string): Item | undefined {
    return (this.#items.get(id) as unknown as Item | undefined) ?? this.open.find((it) => it.id === id);
  }

  /** Returns the changes since the last call. */
  take(): Changes {
    const c = this.#changes;
    this.#changes = { items: new Set(), order: false, state: false };
    return c;
  }

  /** Folds one event. Events must be in order; an event that was already folded is ignored. */
  apply(e: Event): void {
    if (e.sequence <= this.#last) return;
    this.#last = e.sequence;
    const u = isKnown(e) ? ({ type: e.type, body: payloadOf(e), event: e } as Decoded) : undefined;
    if (this.#state.apply(e.sequence, e.timestamp, u)) this.#changes.state = true;
    if (u) this.#fold(u);
    else this.#add(e, "custom", seqID(e.sequence), { custom: { type: e.type, payload: e.payload } });
  }

  /** Folds a preview of an open block. Text that is already there, gaps, and blocks whose turn has ended are ignored. */
  preview(p: Preview): void {
    let i = this.open.findIndex((it) => (it as Loose).text?.block === p.block);
    if (i < 0) {
      if (p.offset > 0) return;
      let id = nameID("b-", p.turn_id, p.block);
      if (this.#items.has(id)) {
        if (p.turn_id) return;
        id += ".open"; // outside of turns a block name may be reused after the first block has ended
      }
      const kind = p.kind === "thinking" ? "thinking" : "text";
      const it = withoutEmpty<Loose>({ id, kind, turn_id: p.turn_id, workstream_id: p.workstream_id, open: true, text: { block: p.block, text: "" } } as Loose);
      i = this.open.length;
      this.open = [...this.open, it as unknown as Item];
      this.#bytes.set(id, 0);
      this.#changes.order = true;
      this.#changes.items.add(id);
    }
    const it = this.open[i] as Loose;
    const have = this.#bytes.get(it.id) ?? 0;
    const end = p.end ?? p.offset + byteLength(p.text);
    if (p.offset > have || end <= have || !it.text) return;
    const more = p.offset === have ? p.text : afterBytes(p.text, have - p.offset);
    this.#bytes.set(it.id, end);
    this.open = [...this.open];
    this.open[i] = { ...it, text: { ...it.text, text: it.text.text + more } } as unknown as Item;
    this.#changes.items.add(it.id);
  }

  /** Prepends a page of older items. Complete items of the page replace loaded items without a beginning. */
  prepend(page: ItemPage): void {
    const older: string[] = [];
    const moved = new Set<string>();
    for (const it of page.items) {
      const here = this.#items.get(it.id);
      if (here && !here.headless) continue;
      older.push(it.id);
      if (here) moved.add(it.id);
      this.#adopt(here ? joined(it as Loose, here) : it);
      this.#changes.items.add(it.id);
    }
    if (older.length === 0) return;
    this.order = [...older, ...(moved.size > 0 ? this.order.filter((id) => !moved.has(id)) : this.order)];
    this.#changes.order = true;
  }

  /** Adds an item that the server folded. */
  #adopt(item: Item | Loose): void {
    const it = item as Loose;
    this.#items.set(it.id, it);
    if (it.kind === "tool" && it.tool?.status === "running") {
      const key = callKey(it.turn_id, it.workstream_id, it.tool.call_id || it.tool.batch_id, it.tool.tool);
      if (!this.#calls.get(key)?.includes(it.id)) this.#runs(key, it.turn_id, it.id);
    }
    if (it.file?.change === "uploaded" && !it.file.removed && !this.#files.has(it.file.path)) this.#files.set(it.file.path, it.id);
  }

  /** Folds one event into the items. Types without a case change only the state. */
  #fold(u: Decoded): void {
    const e = u.event;
    switch (u.type) {
      case "user.message": {
        const b = u.body;
        const state = this.#state.waits(e.sequence) ? "queued" : "sent";
        this.#put(e, "message", { message: withoutEmpty<MessageItem>({ ...b, client_id: e.client_id, state }, "text", "context") });
        return;
      }
      case "user.message_withdrawn":
        return this.#change(e, seqID(u.body.sequence), "message", (m) => ({ ...m, state: "withdrawn" }));
      case "turn.started":
        this.#turn(u.body.turn_id).began = true;
        return this.#taken(e, u.body.trigger, u.body.turn_id, false);
      case "turn.input":
        for (const seq of u.body.sequences) this.#taken(e, seq, e.turn_id ?? "", true);
        return;
      case "turn.completed":
        return this.#turnEnded(e, u.body);
      case "turn.resumed":
        return this.#notice(e, { code: "resumed", text: u.body.reason, attempt: u.body.attempt });
      case "turn.stop_requested": {
        const by = u.body.by.kind || u.body.by.id ? u.body.by : (e.actor ?? u.body.by);
        return this.#notice(e, { code: "stop_requested", text: u.body.reason, by });
      }
      case "session.completed":
        return this.#notice(e, { code: "session_completed", text: u.body.outcome });
      case "session.failed":
        return this.#notice(e, { code: "session_failed", text: u.body.error_message });
      case "agent.text":
      case "agent.thinking":
        return this.#block(e, u);
      case "agent.tool_call":
        return this.#call(e, u.body);
      case "agent.tool_progress":
        return this.#progress(e, u.body);
      case "agent.tool_result":
        return this.#outcome(e, u.body, { status: "ok", result: u.body.result, error: undefined, code: undefined });
      case "agent.tool_error":
        return this.#outcome(e, u.body, { status: failure(u.body.code), error: u.body.error, code: u.body.code });
      case "agent.input_request":
        if (u.body.input_type === "notification") return this.#notice(e, { code: "notification", text: u.body.text });
        return this.#ask(e, u);
      case "agent.approval_request":
      case "agent.permission_request":
        return this.#ask(e, u);
      case "user.input_response":
      case "user.approval_response":
      case "user.permission_response": {
        const { request_id, ...answer } = u.body;
        return this.#answer(e, request_id, "answered", answer);
      }
      case "prompt.closed":
        return this.#answer(e, u.body.request_id, u.body.reason as PromptStatus, undefined);
      case "agent.plan": {
        const { tasks, comment } = u.body;
        return this.#perTurn(e, "plan", (old) => withoutEmpty({ tasks, comment, revision: (old?.revision ?? 0) + 1 }));
      }
      case "agent.status": {
        const { message, phase } = u.body;
        return this.#perTurn(e, "status", (old) => withoutEmpty({ message, phase, updates: (old?.updates ?? 0) + 1 }, "message"));
      }
      case "agent.error":
        return this.#put(e, "error", { error: u.body });
      case "agent.artifact":
        return this.#put(e, "artifact", { artifact: u.body });
      case "agent.share":
        return this.#put(e, "share", { share: u.body });
      case "file.uploaded":
      case "file.removed":
        return this.#file(e, u);
      case "workstream.steered":
        this.#workstream(e, u);
        return this.#notice(e, { code: "steered", text: u.body.text, command: u.body.command, about: u.body.id });
      case "workstream.message":
        return this.#notice(e, { code: "follow_up", text: u.body.text, about: u.body.id });
      default:
        if (workstreamOf(u)) this.#workstream(e, u);
    }
  }

  /** Appends an item that begins with e. If the id is in use, the sequence is appended to it. */
  #add(e: Event, kind: ItemKind, id: string, parts: Parts): string {
    if (this.#items.has(id)) id += `.${e.sequence}`;
    const { sequence, timestamp, turn_id, workstream_id, actor } = e;
    const it = withoutEmpty<Loose>({ id, kind, seq: sequence, last: sequence, at: timestamp, turn_id, workstream_id, actor, ...parts } as unknown as Loose);
    this.#items.set(id, it);
    this.order.push(id);
    this.#changes.order = true;
    this.#changes.items.add(id);
    return id;
  }

  /** Appends an item that no later event refers to. */
  #put(e: Event, kind: ItemKind, parts: Parts): void {
    this.#add(e, kind, seqID(e.sequence), parts);
  }

  #notice(e: Event, n: NoticeItem): void {
    this.#put(e, "notice", { notice: withoutEmpty<NoticeItem>(n, "code") });
  }

  /** Replaces a part of an item, unless a page delivered the item with this event already folded. */
  #change<K extends PartName>(e: Event, id: string, part: K, next: (old: NonNullable<Loose[K]>) => Loose[K]): void {
    const it = this.#items.get(id);
    if (!it || (it.last ?? 0) >= e.sequence) return;
    const old = it[part];
    this.#items.set(id, { ...it, ...(old && { [part]: next(old) }), last: e.sequence });
    this.#changes.items.add(id);
  }

  /** Marks a message as answered by a turn. */
  #taken(e: Event, seq: number, turn: string, steered: boolean): void {
    this.#change(e, seqID(seq), "message", (m) => withoutEmpty<MessageItem>({ ...m, state: "taken", taken_by: turn, steered }, "text", "context"));
  }

  /** Closes the calls and blocks that a turn leaves open. */
  #turnEnded(e: Event, b: Payloads["turn.completed"]): void {
    for (const key of [...this.#turn(b.turn_id).calls]) this.#cutOff(e, key, b.turn_id);
    this.#turns.delete(b.turn_id);
    if (b.turn_id) this.#close((it) => it.turn_id === b.turn_id);
    if (b.outcome && b.outcome !== "done") this.#notice(e, { code: b.outcome, text: b.error });
  }

  /** Removes open blocks. */
  #close(gone: (it: Item) => boolean): void {
    const left = this.open.filter((it) => !gone(it));
    if (left.length === this.open.length) return;
    for (const it of this.open)
      if (gone(it)) {
        this.#bytes.delete(it.id);
        this.#changes.items.add(it.id);
      }
    this.open = left;
    this.#changes.order = true;
  }

  /** Appends a closed block as an item, with the id that it had while it was open. */
  #block(e: Event, u: Extract<Decoded, { type: "agent.text" | "agent.thinking" }>): void {
    const { block, text, partial } = u.body;
    const parts =
      u.type === "agent.text"
        ? { text: withoutEmpty({ block, text, final: u.body.final, partial }, "text") }
        : { text: withoutEmpty({ block, text, partial, redacted: Boolean(u.body.redacted) }, "text") };
    if (block) this.#close((it) => (it as Loose).text?.block === block);
    this.#add(e, u.type === "agent.text" ? "text" : "thinking", nameID("b-", e.turn_id, block) || seqID(e.sequence), parts as Parts);
  }

  #ask(e: Event, u: Question): void {
    const prompt = withoutEmpty<PromptItem>({ ...asked(u), status: "open" }, "request_id");
    this.#add(e, "prompt", promptID(e, u.body.request_id), { prompt });
  }

  #answer(e: Event, request: string, status: PromptStatus, answer: Answer | undefined): void {
    const id = promptID(e, request);
    const end = (p: PromptItem): PromptItem =>
      withoutEmpty<PromptItem>({ ...p, status, answer, ended_by: e.actor as Actor, ended_at: e.timestamp }, "request_id", "status");
    const it = this.#items.get(id);
    if (!it) this.#add(e, "prompt", id, { headless: true, prompt: end({ request_id: request, status }) });
    else if (it.prompt && !it.prompt.ended_at) this.#change(e, id, "prompt", end); // the first answer wins
  }

  /** Updates the turn's one item of a kind, or appends it. Outside of turns every event appends an item. */
  #perTurn<K extends "plan" | "status">(e: Event, kind: K, next: (old?: Loose[K]) => Loose[K]): void {
    const id = e.turn_id ? `${kind}-${e.turn_id}` : "";
    if (id && this.#items.has(id)) return this.#change(e, id, kind, next);
    this.#add(e, kind, id || seqID(e.sequence), { headless: id !== "" && !this.#turn(e.turn_id ?? "").began, [kind]: next() });
  }

  #file(e: Event, u: Extract<Decoded, { type: "file.uploaded" | "file.removed" }>): void {
    const path = u.body.path;
    const old = this.#files.get(path);
    if (old) this.#change(e, old, "file", (f) => ({ ...f, removed: true }));
    this.#files.delete(path);
    if (u.type === "file.uploaded") {
      const file = withoutEmpty<FileItem>({ ...u.body, change: "uploaded" }, "path");
      this.#files.set(path, this.#add(e, "file", seqID(e.sequence), { file }));
    } else this.#put(e, "file", { file: { path, change: "removed" } });
  }

  #call(e: Event, b: Payloads["agent.tool_call"]): void {
    const key = callKey(e.turn_id, e.workstream_id, b.call_id, b.tool);
    if (b.call_id) this.#cutOff(e, key, e.turn_id); // the id is used again: the first call has no outcome
    const { call_id, tool, params } = b;
    const id = this.#add(e, "tool", nameID("c-", e.turn_id, call_id) || seqID(e.sequence), {
      tool: withoutEmpty<ToolItem>({ call_id, tool, params, status: "running", started_at: e.timestamp }, "params"),
    });
    this.#runs(key, e.turn_id, id);
  }

  /** Updates the item of a call, or appends one for a batch that is not a call. */
  #progress(e: Event, b: Payloads["agent.tool_progress"]): void {
    const { call_id, batch_id, done, total, message, items, data } = b;
    const name = call_id || batch_id;
    const key = callKey(e.turn_id, e.workstream_id, name, b.tool);
    let id = this.#calls.get(key)?.[0];
    const next = (t: ToolItem): ToolItem => {
      const complete = t.batch_id && total && done >= total;
      const progress = withoutEmpty({ done, total, message, items, data }, "done", "data");
      return { ...t, ...(b.tool && !t.tool && { tool: b.tool }), progress, ...(complete && { status: "ok", ended_at: e.timestamp }) };
    };
    if (id !== undefined) this.#change(e, id, "tool", next);
    else {
      const taken = nameID("c-", e.turn_id, name);
      if (taken && this.#items.has(taken)) return;
      // A batch begins with its first report. The beginning is outside of the
      // window for a call, and for a batch whose turn began earlier.
      const headless = Boolean(call_id) || !this.#turn(e.turn_id ?? "").began;
      const began: ToolItem = withoutEmpty<ToolItem>({ status: "running", ...(call_id ? { call_id } : { batch_id, started_at: e.timestamp }) });
      id = this.#add(e, "tool", taken || seqID(e.sequence), { headless, tool: next(began) });
      this.#runs(key, e.turn_id, id);
    }
    if (this.#items.get(id)?.tool?.ended_at) this.#ended(key, e.turn_id);
  }

  /** Ends a call. */
  #outcome(e: Event, b: { call_id?: string; tool?: string }, end: { [K in keyof ToolItem]?: ToolItem[K] | undefined }): void {
    const key = callKey(e.turn_id, e.workstream_id, b.call_id, b.tool);
    const id = this.#calls.get(key)?.[0];
    const after = (t: { [K in keyof ToolItem]?: ToolItem[K] }): ToolItem =>
      withoutEmpty<ToolItem>({ ...t, tool: t.tool || b.tool, ...end, ended_at: e.timestamp } as ToolItem, "params", "result");
    if (id === undefined) {
      const named = nameID("c-", e.turn_id, b.call_id);
      if (named && this.#items.has(named)) return; // the first outcome wins
      const tool = after(b.call_id ? { call_id: b.call_id } : {});
      this.#add(e, "tool", named || seqID(e.sequence), { headless: true, tool });
      return;
    }
    this.#change(e, id, "tool", after);
    this.#ended(key, e.turn_id);
  }

  /** Records a running call. */
  #runs(key: string, turn: string | undefined, id: string): void {
    const list = this.#calls.get(key);
    if (list) list.push(id);
    else this.#calls.set(key, [id]);
    if (turn) this.#turn(turn).calls.add(key);
  }

  /** Removes a call that has an outcome. */
  #ended(key: string, turn: string | undefined): void {
    const list = this.#calls.get(key);
    list?.shift();
    if (list && list.length > 0) return;
    this.#calls.delete(key);
    if (turn) this.#turn(turn).calls.delete(key);
  }

  /** Marks calls that will not get an outcome. */
  #cutOff(e: Event, key: string, turn: string | undefined): void {
    for (const id of this.#calls.get(key) ?? [])
      this.#change(e, id, "tool", (t) => ({ ...t, status: "unknown", ended_at: e.timestamp }));
    this.#calls.delete(key);
    if (turn) this.#turn(turn).calls.delete(key);
  }

  /** The record of a running turn. */
  #turn(id: string): Running {
    let r = this.#turns.get(id);
    if (!r) this.#turns.set(id, (r = { began: false, calls: new Set() }));
    return r;
  }

  /** Folds a workstream event into the workstream's item. */
  #workstream(e: KnownEvent, u: Decoded): void {
    const about = workstreamOf(u);
    const id = `w-${about}`;
    if (u.type === "workstream.launched") {
      this.#add(e, "workstream", id, { workstream: launched(e, u.body) });
      return;
    }
    if (this.#items.has(id)) return this.#change(e, id, "workstream", (w) => progressed(w, u));
    // The launch is not in the window; the state may have it.
    const known = this.#state.workstream(about) ?? trim({ id: about, task: "", state: "running", parent: e.workstream_id });
    this.#add(e, "workstream", id, { headless: true, workstream: progressed(known, u) });
  }
}

/** Folds a whole log: events in order, and previews of open blocks. */
export function fold(steps: Iterable<Event | { preview: Preview }>): { items: Item[]; state: View } {
  const t = new Transcript();
  for (const s of steps) {
    if ("preview" in s) t.preview(s.preview);
    else t.apply(s);
  }
  return { items: t.items, state: t.state };
}

const seqID = (seq: number): string => `i${seq}`;

/** The id of an item for a named object, qualified by its turn if there is one; "" without a name. */
function nameID(prefix: string, turn: string | undefined, name: string | undefined): string {
  return name ? prefix + (turn ? `${turn}.` : "") + name : "";
}

const promptID = (e: Event, request: string | undefined): string => (request ? `p-${request}` : seqID(e.sequence));

/** Finds the call that a result belongs to; without a call id it is the oldest running call of its tool. */
const callKey = (turn = "", line = "", call = "", tool = ""): string => `${turn} ${line} ${call ? `c${call}` : `t${tool}`}`;

const failure = (code: string | undefined): ToolItem["status"] =>
  code === "denied" ? "denied" : code === "unknown_outcome" ? "unknown" : "error";

/** Merges an item's beginning and end, which were loaded separately. */
function joined(whole: Loose, tail: Loose): Loose {
  if ((whole.last ?? 0) >= (tail.last ?? 0)) return whole;
  const out: Record<string, unknown> = { ...whole, last: tail.last };
  for (const part of ["tool", "prompt", "plan", "status", "workstream"] as const)
    if (tail[part]) out[part] = { ...whole[part], ...tail[part] };
  return out as unknown as Loose;
}
