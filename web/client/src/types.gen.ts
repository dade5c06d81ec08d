// Written by `go run ./web/gen` from the Go vocabulary. Do not edit.

/** Actor is a user, an agent or the server, as the author of events. The kind and id are the identity; the rest is for display. */
export interface Actor {
  kind: ActorKind;
  id: string;
  name?: string;
  email?: string;
  info?: Record<string, unknown>;
}

/** ActorKind says what an actor is. */
export type ActorKind = "user" | "agent" | "server";

/** AgentApprovalRequest asks a person to approve tool calls before they run. */
export interface AgentApprovalRequest {
  request_id?: string;
  text?: string;
  calls: ApprovalCall[];
  timeout?: number;
  deadline?: Time;
  /** by the session's settings: the answer follows at once, and no person is asked */
  settled?: boolean;
}

/** AgentArtifact is something the agent made: a table, chart, image, file or page. */
export interface AgentArtifact {
  artifact_id?: string;
  /** table, chart, image, file, html, code, … */
  type: string;
  title?: string;
  /** in the session's artifacts */
  path?: string;
  media_type?: string;
  size?: number;
  /** small things inline */
  data?: unknown;
  language?: string;
}

/** AgentCommand is a command that an agent understands: a message that begins with its name. Clients offer the commands of an agent to people who write a message; to the server such a message is a text like any other. */
export interface AgentCommand {
  /** with its slash, such as /summary */
  name: string;
  /** what it does, in one line */
  description?: string;
  /** what follows the name, such as "N [SECONDS]"; "" for nothing */
  input?: string;
}

/** AgentError is an error that the agent reports. The turn may continue if it is recoverable. */
export interface AgentError {
  message: string;
  recoverable?: boolean;
  code?: string;
}

/** Info describes an agent in lists. */
export interface AgentInfo {
  name: string;
  /** builtin, worker, … */
  kind: string;
  description?: string;
  /** suggested first messages */
  starters?: string[];
  commands?: AgentCommand[];
  /** that a session may select, the agent's own first */
  models?: string[];
  /** answers sessions that name no agent */
  default?: boolean;
  healthy: boolean;
  /** why it is not healthy */
  problem?: string;
  /** connected workers */
  workers?: number;
  /** running turns */
  running: number;
}

/** AgentInputRequest asks a person for input. */
export interface AgentInputRequest {
  /** filled in by the server when absent */
  request_id?: string;
  input_type: InputType;
  text: string;
  options?: Option[];
  /** fewest choices of a checkbox */
  min?: number;
  /** most choices; 0 is no limit */
  max?: number;
  placeholder?: string;
  /** nil means true */
  required?: boolean;
  /** seconds; 0 means no deadline */
  timeout?: number;
  /** until when it can be answered; of this and timeout the earlier one counts */
  deadline?: Time;
  /** shown after the deadline */
  error?: string;
  /** the page on which the person consents */
  url?: string;
}

/** AgentPermissionRequest asks a person to grant scopes. */
export interface AgentPermissionRequest {
  request_id?: string;
  scopes: string[];
  justification?: string;
  /** the exact call it is for */
  requested_tool?: string;
  requested_args?: unknown;
  timeout?: number;
  deadline?: Time;
}

/** AgentPlan is the whole plan; each one replaces the last. */
export interface AgentPlan {
  tasks: Task[];
  comment?: string;
}

/** AgentShare reports that something was shared, with the fields of the share. */
export interface AgentShare {
  share_id?: string;
  title?: string;
  share_type?: string;
  path?: string;
  url?: string;
}

/** AgentStatus says what the agent is doing. */
export interface AgentStatus {
  message: string;
  phase?: string;
}

/** AgentText is a finished block of the agent's answer; it replaces the previews of that block. */
export interface AgentText {
  block?: string;
  text: string;
  signature?: string;
  /** the turn's answer */
  final?: boolean;
  /** cut short by a stop or a crash */
  partial?: boolean;
}

/** AgentThinking is a finished block of the agent's reasoning. */
export interface AgentThinking {
  block?: string;
  text: string;
  signature?: string;
  /** encrypted reasoning that is sent back to the provider */
  redacted?: string;
  partial?: boolean;
}

/** AgentToolCall is the call of a tool. */
export interface AgentToolCall {
  call_id?: string;
  tool: string;
  params?: unknown;
  /** may be run again when its outcome is not known */
  repeatable?: boolean;
}

/** AgentToolError says why a tool failed. */
export interface AgentToolError {
  call_id?: string;
  tool?: string;
  error: string;
  /** such as unknown_outcome, denied, timeout */
  code?: string;
}

