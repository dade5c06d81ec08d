/*
 * Offsets on the wire count bytes of UTF-8; texts here count UTF-16 units.
 */

/** How many bytes a text has in UTF-8. */
export function byteLength(s: string): number {
  let n = s.length;
  for (let i = 0; i < s.length; i++) {
    const c = s.charCodeAt(i);
    if (c < 0x80) continue;
    // A pair of surrogates is two units here and four bytes there.
    n += c < 0x800 || (c >= 0xd800 && c <= 0xdfff) ? 1 : 2;
  }
  return n;
}

/** The text behind its first so many bytes. */
export function afterBytes(s: string, bytes: number): string {
  let i = 0;
  for (let n = 0; n < bytes && i < s.length; i++) {
    const c = s.charCodeAt(i);
    n += c < 0x80 ? 1 : c < 0x800 || (c >= 0xd800 && c <= 0xdfff) ? 2 : 3;
  }
  return s.slice(i);
}
