import type { ItemOf, NoticeItem, SessionStore } from "@parley-hq/client";
import { workstreamName, useShared } from "../shared/context.js";
import { useItems } from "../shared/hooks.js";
import { Icon, type IconName } from "../shared/icons.js";

const noticeIcons: Record<string, IconName> = { failed: "cross", session_failed: "cross", stopped: "stop", interrupted: "stop", session_completed: "check" };

/** One line about the session or a turn. */
export function Notice({ item }: { item: ItemOf<"notice"> }) {
  const shared = useShared();
  const { texts } = shared;
  const n = item.notice;
  const bad = n.code === "failed" || n.code === "session_failed";
  if (n.code === "notification")
    return (
      <div className="pl-notification" role="note">
        <Icon name="dot" /> <span dir="auto">{n.text}</span>
      </div>
    );
  const line = n.about ? workstreamName(shared, n.about) : "";
  const steered = n.command ? texts.steerNotice[n.command]?.(line) : undefined;
  const words = steered ?? texts.notices[n.code] ?? n.code;
  const about = line && !steered ? ` ${line}` : "";
  const request = n.code === "stopped" ? stopRequest(shared.store, item.turn_id) : undefined;
  const by = request?.by && request.by.id !== shared.me ? (request.by.name ?? request.by.id) : undefined;
  const why = n.text ?? request?.text;
  const kind = n.code === "failed" ? kindOf(shared.store, item) : undefined;
  return (
    <div className={bad ? "pl-failure" : "pl-notice"}>
      <Icon name={noticeIcons[n.code] ?? "dash"} size={14} />
      <span>
        {words}
        {about}
        {by ? ` · ${by}` : ""}
        {n.code === "resumed" && n.attempt ? ` (${n.attempt})` : ""}
        {n.command && !steered ? ` · ${n.command}` : ""}
        {why ? `: ${why}` : ""}
      </span>
      {kind && <code>{kind}</code>}
      {n.code === "failed" && !item.workstream_id && <TryAgain item={item} />}
      <time dateTime={item.at}>{texts.moment(item.at)}</time>
    </div>
  );
}

/** After the last turn has failed: sends its message once more, and only once if two clicks or two tabs ask for it. */
function TryAgain({ item }: { item: ItemOf<"notice"> }) {
  const { store, texts, mode } = useShared();
  const order = useItems(store);
  const all = order.map((id) => store.getItem(id));
  const messages = all.filter((it) => it?.kind === "message" && !it.workstream_id);
  const from = messages.find((m) => m?.kind === "message" && m.message.taken_by === item.turn_id);
  if (mode !== "interactive" || from?.kind !== "message" || messages.some((m) => "pending" in (m ?? {}) || (m?.last ?? 0) > (item.seq ?? 0))) return null;
  const { text, content, context } = from.message;
  return (
    <button type="button" className="pl-link" onClick={() => void store.say({ text, ...(content ? { content } : {}), ...(context !== undefined ? { context } : {}) }, { client_id: `again-${item.turn_id}` }).catch(() => {})}>
      {texts.tryAgain}
    </button>
  );
}

/** The code of the error that ended a turn. */
function kindOf(store: SessionStore, { turn_id, notice }: ItemOf<"notice">): string | undefined {
  for (const id of store.getOrder()) {
    const item = store.getItem(id);
    if (item?.kind === "error" && item.turn_id === turn_id && item.error.message === notice.text) return item.error.code;
  }
  return undefined;
}

/** Who asked for the stop of a turn, and why. */
function stopRequest(store: SessionStore, turn: string | undefined): NoticeItem | undefined {
  for (const id of [...store.getOrder()].reverse()) {
    const item = store.getItem(id);
    if (item?.kind === "notice" && item.notice.code === "stop_requested" && item.turn_id === turn) return item.notice;
  }
  return undefined;
}

/** A past status of the agent; the row of the running turn shows the present one. */
export function StatusLine({ item }: { item: ItemOf<"status"> }) {
  return (
    <div className="pl-status">
      <Icon name="dash" size={14} />
      <span dir="auto">{item.status.message}</span>
    </div>
  );
}

export function ErrorEntry({ item }: { item: ItemOf<"error"> }) {
  return (
    <div className="pl-failure">
      <Icon name="warn" size={14} />
      <span dir="auto">{item.error.message}</span>
      {item.error.code && <code>{item.error.code}</code>}
    </div>
  );
}
