import type { ItemOf, Part, PendingItem } from "@parley-hq/client";
import { useShared } from "../shared/context.js";
import { useConnection } from "../shared/hooks.js";
import { Icon } from "../shared/icons.js";
import { isOwn } from "./author.js";

/** A message of a person and its state. */
export function Message({ item }: { item: ItemOf<"message"> | PendingItem }) {
  const { store, texts, mode, edit, me } = useShared();
  const connection = useConnection(store);
  const m = item.message;
  const pending = "pending" in item ? item.pending : undefined;
  const files = m.content?.filter((p) => p.type !== "text") ?? [];
  const text = m.text || m.content?.filter((p) => p.type === "text").map((p) => p.text).join("\n") || "";
  const own = isOwn(item, me);
  // When the withdrawal is refused, a turn has taken the message, which then shows it.
  const withdraw = (then: () => void) => void store.withdraw(item.seq ?? 0).then(then, () => {});
  return (
    <div className={`pl-user${own ? " pl-own" : ""}${pending ? " pl-pending" : ` pl-${m.state}`}`}>
      {files.length > 0 && (
        <div className="pl-chips">
          {files.map((f, i) => (
            <FileChip key={i} part={f} />
          ))}
        </div>
      )}
      {text && (
        <div className="pl-bubble" dir="auto">
          {text}
        </div>
      )}
      <div className="pl-mark" role={pending?.status === "failed" ? "alert" : undefined}>
        {pending ? (
          pending.status === "failed" ? (
            <>
              <Icon name="warn" size={14} />
              <span className="pl-bad">
                {texts.failed}: {pending.error?.message}
              </span>
              <button type="button" className="pl-link" onClick={() => store.retry(pending.client_id)}>
                {texts.retry}
              </button>
              <button type="button" className="pl-link" onClick={() => store.discard(pending.client_id)}>
                {texts.discard}
              </button>
            </>
          ) : (
            <>
              <Icon name="clock" size={14} />
              {connection.state === "offline" ? texts.willSend : texts.sending}
            </>
          )
        ) : m.state === "queued" ? (
          <>
            <Icon name="clock" size={14} />
            {texts.queued}
            {mode === "interactive" && item.seq !== undefined && (
              <>
                {edit && own && (
                  <button type="button" className="pl-link" onClick={() => withdraw(() => edit(text, files))}>
                    {texts.editMessage}
                  </button>
                )}
                <button type="button" className="pl-link" onClick={() => withdraw(() => {})}>
                  {texts.withdraw}
                </button>
              </>
            )}
          </>
        ) : m.state === "withdrawn" ? (
          texts.withdrawn
        ) : (
          <>
            {m.steered && <span>{texts.steered}</span>}
            <time dateTime={item.at}>{texts.moment(item.at)}</time>
          </>
        )}
      </div>
    </div>
  );
}

function FileChip({ part }: { part: Part }) {
  const { client, store, texts } = useShared();
  const name = part.name ?? part.path?.split("/").pop() ?? part.type;
  const inner = (
    <>
      <Icon name={part.type === "image" ? "image" : "file"} size={14} />
      <span>{name}</span>
      {part.size ? <span className="pl-muted">{texts.bytes(part.size)}</span> : null}
    </>
  );
  return part.path ? (
    <a className="pl-chip" href={client.artifactURL(store.id, part.path)} download={name}>
      {inner}
    </a>
  ) : (
    <span className="pl-chip">{inner}</span>
  );
}
