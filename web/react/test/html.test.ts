import { expect, test } from "vitest";
import { htmlOfMarkdown } from "../src/html.js";

test("a file contains no HTML of a text, no script and nothing that is loaded", async () => {
  const html = await htmlOfMarkdown(
    [
      "# <b>Title</b>", '<script>alert(1)</script>\n\n<img src=x onerror="a()">', "[a](javascript:alert(1)) [b](/parley/v1/backup) [c](https://example.com/?a=1&b=\"2) ![d](https://example.com/x.png)",
      "`<i>` **<u>** &lt;s&gt;", "```html\n<iframe></iframe>\n```", "| <a> | b |\n|--|--:|\n| <td> | 1 |", "- [x] <li>\n- two", "> <q>", "$<x>$ and $\\href{javascript:alert(1)}{y}$", "Note[^1]\n\n[^1]: <p>",
    ].join("\n\n"),
  );
  expect(html.match(/<\/?[a-z][a-z0-9]*/gi)?.filter((t) => !/^<\/?(h3|p|a|code|strong|pre|table|thead|tbody|tr|th|td|ul|li|blockquote|sup|aside|span|math|semantics|mrow|mi|mo|mtext|mstyle|annotation)$/.test(t))).toEqual([]);
  expect(html).not.toMatch(/<[^>]* (src|on\w+|style)=/i);
  expect([...html.matchAll(/href="([^"]*)"/g)].map((m) => m[1])).toEqual(["https://example.com/?a=1&#38;b=&#34;2", "https://example.com/x.png"]);
  expect(html).toContain("☑ ");
  expect(html).toContain("&#60;iframe&#62;");
});

test("formulas are MathML; one with errors is TeX", async () => {
  expect(await htmlOfMarkdown("$x^2$")).toContain("<math");
  expect(await htmlOfMarkdown("$\\nonsense{x}$")).toBe("<p><code>\\nonsense{x}</code></p>");
});
