import type { Token } from "marked";
import { expect, test } from "vitest";
import { lex, loaded } from "../src/markdown/extension.js";
import { decode, ownFile, safeHref } from "../src/markdown/markdown.js";
import { csvOf, nextSort, sortRows, type Sort } from "../src/markdown/sorting.js";
import { readChart } from "../src/artifacts/chart.js";
import { readTable } from "../src/artifacts/table.js";
import { clock, plain } from "../src/i18n/formats.js";
import { english } from "../src/i18n/texts.js";

const { bytes, took } = english;

test("only links with allowed schemes are rendered as links", () => {
  for (const good of ["https://example.com/a?b=c", "http://localhost:1", "mailto:a@b.c", "/s/one", "#seq=4"]) expect(safeHref(good)).toBe(good);
  for (const bad of [
    "javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\u0000script:alert(1)", "java\nscript:alert(1)", " javascript:alert(1)", "\u202ejavascript:x",
    "javascript&#58;alert(1)", "&#106;avascript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "//evil.example", "/\\evil.example", "blob:x", "",
  ])
    expect(safeHref(bad)).toBeUndefined();
});

test("only files of the session are rendered as images without a request", () => {
  for (const good of ["/parley/v1/sessions/s-1/artifacts/a.png", "/parley/v1/sessions/s-1/artifacts/out/a%20b.png", "/parley/v1/sessions/s-1/artifacts/x/../a.png"])
    expect(ownFile(good, "s-1")).toBe(true);
  for (const bad of [
    "/parley/v1/backup", "/parley/v1/verify", "/auth/session", "/parley/v1/sessions/s-1/export", "/parley/v1/sessions/s-1/artifacts/", "/parley/v1/sessions/s-2/artifacts/a.png",
    "/parley/v1/sessions/s-1/artifacts/../../../backup", "/parley/v1/sessions/s-1/artifacts/%2e%2e/%2E%2e/export", "/parley/v1/sessions/s-1/artifacts/..\\..\\export",
    "/parley/v1/sessions/s-1/artifacts/a.png?x=1", "//evil.example/parley/v1/sessions/s-1/artifacts/a.png", "https://evil.example/a.png", "#a", "",
  ])
    expect(ownFile(bad, "s-1")).toBe(false);
});

test("only character references are decoded", () => {
  expect(decode("a &lt;b&gt; &amp; &#65;&#x42; &nope; &#0; &#xD800;")).toBe("a <b> & AB &nope; \ufffd \ufffd");
});

test("table formats of agents are read", () => {
  expect(readTable({ columns: ["a"], rows: [[1]] })).toEqual({ columns: ["a"], rows: [[1]] });
  expect(readTable([{ a: 1, b: 2 }, { a: 3 }])).toEqual({ columns: ["a", "b"], rows: [[1, 2], [3, undefined]] });
  expect(readTable("nonsense")).toBeUndefined();
});

test("chart formats of agents are read", () => {
  expect(readChart({ type: "bar", x: ["a"], series: [{ name: "s", values: [1] }] })).toEqual({ type: "bar", x: ["a"], series: [{ name: "s", values: [1] }] });
  expect(readChart({ type: "line", data: { labels: ["a"], datasets: [{ label: "s", data: ["2"] }] } })).toEqual({ type: "line", x: ["a"], series: [{ name: "s", values: [2] }] });
  expect(readChart({ mark: "bar" })).toBeUndefined();
});

test("times and sizes are formatted", () => {
  expect([clock(59.2), clock(60), clock(3725), clock(-1)]).toEqual(["1:00", "1:00", "1:02 h", "0:00"]);
  expect([took(12), took(1400), took(61_000)]).toEqual(["12 ms", "1.4 s", "1 min 1 s"]);
  expect([bytes(999), bytes(1000), bytes(999_600), bytes(12_345_678)]).toEqual(["999\u00a0B", "1.0\u00a0kB", "1.0\u00a0MB", "12\u00a0MB"]);
});

test("Markdown becomes one line of plain text", () => {
  expect(plain("## Result\n\n- copper is **up** by `11 %`, see [the _report_](https://example.com)\n1. once")).toBe("Result copper is up by 11 %, see the _report_ once");
  expect(plain("2 * 3 = 6, snake_case stays")).toBe("2 * 3 = 6, snake_case stays");
});

