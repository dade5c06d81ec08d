/*
 * An estimate of the server's time. Deadlines are server times; a countdown needs the offset of the local clock.
 */

export class Clock {
  /** Milliseconds to add to the local time. */
  offset = 0;
  #error = Infinity;

  /** The server's time, in milliseconds since the epoch. */
  now(): number {
    return Date.now() + this.offset;
  }

  /** Updates the offset from a time that the server sent; asked is when the request for it was sent, if there was one. */
  learn(server: string, asked?: number): void {
    const said = Date.parse(server);
    if (Number.isNaN(said)) return;
    const heard = Date.now();
    const least = said - heard; // without the network delay
    if (asked !== undefined && heard - asked < this.#error) {
      this.#error = heard - asked;
      this.offset = said - (heard + asked) / 2;
    } else if (least > this.offset || this.#error === Infinity || this.offset - least > 5000) {
      // The offset was too small, is the first one, or a clock was changed.
      this.offset = least;
      if (this.#error !== Infinity) this.#error *= 2;
    }
  }
}
