import { expect, test } from "vitest";
import { codeOf, Segmenter } from "../src/markdown/segments.js";

/** A seeded source of numbers, so that a failure can be repeated. */
function random(seed: number): () => number {
  return () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
}

const words = "the quick brown fox jumps over a lazy dog and *then* some `code` or **bold** text".split(" ");

function prose(next: () => number, size: number): string {
  const line = () => Array.from({ length: 5 + Math.floor(next() * 40) }, () => words[Math.floor(next() * words.length)]).join(" ");
  let out = "";
  while (out.length < size) {
    const kind = next();
    if (kind < 0.5) out += `${line()}\n\n`;
    else if (kind < 0.6) out += `## ${line()}\n\n`;
    else if (kind < 0.75) out += `${Array.from({ length: 4 }, () => `- ${line()}`).join("\n")}\n\n`;
    else if (kind < 0.9) out += `\`\`\`go\n${Array.from({ length: Math.floor(next() * 500) }, (_, i) => `line ${i}`).join("\n")}\n\`\`\`\n\n`;
    else out += `| a | b |\n|---|---|\n${Array.from({ length: 6 }, (_, i) => `| ${i} | x |`).join("\n")}\n\n`;
  }
  return out;
}

test("the segments of a growing message are always the message, and sealed segments do not change", () => {
  for (let seed = 1; seed <= 12; seed++) {
    const next = random(seed);
    const text = prose(next, 40_000);
    const s = new Segmenter();
    let before: readonly { text: string }[] = [];
    for (let at = 0; at < text.length; at += 1 + Math.floor(next() * 700)) {
      const now = s.of("m", text.slice(0, at));
      expect(now.map((p) => p.text).join("")).toBe(text.slice(0, at));
      for (let i = 0; i < before.length - 1; i++) expect(now[i]).toBe(before[i]);
      before = now;
    }
    const all = s.of("m", text);
    expect(all.map((p) => p.text).join("")).toBe(text);
    expect(all.length).toBeGreaterThan(5);
  }
});

test("the tail stays small however long the message is", () => {
  const s = new Segmenter();
  const text = prose(random(7), 200_000);
  const pieces = s.of("m", text);
  expect(pieces[pieces.length - 1]?.text.length).toBeLessThan(10_000);
});

test("a long paragraph is split", () => {
  const s = new Segmenter();
  const text = Array.from({ length: 20_000 }, (_, i) => `tok${i}`).join(" ");
  const pieces = s.of("m", text);
  expect(pieces.map((p) => p.text).join("")).toBe(text);
  expect(Math.max(...pieces.map((p) => p.text.length))).toBeLessThan(9000);
});

test("the segments of a long fence contain the whole code", () => {
  const code = Array.from({ length: 1000 }, (_, i) => `const x${i} = ${i}; // "~"`).join("\n");
  const s = new Segmenter();
  const pieces = s.of("m", `Here:\n\n\`\`\`ts\n${code}\n\`\`\`\n\nAfter it.`);
  const parts = pieces.filter((p) => p.fence);
  expect(parts.length).toBeGreaterThan(3);
  expect(parts.map(codeOf).join("\n")).toBe(code);
  expect(pieces[pieces.length - 1]?.text).toContain("After it.");
});

test("a different text under the same id is split again", () => {
  const s = new Segmenter();
  s.of("m", prose(random(1), 20_000));
  expect(s.of("m", "short").map((p) => p.text)).toEqual(["short"]);
});

test("a held message is not split", () => {
  const s = new Segmenter();
  const text = prose(random(3), 12_000);
  const n = s.of("m", text.slice(0, 3000)).length;
  s.hold = new Set(["m"]);
  expect(s.of("m", text).length).toBe(n);
  s.hold = new Set();
  expect(s.of("m", `${text} x`).length).toBeGreaterThan(n);
});

test("a link reference holds for all segments", () => {
  const cut = new Segmenter();
  const text = `See [the report][r].\n\n${"Some words of a paragraph.\n\n".repeat(400)}\`\`\`\n[code]: https://example.com/no\n\`\`\`\n\n[r]: https://example.com/r\n`;
  for (let at = 0; at < text.length; at += 7) cut.of("b", text.slice(0, at));
  expect(cut.of("b", text).length).toBeGreaterThan(3);
  const links = cut.links("b");
  expect(Object.keys(links)).toEqual(["r"]);
  expect(links.r?.href).toBe("https://example.com/r");
  expect(cut.links("b")).toBe(links); // the same object, so that nothing is drawn again
});