/** AgentToolProgress reports the progress of a call or of a batch of work. */
export interface AgentToolProgress {
  call_id?: string;
  batch_id?: string;
  tool?: string;
  done: number;
  total?: number;
  message?: string;
  items?: ProgressItem[];
  data?: unknown;
}

/** AgentToolResult is the result of a tool call. */
export interface AgentToolResult {
  call_id?: string;
  tool?: string;
  result?: unknown;
}

/** AgentTrace names the trace that observes the turn. */
export interface AgentTrace {
  trace_id: string;
}

/** AgentUsage reports tokens used since the last report. */
export interface AgentUsage {
  model?: string;
  /** the whole prompt, including cached tokens */
  input_tokens?: number;
  /** the whole answer, including reasoning */
  output_tokens?: number;
  /** part of the prompt: written to the cache */
  cache_creation_input_tokens?: number;
  /** part of the prompt: read from the cache */
  cache_read_input_tokens?: number;
  /** part of the answer */
  reasoning_tokens?: number;
}

/** Answer is what a client sends to answer a prompt, whatever its kind. */
export interface Answer {
  text?: string;
  values?: string[];
  decisions?: Decision[];
  granted?: string[];
  denied?: string[];
  duration?: string;
  client_id?: string;
}

/** ApprovalCall is one call that waits for approval. */
export interface ApprovalCall {
  call_id: string;
  tool: string;
  params?: unknown;
  risk?: string;
  /** a person decides, whatever the session's settings say */
  always?: boolean;
  /** the sender of the message runs it: the answer brings the result, or refuses */
  client?: boolean;
}

/** Approvals says who decides about calls of tools that need approval. */
export type Approvals = "ask" | "review" | "all";

/** Assignment is a turn for an agent to answer. A worker that is answering it already continues, under the attempt given here. */
export interface Assignment {
  session_id: string;
  turn_id: string;
  attempt: number;
  agent: string;
  workstream_id?: string;
  /** the event to answer */
  trigger: Event;
  /** what earlier attempts left in the log */
  events?: Event[];
  /** open blocks, with the text that was shown */
  open?: OpenBlock[];
  /** what its line was launched for; absent on the main line */
  launch?: WorkstreamLaunched;
  /** its workstream is paused */
  paused?: boolean;
}

/** BlockKind says what a block holds. */
export type BlockKind = "text" | "thinking";

/** CloseReason says why a prompt ended without an answer. */
export type CloseReason = "expired" | "withdrawn";

/** CustomItem is an event of a type that this version does not know. */
export interface CustomItem {
  type: string;
  payload: unknown;
}

/** Decision is the decision about one call. */
export interface Decision {
  call_id: string;
  approve: boolean;
  reason?: string;
  /** edited arguments, when the person changed them */
  params?: unknown;
  /** once (default) or session */
  remember?: string;
  /** the result of the call, when the answering client has run it */
  result?: unknown;
  /** why it failed there */
  error?: string;
  /** what the tool printed besides its result */
  stdout?: string[];
  stderr?: string[];
}

/** Code is the class of an error. Each dialect maps codes to its own form in one table. */
export type ErrorCode = "invalid" | "unauthenticated" | "denied" | "not_found" | "conflict" | "gone" | "too_large" | "slow_down" | "unavailable" | "internal";

/** FileInfo describes a file of a session. */
export interface FileInfo {
  path: string;
  media_type: string;
  size: number;
  /** of the bytes, in hexadecimal; serves as an entity tag */
  sha256: string;
  stored_at: Time;
}

/** FileItem is a file that was stored in the session or removed from it. */
export interface FileItem {
  path: string;
  name?: string;
  media_type?: string;
  size?: number;
  sha256?: string;
  /** uploaded or removed */
  change: string;
  /** an uploaded file that was removed or replaced later */
  removed?: boolean;
}

/** FileRemoved reports that a file of the session was removed. */
export interface FileRemoved {
  path: string;
}

/** FileUploaded reports that a file was stored in the session. */
export interface FileUploaded {
  path: string;
  name?: string;
  media_type?: string;
  size: number;
  sha256?: string;
}

/** Fork asks for a session that shares another one's past. */
export interface Fork {
  /** made by the server when absent */
  id?: string;
  /** the last event they share; absent means all */
  after?: number;
  /** absent: the other one's, or none with a Message */
  title?: string;
  agent?: string;
  metadata?: unknown;
  /** absent: the other one's, without approvals */
  settings?: Settings;
  /** the first one in the fork; what was queued at After is withdrawn */
  message?: UserMessage;
}

