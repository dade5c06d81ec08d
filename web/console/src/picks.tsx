import { useEffect, useState } from "react";
import type { AgentInfo, ParleyClient, Session, Settings } from "@parley-hq/client";
import "./picks.css";
import { useWords } from "./locale.js";
import { Select } from "./select.js";

/** What a person has chosen for a conversation that does not exist yet. */
export interface Picked {
  agent: string;
  settings: Settings;
}

interface Props {
  client: ParleyClient;
  agents: readonly AgentInfo[];
  /** Absent: the choice is for a new conversation. */
  session: Session | undefined;
  me: string | undefined;
  picked: Picked;
  pick: (p: Picked) => void;
  changed: () => void;
}

/** The menus of the composer: agent, model, effort and who approves. */
export function Picks({ client, agents, session, me, picked, pick, changed }: Props) {
  const words = useWords();
  const [stored, setStored] = useState<Session>(); // as the last change left it; the list is reloaded later
  const [fault, setFault] = useState<string>();
  const id = session?.session_id;
  useEffect(() => setStored(undefined), [session]);
  useEffect(() => setFault(undefined), [id]);
  const now: Picked = session ? { agent: (stored ?? session).agent, settings: (stored ?? session).settings ?? {} } : picked;
  const info = agents.find((a) => a.name === now.agent);
  const { approvals = "ask", model = "", effort = "" } = now.settings;
  // Only owners may change them; the others see them.
  const owners = session ? [session.owner, ...(session.members ?? []).filter((m) => m.role === "owner").map((m) => m.actor)] : [];
  const fixed = session !== undefined && me !== undefined && !owners.some((a) => a.id === me);
  const set = (next: Picked) => {
    if (id === undefined) return pick(next);
    setFault(undefined);
    client.update(id, next.agent === now.agent ? { settings: next.settings } : { agent: next.agent }).then(
      (s) => {
        setStored(s);
        changed();
      },
      (err: unknown) => setFault(words.notChanged(err instanceof Error ? err.message : String(err))),
    );
  };
  const change = (s: Settings) => set({ ...now, settings: { ...now.settings, ...s } });
  const known = agents.some((a) => a.name === now.agent) || !now.agent ? agents.map((a) => a.name) : [now.agent, ...agents.map((a) => a.name)];
  const models = info?.models ?? [];
  const chosen = model || models[0] || "";
  return (
    <span className="co-picks">
      {fault && (
        <span className="co-err" role="alert">
          {fault}
        </span>
      )}
      {known.length > 1 && now.agent !== "none" && (
        <Pick
          name
          label={words.agent}
          value={now.agent}
          disabled={fixed}
          options={known.map((n) => [n, agents.find((a) => a.name === n)?.healthy === false ? `${n} (${words.away})` : n])}
          set={(agent) => set({ agent, settings: session ? now.settings : { ...now.settings, model: "", effort: "" } })}
        />
      )}
      {models.length > 1 && (
        <Pick name label={words.model} value={chosen} disabled={fixed} options={(models.includes(chosen) ? models : [chosen, ...models]).map((m) => [m, m])} set={(m) => change({ model: m === models[0] ? "" : m })} />
      )}
      {info?.kind === "model" && <Pick label={words.effort} value={effort} disabled={fixed} options={["", "low", "medium", "high"].map((e) => [e, words.efforts[e] ?? e])} set={(e) => change({ effort: e })} />}
      {now.agent !== "none" && (
        <Pick label={words.approvals} value={approvals} disabled={fixed} options={(["ask", "review", "all"] as const).map((a) => [a, words.approvalModes[a] ?? a])} set={(a) => change({ approvals: a as NonNullable<Settings["approvals"]> })} />
      )}
    </span>
  );
}

function Pick({ name, label, value, options, disabled, set }: { name?: boolean; label: string; value: string; options: [string, string][]; disabled: boolean; set: (v: string) => void }) {
  return (
    <Select className={name ? "co-pick co-pick-name" : "co-pick"} aria-label={label} title={label} value={value} disabled={disabled} onChange={(e) => set(e.target.value)}>
      {options.map(([v, text]) => (
        <option key={v} value={v}>
          {text}
        </option>
      ))}
    </Select>
  );
}
