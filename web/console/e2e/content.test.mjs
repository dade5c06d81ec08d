// What texts can show: formulas, tables, footnotes, diagrams.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { axe, copied, feed, inSession, post, settled, steady, until } from "./suite.mjs";

const none = { session: { agent: "none" } };

describe("content", () => {
  test("[5] formulas are typeset on demand; one with errors is shown as TeX", () =>
    inSession(async (page, id) => {
      const asked = [];
      page.on("request", (r) => asked.push(new URL(r.url()).pathname));
      await post(id, { type: "agent.text", payload: { text: "It costs $5 or $10." } });
      await settled(page, "It costs $5 or $10.");
      assert.deepEqual(asked.filter((a) => /math|KaTeX/.test(a)), []);
      await post(id, { type: "agent.text", payload: { text: "Let $\\vec{x}_1 \\le 2$, so\n\n$$\n\\sum_{i=1}^n i\n= \\frac{n(n+1)}{2}\n$$\n\n```math\n\\sqrt{\\text{fence}}\n```\n\nand \\(\\nonsense{x}\\) fails." } });
      await until(page, () => feed(page).locator(".pl-formula .katex").count().then((n) => n === 3), "three formulas");
      // The style sheet and its fonts are applied, and styles that KaTeX sets on elements too.
      await until(page, () => page.evaluate(() => document.fonts.check("16px KaTeX_Main")), "the fonts");
      assert.ok(asked.filter((a) => /KaTeX/.test(a)).every((a) => a.endsWith(".woff2")));
      assert.notEqual(await feed(page).locator(".katex .accent-body svg").first().evaluate((el) => el.style.width), "");
      assert.equal(await feed(page).locator(".pl-tex").textContent(), "\\nonsense{x}");
      await axe(page, "formulas");
    }, none));

  test("[26] a table is sorted and copied as CSV; a footnote opens in place", () =>
    inSession(async (page, id, context) => {
      await context.grantPermissions(["clipboard-read", "clipboard-write"]);
      await post(id, { type: "agent.text", payload: { text: "Margins[^1]:\n\n| Region | Change |\n|---|--:|\n| North | 10 |\n| *South* | 9 |\n| West | =1+1 |\n\n[^1]: In *per cent*, see [the report](https://example.com)." } });
      const cells = () => feed(page).locator("tbody td:first-child").allTextContents();
      const head = feed(page).getByRole("button", { name: "Change" });
      await head.click();
      assert.deepEqual(await cells(), ["South", "North", "West"]);
      assert.equal(await feed(page).getByRole("columnheader", { name: "Change" }).getAttribute("aria-sort"), "ascending");
      await feed(page).getByRole("button", { name: "Copy as CSV" }).click();
      await copied(page, "Region,Change\nSouth,9\nNorth,10\nWest,'=1+1\n");
      await head.click();
      assert.deepEqual(await cells(), ["West", "North", "South"]);
      await head.click();
      assert.deepEqual(await cells(), ["North", "South", "West"]);
      const note = feed(page).getByRole("button", { name: "Note 1" });
      await note.click();
      assert.equal(await note.getAttribute("aria-expanded"), "true");
      await feed(page).locator(".pl-noteopen a[href='https://example.com']").waitFor();
      await axe(page, "a table and a footnote");
    }, none));

  test("[6] a diagram is drawn in a sandbox; its source is one click away, and is what remains of one with errors", () =>
    inSession(async (page, id) => {
      const reached = [];
      page.on("request", (r) => reached.push(new URL(r.url()).pathname));
      const hostile = 'flowchart LR\n  A["<img src=x onerror=parent.PWN=1>"] --> B[Made here]\n  click B call alert()\n  click A "javascript:alert(1)"';
      await post(id, { type: "agent.text", payload: { text: `\`\`\`mermaid\n${hostile}\n\`\`\`\n\nthen\n\n\`\`\`mermaid\nflowchart LR\n  A -->\n\`\`\`\n\nend` } });
      const image = feed(page).locator(".pl-diagram img").first();
      await until(page, () => image.evaluate((el) => el.complete && el.naturalWidth > 50).catch(() => false), "a drawing");
      const svg = decodeURIComponent((await image.getAttribute("src")).split(",")[1]);
      assert.match(svg, />Made</);
      assert.match(svg, /\.edgeLabel rect[^}]*opacity:\s*1/); // no line crosses the words at an edge
      assert.doesNotMatch(svg, /onerror=|javascript:|<script/);
      await feed(page).getByText(/^The diagram could not be drawn: /).waitFor();
      await feed(page).locator(".pl-code", { hasText: "A -->" }).last().waitFor();
      await axe(page, "diagrams");
      await feed(page).getByRole("button", { name: "Source" }).click();
      await feed(page).locator(".pl-diagram pre", { hasText: "click B call alert()" }).waitFor();
      assert.equal(await page.evaluate(() => window.PWN), undefined);
      assert.deepEqual(reached.filter((p) => p.endsWith("/x")), []);
    }, { ...none, expect: /inline event handler/ })); // the policy of the frame

  test("long messages are folded; a message, or what is selected in it, is quoted with the keyboard", () =>
    inSession(async (page, id) => {
      const lines = (n, word) => Array.from({ length: n }, (_, i) => `${word} ${i + 1}`).join("\n");
      const long = Array.from({ length: 40 }, (_, i) => `Paragraph ${i} has ${"some words in it ".repeat(22)}.`).join("\n\n");
      await post(id, { type: "agent.text", payload: { text: long } }, { type: "user.message", payload: { text: lines(30, "line") } }, { type: "agent.text", payload: { text: "First part.\n\nSecond part." } });
      await page.reload();
      await settled(page, "Second part.");
      const said = feed(page).locator(".pl-user");
      const height = () => said.locator(".pl-bubble").evaluate((el) => el.clientHeight);
      assert.ok((await height()) <= 240);
      await said.getByRole("button", { name: /^Show all/ }).click();
      assert.ok((await height()) > 500);
      await said.getByRole("button", { name: "Show less" }).click();
      await feed(page).evaluate((el) => (el.scrollTop = 0));
      await settled(page, "Paragraph 0 has");
      const more = feed(page).getByRole("button", { name: /^Show all \(1\d kB\)/ });
      assert.equal(await feed(page).getByText("Paragraph 5 has").count(), 0);
      const top = feed(page).getByText("Paragraph 0 has");
      await steady(page, page.locator(".pl-list"));
      const before = (await top.boundingBox()).y;
      await axe(page, "folded messages");
      await more.focus();
      await page.keyboard.press("Enter");
      await until(page, () => more.count().then((n) => n === 0), "the whole text");
      // What was read does not move.
      await settled(page, "Paragraph 5 has");
      await steady(page, page.locator(".pl-list"));
      assert.ok(Math.abs((await top.boundingBox()).y - before) <= 1);
      const answer = feed(page).locator("article", { hasText: "Second part." }).last();
      await feed(page).evaluate((el) => (el.scrollTop = 1e9));
      await answer.getByRole("button", { name: "Quote" }).focus();
      await page.keyboard.press("Enter");
      const box = page.getByRole("textbox", { name: "Message", exact: true });
      assert.equal(await box.inputValue(), "> First part.\n>\n> Second part.\n\n");
      assert.ok(await box.evaluate((el) => el === document.activeElement));
      await box.fill("");
      await answer.locator("p").first().selectText();
      await answer.getByRole("button", { name: "Quote" }).click();
      assert.equal(await box.inputValue(), "> First part.\n\n");
    }, none));
});
