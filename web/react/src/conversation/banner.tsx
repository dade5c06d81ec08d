import { useEffect, useState } from "react";
import { useShared } from "../shared/context.js";
import { useConnection, useEverySecond, useView } from "../shared/hooks.js";

const quiet = 3000;

/** Shows a lost connection after three seconds. */
export function Banner() {
  const { store, texts, client } = useShared();
  const c = useConnection(store);
  const waits = c.state === "offline" || c.state === "connecting";
  const [lostAt, setLostAt] = useState<number>();
  useEffect(() => setLostAt((at) => (c.state === "live" || c.state === "ended" ? undefined : (at ?? c.since))), [c.state, c.since]);
  const text = useEverySecond(() => {
    if (lostAt === undefined || Date.now() - lostAt < quiet) return "";
    if (c.state === "catching up") return texts.catchingUp(c.behind ?? 0);
    if (!waits) return "";
    return texts.reconnecting(c.retryAt ? Math.max(0, Math.ceil((c.retryAt - Date.now()) / 1000)) : 0, c.attempt);
  });
  if (!text || lostAt === undefined) return null;
  return (
    <div className="pl-banner" role="status">
      <span>{text}</span>
      {waits && (
        <button type="button" className="pl-link" onClick={() => client.wake()}>
          {texts.retryNow}
        </button>
      )}
    </div>
  );
}

/** The status of the session and the connection: a dot and a word. */
export function StatusDot() {
  const { store, texts } = useShared();
  const c = useConnection(store);
  const status = useView(store)?.status;
  let word = texts.live;
  let kind = "live";
  if (c.state !== "live") {
    word = c.state === "catching up" ? texts.catchingUp(0) : texts.connecting;
    kind = "off";
  } else if (status === "waiting") {
    word = texts.waiting;
    kind = "waiting";
  } else if (status === "running") word = texts.working;
  else if (status === "failed") {
    word = texts.failedStatus;
    kind = "failed";
  } else if (status === "completed") {
    word = texts.completed;
    kind = "idle";
  } else {
    word = texts.idle;
    kind = "idle";
  }
  return (
    <span className={`pl-dot pl-dot-${kind}`}>
      <span className="pl-dot-mark" aria-hidden="true" />
      <span>{word}</span>
    </span>
  );
}
