import { Fragment, useState } from "react";
import { ParleyError, type ItemOf, type PendingItem } from "@parley-hq/client";
import { CopyButton } from "../markdown/code.js";
import { extras } from "../markdown/extension.js";
import { useRowState, useShared } from "../shared/context.js";
import { useConnection, useFault } from "../shared/hooks.js";
import { Icon, type IconName } from "../shared/icons.js";
import { lazyPart } from "../shared/lazy.js";
import { isOwn } from "./author.js";
import { firstAfter } from "./itemat.js";

const FileChip = lazyPart(() => import("../markdown/extras.js").then((m) => m.FileChip), null);
const Editor = lazyPart(() => import("./editor.js").then((m) => m.Editor), null);

function Action({ icon, label, run }: { icon: IconName; label: string; run: (button: Element) => void }) {
  return (
    <button type="button" className="pl-mini" aria-label={label} title={label} onClick={(e) => run(e.currentTarget)}>
      <Icon name={icon} size={14} />
    </button>
  );
}

/** The button that quotes a text, or the selected part of it, in the composer. */
export function Quote({ text }: { text: string }) {
  const { texts, edit } = useShared();
  return edit && <Action icon="quote" label={texts.quote} run={(button) => edit(extras?.quoted(text, button.closest("article")) ?? text, [])} />;
}

/** Reports whether a message of a person is folded: from ten lines if it is one's own, which the reader knows. */
const isLong = (text: string, own: boolean): boolean => text.length > (own ? 1000 : 12_000) || text.split("\n", 26).length > (own ? 10 : 25);

/** A message of a person and its state. */
export function Message({ item }: { item: ItemOf<"message"> | PendingItem }) {
  const { store, texts, mode, edit, branch, branches, me } = useShared();
  const connection = useConnection(store);
  const m = item.message;
  const pending = "pending" in item ? item.pending : undefined;
  const files = m.content?.filter((p) => p.type !== "text") ?? [];
  const text = m.text || m.content?.filter((p) => p.type === "text").map((p) => p.text).join("\n") || "";
  const own = isOwn(item, me);
  const long = isLong(text, own);
  const [edited, setEdited] = useRowState<string | undefined>(`edit ${item.id}`, undefined);
  const editing = edited !== undefined;
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useFault(store);
  const attempt = (failed: string, action: () => Promise<unknown>) => {
    if (busy) return;
    setBusy(true);
    setFault(undefined);
    action()
      // A message that a turn has taken meanwhile shows that itself.
      .catch((err: unknown) => !(err instanceof ParleyError && err.code === "conflict") && setFault(`${failed}: ${err instanceof Error ? err.message : String(err)}`))
      .finally(() => setBusy(false));
  };
  const [all, setAll] = useRowState(`all ${m.client_id ?? item.id}`, false);
  const withdraw = (then: () => void) => attempt(texts.notWithdrawn, () => store.withdraw(item.seq ?? 0).then(then));
  // They are beside the bubble, also when something is below it.
  const actions = !pending && !editing && (
    <div className="pl-actions">
      <time dateTime={item.at}>{texts.moment(item.at)}</time>
      {text && <CopyButton text={() => text} label={texts.copy} bare />}
      {text && <Quote text={text} />}
      {branch && own && mode === "interactive" && item.seq !== undefined && m.state !== "queued" && m.state !== "withdrawn" && (
        <>
          <Action icon="edit" label={texts.editMessage} run={() => (setFault(undefined), setEdited(text))} />
          <Action icon="again" label={texts.answerAgain} run={() => attempt(texts.failed, () => branch(item.seq ?? 0, text, files))} />
        </>
      )}
    </div>
  );
  return (
    <div className={`pl-user${own ? " pl-own" : ""}${pending ? " pl-pending" : ` pl-${m.state}`}`}>
      <div className="pl-said">
        {files.length > 0 && (
          <div className="pl-chips">
            {files.map((f, i) => (
              <FileChip key={i} part={f} />
            ))}
          </div>
        )}
        {editing ? (
          <Editor seq={item.seq ?? 0} text={text} now={edited} setNow={setEdited} files={files} close={() => setEdited(undefined)} />
        ) : (
          text && (
            <div className="pl-bubble-line">
              <div className={`pl-bubble${long && !all ? " pl-folded" : ""}`} dir="auto">
                {text}
              </div>
              {actions}
            </div>
          )
        )}
        {long && !editing && (
          <button type="button" className="pl-link pl-small pl-more" aria-expanded={all} onClick={() => setAll(!all)}>
            {all ? texts.showLess : texts.showAll(texts.bytes(text.length))}
          </button>
        )}
        {!text && actions}
        {!pending && branches?.map((b) => firstAfter(store, b.after) === item.id && <Fragment key={b.after}>{b.content}</Fragment>)}
      </div>
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
          m.steered && texts.steered
        )}
      </div>
      {fault && (
        <div className="pl-mark" role="alert">
          <Icon name="warn" size={14} />
          <span className="pl-bad">{fault}</span>
        </div>
      )}
    </div>
  );
}
