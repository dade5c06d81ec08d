import { useEffect, useState } from "react";

/** The settings of the server for the console. */
export interface About {
  dialects: readonly string[];
  /** External images can be fetched. */
  images: boolean;
  /** Origins whose pages may show the console's frame; a star stands for any port. */
  frames: readonly string[];
  /** The URL of a trace, with {id} for its id; may be empty. */
  trace: string;
}

const nothing: About = { dialects: [], images: false, frames: [], trace: "" };

let asked: Promise<About> | undefined;

export const about = (): Promise<About> =>
  (asked ??= fetch("/console.json")
    .then((res) => (res.ok ? (res.json() as Promise<Partial<About>>) : {}))
    .then((a) => ({ ...nothing, ...a })));

/** The URL of a trace, if the operator has configured one. */
export const traceURL = (a: About): ((id: string) => string) | undefined => (a.trace ? (id) => a.trace.replaceAll("{id}", encodeURIComponent(id)) : undefined);

/** The settings, once they are loaded. */
export function useAbout(): About {
  const [a, set] = useState(nothing);
  useEffect(() => void about().then(set, () => {}), []);
  return a;
}
