/*
 * Every word the component shows, in one typed catalogue. A host passes the entries it wants to say differently as
 * `messages`; the rest stays as it is here.
 */

const plural = new Intl.PluralRules("en");
const count = (n: number, one: string, other: string): string => `${number(n)} ${plural.select(n) === "one" ? one : other}`;
const number = (n: number): string => new Intl.NumberFormat("en").format(n).replaceAll(",", " ");

export const english = {
  // Composer.
  placeholder: (agent: string) => (agent && agent !== "none" ? `Message ${agent}` : "Write a message"),
  send: "Send",
  queue: "Queue",
  stop: "Stop",
  stopping: "Stopping",
  stopAgain: "Press Esc again to stop",
  attach: "Add files",
  removeFile: (name: string) => `Remove ${name}`,
  retry: "Retry",
  tooLarge: (name: string, limit: string) => `${name} is larger than ${limit} and was not added.`,
  tooMany: (n: number) => `At most ${count(n, "file", "files")} can go with one message.`,
  notAccepted: (name: string) => `${name} is not of a kind that is taken here.`,
  uploadFailed: (name: string, why: string) => `${name} could not be uploaded: ${why}`,
  dropHere: "Drop files to add them",
  composerLabel: "Message",
  runsNow: "The agent is working. Your message waits for its turn.",
  readOnly: "You can read this conversation.",
  answerOnly: "You can answer questions here.",

  // Messages.
  you: "You",
  agent: "Agent",
  sending: "Sending",
  willSend: "Will send when connected",
  failed: "Not sent",
  queued: "Waiting for its turn",
  withdrawn: "Taken back",
  withdraw: "Take back",
  discard: "Discard",
  steered: "Taken into the running turn",
  copy: "Copy",
  copied: "Copied",
  copyMarkdown: "Copy as Markdown",
  inspect: "Inspect",
  linkTo: (seq: number) => `Link to ${seq}`,
  cutShort: "Cut short",
  thinking: "Thinking",
  thought: (time: string) => (time ? `Thought for ${time}` : "Thought"),
  hiddenThought: "The provider keeps this reasoning to itself.",
  removedFile: "removed",
  uploaded: (name: string) => `Added ${name}`,
  fileRemoved: (name: string) => `Removed ${name}`,
  wrap: "Wrap lines",
  codeBlock: (lang: string) => (lang ? `Code, ${lang}` : "Code"),
  showAll: (size: string) => `Show all (${size})`,
  imageFrom: (host: string) => `Image from ${host}`,
  brokenEntry: "This entry could not be shown.",
  raw: "Raw",
  unknownKind: (type: string) => `Event of a type unknown here: ${type}`,
  shared: (title: string) => `Shared ${title}`,

  // Tools.
  tools: (n: number) => count(n, "tool call", "tool calls"),
  toolStatus: { running: "running", ok: "ok", error: "error", denied: "denied", unknown: "no outcome" } as Record<string, string>,
  arguments: "Arguments",
  result: "Result",
  progress: "Progress",
  nothing: "nothing",

  // Prompts.
  askedBy: (who: string) => `Asked by ${who}`,
  neededToContinue: "needed to continue",
  optional: "optional",
  sendAnswer: "Send answer",
  skip: "Skip",
  chosen: (n: number) => `${number(n)} selected`,
  chooseBetween: (min: number, max: number) =>
    max > 0 ? (min > 0 ? `Choose ${number(min)} to ${number(max)}` : `Choose up to ${number(max)}`) : min > 0 ? `Choose at least ${number(min)}` : "Choose any number",
  chooseOne: "Choose one.",
  chooseFewest: (n: number) => `Choose at least ${number(n)}.`,
  chooseMost: (n: number) => `Choose at most ${number(n)}.`,
  writeSomething: "Write an answer first.",
  pick: "Choose…",
  filter: "Filter options",
  yes: "Yes",
  no: "No",
  youAnswered: "You answered",
  answeredBy: (who: string) => `Answered by ${who}`,
  answeredElsewhere: (who: string) => `${who} answered first. Your answer was not used.`,
  someone: "Someone",
  expired: "Time ran out",
  withdrawnPrompt: "No longer needed: the agent moved on.",
  checking: "Time is up. Checking with the server.",
  yourDraft: "What you had written:",
  until: (time: string) => `until ${time}`,
  timeLeft: (time: string) => `${time} left`,
  openConsent: (host: string) => `Open ${host}`,
  consentGiven: "I have given consent",
  approveOnce: "Approve once",
  approveSession: "Approve for session",
  edit: "Edit arguments",
  editDone: "Undo edits",
  deny: "Deny",
  denyReason: "Reason (the agent reads it)",
  denyNow: "Deny with this reason",
  cancel: "Cancel",
  risk: (r: string) => `Risk: ${r}`,
  mayRun: (tool: string) => `May ${tool} run?`,
  notJSON: (why: string) => `This is not JSON: ${why}`,
  approved: "Approved",
  approvedEdited: "Approved with changed arguments",
  denied: "Denied",
  permissionTitle: "The agent asks for permission",
  forWhat: "For this call:",
  duration: "For how long",
  durations: { once: "Once", session: "This session", always: "Always" } as Record<string, string>,
  grant: "Grant",
  granted: (list: string) => `Granted ${list}`,
  deniedScopes: (list: string) => `Denied ${list}`,
  chooseScope: "Choose at least one scope, or deny.",
  questionsWaiting: (n: number) => `${count(n, "question", "questions")} waiting`,
  go: "Go",
  reveal: "Reveal",
  hide: "Hide",

  // Plan, work, files.
  plan: "Plan",
  work: "Work",
  files: "Files",
  planProgress: (done: number, all: number) => `${number(done)} of ${number(all)}`,
  planRevised: (n: number) => `Plan revised ${n}×`,
  noPlan: "The agent has made no plan yet.",
  noWork: "No parallel work in this conversation.",
  noFiles: "No files yet.",
  taskStatus: { pending: "to do", in_progress: "in progress", done: "done", skipped: "skipped", failed: "failed" } as Record<string, string>,
  workStatus: {
    running: "running", canceling: "cancelling", completed: "completed", failed: "failed", timeout: "ran out of time", canceled: "cancelled", paused: "paused",
  } as Record<string, string>,
  phases: { planning: "planning", executing_tool: "using a tool", synthesizing: "writing up", blocked: "waiting", done: "done" } as Record<string, string>,
  launched: (name: string) => `Launched ${name}`,
  running: (n: number) => `${number(n)} running`,
  onlyThis: (name: string) => `Only ${name}`,
  showEverything: "Show everything",
  messageWorkstream: (name: string) => `Message ${name}`,
  stopWorkstream: (name: string) => `Stop ${name}`,
  asTable: "As table",
  asLanes: "As lanes",

  // Artifacts.
  open: "Open",
  download: "Download",
  close: "Close",
  asData: "Show the data",
  asChart: "Show the chart",
  rows: (n: number) => count(n, "row", "rows"),
  showPage: "Show the page",
  pageNote: "Shown in a sandbox: its scripts and requests are off.",
  noPreview: "There is no view for this kind of artifact.",
  sortBy: (column: string) => `Sort by ${column}`,

  // Notices.
  notices: {
    stop_requested: "Stop requested", stopped: "Stopped", failed: "The turn failed", interrupted: "The turn was interrupted", resumed: "Resumed",
    session_completed: "The conversation was completed", session_failed: "The conversation failed", steered: "Steered", follow_up: "Message to",
    notification: "",
  } as Record<string, string>,

  // Connection and page.
  live: "Live",
  idle: "Idle",
  working: "Working",
  waiting: "Needs you",
  completed: "Completed",
  failedStatus: "Failed",
  connecting: "Connecting",
  reconnecting: (seconds: number, attempt: number) => `Reconnecting ${seconds > 0 ? `in ${seconds} s ` : "now "}(attempt ${attempt}). The run continues on the server; nothing you see is lost.`,
  retryNow: "Retry now",
  catchingUp: (n: number) => (n > 0 ? `Catching up: ${count(n, "event", "events")}` : "Catching up"),
  reloaded: "The history changed on the server and was loaded again.",
  loadingOlder: "Loading earlier entries",
  olderFailed: "Earlier entries could not be loaded.",
  beginning: "Beginning of the conversation",
  newEntries: (n: number) => (n > 0 ? `${number(n)} new` : "To the end"),
  notFound: "This conversation does not exist, or you may not see it.",
  gone: "This conversation was erased.",
  signInAgain: "Your sign-in has ended.",
  cannotOpen: "The conversation could not be opened.",
  emptyHint: (about: string) => about || "Say something to begin.",
  transcript: "Conversation",
  loading: "Loading",
  reset: "Start over",
  search: "Search this conversation",
  searchOlder: "Look further back",
  found: (n: number) => (n === 0 ? "Nothing found." : `${number(n)} found`),

  // Inspector.
  inspector: "Raw",
  inspectorFilter: "Filter events by text or type",
  follow: "Follow",
  pause: "Pause",
  copyJSON: "Copy JSON",
  copyNDJSON: "Copy shown as NDJSON",
  loadEarlier: "Load earlier events",
  gap: (from: number, to: number) => `Missing: ${from} to ${to}`,
  event: (seq: number) => `Event ${seq}`,
  eventsShown: (n: number, of: number) => `${number(n)} of ${number(of)}`,
  canonical: "Parley",
  dialectSilent: "This dialect has no words for this event.",
  tokens: "Tokens",
  tokensIn: "in",
  tokensOut: "out",
  tokensCached: "cached",
  tokensReasoning: "reasoning",

  // Said to screen readers.
  sayStarted: "The agent started",
  sayContinues: "Message continues.",
  sayPlan: (done: number, all: number) => `Plan ${done} of ${all}`,
  sayWork: (name: string, state: string) => `Workstream ${name} ${state}`,
  sayAsked: (text: string) => `A question waits for you: ${text}`,
  saySixty: "60 seconds left to answer",
  sayTwenty: "20 seconds left to answer",
  sayExpired: "The time to answer is over",
  sayLost: "The connection is lost",
  keys: "Keys",
};