/** Hit is an event in which the text occurs. */
export interface Hit {
  sequence: number;
  timestamp: Time;
  type: string;
  workstream_id?: string;
  turn_id?: string;
  /** of a tool call, its progress and its result */
  call_id?: string;
  /** the text around the match */
  snippet: string;
}

/** InputType says what a person is asked for. */
export type InputType = "text" | "binary_choice" | "radio" | "checkbox" | "dropdown" | "notification" | "oauth_consent";

/** What all items have. */
export interface ItemBase {
  /** ID is the same for every reader and never changes. It comes from what the item is about, where that has a name (ids of blocks, calls, requests, workstreams, turns), else from the event that began it. So pages that overlap, or that cut an item in two, are joined by id. */
  id: string;
  /** Seq is the event that began the item. Items are in its order. An open block has none yet and comes after all others. */
  seq?: number;
  /** Last is the last event that changed the item. */
  last?: number;
  /** At is the time of the event that began it. */
  at?: Time;
  turn_id?: string;
  /** "" is the main line */
  workstream_id?: string;
  /** of the event that began it */
  actor?: Actor;
  /** Open marks a block that is still being written: text so far. */
  open?: boolean;
  /** Headless marks an item whose beginning is, or may be, before the window that was folded. The item with the same id in an older window is complete. */
  headless?: boolean;
}

/** The part that an item of each kind has. */
export interface ItemParts {
  message: { message: MessageItem };
  text: { text: TextItem };
  thinking: { text: TextItem };
  tool: { tool: ToolItem };
  prompt: { prompt: PromptItem };
  plan: { plan: PlanItem };
  artifact: { artifact: AgentArtifact };
  file: { file: FileItem };
  share: { share: AgentShare };
  status: { status: StatusItem };
  error: { error: AgentError };
  notice: { notice: NoticeItem };
  workstream: { workstream: Workstream };
  custom: { custom: CustomItem };
}

export type ItemOf<K extends ItemKind> = { [P in K]: ItemBase & { kind: P } & ItemParts[P] }[K];
/** Item is one entry of a transcript. Its JSON form is public: snapshots and pages of items have it, and the folds of the clients make the same. */
export type Item = ItemOf<ItemKind>;

/** ItemKind says what an item is; the field of Item with that name holds the rest (thinking is held by text). */
export type ItemKind = "message" | "text" | "thinking" | "tool" | "prompt" | "plan" | "artifact" | "file" | "share" | "status" | "error" | "notice" | "workstream" | "custom";

/** ItemPage is a part of a session's items, oldest first. */
export interface ItemPage {
  items: Item[];
  /** there are older ones */
  more: boolean;
  /** ask for these with before */
  before?: number;
}

/** Member is an actor with a role in a session. */
export interface Member {
  actor: Actor;
  role: Role;
}

/** MessageItem is a person's message. */
export interface MessageItem {
  text: string;
  content?: Part[];
  user_id?: string;
  context?: unknown;
  /** the sender's, so that it recognises its own message */
  client_id?: string;
  state: MessageState;
  /** the turn that answers it */
  taken_by?: string;
  /** it was taken into a turn that ran already */
  steered?: boolean;
}

/** MessageState is the state of a message of a person. */
export type MessageState = "sent" | "queued" | "taken" | "withdrawn";

/** NewSession is what a session begins with. */
export interface NewSession {
  /** made by the server when absent */
  id?: string;
  /** "" means the default agent, "none" means no agent */
  agent?: string;
  title?: string;
  metadata?: unknown;
  policy?: Policy;
  settings?: Settings;
  members?: Member[];
}

/** NoticeItem is a line about the session or a turn. */
export interface NoticeItem {
  /** Code is one of: stop_requested, stopped, failed, interrupted, resumed (of a turn); session_completed, session_failed; steered, follow_up (of the workstream in about); notification (of the agent, to a person). */
  code: string;
  text?: string;
  /** of resumed */
  attempt?: number;
  /** of steered */
  command?: string;
  /** the workstream it is about */
  about?: string;
  /** of stop_requested */
  by?: Actor;
}

/** Block is a block that is being written, with its text so far. */
export interface OpenBlock {
  block: string;
  kind: BlockKind;
  text: string;
  workstream_id?: string;
  turn_id?: string;
}

/** Option is one choice. */
export interface Option {
  id: string;
  label: string;
  /** the id when absent */
  value?: string;
  description?: string;
}

