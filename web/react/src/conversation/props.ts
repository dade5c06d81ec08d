import type { MouseEvent, ReactNode } from "react";
import type { Answer, Event, Item, ParleyClient, ParleyError, Part, Prompt, Status, SteerCommand, StopResult } from "@parley-hq/client";
import type { UploadRules } from "../files/uploads.js";
import type { Texts } from "../i18n/texts.js";
import type { Mode, Renderers } from "../shared/context.js";
import type { PanelName } from "./panel.js";

/** A message to begin with. */
export type Starter = string | { text: string; label: string };

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
  /** Messages to begin with; with a label, that is what people read. */
  starters?: readonly Starter[];
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
  /** The language of the page around it, for the lang attribute; the words are in `messages`. */
  locale?: string;
  dir?: "ltr" | "rtl";
  messages?: Partial<Texts>;
  className?: string;
  /** The id of the person here, to tell "you" from others. */
  me?: string;
  tokenLimit?: number;
  /** Dialects that the inspector offers beside Parley's own. */
  dialects?: readonly string[];
  /** The address at which a trace can be seen, by its id; without it the id is shown. */
  traceURL?: (traceID: string) => string;
  /** Fetches an image from elsewhere, once a person asks for it; by default the server does. false: images are only linked. */
  loadImage?: ((url: string, signal: AbortSignal) => Promise<Blob>) | false;
  /** The address of an HTML artifact's sandboxed view, where the server has one. */
  pageURL?: (session: string, path: string) => string;
  onEvent?: (e: Event) => void;
  onPrompt?: (open: Prompt[]) => void;
  onStatus?: (s: Status) => void;
  onError?: (e: ParleyError) => void;
  onLinkClick?: (href: string, e: MouseEvent) => void;
}

export interface ConversationHandle {
  send: (text: string, files?: Part[]) => Promise<void>;
  stop: () => Promise<StopResult | undefined>;
  answer: (request: string, answer: Answer) => Promise<Event | undefined>;
  /** Hands a directive to one workstream: an added instruction unless another command is named. */
  steer: (workstream: string, text: string, command?: SteerCommand) => Promise<void>;
  /** Brings an entry into view: an item's id, or the number of an event. */
  scrollTo: (item: string | number) => void;
  openInspector: (seq?: number) => void;
  focus: () => void;
}
