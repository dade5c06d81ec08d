import type { Item, ParleyClient, Part, Session } from "@parley-hq/client";
import { Icon } from "@parley-hq/react";
import { follow } from "./list.js";
import { useWords } from "./locale.js";
import { pathOf } from "./route.js";

/**
 * Copies a conversation up to a message and sends another one there. It returns the id of the copy. A message that waited for an
 * answer stands in the log before the end of that answer: the copy has the whole answer, and withdraws what waited for it. A title
 * that no person gave stays with the original.
 */
export async function branchOf(client: ParleyClient, session: Session, seq: number, text: string, files: Part[], titled: boolean): Promise<string> {
  const { items } = await client.items(session.session_id, { before: seq + 1, limit: 1 });
  const it = items.at(-1);
  const before = it?.kind === "message" && it.seq === seq && it.message.state === "taken" && !it.message.steered ? (it.last ?? 0) - 1 : 0;
  const waited = before > seq;
  const fork = await client.request<Session>(`/sessions/${encodeURIComponent(session.session_id)}/fork`, { method: "POST", json: { after: waited ? before : seq - 1, ...(waited ? { agent: "none" } : {}) } });
  const id = fork.session_id;
  if (waited) for (const s of (await client.snapshot(id, 1)).state.queued) await client.withdraw(id, s);
  if (waited || (session.title && !titled)) await client.update(id, { ...(waited ? { agent: session.agent } : {}), ...(titled ? {} : { title: "" }) });
  await client.say(id, { text, ...(files.length > 0 ? { content: [{ type: "text", text }, ...files] } : {}) });
  return id;
}

/** Reports whether a branch shows an item: not the messages that it withdrew because it replaces them. */
export const isShown = (it: Item, forkedAt = 0): boolean =>
  it.kind !== "message" || it.message.state !== "withdrawn" || (it.seq ?? 0) > forkedAt || (it.last ?? 0) <= forkedAt;

/** A conversation and all branches of it, and of those, oldest first. */
export function branchesOf(all: readonly Session[], current: Session): Session[] {
  const by = new Map(all.map((s) => [s.session_id, s]));
  const rootOf = (s: Session): string => {
    let id = s.session_id;
    for (let of = s.forked_of; of; of = by.get(of)?.forked_of) id = of;
    return id;
  };
  const root = rootOf(current);
  // A copy has the times of the original; ids are in the order of time.
  const order = (s: Session) => (s.session_id === root ? "" : s.session_id);
  return all.filter((s) => rootOf(s) === root).sort((a, b) => (order(a) < order(b) ? -1 : 1));
}

/** Which of the branches is shown, with links to the previous and the next one. */
export function Branches({ all, current, go }: { all: readonly Session[]; current: Session; go: (path: string) => void }) {
  const words = useWords();
  const list = branchesOf(all, current);
  const at = list.findIndex((s) => s.session_id === current.session_id);
  if (list.length < 2 || at < 0) return null;
  const step = (by: number, label: string) => {
    const to = list[at + by];
    const props = { className: by < 0 ? "pl-mini co-back" : "pl-mini", "aria-label": label, title: label, children: <Icon name="chevron" size={14} /> };
    return to ? <a {...props} href={pathOf(to.session_id)} onClick={(e) => follow(e, go)} /> : <button type="button" {...props} disabled />;
  };
  return (
    <span className="co-branches" role="group" aria-label={words.branches}>
      {step(-1, words.previousBranch)}
      <span>
        {at + 1}/{list.length}
      </span>
      {step(1, words.nextBranch)}
    </span>
  );
}
