import type { Actor, ShownItem } from "@parley-hq/client";

/** Reports whether an item was written by the person at this page. Without an actor id of that person, every message counts as theirs. */
export function isOwn(item: ShownItem, me: string | undefined): boolean {
  if ("pending" in item || !item.actor) return true;
  return item.actor.kind === "user" && (me === undefined || item.actor.id === me);
}

export const nameOf = (a: Actor | undefined): string => a?.name || a?.id || "";

/** The initials of an author in a colour. */
export function Initials({ id, name }: { id: string; name: string }) {
  const words = name.split(/[\s._@-]+/).filter(Boolean);
  let sum = 0;
  for (const c of id) sum = (sum * 31 + (c.codePointAt(0) ?? 0)) % 997;
  return (
    <span className={`pl-initials pl-lane-${(sum % 6) + 1}`} aria-hidden="true">
      {[words[0], words[1]].map((w) => [...(w ?? "")][0] ?? "").join("")}
    </span>
  );
}

/** The name of an author with initials in a colour: round for people, square for agents. The initials are those of `of`. */
export function Author({ id, name, of, agent }: { id: string; name: string; of?: string; agent: boolean }) {
  return (
    <div className={agent ? "pl-author pl-author-agent" : "pl-author"}>
      <Initials id={id} name={of || name} />
      <span dir="auto">{name}</span>
    </div>
  );
}
