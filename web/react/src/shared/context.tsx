import { createContext, useContext, useState, type ReactNode } from "react";
import type { Answer, AgentArtifact, Event, Item, ItemOf, ParleyClient, Part, Session, SessionStore, ToolItem, Workstream } from "@parley-hq/client";
import type { BranchPoint } from "../conversation/props.js";
import type { Texts } from "../i18n/texts.js";

/** Custom renderers of a host; when one returns undefined, the default is used. */
export interface Renderers {
  /** By tool name. */
  tool?: Record<string, (tool: ToolItem, item: ItemOf<"tool">) => ReactNode>;
  /** By media type or artifact type. */
  artifact?: Record<string, (artifact: AgentArtifact, item: ItemOf<"artifact">) => ReactNode>;
  /** By language of a fenced code block. */
  code?: Record<string, (code: string) => ReactNode>;
  /** Any entry. */
  item?: (item: Item) => ReactNode | undefined;
}

export type Mode = "interactive" | "answer-only" | "read-only";

/** The role of a member or the owner of a session; undefined for others, such as administrators who are no members, and where nobody is signed in. */
export function roleIn(s: Session | undefined, me: string | undefined): string | undefined {
  return me === undefined ? undefined : s?.owner.id === me ? "owner" : s?.members?.find((m) => m.actor.id === me)?.role;
}

/** The values that all components of one conversation share. */
export interface Shared {
  client: ParleyClient;
  store: SessionStore;
  texts: Texts;
  mode: Mode;
  renderers: Renderers;
  /** Answers a prompt and adds it to answeredHere. */
  answer: (request: string, answer: Answer) => Promise<Event>;
  answeredHere: Set<string>;
  /** The signed-in person's actor id, if the host provides it. */
  me: string | undefined;
  memory: Map<string, unknown>;
  /** Open prompts that are visible on the screen. */
  inView: InView;
  /** Workstreams whose transcript is open in their row. */
  threads: InView;
  /** The panel shows the plan. */
  planBeside?: boolean;
  /** Draws the entries of a workstream; absent where no transcript can be opened. */
  thread?: (workstream: string) => ReactNode;
  /** Puts a message into the composer, which gets the focus; absent without a composer. */
  edit: ((text: string, files: Part[]) => void) | undefined;
  /** Sends a message in place of the one at a sequence, in a copy of the conversation; absent: messages cannot be changed. */
  branch: ((seq: number, text: string, files: Part[]) => Promise<void>) | undefined;
  /** Where other branches begin. */
  branches?: readonly BranchPoint[] | undefined;
  inspect: ((seq: number) => void) | undefined;
  scrollTo: (id: string) => void;
  onLinkClick: ((href: string, e: React.MouseEvent) => void) | undefined;
  /** Fetches an external image; absent: external images are links. */
  loadImage: ((url: string, signal: AbortSignal) => Promise<Blob>) | undefined;
  /** The address of an HTML artifact's sandboxed view; absent: it can only be downloaded. */
  pageURL: ((session: string, path: string) => string) | undefined;
  /** The address of the page that draws diagrams; absent: they are shown as code. */
  diagramURL?: string | undefined;
}

/** A set of ids with change listeners. */
export class InView {
  readonly #ids = new Set<string>();
  readonly #listeners = new Set<() => void>();
  #version = 0;

  has(id: string): boolean {
    return this.#ids.has(id);
  }
  get version(): number {
    return this.#version;
  }
  set(id: string, seen: boolean): void {
    if (seen === this.#ids.has(id)) return;
    if (seen) this.#ids.add(id);
    else this.#ids.delete(id);
    this.#version++;
    for (const f of this.#listeners) f();
  }
  readonly subscribe = (f: () => void): (() => void) => {
    this.#listeners.add(f);
    return () => void this.#listeners.delete(f);
  };
}

const Context = createContext<Shared | undefined>(undefined);
export const SharedProvider = Context.Provider;

export function useShared(): Shared {
  const s = useContext(Context);
  if (!s) throw new Error("this component must be inside a <Conversation>");
  return s;
}

/** State that survives the unmounting of its row: a virtual list unmounts rows that are scrolled out of view. */
export function useRowState<T>(key: string, initial: T): [T, (v: T) => void] {
  const { memory } = useShared();
  const [value, set] = useState<T>(() => (memory.has(key) ? (memory.get(key) as T) : initial));
  return [
    value,
    (v) => {
      memory.set(key, v);
      set(v);
    },
  ];
}

const colours = new WeakMap<readonly Workstream[], Map<string, number>>();

/** The number of a workstream's colour, 1 to 8. Workstreams that run at the same time have different ones; 0 when none is left. */
export function workstreamColour({ store }: Shared, id: string): number {
  const all = store.getState()?.workstreams ?? [];
  let by = colours.get(all);
  if (!by) {
    colours.set(all, (by = new Map()));
    const users: (Workstream | undefined)[] = []; // the last of each colour
    for (const w of all) {
      let n = 1;
      while (users[n] && !((users[n]?.ended_at ?? "~") <= (w.launched_at ?? ""))) n++;
      by.set(w.id, n > 8 ? 0 : n);
      if (n <= 8) users[n] = w;
    }
  }
  return by.get(id) ?? 1;
}

export function workstreamName({ store }: Shared, id: string): string {
  return store.getState()?.workstreams.find((w) => w.id === id)?.name || id;
}

/** Reports whether an interactive workstream has answered and waits for a message. */
export const waitsForMessage = (w: Workstream): boolean => Boolean(w.interactive && !w.ended_at && !w.working_since);
