/**
 * Makes one short line from a first message, without what may be secret. It gives the same result as HeadingOf of the Go
 * package chat: both pass chat/testdata/headings.json.
 */
export const headingOf = (text: string): string =>
  (/\S.*/.exec(text)?.[0] ?? "")
    .replace(/\s+/g, " ")
    .trim()
    .replace(/^(\/[a-z][^ /]*) .*/i, "$1")
    .replace(/(\w*(?:passw|passphrase|pwd|secret|token|authorization|credential|key)\w*["']?(?: ?[:=] ?| is ))(?:bearer |basic )?\S+/gi, "$1…")
    .replace(/(:\/\/)(?:[^ /@]*@)?([^ ?#]*)\S*/g, "$1$2")
    .replace(/(?=[a-z+=]*\d)(?=[\d+=]*[a-z])[a-z\d+=]{12,}/gi, "…")
    .replace(/^(.{59}).{2,}/u, "$1…");
