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
  update(server: string, asked?: number): void {
    const sent = Date.parse(server);
    if (Number.isNaN(sent)) return;
    const received = Date.now();
    const least = sent - received; // without the network delay
    if (asked !== undefined && received - asked < this.#error) {
      this.#error = received - asked;
      this.offset = sent - (received + asked) / 2;
    } else if (least > this.offset || this.#error === Infinity || this.offset - least > 5000) {
      // The offset was too small, is the first one, or a clock was changed.
      this.offset = least;
      if (this.#error !== Infinity) this.#error *= 2;
    }
  }
}