export type Texts = typeof english;

/** Seconds as m:ss, or h:mm above an hour. */
export function clock(seconds: number): string {
  const s = Math.max(0, Math.ceil(seconds));
  const two = (n: number) => String(n).padStart(2, "0");
  return s >= 3600 ? `${Math.floor(s / 3600)}:${two(Math.floor((s % 3600) / 60))} h` : `${Math.floor(s / 60)}:${two(s % 60)}`;
}

/** How long something took, in the unit a person would use. */
export function took(ms: number): string {
  if (ms < 0) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
  return `${Math.floor(ms / 3_600_000)} h ${Math.round((ms % 3_600_000) / 60_000)} min`;
}

export function bytes(n: number): string {
  if (n < 1000) return `${n} B`;
  const units = ["kB", "MB", "GB"];
  let u = -1;
  do {
    n /= 1000;
    u++;
  } while (n >= 999.5 && u < units.length - 1);
  return `${n < 10 ? n.toFixed(1) : Math.round(n)} ${units[u]}`;
}

export const compact = (n: number): string => new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(n);

const hourMinute = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const dayToo = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

/** A moment as people write it: the time today, with the day otherwise. */
export function moment(at: string | number | undefined): string {
  if (!at) return "";
  const d = new Date(at);
  if (Number.isNaN(d.getTime())) return "";
  return (d.toDateString() === new Date().toDateString() ? hourMinute : dayToo).format(d);
}
