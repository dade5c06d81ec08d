/*
 * Offsets on the wire count UTF-8 bytes; JavaScript strings count UTF-16 units.
 */

/** The length of a text in UTF-8 bytes. */
export function byteLength(s: string): number {
  let n = s.length;
  for (let i = 0; i < s.length; i++) {
    const c = s.charCodeAt(i);
    if (c < 0x80) continue;
    // A surrogate pair is two units and four bytes.
    n += c < 0x800 || (c >= 0xd800 && c <= 0xdfff) ? 1 : 2;
  }
  return n;
}

/** The text after its first UTF-8 bytes. */
export function afterBytes(s: string, bytes: number): string {
  let i = 0;
  for (let n = 0; n < bytes && i < s.length; i++) {
    const c = s.charCodeAt(i);
    n += c < 0x80 ? 1 : c < 0x800 || (c >= 0xd800 && c <= 0xdfff) ? 2 : 3;
  }
  return s.slice(i);
}
