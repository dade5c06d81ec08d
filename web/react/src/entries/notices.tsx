import type { ItemOf } from "@parley-hq/client";
import { safeHref } from "../markdown/markdown.js";
import { workstreamName, useShared } from "../shared/context.js";
import { useView } from "../shared/hooks.js";
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

/** A status of the agent; dimmed when its turn has ended. */
export function StatusLine({ item }: { item: ItemOf<"status"> }) {
  const { store } = useShared();
  const running = useView(store)?.turns.some((t) => t.turn_id === item.turn_id) ?? false;
  return (
    <div className={`pl-status${running ? " pl-running" : ""}`}>
      <Icon name={running ? "ring" : "dash"} size={14} />
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

export function FileEntry({ item }: { item: ItemOf<"file"> }) {
  const { client, store, texts } = useShared();
  const f = item.file;
  const name = f.name ?? f.path;
  if (f.change === "removed")
    return (
      <div className="pl-notice">
        <Icon name="trash" size={14} />
        {texts.fileRemoved(name)}
      </div>
    );
  return (
    <div className="pl-notice">
      <Icon name="file" size={14} />
      {f.removed ? (
        <span>
          <s>{texts.uploaded(name)}</s> · {texts.removedFile}
        </span>
      ) : (
        <a href={client.artifactURL(store.id, f.path)} download={name}>
          {texts.uploaded(name)}
        </a>
      )}
      {f.size !== undefined && <span className="pl-muted">{texts.bytes(f.size)}</span>}
    </div>
  );
}

export function ShareEntry({ item }: { item: ItemOf<"share"> }) {
  const { texts, client, store } = useShared();
  const s = item.share;
  const title = s.title ?? s.path ?? s.url ?? "";
  const href = s.url ? safeHref(s.url) : s.path ? client.artifactURL(store.id, s.path) : undefined;
  return (
    <div className="pl-notice">
      <Icon name="link" size={14} />
      {href ? (
        <a href={href} target="_blank" rel="noopener noreferrer nofollow">
          {texts.shared(title)}
        </a>
      ) : (
        texts.shared(title)
      )}
    </div>
  );
}
