import type { MouseEvent, ReactNode } from "react";
import type { Answer, Event, Item, ParleyClient, ParleyError, Part, Prompt, Status, SteerCommand, StopResult } from "@parley-hq/client";
import type { UploadRules } from "../files/uploads.js";
import type { Texts } from "../i18n/texts.js";
import type { Mode, Renderers } from "../shared/context.js";
import type { PanelName } from "./panel.js";

/** A suggested first message. With a label people see it, and what will happen, instead of the text. */
export type Starter = string | { text: string; label: string; about?: string };

/** A place where other branches of a conversation begin. */
export interface BranchPoint {
  after: number;
  content: ReactNode;
}

export interface ConversationProps {
  client: ParleyClient;
  /** The session to show. Without one, `start` begins it with the first message. */
  session?: string | undefined;
  /** Creates a session for the first message and returns its id; by default the client creates it. */
  start?: (text: string, files: Part[]) => Promise<string>;
  /** Called after a session was created here. */
  onStart?: (session: string) => void;
  /** The agent of sessions that are created here. */
  agent?: string;
  mode?: Mode;
  /** The panels that people can open. The inspector is for developers and is one of them only if it is true. */
  panels?: { plan?: boolean; workstreams?: boolean; files?: boolean; inspector?: boolean };
  /** The open panel; without it the component manages it. "auto" shows the work, the plan or the files, whichever there is. */
  panel?: PanelName | "auto" | null;
  onPanel?: (p: PanelName | null) => void;
  /** The event that the inspector shows. */
  inspect?: number | undefined;
  renderers?: Renderers;
  /** Parts of the page that the host draws; `missing` follows the text about a session that cannot be opened. */
  slots?: { header?: ReactNode; headerStart?: ReactNode; headerEnd?: ReactNode; empty?: ReactNode; missing?: ReactNode; composerStart?: ReactNode; composerEnd?: ReactNode; footer?: ReactNode };
  filter?: (item: Item) => boolean;
  /** Sent to the agent with every message. */
  context?: () => unknown;
  /** false: files cannot be added. */
  uploads?: UploadRules | false;
  /** Parts that are added to the next message, such as documents that the host has found. */
  attached?: Part[] | (() => Part[]);
  /** Called when a person removes one of them; without it they cannot be removed. */
  onDetach?: (part: Part) => void;
  /** Called when a message with its attachments is being sent. */
  onSent?: (text: string, parts: Part[]) => void;
  /** Creates a copy of the conversation in which a message is sent in place of the one at a sequence. With it people can edit messages and have them answered again. */
  onBranch?: (seq: number, text: string, files: Part[]) => Promise<void>;
  /** What is shown at the first message after a sequence, such as links to other branches that begin there. */
  branches?: readonly BranchPoint[];
  title?: ReactNode;
  placeholder?: string;
  /** Suggested first messages, at most six. */
  starters?: readonly Starter[];
  /** The description of the agent in an empty conversation. */
  about?: string;
  /** Content above the start view of an empty conversation. */
  intro?: ReactNode;
  /** The initial text of the composer. */
  draft?: string;
  /** The label of the button that starts a conversation; "Send" otherwise. */
  startText?: string;
  /** Sending is disabled, for example during uploads of the host. */
  busy?: boolean;
  /** Shows a button that starts a new conversation. */
  onReset?: () => void;
  layout?: "page" | "modal";
  /** Further classes of the composer, its input and the list of entries. */
  classNames?: { composer?: string; input?: string; entries?: string };
  hideComposer?: boolean;
  hideHeader?: boolean;
  autoFocus?: boolean;
  onClose?: () => void;
  theme?: "auto" | "light" | "dark";
  density?: "comfortable" | "compact";
  width?: "measure" | "full";
  /** The language of the page around it, for the lang attribute; the texts are in `messages`. */
  locale?: string;
  dir?: "ltr" | "rtl";
  messages?: Partial<Texts>;
  className?: string;
  /** The actor id of the person, whose messages are shown as their own; by default that of the client. */
  me?: string;
  tokenLimit?: number;
  /** Further dialects that the inspector offers. */
  dialects?: readonly string[];
  /** Returns the URL of a trace; without it only the trace id is shown. */
  traceURL?: (traceID: string) => string;
  /** Fetches an external image when a person requests it; by default the server does. false: external images are links. */
  loadImage?: ((url: string, signal: AbortSignal) => Promise<Blob>) | false;
  /** The address at which a frame shows an HTML page, PDF, audio or video of the session, where the server has one. */
  pageURL?: (session: string, path: string) => string;
  /** The address of the page that draws Mermaid diagrams, where the server has one: `/diagram`. Without it they are shown as code. */
  diagramURL?: string;
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
  /** Sends a directive to a workstream; the default command is add_instruction. */
  steer: (workstream: string, text: string, command?: SteerCommand) => Promise<void>;
  /** Scrolls to an entry: an item's id, or the sequence of an event. */
  scrollTo: (item: string | number) => void;
  openInspector: (seq?: number) => void;
  focus: () => void;
}