/** Outcome says how a turn ended. */
export type Outcome = "done" | "stopped" | "failed" | "interrupted";

/** Part is one element of the content of a message. */
export interface Part {
  /** text, image, audio, video, file */
  type: string;
  text?: string;
  /** where it can be fetched, or a data: URL */
  url?: string;
  /** an artifact of the session */
  path?: string;
  media_type?: string;
  name?: string;
  size?: number;
  /** of audio, such as wav */
  format?: string;
  /** of an image: the level of detail, for models that have one */
  detail?: string;
}

/** PlanItem is the plan of a turn. */
export interface PlanItem {
  tasks: Task[];
  comment?: string;
  /** 1 is the first plan of the turn */
  revision: number;
}

/** Policy says what happens to a user message that arrives during a turn. */
export type Policy = "queue" | "steer" | "interrupt";

/** Preview is a piece of a block that is being written. It takes no number. The finished block is an AgentText or AgentThinking that replaces it. Offsets count bytes of UTF-8 and make pieces idempotent. */
export interface Preview {
  block: string;
  offset: number;
  end: number;
  text: string;
  kind: BlockKind;
  workstream_id?: string;
  turn_id?: string;
}

/** ProgressItem is one element of a batch. */
export interface ProgressItem {
  id: string;
  /** pending, running, success, error */
  status: string;
  message?: string;
  duration_ms?: number;
}

/** Prompt is a question that waits for an answer. Exactly one of Input, Approval and Permission is there. */
export interface Prompt {
  request_id: string;
  sequence: number;
  turn_id?: string;
  workstream_id?: string;
  /** the agent that asks */
  agent?: string;
  asked_at: Time;
  deadline?: Time;
  input?: AgentInputRequest;
  approval?: AgentApprovalRequest;
  permission?: AgentPermissionRequest;
}

/** PromptClosed says that a prompt ended without an answer. */
export interface PromptClosed {
  request_id: string;
  reason: CloseReason;
}

/** PromptItem is a question and how it ended. Of input, approval and permission the one that was asked is set; none if the window does not have the request. */
export interface PromptItem {
  request_id: string;
  status: PromptStatus;
  deadline?: Time;
  input?: AgentInputRequest;
  approval?: AgentApprovalRequest;
  permission?: AgentPermissionRequest;
  answer?: Answer;
  /** who answered, or the server */
  ended_by?: Actor;
  ended_at?: Time;
}

/** PromptStatus is the state of a prompt. */
export type PromptStatus = "open" | "answered" | "expired" | "withdrawn";

/** Receipt says what an erase removed. */
export interface Receipt {
  session_id: string;
  events: number;
  artifacts: number;
  bytes: number;
  erased_at: Time;
  /** what the erasure does not cover */
  note: string;
  /** of a cluster: those that have removed the session */
  nodes?: string[];
  /** those that did not answer; they remove it when they are back, before they serve it */
  nodes_pending?: string[];
}

/** Role is what a member may do in one session. */
export type Role = "viewer" | "answerer" | "owner";

/** SearchPage has the results of a search, newest first. */
export interface SearchPage {
  hits: Hit[];
  /** older events were not searched yet */
  more: boolean;
  /** the value of before for the next page */
  before?: number;
}

/** Session is a session's record: a projection of its log. */
export interface Session {
  session_id: string;
  workspace: string;
  owner: Actor;
  members?: Member[];
  agent: string;
  /** others, that answer in its workstreams */
  agents?: string[];
  title?: string;
  /** made from the first message when there is no title, without what may be secret */
  heading?: string;
  metadata?: unknown;
  summary?: string;
  policy: Policy;
  settings?: Settings;
  /** people have put it away; it works as before */
  archived?: boolean;
  status: Status;
  /** why it failed */
  error?: string;
  open_prompts: number;
  forked_of?: string;
  forked_at?: number;
  /** the session whose agent started this one; only the server sets it */
  parent?: string;
  /** that allowed the start; only the server sets it */
  grant_id?: string;
  /** the agent whose sidecar answers in place of Agent; only the server sets it */
  served_by?: string;
  created_at: Time;
  /** the last event's */
  updated_at: Time;
  /** the last event's */
  last: number;
  /** Partition of the cluster that the session is in. It follows from the id and is not stored; nil on a single server. */
  partition?: number;
}

/** SessionCompleted ends a session; a later user message reopens it. */
export interface SessionCompleted {
  /** "" or SessionCancelled, in events of the server */
  outcome?: string;
}

/** SessionFailed ends a session with an error. */
export interface SessionFailed {
  error_message?: string;
}

