import type { Session } from "@parley-hq/client";
import { Initials, nameOf } from "../entries/author.js";
import { useShared } from "../shared/context.js";

const most = 4;

/** The owner and the members of a session, as initials with their names and roles. */
export function People({ session: s }: { session: Session }) {
  const { texts, me } = useShared();
  const all = [{ actor: s.owner, role: "owner" }, ...(s.members ?? []).filter((m) => m.actor.id !== s.owner.id)];
  const told = all.map(({ actor, role }) => `${actor.id === me ? texts.you : nameOf(actor)} (${texts.roles[role] ?? role})`).join(", ");
  return (
    <span className="pl-people" role="img" aria-label={told} title={told}>
      {all.slice(0, most).map(({ actor }) => (
        <Initials key={actor.id} id={actor.id} name={nameOf(actor)} />
      ))}
      {all.length > most && <span>+{all.length - most}</span>}
    </span>
  );
}
