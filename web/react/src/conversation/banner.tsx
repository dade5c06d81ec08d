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
  // It floats, so that no text moves. Its seconds are not read out: the announcer tells of a lost connection once.
  return (
    <div className="pl-afloat">
      <div className="pl-banner">
        <span>{text}</span>
        {waits && (
          <button type="button" className="pl-link" onClick={() => client.wake()}>
            {texts.retryNow}
          </button>
        )}
      </div>
    </div>
  );
}

/** The status of the session and the connection: a dot and a word. */
export function StatusDot() {
  const { store, texts, mode } = useShared();
  const c = useConnection(store);
  const status = useView(store)?.status;
  const [kind, word] =
    c.state !== "live" ? ["off", c.state === "catching up" ? texts.catchingUp(0) : texts.connecting]
    : status === "waiting" ? (mode === "read-only" ? ["idle", texts.waitsForAnswer] : ["waiting", texts.waiting])
    : status === "running" ? ["live", texts.working]
    : status === "failed" ? ["failed", texts.failedStatus]
    : ["idle", status === "completed" ? texts.completed : texts.idle];
  return (
    <span className={`pl-dot pl-dot-${kind}`}>
      <span className="pl-dot-mark" aria-hidden="true" />
      <span>{word}</span>
    </span>
  );
}