/** SessionPage is a part of a list, the most recently active first. */
export interface SessionPage {
  sessions: Session[];
  /** "" at the end */
  next_cursor?: string;
}

/** SessionStarted is the first event of every session. */
export interface SessionStarted {
  agent?: string;
  title?: string;
  /** an object */
  metadata?: unknown;
  workspace?: string;
  policy?: Policy;
  settings?: Settings;
  members?: Member[];
  forked_of?: string;
  forked_at?: number;
  /** the session whose agent started this one */
  parent?: string;
  /** that allowed the start */
  grant_id?: string;
  served_by?: string;
  /** x1's spelling of agent */
  agent_id?: string;
}

/** SessionUpdated carries the fields that changed, and only those. */
export interface SessionUpdated {
  title?: string;
  agent?: string;
  /** replaces the whole object */
  metadata?: unknown;
  policy?: Policy;
  /** replaces all of them */
  settings?: Settings;
  members?: Member[];
  archived?: boolean;
  summary?: string;
  /** a model agent summarises the conversation before its next request */
  compact?: boolean;
  /** the agent whose sidecar answers */
  served_by?: string;
  /** the session has no parent any more, and no sidecar serves it */
  detached?: boolean;
}

/** Settings are what people have chosen for the agents of a session. They apply from the next turn on; Approvals and CompleteAfterTurn apply at once. An agent ignores settings that it does not support. */
export interface Settings {
  approvals?: Approvals;
  /** of an agent that offers several */
  model?: string;
  /** how much reasoning the model does */
  effort?: string;
  /** that it may use: see Allowed */
  tools?: string[];
  /** servers whose tools it does not use */
  without?: string[];
  /** CompleteAfterTurn ends the session when the last turn of the main line has ended, no message waits and no workstream runs. A user message reopens it. */
  complete_after_turn?: boolean;
}

/** Snapshot is a session at one moment: enough to draw it, and the cursor from which to follow it. */
export interface Snapshot {
  session: Session;
  state: View;
  /** the last ones, oldest first */
  items: Item[];
  /** there are older ones */
  more: boolean;
  /** blocks that are being written */
  open: Item[];
  cursor: string;
  server_now: Time;
  /** the actor that read it */
  caller?: Actor;
}

/** Status is what a session list shows. */
export type Status = "idle" | "running" | "waiting" | "completed" | "failed";

/** StatusItem is the last status that the agent reported. */
export interface StatusItem {
  message: string;
  phase?: string;
  /** how many there were in the turn */
  updates: number;
}

/** StopResult says what a stop did. */
export interface StopResult {
  /** false: nothing was running */
  stopped: boolean;
  turn_id?: string;
}

/** Task is one task of a plan. */
export interface Task {
  id: string;
  title: string;
  /** pending, in_progress, done, skipped, failed */
  status: string;
  detail?: string;
}

/** TextItem is a block of text or reasoning. */
export interface TextItem {
  block?: string;
  text: string;
  /** the turn's answer */
  final?: boolean;
  /** cut short by a stop or a crash */
  partial?: boolean;
  /** there is more that the provider does not show */
  redacted?: boolean;
}

/** A moment: RFC 3339, UTC, six decimals. */
export type Time = string;

/** ToolItem is a tool call and its outcome, or a batch of work that only reports progress. */
export interface ToolItem {
  call_id?: string;
  batch_id?: string;
  tool?: string;
  params?: unknown;
  status: ToolStatus;
  result?: unknown;
  error?: string;
  /** of the error */
  code?: string;
  progress?: ToolProgress;
  started_at?: Time;
  ended_at?: Time;
}

/** ToolProgress is the last progress report of a call. */
export interface ToolProgress {
  done: number;
  total?: number;
  message?: string;
  items?: ProgressItem[];
  data?: unknown;
}

/** ToolStatus is the state of a tool call. */
export type ToolStatus = "running" | "ok" | "error" | "denied" | "unknown";

/** TurnCompleted ends a turn. */
export interface TurnCompleted {
  turn_id: string;
  outcome: Outcome;
  error?: string;
  /** the sum of the turn's reports */
  usage?: Usage;
  /** the ack of the request that stopped it */
  ack?: string;
}

/** TurnInput says that steered messages were taken into the running turn. */
export interface TurnInput {
  sequences: number[];
}

/** TurnResumed begins another attempt at a turn, after a crash or the loss of its worker. */
export interface TurnResumed {
  turn_id: string;
  /** the first attempt is 1 */
  attempt: number;
  /** how many attempts in a row ended without new output */
  crashes?: number;
  reason?: string;
}

