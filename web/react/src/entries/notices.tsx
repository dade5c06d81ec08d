import type { ItemOf } from "@parley-hq/client";
import { workstreamName, useShared } from "../shared/context.js";
import { Icon, type IconName } from "../shared/icons.js";

const noticeIcons: Record<string, IconName> = { failed: "cross", session_failed: "cross", stopped: "stop", interrupted: "stop", stop_requested: "stop", session_completed: "check" };

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
  const by = n.by && n.by.id !== shared.me ? (n.by.name ?? n.by.id) : undefined;
  return (
    <div className={bad ? "pl-failure" : "pl-notice"}>
      <Icon name={noticeIcons[n.code] ?? "dash"} size={14} />
      <span>
        {words}
        {about}
        {n.code === "stop_requested" && by ? ` · ${by}` : ""}
        {n.code === "resumed" && n.attempt ? ` (${n.attempt})` : ""}
        {n.command && !steered ? ` · ${n.command}` : ""}
        {n.text ? `: ${n.text}` : ""}
      </span>
      <time dateTime={item.at}>{texts.moment(item.at)}</time>
    </div>
  );
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
