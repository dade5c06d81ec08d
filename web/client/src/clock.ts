/*
 * The server's time. Deadlines are absolute and decided there; a countdown needs to know how far the clock here is off.
 */

export class Clock {
  /** Milliseconds to add to the time here. */
  offset = 0;
  #error = Infinity;

  /** The server's time, in milliseconds since the epoch. */
  now(): number {
    return Date.now() + this.offset;
  }

  /** Learns from a time that the server said; asked is when it was asked for it, if it was. */
  learn(server: string, asked?: number): void {
    const said = Date.parse(server);
    if (Number.isNaN(said)) return;
    const heard = Date.now();
    const least = said - heard; // the word was under way for a while
    if (asked !== undefined && heard - asked < this.#error) {
      this.#error = heard - asked;
      this.offset = said - (heard + asked) / 2;
    } else if (least > this.offset || this.#error === Infinity || this.offset - least > 5000) {
      // Too slow a clock, the first word on it, or one that was set meanwhile.
      this.offset = least;
      if (this.#error !== Infinity) this.#error *= 2;
    }
  }
}
