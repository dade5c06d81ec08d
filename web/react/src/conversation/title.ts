/*
 * The heading of a conversation, made from its first message. It gives the same result as HeadingOf of the Go package chat:
 * both pass chat/testdata/headings.json.
 */

const hidden: [RegExp, string][] = [
  [/\b(bearer|basic)\s+\S{8,}/gi, "$1 …"],
  [/\b(pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|authorization|api[ _-]?key|[a-z_]+_(?:key|token|secret|password))(["']?\s*(?:[:=]|\bis\b)\s*)\S+/gi, "$1$2…"],
  [/:\/\/[^\s/@]+@/g, "://…@"],
  [/(https?:\/\/[^\s?#]+)[?#]\S*/g, "$1"],
  [/\b(?:(?:sk|pk|rk|ghp|gho|ghs|glpat|xox[abps])[-_]|AKIA|eyJ)[\w.-]{8,}/g, "…"],
];

/** The first line of a message without what may be secret: arguments of commands, passwords, tokens, queries of URLs. */
export function titleOf(text: string): string {
  let line = (text.trim().split("\n", 1)[0] ?? "").split(/\s+/).filter(Boolean).join(" ");
  line = /^\/[A-Za-z][^\s/]*(?=$| )/.exec(line)?.[0] ?? line;
  for (const [what, by] of hidden) line = line.replace(what, by);
  line = line.replace(/[A-Za-z0-9_+=-]{20,}/g, (w) => (/\d/.test(w) && /[a-z]/i.test(w) ? "…" : w));
  const letters = [...line];
  return letters.length > 60 ? `${letters.slice(0, 59).join("").trim()}…` : line;
}
