/*
 * The texts of the console. Those of the conversation are in the package react.
 */

export const english = {
  brand: "Parley",
  unreachable: (why: string) => `Parley cannot be reached: ${why}`,
  tryAgain: "Try again",
  conversation: "Conversation",
  newConversation: "New conversation",
  conversations: "Conversations",
  closeList: "Close the list",
  skip: "Skip to the conversation",
  theme: { auto: "Theme: system", light: "Theme: light", dark: "Theme: dark" } as Record<string, string>,
  panels: "Plan, work, files",
  agent: "Agent",
  away: "unavailable",
  needAnswer: (n: number): string => (n === 1 ? "1 needs you" : `${n} need you`),
  language: "Language",
  close: "Close",

  // The menus of the composer.
  model: "Model",
  effort: "Effort",
  efforts: { "": "Usual effort", low: "Low effort", medium: "Medium effort", high: "High effort" } as Record<string, string>,
  approvals: "Approvals",
  approvalModes: { ask: "Ask me first", review: "Ask me unless the risk is low", all: "Approve everything" } as Record<string, string>,
  suggestions: { commands: "Commands of the agent", mentions: "People and files", found: (n: number): string => (n === 1 ? "1 suggestion" : `${n} suggestions`) },
  file: "File",
  voice: "Dictate",
  voiceNote: "Dictate (your browser turns speech into text; it may use a service of its maker)",
  notChanged: (why: string) => `Not changed: ${why}`,

  // The start page.
  welcome: "Talk with your agents, watch them work, and answer what they ask.",
  welcomeNote: "A demo agent answers here; try one of these.",
  demo: {
    "/tour": ["Take the tour", "A question, an approval, parallel work and a chart, in one minute."],
    "/ask": ["Ask a question that waits for your answer", "The agent pauses until you choose. Its question is in your inbox, too."],
    "/approve": ["Approve a tool before it runs", "See what the agent wants to do, change it, allow it or deny it."],
    "/work": ["Watch three workstreams in parallel", "Each has its own task and deadline. You can steer or end them."],
  } as Record<string, [string, string]>,
  connect: "Connect an agent of your own",
  connectWays: {
    worker: ["Your own code", "A worker connects to this server and takes the turns of the agent “mine”, here in Python. A server with tokens needs one with the scope agent in PARLEY_TOKEN."],
    model: ["A language model", "An endpoint of a model is an entry in the file of agents. Start the server again, or send it SIGHUP."],
    http: ["A program that answers over HTTP", "An endpoint of OpenAI chat, AG-UI, NeMo or NDJSON is an entry in the same file."],
    test: ["A first message", "The agent “mine” is then in the menu below. From a terminal:"],
  } as Record<"worker" | "model" | "http" | "test", [string, string]>,

  // The inbox.
  inbox: "Inbox",
  inboxHint: "Questions of your agents that wait for an answer",
  inboxEmpty: "Nothing needs you.",
  inboxEmptyNote: "When an agent asks a question or wants an approval, it appears here. You can answer it without opening the conversation.",
  inboxKeys: [["j k", "move"], ["Enter", "answer"], ["a", "approve"], ["d", "deny"], ["o", "open the conversation"]] as [string, string][],
  alsoAnswer: (names: string) => `also asked: ${names}`,
  openConversation: "Open the conversation",
  answeredHere: "Answered",
  notOpen: "No longer open",
  timeOver: "time is over",

  // The list.
  search: "Search",
  searchConversations: "Search conversations",
  listFailed: (why: string) => `The list cannot be loaded: ${why}`,
  listStale: "Offline. This list may be out of date.",
  nothingFound: "No title or first message contains this.",
  noConversations: "No conversations yet. Write a message to begin one.",
  needsYou: "Needs you",
  pinned: "Pinned",
  pin: (title: string) => `Pin ${title}`,
  unread: "(unread)",
  running: "Running",
  recent: "Recent",
  showMore: "Show more",
  questions: (n: number): string => (n === 1 ? "1 question" : `${n} questions`),
  failed: "failed",
  working: "working",
  noAgent: "no agent",
  status: { completed: "completed", waiting: "waits for an answer" } as Record<string, string>,

  // The filters of the list.
  filter: "Filter",
  any: "Any",
  person: "Person",
  state: "State",
  states: { waiting: "Needs you", running: "Working", idle: "Idle", completed: "Completed", failed: "Failed" } as Record<string, string>,
  lastActive: "Last active",
  anyTime: "Any time",
  lastDays: (n: number): string => (n === 1 ? "Today" : `Last ${n} days`),
  chooseDays: "Between two days",
  fromDay: "From",
  toDay: "To",
  archived: "Archived",
  removeFilter: (name: string) => `Remove the filter ${name}`,
  noMatch: "No conversation matches the filters. Remove one to see more.",

  // The menu of a conversation.
  more: "More about this conversation",
  rename: "Rename",
  renameTitle: "Rename the conversation",
  title: "Title",
  printView: "Print view",
  exportMarkdown: "Download as Markdown",
  exportHTML: "Download as HTML",
  eventsJSON: "Events as JSON",
  developerOn: "Developer mode",
  developerOff: "Leave developer mode",
  noPage: "There is no page at this address.",
  noPageHint: "The link may be incomplete.",
  erase: "Erase",
  archive: "Archive",
  unarchive: "Bring back from the archive",
  archiveOne: (title: string) => `Archive ${title}`,
  unarchiveOne: (title: string) => `Bring ${title} back from the archive`,
  archivedNow: (title: string) => `Archived: ${title}`,
  broughtBack: (title: string) => `Brought back: ${title}`,
  deleted: (title: string) => `Erased: ${title}`,
  notDeleted: (title: string, why: string) => `${title} was not erased: ${why}`,
  undo: "Undo",
  cancel: "Cancel",

  // Branches of a conversation.
  branch: "Branch",
  branches: "Branches",
  previousBranch: "Previous branch",
  nextBranch: "Next branch",

  // The account.
  account: (name: string) => `Signed in as ${name}`,
  signOut: "Sign out",
  notifyOn: "Notify me of questions and finished work",
  notifyOff: "Stop notifications",
  finished: "The agent has finished",
  openServer: "No sign-in is needed on this server.",

  // The palette.
  palette: "Commands and conversations",
  paletteHint: "Jump to a conversation, or type a command",
  changeTheme: "Change the theme",

  // Keys.
  keys: "Keys",
  keyList: [
    ["Ctrl + K", "commands and conversations"],
    ["Enter", "send the message"],
    ["/", "commands of the agent, at the beginning of a message"],
    ["@", "names of people and files, in a message"],
    ["Shift + Enter", "a new line"],
    ["Esc, Esc", "stop the agent, from the composer"],
    ["Alt + Q", "go to the open question"],
    ["Ctrl + Enter", "send an answer, from its field"],
    ["Alt + ↑ ↓", "previous and next entry, from the list"],
    [".", "developer mode: events, trace, tokens"],
    ["?", "this list"],
  ] as [string, string][],

  // Signing in.
  signIn: "Sign in",
  signInNote: "This server requires you to sign in. Paste a token, or open the link that the server printed when it started.",
  signInEnded: "Your sign-in has ended. Sign in again to continue where you were; what you have written is kept.",
  token: "Token",
  notToken: "This is not a token: it has characters that no token has.",
  answered: (status: number) => `The server answered with status ${status}.`,
  cannotReach: "The server cannot be reached.",

  // In a frame of another page.
  notHere: (origin: string) => `This page (${origin}) may not show Parley. The operator of the server can allow it.`,
  waitsForToken: "Waiting for the surrounding page to sign in.",
};

export type Words = typeof english;