test("a link reference may be defined in another segment", () => {
  const [p] = lex("See [the report][1].", { "1": { href: "https://example.com/r", title: "" } });
  expect(p?.type === "paragraph" && p.tokens?.map((t) => t.type)).toEqual(["text", "link", "text"]);
});

test("a table is sorted by the values of a column; the third click restores its order", () => {
  const order = (sort: Sort, ...cells: string[]) => sortRows(cells.map((c, i) => ({ c, i })), sort, (r) => r.c).map((r) => `${r.c}/${r.i}`).join(" ");
  const up = nextSort(undefined, 0);
  const down = nextSort(up, 0);
  expect(order(up, "10", "9", "1,000", "−2.4", "31 %", "$5")).toBe("−2.4/3 $5/5 9/1 10/0 31 %/4 1,000/2");
  expect(order(up, "b", "a", "", "b", "7")).toBe("7/4 a/1 b/0 b/3 /2");
  expect(order(down, "b", "a", "", "b")).toBe("b/0 b/3 a/1 /2");
  expect(nextSort(down, 0)).toBeUndefined();
  expect(nextSort(down, 1)).toEqual({ column: 1, down: false });
});

test("comma-separated values are quoted, and formulas are not run by a spreadsheet", () => {
  expect(csvOf([["a", 'say "hi"'], ["x,y", "two\nlines"], [null, -5], ["=1+1", "@x"], ["-2.4", "-cmd"]])).toBe(
    'a,"say ""hi"""\r\n"x,y","two\nlines"\r\n,-5\r\n\'=1+1,\'@x\r\n-2.4,\'-cmd\r\n',
  );
});

const shape = (text: string, known = {}): string[] => {
  const out: string[] = [];
  const walk = (tokens: readonly Token[] | undefined) => {
    for (const t of tokens ?? []) {
      if (t.type === "formula") out.push(`${t.display ? "$$" : "$"}${t.tex}`);
      else if (t.type === "noteref") out.push(`[${t.number}] ${t.note}`);
      else if (t.type === "note") out.push(`note ${t.number}`);
      if ("tokens" in t) walk(t.tokens);
      if ("items" in t) walk(t.items as Token[]);
    }
  };
  walk(lex(text, known));
  return out;
};

test("formulas are recognised, amounts of money are not", async () => {
  await loaded;
  expect(shape("Let $x_1 \\le 2$ and \\(a+b\\), **so $y$**.")).toEqual(["$x_1 \\le 2", "$a+b", "$y"]);
  expect(shape("Then\n$$\na\n- b\n= c\n$$\nand \\[\n\\frac{1}{2}\n\\]\nend.")).toEqual(["$$a\n- b\n= c", "$$\\frac{1}{2}"]);
  expect(shape("In $$x$$ a line; $5$, $2n+1$, $3 \\cdot 4$.")).toEqual(["$$x", "$5", "$2n+1", "$3 \\cdot 4"]);
  for (const text of [
    "It costs $5 or $10.", "from $5-$10", "I paid $20, you owe me A$.", "US$5 and A$6", "$HOME/$PATH and $HOME:$PATH", "a $ b $ c", "\\$x$ y", "`$x$`", "$x", "$$x", "\\(x", "\\[x\n\ny\\]", "$$a\n\nb$$", "$ 5$", "```\n$x$\n```",
  ])
    expect(shape(text), text).toEqual([]);
});

test("footnotes are numbered; a note may be defined in another segment", async () => {
  await loaded;
  const text = "One[^a] and two[^b], none[^c], [a link][^a].\n\n[^a]: First *note*\n    goes on.\n[^b]: second";
  expect(shape(text)).toEqual(["[1] First *note*\ngoes on.", "[2] second", "[1] First *note*\ngoes on.", "note 1", "note 2"]);
  expect(shape("Far[^b].", lex(text).links)).toEqual(["[2] second"]);
  expect(lex("[^1](https://example.com)\n\n[^1]: x")[0]).toMatchObject({ tokens: [{ type: "link" }] });
});
