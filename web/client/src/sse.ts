/** One frame of an event stream. */
export interface SSEFrame {
  event: string;
  id: string;
  data: string;
}

/** Parses an event stream. It emits only complete frames. */
export class SSEParser {
  #rest = "";
  #event = "";
  #id = "";
  #data: string[] = [];
  readonly #emit: (f: SSEFrame) => void;

  constructor(emit: (f: SSEFrame) => void) {
    this.#emit = emit;
  }

  push(text: string): void {
    // A CR at the end may be the first half of a CRLF.
    const all = this.#rest + text;
    const lines = all.split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? "";
    for (const line of lines) this.#line(line);
  }

  #line(line: string): void {
    if (line === "") {
      if (this.#data.length > 0) this.#emit({ event: this.#event || "message", id: this.#id, data: this.#data.join("\n") });
      this.#event = this.#id = "";
      this.#data = [];
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#event = value;
    else if (field === "id") this.#id = value;
  }
}
