import { useState } from "react";
import type { AgentInfo } from "@parley-hq/client";
import { between, states, type Filter, type FilterKey } from "./filter.js";
import { useWords } from "./locale.js";
import { Select } from "./select.js";

/** The people that occur in the list, by id. */
export type People = ReadonlyMap<string, string>;

const spans = ["1d", "7d", "30d"] as const;

/** The fields of the filter. A choice applies at once. */
export function FilterForm({ filter, set, agents, people }: { filter: Filter; set: (f: Filter) => void; agents: readonly AgentInfo[]; people: People }) {
  const words = useWords();
  const days = between(filter.active ?? "");
  const [choosing, setChoosing] = useState(days !== undefined);
  const change = (k: FilterKey, v: string) => {
    const { [k]: _, ...others } = filter;
    set(v ? { ...others, [k]: v } : others);
  };
  const pick = (k: FilterKey, label: string, options: [string, string][]) => (
    <label>
      <span>{label}</span>
      <Select className="pl-field" value={filter[k] ?? ""} onChange={(e) => change(k, e.target.value)}>
        <option value="">{words.any}</option>
        {[...options, ...(filter[k] && !options.some(([v]) => v === filter[k]) ? [[filter[k], filter[k]] as [string, string]] : [])].map(([v, name]) => (
          <option key={v} value={v}>
            {name}
          </option>
        ))}
      </Select>
    </label>
  );
  const day = (at: 0 | 1, label: string) => (
    <label>
      <span>{label}</span>
      <input
        className="pl-field"
        type="date"
        value={days?.[at] ?? ""}
        onChange={(e) => {
          const next = [...(days ?? ["", ""])];
          next[at] = e.target.value;
          change("active", next.join("") ? next.join("..") : "");
        }}
      />
    </label>
  );
  return (
    <form className="co-filter-form" aria-label={words.filter} onSubmit={(e) => e.preventDefault()}>
      {pick("agent", words.agent, agents.map((a) => [a.name, a.name]))}
      {(people.size > 1 || filter.person) && pick("person", words.person, [...people])}
      {pick("state", words.state, states.map((s) => [s, words.states[s] ?? s]))}
      <label>
        <span>{words.lastActive}</span>
        <Select
          className="pl-field"
          value={choosing ? "days" : (filter.active ?? "")}
          onChange={(e) => {
            setChoosing(e.target.value === "days");
            change("active", e.target.value === "days" ? "" : e.target.value);
          }}
        >
          <option value="">{words.anyTime}</option>
          {[...spans, ...(filter.active && !days && !spans.some((s) => s === filter.active) ? [filter.active] : [])].map((s) => (
            <option key={s} value={s}>
              {words.lastDays(Number.parseInt(s, 10))}
            </option>
          ))}
          <option value="days">{words.chooseDays}</option>
        </Select>
      </label>
      {choosing && (
        <div className="co-filter-days">
          {day(0, words.fromDay)}
          {day(1, words.toDay)}
        </div>
      )}
      <label className="co-filter-check">
        <input type="checkbox" checked={filter.archived === "yes"} onChange={(e) => change("archived", e.target.checked ? "yes" : "")} />
        <span>{words.archived}</span>
      </label>
    </form>
  );
}
