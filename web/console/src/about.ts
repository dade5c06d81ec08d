import { useEffect, useState } from "react";

/** What this server offers beside conversations. */
export interface About {
  dialects: readonly string[];
  /** Images from elsewhere can be fetched. */
  images: boolean;
  /** Origins whose pages may show the console's frame; a star stands for any port. */
  frames: readonly string[];
  /** The address of a trace, with {id} for its id; empty when there is none. */
  trace: string;
}

const nothing: About = { dialects: [], images: false, frames: [], trace: "" };

let asked: Promise<About> | undefined;

export const about = (): Promise<About> =>
  (asked ??= fetch("/console.json")
    .then((res) => (res.ok ? (res.json() as Promise<Partial<About>>) : {}))
    .then((a) => ({ ...nothing, ...a })));

/** Where a trace can be seen, if the operator said so. */
export const traceURL = (a: About): ((id: string) => string) | undefined => (a.trace ? (id) => a.trace.replaceAll("{id}", encodeURIComponent(id)) : undefined);

/** What the server offers, once it is known. */
export function useAbout(): About {
  const [a, set] = useState(nothing);
  useEffect(() => void about().then(set, () => {}), []);
  return a;
}
