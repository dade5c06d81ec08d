import type { TurnTransport, WorkTurn } from "./turn.js";
import type { Payloads } from "./types.gen.js";
import { afterBytes, byteLength } from "./utf8.js";

/** The size at which a block is closed and continued in a new one, in bytes. */
const maxBlock = 512 << 10;

/** The same for the size of the text as JSON, so that the event is not too large. */
const maxJSON = 700 << 10;

/**
 * Streams one block: text is previewed as it is written, and close stores the block. A worker that continues the turn of
 * another worker writes the same text again; previewed text is skipped. Different text opens a new block; the old block is
 * stored as it was previewed.
 */
export class WorkWriter {
  readonly #turn: WorkTurn;
  readonly #transport: TurnTransport;
  readonly #kind: "text" | "thinking";
  readonly #final: boolean;
  readonly #step: string;
  #parts = 0; // blocks that were full and closed
  #block = "";
  #text = "";
  #bytes = 0;
  #json = 0; // the size of the text as JSON
  #old = ""; // the text that an earlier attempt previewed
  #rest = ""; // the first half of a surrogate pair
  #done = false; // an earlier attempt finished it

  /** Created by WorkTurn.stream and WorkTurn.think. */
  constructor(turn: WorkTurn, transport: TurnTransport, kind: "text" | "thinking", final: boolean, step: string) {
    this.#turn = turn;
    this.#transport = transport;
    this.#kind = kind;
    this.#final = final;
    this.#step = step;
    this.#begin();
  }

  get #name(): string {
    return this.#parts === 0 ? this.#step : `${this.#step}.${this.#parts}`;
  }

  #begin(): void {
    const t = this.#turn;
    this.#block = t.blockOf(this.#name);
    this.#text = "";
    this.#bytes = 0;
    this.#json = 0;
    this.#done = t.isStored(this.#name);
    if (t.isStored(`close-${this.#block}`)) {
      // An earlier attempt abandoned the block and may have opened another.
      this.#block = t.openBlocks(`${this.#block}-a`).at(-1)?.[0] ?? `${this.#block}-a${t.attempt}`;
    }
    this.#old = t.openBlocks(this.#block).find(([block]) => block === this.#block)?.[1] ?? "";
  }

  /** Writes text. */
  async write(text: string): Promise<void> {
    this.#turn.signal.throwIfAborted();
    text = this.#rest + text;
    this.#rest = /[\ud800-\udbff]$/.test(text) ? text.slice(-1) : "";
    if (this.#rest) text = text.slice(0, -1);
    while (this.#bytes + byteLength(text) > maxBlock || this.#json + packed(text) > maxJSON) {
      let rest = afterBytes(text, Math.max(0, maxBlock - this.#bytes - 3));
      if (this.#json + packed(text.slice(0, text.length - rest.length)) > maxJSON)
        rest = afterBytes(text, Math.floor(Math.max(0, maxJSON - this.#json) / 6)); // a byte of text takes at most six bytes of JSON
      const at = text.length - rest.length;
      const cut = /[\ud800-\udbff]/.test(text[at - 1] ?? "") ? at - 1 : at;
      await this.#show(text.slice(0, cut));
      await this.#finish(false);
      text = text.slice(cut);
      this.#parts++;
      this.#begin();
    }
    await this.#show(text);
  }

  /** Stores the block. */
  async close(): Promise<void> {
    if (this.#rest) await this.#show("\ufffd");
    this.#rest = "";
    await this.#finish(this.#final);
  }

  async #show(text: string): Promise<void> {
    const from = this.#text.length;
    this.#text += text;
    this.#bytes += byteLength(text);
    this.#json += packed(text);
    if (this.#done || !text) return;
    if (from < this.#old.length) {
      const n = Math.min(this.#old.length, this.#text.length);
      if (this.#text.slice(from, n) !== this.#old.slice(from, n)) await this.#abandon();
    }
    await this.#send();
  }

  /** Sends the text that was not previewed yet. A lost preview is repeated with the next one, and close sends the whole text. */
  async #send(): Promise<void> {
    const t = this.#turn;
    const socket = await this.#transport.socketFor(t);
    const { bytes, units } = t.shown.get(this.#block) ?? { bytes: 0, units: 0 };
    if (units >= this.#text.length) return;
    t.shown.set(this.#block, { bytes: this.#bytes, units: this.#text.length });
    const piece = { block: this.#block, offset: bytes, text: this.#text.slice(units), kind: this.#kind, ...(t.workstream ? { workstream_id: t.workstream } : {}) };
    socket.send(JSON.stringify({ op: "preview", turn_id: t.id, previews: [piece] }));
  }

  /** Stores the old block as it was previewed and opens another. */
  async #abandon(): Promise<void> {
    await this.#put(`close-${this.#block}`, { block: this.#block, text: this.#old, partial: true });
    this.#block = `${this.#turn.blockOf(this.#name)}-a${this.#turn.attempt}`;
    this.#old = "";
  }

  async #finish(final: boolean): Promise<void> {
    if (!this.#done && this.#text.length < this.#old.length) await this.#abandon(); // the text of this attempt is shorter
    await this.#put(this.#name, { block: this.#block, text: this.#text, ...(final ? { final } : {}) });
  }

  #put(step: string, payload: Payloads["agent.text"]): Promise<unknown> {
    return this.#turn.put(step, this.#kind === "text" ? "agent.text" : "agent.thinking", payload);
  }
}

/** The maximum size of a text as JSON: some encoders escape HTML characters. */
function packed(text: string): number {
  return byteLength(JSON.stringify(text)) + 5 * (text.match(/[<>&\u2028\u2029]/g)?.length ?? 0);
}