/** TurnStarted begins the answer to one trigger. */
export interface TurnStarted {
  turn_id: string;
  /** the event that is answered */
  trigger: number;
  agent: string;
}

/** TurnStopRequested asks the running turn to end. */
export interface TurnStopRequested {
  turn_id?: string;
  by: Actor;
  reason?: string;
  /** Deadline is the end of the time that the agent has to end the turn itself; absent means a short default. */
  deadline?: Time;
  /** the id that the requester gave the request; the end of the turn repeats it */
  ack?: string;
}

/** TurnView is a running turn. */
export interface TurnView {
  turn_id: string;
  workstream_id?: string;
  agent?: string;
  trigger: number;
  attempt: number;
  started_at: Time;
  stopping?: boolean;
  usage: Usage;
}

/** Usage counts tokens. Cached tokens are part of the input, even if the API of the model lists them separately. */
export interface Usage {
  /** the whole prompt, including cached tokens */
  input_tokens?: number;
  /** the whole answer, including reasoning */
  output_tokens?: number;
  /** part of the prompt: written to the cache */
  cache_creation_input_tokens?: number;
  /** part of the prompt: read from the cache */
  cache_read_input_tokens?: number;
  /** part of the answer */
  reasoning_tokens?: number;
}

/** UserApprovalResponse answers an AgentApprovalRequest. */
export interface UserApprovalResponse {
  request_id: string;
  decisions: Decision[];
}

/** UserInputResponse answers an AgentInputRequest. */
export interface UserInputResponse {
  request_id: string;
  text?: string;
  values?: string[];
}

/** UserMessage is a message of a person. */
export interface UserMessage {
  text: string;
  /** parts beside or instead of the text */
  content?: Part[];
  user_id?: string;
  /** data of the page or program that sends the message */
  context?: unknown;
}

/** UserMessageWithdrawn withdraws a queued message. */
export interface UserMessageWithdrawn {
  sequence: number;
}

/** UserPermissionResponse answers an AgentPermissionRequest. */
export interface UserPermissionResponse {
  request_id: string;
  granted: string[];
  denied?: string[];
  /** once (default), session, always */
  duration?: string;
}

/** View is the part of a session's state that people see. Its JSON form is public, in snapshots, and the clients' own fold makes the same. */
export interface View {
  title?: string;
  agent?: string;
  policy?: Policy;
  status: Status;
  /** why the session failed */
  error?: string;
  /** running ones, the main line first */
  turns: TurnView[];
  /** messages and other triggers that wait, in order per line */
  queued: number[];
  /** open ones, oldest first */
  prompts: Prompt[];
  /** the last one */
  plan?: AgentPlan;
  /** in the order of their launch */
  workstreams: Workstream[];
  /** of the whole session */
  usage: Usage;
}

/** Workstream is the state of a parallel line of work. */
export interface Workstream {
  id: string;
  launch_id?: string;
  name?: string;
  task: string;
  agent?: string;
  tools?: string[];
  model?: string;
  context?: unknown;
  deadline_seconds?: number;
  deadline?: Time;
  interactive?: boolean;
  /** nil means true */
  merge_artifacts?: boolean;
  /** running, canceling, completed, failed, timeout, canceled */
  state: string;
  /** of its launch */
  sequence?: number;
  parent?: string;
  phase?: string;
  tool?: string;
  iteration?: number;
  message?: string;
  share?: number;
  progress_at?: Time;
  warned?: number;
  /** it got the request to finish */
  wrapping_up?: boolean;
  summary?: string;
  error?: string;
  files?: string[];
  paused?: boolean;
  launched_at?: Time;
  ended_at?: Time;
  /** end of the grace time */
  cancel_by?: Time;
  /** why it is canceled */
  reason?: string;
  /** since when the clock of an interactive workstream runs */
  working_since?: Time;
  /** what that clock had counted before then */
  worked_ms?: number;
}

/** WorkstreamCanceled ends a workstream after its end was requested. */
export interface WorkstreamCanceled {
  id: string;
  reason?: string;
  files?: string[];
}

/** WorkstreamCanceling says that a workstream has to end. */
export interface WorkstreamCanceling {
  id: string;
  /** who requested it */
  by?: Actor;
  reason?: string;
  /** end of the grace time */
  deadline?: Time;
}

/** WorkstreamCompleted ends a workstream with its result. */
export interface WorkstreamCompleted {
  id: string;
  summary?: string;
  result?: unknown;
  /** files that were merged into those of the line that launched it */
  files?: string[];
}

