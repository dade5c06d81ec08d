// The console in a real browser against the real server and the demo agent, under the production policy.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { api, openPage, say } from "./harness.mjs";
import { atEnd, axe, browser, copied, developer, events, feed, inSession, openPanelWithWork, post, server, settled, steady, stopButton, until } from "./suite.mjs";

describe("messages", () => {
  test("[2] an empty console names its agent, offers starters and has the composer ready", async () => {
    const { page, context, faults } = await openPage(browser);
    await page.goto(server.url);
    await page.getByRole("heading", { name: "demo" }).waitFor();
    await page.getByRole("button", { name: /Take the tour/ }).waitFor();
    await until(page, () => page.evaluate(() => document.activeElement?.tagName === "TEXTAREA"), "focus on the composer");
    await axe(page, "empty");
    await page.getByRole("button", { name: /Approve a tool before it runs/ }).click();
    await page.waitForURL(/\/s\//);
    await page.getByRole("button", { name: "Approve once" }).waitFor();
    await until(page, async () => /Approve a tool before it runs/.test(await page.title()), "the title");
    assert.deepEqual(faults, []);
    await context.close();
  });

  test("[1] [3] a message is shown at once, and only once", () =>
    inSession(async (page, id) => {
      // At once: before the server has received it.
      let release;
      const held = new Promise((r) => (release = r));
      await page.route("**/events", async (route) => {
        if (route.request().method() === "POST") await held;
        await route.continue();
      });
      await say(page, "hello there");
      await feed(page).getByText("hello there", { exact: true }).first().waitFor();
      await feed(page).getByText("Sending").first().waitFor();
      assert.equal((await events(id)).filter((e) => e.type === "user.message").length, 0);
      release();
      await settled(page, "You said: hello there");
      assert.equal(await feed(page).getByText("hello there", { exact: true }).count(), 1);
      assert.equal((await events(id)).filter((e) => e.type === "user.message").length, 1);
      await page.reload();
      await settled(page, "You said: hello there");
      assert.equal(await feed(page).getByText("hello there", { exact: true }).count(), 1);
    }));

  test("[36] Enter sends, Shift+Enter inserts a line, Enter of an input method does neither", () =>
    inSession(async (page, id) => {
      const box = page.getByRole("textbox", { name: "Message", exact: true });
      await box.fill("one");
      await box.press("Shift+Enter");
      await box.pressSequentially("two");
      assert.equal(await box.inputValue(), "one\ntwo");
      await box.dispatchEvent("compositionstart");
      await box.dispatchEvent("keydown", { key: "Enter", isComposing: true, bubbles: true, cancelable: true });
      assert.equal(await box.inputValue(), "one\ntwo");
      await box.dispatchEvent("compositionend");
      // The Enter that ends a composition may arrive after its end; the next one, in a task of its own, sends.
      await page.evaluate(() => new Promise((done) => setTimeout(() => setTimeout(done))));
      await box.press("Enter");
      await settled(page, "You said: one");
      assert.equal((await events(id)).find((e) => e.type === "user.message").payload.text, "one\ntwo");
    }));

  test("[4] a long stream has exactly the bytes that were sent", () =>
    inSession(async (page, id, context) => {
      await context.grantPermissions(["clipboard-read", "clipboard-write"]);
      await say(page, "/stream 2000 400");
      await page.getByText("tok2000", { exact: false }).last().waitFor();
      await page.locator(".pl-prose .pl-actions").getByRole("button", { name: "Copy" }).last().click();
      const text = (await events(id)).find((e) => e.type === "agent.text").payload.text;
      assert.equal(text, Array.from({ length: 2000 }, (_, i) => `tok${i + 1}`).join(" "));
      await copied(page, text);
    }));

  test("[8] after scrolling up the view and the selection stay, and new entries are counted", () =>
    inSession(
      async (page, id) => {
        await post(id, ...Array.from({ length: 40 }, (_, i) => ({ type: "agent.text", payload: { text: `Entry ${i}\n\nmore words here` } })));
        await page.getByText("Entry 39", { exact: true }).first().waitFor();
        const list = page.locator(".pl-list");
        await list.hover();
        await page.mouse.wheel(0, -900);
        const away = page.getByRole("button", { name: /new|To the end/ });
        await away.waitFor();
        await steady(page, list);
        const word = list.locator("article p", { hasText: "Entry" }).nth(3);
        await word.selectText();
        await steady(page, list);
        const chosen = await page.evaluate(() => String(getSelection()));
        const at = await list.evaluate((el) => el.scrollTop);
        for (let i = 0; i < 7; i++) await post(id, { type: "agent.text", payload: { text: `Later ${i}` } });
        await page.getByRole("button", { name: "7 new" }).waitFor();
        assert.equal(await list.evaluate((el) => el.scrollTop), at, "the view moved");
        assert.equal(await page.evaluate(() => String(getSelection())), chosen);
        await page.evaluate(() => getSelection().removeAllRanges());
        await away.click();
        await page.getByText("Later 6", { exact: true }).first().waitFor();
        await atEnd(list);
        await post(id, { type: "agent.text", payload: { text: "Pinned again" } });
        await page.getByText("Pinned again").first().waitFor();
        await atEnd(list);
      },
      { session: { agent: "none" } },
    ));

  test("a message during a turn is queued and can be withdrawn", () =>
    inSession(async (page, id) => {
      await say(page, "/sleep 600");
      await stopButton(page).waitFor();
      await say(page, "later please");
      await page.getByRole("button", { name: "Withdraw" }).click();
      await settled(page, "Withdrawn");
      await stopButton(page).click();
      await settled(page, "Stopped");
      const all = await events(id);
      assert.ok(all.some((e) => e.type === "user.message_withdrawn"));
      assert.ok(!all.some((e) => e.type === "agent.text" && e.payload.text.includes("later please")));
    }));

  test("[22] a stop keeps the shown text", () =>
    inSession(async (page, id) => {
      await say(page, "/stream 5000 50");
      await page.getByText("tok20", { exact: false }).first().waitFor();
      await stopButton(page).click();
      await settled(page, "Stopped");
      await settled(page, "tok20");
      assert.equal((await events(id)).find((e) => e.type === "turn.completed").payload.outcome, "stopped");
    }));

  test("[21] [22] leaving the page does not stop the turn; after a reload it continues", () =>
    inSession(async (page) => {
      await say(page, "/stream 300 100");
      await page.getByText("tok30", { exact: false }).first().waitFor();
      await page.reload();
      await page.getByText("tok300", { exact: false }).first().waitFor();
      const text = await feed(page).innerText();
      assert.equal(text.match(/\btok150\b/g)?.length, 1, "something is doubled or lost");
    }));
});

describe("entries", () => {
  const evil = '<img src=x onerror="window.PWN=1"><script>window.PWN=1</script><svg onload="window.PWN=1"></svg> [x](javascript:window.PWN=1) [y](data:text/html,<script>1</script>) [z](java\u0000script:window.PWN=1) <iframe srcdoc="<script>parent.PWN=1</script>"></iframe> ![i](https://evil.example/pixel.png)';

  test("[6] [7] text of an agent cannot run scripts or load anything", () =>
    inSession(
      async (page, id) => {
        await post(
          id,
          { type: "agent.text", payload: { text: evil } },
          { type: "agent.text", payload: { text: `para ${evil}\n\n- list ${evil}\n\n| a | b |\n|-|-|\n| ${evil.replaceAll("|", "")} | 2 |` } },
          { type: "agent.thinking", payload: { text: evil } },
          { type: "agent.tool_call", payload: { call_id: "c", tool: evil, params: { a: evil } } },
          { type: "agent.tool_result", payload: { call_id: "c", tool: evil, result: evil } },
          { type: "agent.plan", payload: { tasks: [{ id: "1", title: evil, status: "done" }] } },
          { type: "agent.artifact", payload: { type: "table", title: evil, data: { columns: [evil], rows: [[evil]] } } },
          { type: "agent.share", payload: { title: evil, url: "javascript:window.PWN=1" } },
          { type: "agent.input_request", payload: { input_type: "radio", text: evil, options: [{ id: "a", label: evil, description: evil }] } },
        );
        await page.getByRole("radio").waitFor();
        // A script would have run by the time the other image is loaded.
        await page.evaluate(() => new Promise((done) => Object.assign(new Image(), { onload: done, src: "/favicon.svg" })));
        assert.equal(await page.evaluate(() => window.PWN), undefined);
        assert.equal(await page.locator(".pl-list script, .pl-list iframe, .pl-list svg[onload], .pl-list img").count(), 0);
        const bad = await page.locator(".pl-list a").evaluateAll((all) => all.map((a) => a.getAttribute("href")).filter((h) => !/^(https?:|mailto:|\/|#)/.test(h ?? "")));
        assert.deepEqual(bad, []);
      },
      { session: { agent: "none" } },
    ));

  test("[5] Markdown is rendered, and code is copied exactly", () =>
    inSession(
      async (page, id, context) => {
        await context.grantPermissions(["clipboard-read", "clipboard-write"]);
        const code = 'func main() {\n\tprintln("<&>")\n}';
        await post(id, { type: "agent.text", payload: { text: `# Title\n\n**bold** \`x\` [link](https://example.com)\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n\`\`\`go\n${code}\n\`\`\`` } });
        await page.getByRole("heading", { name: "Title" }).waitFor();
        await page.getByRole("cell", { name: "2" }).waitFor();
        await page.locator(".pl-code .hljs-keyword").getByText("func").first().waitFor();
        const link = page.getByRole("link", { name: "link" });
        assert.equal(await link.getAttribute("rel"), "noopener noreferrer nofollow");
        await page.locator(".pl-code-head").getByRole("button", { name: "Copy" }).click();
        await copied(page, code);
      },
      { session: { agent: "none" } },
    ));

  test("[9] [34] tools, thinking and failures", () =>
    inSession(async (page, id) => {
      await say(page, '/tool warehouse.query {"region":"south"}');
      const tool = page.locator(".pl-tool").first();
      await tool.getByText("ok").first().waitFor();
      await tool.locator("summary").click();
      await tool.getByText('"region": "south"').first().waitFor();
      await say(page, "/toolfail fetch_page");
      await page.locator(".pl-tool-error").getByText("fetch_page failed on request").first().waitFor();
      await say(page, "/think first this then that");
      await page.locator(".pl-think summary").first().click();
      await settled(page, "first this then that");
      await say(page, "/fail out of luck");
      await settled(page, "The turn failed: out of luck");
      await feed(page).getByRole("button", { name: "Try again" }).evaluate((button) => (button.click(), button.click())); // a double click sends once
      await until(page, async () => (await feed(page).getByText("The turn failed: out of luck").count()) === 2, "the second attempt");
      assert.equal((await events(id)).filter((e) => e.type === "user.message" && e.payload.text === "/fail out of luck").length, 2);
      assert.equal(await feed(page).getByRole("button", { name: "Try again" }).count(), 1, "only the last turn is offered again");
      await post(id, ...[1, 2, 3, 4, 5, 6].flatMap((i) => [
        { type: "agent.tool_call", payload: { call_id: `g${i}`, tool: "step" } },
        i === 3 ? { type: "agent.tool_error", payload: { call_id: `g${i}`, error: "no" } } : { type: "agent.tool_result", payload: { call_id: `g${i}`, result: i } },
      ]));
      const group = page.locator(".pl-group");
      await group.getByText("6 tool calls").first().waitFor();
      await group.getByText("5 ok").first().waitFor();
      await group.getByText("1 error").first().waitFor();
      await axe(page, "tools");
    }));

  test("[25] [26] [27] [29] plan, files, usage and artifacts", () =>
    inSession(async (page, id) => {
      await say(page, "/plan 3 1");
      await openPanelWithWork(page);
      await page.getByRole("complementary").getByText("3 of 3").first().waitFor();
      await say(page, "/usage 1200 300");
      await settled(page, "Used 1200 tokens");
      assert.equal(await page.locator(".pl-tokens").count(), 0);
      await developer(page);
      await page.getByText("1.5K tokens").first().waitFor();
      for (const kind of ["table", "chart", "image", "file", "html"]) {
        await say(page, `/artifact ${kind}`);
        await settled(page, `Here is the ${kind}.`);
        if (kind !== "image") continue;
        await page.getByRole("button", { name: "Open: A gradient" }).click();
        await page.getByRole("dialog").waitFor();
        await axe(page, "lightbox");
        await page.keyboard.press("Escape");
        await page.getByRole("dialog").waitFor({ state: "hidden" });
        assert.match(await page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? ""), /gradient/);
      }
      await page.getByRole("button", { name: "Show the page" }).click();
      await page.frameLocator("iframe.pl-page").getByText("Made by the demo agent").first().waitFor();
      await page.getByRole("tab", { name: "Files" }).click();
      await page.getByRole("link", { name: /\.csv/ }).first().waitFor();
      await feed(page).hover();
      const turn = (dy, seen, what) => until(page, async () => {
        await page.mouse.wheel(0, dy);
        return seen();
      }, what);
      const heading = page.getByRole("button", { name: "Million people" });
      const biggest = async () => (await page.locator(".pl-table tbody tr").first().locator("td").first().innerText({ timeout: 1000 }).catch(() => "")) === "Tokyo";
      await turn(-400, () => heading.isVisible(), "the table");
      // A click during the rest of the scrolling would miss the button.
      let box = "";
      let still = 0;
      await until(page, async () => {
        const last = box;
        box = JSON.stringify(await heading.boundingBox());
        still = box === last ? still + 1 : 0;
        return still === 15;
      }, "the end of scrolling");
      for (const order of ["ascending", "descending"]) {
        await heading.click();
        await page.locator(`.pl-table th[aria-sort=${order}]`).waitFor();
      }
      await until(page, biggest, "the biggest first");
      // A table that is scrolled out of view and mounted again keeps its order.
      await turn(4000, () => heading.count().then((n) => n === 0), "the table out of sight");
      await turn(-400, () => page.locator(".pl-table th").first().isVisible(), "the table again");
      assert.equal(await page.locator(".pl-table th[aria-sort=descending]").count(), 1);
      const files = (await api(server, `/sessions/${id}/artifacts`)).artifacts;
      assert.equal(files.length, 3);
    }));

  test("[28] files are selected; limits are reported as text", () =>
    inSession(async (page, id) => {
      await page.locator("input[type=file]").setInputFiles([{ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("hello file") }]);
      await page.locator(".pl-composer").getByText("10 B").first().waitFor();
      await say(page, "with a file");
      await page.getByRole("link", { name: /notes\.txt/ }).first().waitFor();
      const m = (await events(id)).find((e) => e.type === "user.message");
      const part = m.payload.content.find((p) => p.type === "file");
      assert.equal(part.name, "notes.txt");
      const body = await fetch(`${server.url}/parley/v1/sessions/${id}/artifacts/${part.path}`);
      assert.equal(await body.text(), "hello file");
      await page.locator("input[type=file]").setInputFiles(Array.from({ length: 6 }, (_, i) => ({ name: `f${i}.txt`, mimeType: "text/plain", buffer: Buffer.from("x") })));
      await page.getByText("A message can have at most 5 files.").first().waitFor();
    }));
});
