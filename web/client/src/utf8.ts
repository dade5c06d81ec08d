/** The length of a text in bytes of UTF-8. */
export const byteLength = (s: string): number => new TextEncoder().encode(s).length;

/** The text after its first n bytes of UTF-8. n is never inside of a character. */
export const afterBytes = (s: string, n: number): string => new TextDecoder("utf-8", { ignoreBOM: true }).decode(new TextEncoder().encode(s).subarray(n));