/** WorkstreamFailed ends a workstream with an error. */
export interface WorkstreamFailed {
  id: string;
  error?: string;
  files?: string[];
}

/** WorkstreamLaunched begins a parallel line of work. Events of that line carry its id as workstream_id; the lifecycle events here belong to the line that launched it and name the child in their payload. */
export interface WorkstreamLaunched {
  id: string;
  launch_id?: string;
  name?: string;
  task: string;
  agent?: string;
  tools?: string[];
  model?: string;
  context?: unknown;
  deadline_seconds?: number;
  deadline?: Time;
  interactive?: boolean;
  /** nil means true */
  merge_artifacts?: boolean;
}

/** WorkstreamMessage is a follow-up to an interactive workstream. */
export interface WorkstreamMessage {
  id: string;
  text: string;
}

/** WorkstreamProgress reports the progress of a workstream. */
export interface WorkstreamProgress {
  id: string;
  /** planning, executing_tool, synthesizing, blocked, done */
  phase?: string;
  /** the running tool in the phase executing_tool */
  tool?: string;
  iteration?: number;
  message?: string;
  /** of the deadline, 0 to 1 */
  share?: number;
  /** the answer of an interactive workstream, in the phase done */
  summary?: string;
}

/** WorkstreamSteered hands a directive to a workstream. */
export interface WorkstreamSteered {
  id: string;
  /** add_instruction, set_priority, add_constraint, pause_requested, resume_requested, wrap_up */
  command: string;
  text?: string;
}

/** WorkstreamTimeout ends a workstream whose deadline has passed. */
export interface WorkstreamTimeout {
  id: string;
  /** its text up to then */
  summary?: string;
  files?: string[];
}

/** WorkstreamWarning says that a share of the deadline has passed. */
export interface WorkstreamWarning {
  id: string;
  share: number;
  message?: string;
}

/** The payload of each type of event. */
export interface Payloads {
  "agent.approval_request": AgentApprovalRequest;
  "agent.artifact": AgentArtifact;
  "agent.error": AgentError;
  "agent.input_request": AgentInputRequest;
  "agent.permission_request": AgentPermissionRequest;
  "agent.plan": AgentPlan;
  "agent.share": AgentShare;
  "agent.status": AgentStatus;
  "agent.text": AgentText;
  "agent.thinking": AgentThinking;
  "agent.tool_call": AgentToolCall;
  "agent.tool_error": AgentToolError;
  "agent.tool_progress": AgentToolProgress;
  "agent.tool_result": AgentToolResult;
  "agent.trace": AgentTrace;
  "agent.usage": AgentUsage;
  "file.removed": FileRemoved;
  "file.uploaded": FileUploaded;
  "prompt.closed": PromptClosed;
  "session.completed": SessionCompleted;
  "session.failed": SessionFailed;
  "session.started": SessionStarted;
  "session.updated": SessionUpdated;
  "turn.completed": TurnCompleted;
  "turn.input": TurnInput;
  "turn.resumed": TurnResumed;
  "turn.started": TurnStarted;
  "turn.stop_requested": TurnStopRequested;
  "user.approval_response": UserApprovalResponse;
  "user.input_response": UserInputResponse;
  "user.message": UserMessage;
  "user.message_withdrawn": UserMessageWithdrawn;
  "user.permission_response": UserPermissionResponse;
  "workstream.canceled": WorkstreamCanceled;
  "workstream.canceling": WorkstreamCanceling;
  "workstream.completed": WorkstreamCompleted;
  "workstream.failed": WorkstreamFailed;
  "workstream.launched": WorkstreamLaunched;
  "workstream.message": WorkstreamMessage;
  "workstream.progress": WorkstreamProgress;
  "workstream.steered": WorkstreamSteered;
  "workstream.timeout": WorkstreamTimeout;
  "workstream.warning": WorkstreamWarning;
}

/** An event as it is stored in the log. */
export interface Envelope<T extends string, P> {
  session_id: string;
  /** Assigned by the log; 1 is the first, there are no gaps. */
  sequence: number;
  timestamp: Time;
  type: T;
  id?: string;
  /** The turn it belongs to, if any. */
  turn_id?: string;
  /** Absent on the main line. */
  workstream_id?: string;
  actor?: Actor;
  parent_id?: string;
  /** The sender's idempotency key. */
  client_id?: string;
  /** The dialect it was sent in; absent for the native one and for the server itself. */
  via?: string;
  /** Hash over the stored bytes of the event before it. */
  prev?: string;
  payload: P;
}

