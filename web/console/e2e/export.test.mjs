// A conversation as a file; differences in code.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, test } from "node:test";
import { axe, feed, inSession, post, settled } from "./suite.mjs";

describe("export", () => {
  test("a conversation is downloaded as Markdown; a difference has colours", () =>
    inSession(
      async (page, id) => {
        await post(
          id,
          { type: "user.message", payload: { text: "Change the price" } },
          { type: "agent.tool_call", payload: { call_id: "1", tool: "edit", params: { file: "a.txt" } } },
          { type: "agent.tool_result", payload: { call_id: "1", result: "ok" } },
          { type: "agent.text", payload: { text: "Done:\n\n```diff\n-price: 1\n+price: 2\n```\n\nAnything else?" } },
        );
        await settled(page, "Anything else?");
        const colour = (name) => feed(page).locator(`.hljs-${name}`).evaluate((el) => getComputedStyle(el).color);
        assert.notEqual(await colour("addition"), await colour("deletion"));
        await page.locator(".co-dots summary").click();
        const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download as Markdown" }).click()]);
        assert.match(file.suggestedFilename(), /^Test-\d+\.md$/);
        const text = await readFile(await file.path(), "utf8");
        const parts = ["# Test", "Change the price", "**edit** (ok)", '"file": "a.txt"', "```diff\n-price: 1\n+price: 2\n```", "Anything else?"];
        assert.deepEqual(parts.map((p) => text.indexOf(p)).map((at, i, all) => at >= 0 && (i === 0 || at > all[i - 1])), parts.map(() => true), text);
      },
      { session: { agent: "none" } },
    ));

  test("a conversation is downloaded as one HTML file that runs and loads nothing", () =>
    inSession(
      async (page, id, context) => {
        await post(
          id,
          { type: "user.message", payload: { text: "<b>Change</b> the price" } },
          { type: "agent.tool_call", payload: { call_id: "1", tool: "edit", params: { file: "</pre><script>1</script>" } } },
          { type: "agent.tool_result", payload: { call_id: "1", result: "ok" } },
          { type: "agent.text", payload: { text: "Done, **really**: $x^2$\n\n<img src=https://evil.example/x.png onerror=a()>\n\n| a | b |\n|--|--|\n| 1 | 2 |\n\nAnything else?" } },
        );
        await settled(page, "Anything else?");
        await page.locator(".co-dots summary").click();
        const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download as HTML" }).click()]);
        assert.match(file.suggestedFilename(), /^Test-\d+\.html$/);
        const html = await readFile(await file.path(), "utf8");
        assert.doesNotMatch(html, /<(script|img|link|iframe)/i);
        const alone = await context.newPage();
        const asked = [];
        alone.on("request", (r) => asked.push(r.url()));
        await alone.setContent(html);
        await alone.getByRole("heading", { name: /^Test/ }).waitFor();
        await alone.getByText("<b>Change</b> the price").waitFor();
        await alone.locator("math").waitFor();
        await alone.getByRole("cell", { name: "2" }).waitFor();
        await alone.getByText("edit", { exact: true }).click();
        await alone.locator("details pre", { hasText: "</pre><script>1</script>" }).waitFor();
        await axe(alone, "the file");
        assert.deepEqual(asked.filter((u) => /^http/.test(u)), []);
        await alone.close();
      },
      { session: { agent: "none" } },
    ));
});