export type KnownType = keyof Payloads;
export type EventOf<T extends KnownType> = { [K in T]: Envelope<K, Payloads[K]> }[T];
/** An event of a type that this version knows. */
export type KnownEvent = EventOf<KnownType>;
/**
 * An event of a type that this version does not know; it is kept and passed on. The question mark exists in the static type
 * only, to separate it from the known ones.
 */
export type UnknownEvent = Envelope<`?${string}`, unknown>;
/** An event of a session. Comparing its type with a known one narrows the type of its payload. */
export type Event = KnownEvent | UnknownEvent;
/** A request to append an event. The same client_id again returns the first event. */
export interface Draft<T extends string = string> {
  type: T;
  payload?: T extends KnownType ? Payloads[T] : unknown;
  client_id?: string;
  workstream_id?: string;
  parent_id?: string;
  turn_id?: string;
  attempt?: number;
}

/**
 * How payloads are decoded: the fields of each event type. A field without a mark is a text, a number or a boolean that is
 * left out when it is empty. With ! it is written when it is empty too (!0 a number, !- a boolean, ![] a list), with * when it
 * was given. ~ is any value, @ a time, : another shape, [ a list of another shape.
 */
export const shapes: Record<string, string> = {
  "Actor": "kind! id! name email info~",
  "ApprovalCall": "call_id! tool! params~ risk always client",
  "Decision": "call_id! approve!- reason params~ remember result~ error stdout stderr",
  "Member": "actor:Actor role!",
  "Option": "id! label! value description",
  "Part": "type! text url path media_type name size format detail",
  "ProgressItem": "id! status! message duration_ms",
  "Settings": "approvals model effort tools without complete_after_turn",
  "Task": "id! title! status! detail",
  "Usage": "input_tokens output_tokens cache_creation_input_tokens cache_read_input_tokens reasoning_tokens",
  "agent.approval_request": "request_id text calls[ApprovalCall![] timeout deadline@ settled",
  "agent.artifact": "artifact_id type! title path media_type size data~ language",
  "agent.error": "message! recoverable code",
  "agent.input_request": "request_id input_type! text! options[Option min max placeholder required* timeout deadline@ error url",
  "agent.permission_request": "request_id scopes![] justification requested_tool requested_args~ timeout deadline@",
  "agent.plan": "tasks[Task![] comment",
  "agent.share": "share_id title share_type path url",
  "agent.status": "message! phase",
  "agent.text": "block text! signature final partial",
  "agent.thinking": "block text! signature redacted partial",
  "agent.tool_call": "call_id tool! params~ repeatable",
  "agent.tool_error": "call_id tool error! code",
  "agent.tool_progress": "call_id batch_id tool done!0 total message items[ProgressItem data~",
  "agent.tool_result": "call_id tool result~",
  "agent.trace": "trace_id!",
  "agent.usage": "model input_tokens output_tokens cache_creation_input_tokens cache_read_input_tokens reasoning_tokens",
  "file.removed": "path!",
  "file.uploaded": "path! name media_type size!0 sha256",
  "prompt.closed": "request_id! reason!",
  "session.completed": "outcome",
  "session.failed": "error_message",
  "session.started": "agent title metadata~ workspace policy settings:Settings members[Member forked_of forked_at parent grant_id served_by agent_id",
  "session.updated": "title* agent* metadata~ policy* settings:Settings* members[Member* archived* summary* compact served_by* detached",
  "turn.completed": "turn_id! outcome! error usage:Usage* ack",
  "turn.input": "sequences![]",
  "turn.resumed": "turn_id! attempt!0 crashes reason",
  "turn.started": "turn_id! trigger!0 agent!",
  "turn.stop_requested": "turn_id by:Actor reason deadline@ ack",
  "user.approval_response": "request_id! decisions[Decision![]",
  "user.input_response": "request_id! text values",
  "user.message": "text! content[Part user_id context~",
  "user.message_withdrawn": "sequence!0",
  "user.permission_response": "request_id! granted![] denied duration",
  "workstream.canceled": "id! reason files",
  "workstream.canceling": "id! by:Actor* reason deadline@",
  "workstream.completed": "id! summary result~ files",
  "workstream.failed": "id! error files",
  "workstream.launched": "id! launch_id name task! agent tools model context~ deadline_seconds deadline@ interactive merge_artifacts*",
  "workstream.message": "id! text!",
  "workstream.progress": "id! phase tool iteration message share summary",
  "workstream.steered": "id! command! text",
  "workstream.timeout": "id! summary files",
  "workstream.warning": "id! share!0 message",
};
