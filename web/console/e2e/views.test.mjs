// Further views of a conversation: tokens and trace of each turn, the timeline of the workstreams, the print view.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { openPage, say } from "./harness.mjs";
import { axe, browser, developer, events, feed, inSession, openPanelWithWork, post, server, settled, stopButton, until } from "./suite.mjs";

const raw = async (page, tab) => {
  await developer(page);
  await page.getByRole("tab", { name: tab, exact: true }).click();
};

describe("turns", () => {
  test("[29] the tokens of each turn; their sum is that of the meter", () =>
    inSession(async (page, id) => {
      await say(page, "/usage 1200 300");
      await raw(page, "Tokens");
      await page.getByText("1.5K tokens").first().waitFor();
      const table = page.getByRole("table", { name: "Tokens" });
      await table.getByRole("cell", { name: "1,200" }).first().waitFor();
      await say(page, "/usage 800 200"); // comes in while one looks
      await table.getByRole("row", { name: /Total.*2,000.*500/ }).waitFor();
      await page.getByText("2.5K tokens").first().waitFor();
      await axe(page, "tokens");
      const first = (await events(id)).find((e) => e.type === "turn.started").sequence;
      await table.getByRole("button", { name: `#${first}` }).click();
      await page.getByRole("region", { name: `Event ${first}` }).waitFor();
    }));

  test("[9] the trace of a turn; a bar opens its event", () =>
    inSession(async (page) => {
      await say(page, '/tool lookup {"q":1}');
      await settled(page, "lookup gave");
      await raw(page, "Trace");
      const trace = page.getByRole("region", { name: "Trace" });
      await trace.getByRole("button", { name: /^Turn/ }).waitFor();
      await axe(page, "trace");
      await trace.getByRole("button", { name: /^Tool lookup/ }).click();
      await page.getByRole("region", { name: /^Event/ }).getByText('"tool": "lookup"').first().waitFor();
    }));

  test("[9] a trace id links to the operator's tracing system", () =>
    inSession(async (page, id) => {
      await say(page, "/sleep 600");
      await stopButton(page).waitFor();
      const turn = await until(page, async () => (await events(id)).find((e) => e.type === "turn.started"), "a turn");
      await raw(page, "Trace");
      const { error } = await post(id, { type: "agent.trace", turn_id: turn.turn_id, payload: { trace_id: "4bf92f3577b34da6" } });
      assert.equal(error, undefined);
      const link = page.getByRole("region", { name: "Trace" }).getByRole("link", { name: "4bf92f3577b34da6" });
      assert.equal(await link.getAttribute("href"), "https://traces.example.com/4bf92f3577b34da6");
      assert.match(await link.getAttribute("rel"), /noopener/);
    }));

  test("[23] the timeline shows all workstreams as a tree beside one axis; Esc closes it", () =>
    inSession(async (page) => {
      await say(page, "/work 3 900 deadline=1200");
      await openPanelWithWork(page);
      await page.getByText("3 running").first().waitFor();
      await page.getByRole("button", { name: "Timeline" }).click();
      const dialog = page.getByRole("dialog", { name: "Timeline" });
      await dialog.getByRole("button", { name: /^Part 2/ }).waitFor();
      assert.equal(await dialog.locator(".pl-track").count(), 3);
      assert.ok((await dialog.boundingBox()).width > 1000);
      await axe(page, "timeline");
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "detached" });
      await page.getByRole("button", { name: "Timeline" }).click();
      await dialog.getByRole("button", { name: /^Part 2/ }).click();
      await page.getByRole("button", { name: "Show everything" }).waitFor();
    }));
});

describe("print view", () => {
  test("[31] the print view contains every entry", () =>
    inSession(
      async (page, id) => {
        for (let i = 0; i < 3; i++) await post(id, ...Array.from({ length: 300 }, (_, n) => ({ type: "agent.text", payload: { text: `Entry ${i * 300 + n}` } })));
        const { page: paper, context, faults } = await openPage(browser);
        await paper.goto(`${server.url}/s/${id}?print`);
        await paper.getByRole("button", { name: "Print" }).waitFor();
        assert.equal(await feed(paper).locator("article").count(), 900);
        for (const n of [0, 899]) assert.equal(await feed(paper).getByText(`Entry ${n}`, { exact: true }).count(), 1);
        assert.ok(await paper.evaluate(() => document.documentElement.scrollHeight > innerHeight * 3), "it cannot be scrolled");
        await paper.emulateMedia({ media: "print" });
        assert.equal(await paper.getByRole("button", { name: "Print" }).count(), 0);
        assert.deepEqual(faults, []);
        await context.close();
        // The menu of the conversation opens it.
        await page.getByLabel("More about this conversation").click();
        assert.match(await page.getByRole("link", { name: "Print view" }).getAttribute("href"), /\?print$/);
      },
      { session: { agent: "none" } },
    ));

  test("the print view shows the entries of a workstream once, in its row", () =>
    inSession(async (page, id) => {
      await say(page, "/work 2 1");
      await until(page, async () => (await events(id)).some((e) => e.type === "turn.completed" && !e.workstream_id), "the end of the work");
      const { page: paper, context, faults } = await openPage(browser);
      await paper.goto(`${server.url}/s/${id}?print`);
      await paper.getByRole("button", { name: "Print" }).waitFor();
      for (const n of [1, 2]) {
        const text = new RegExp(`^Part ${n}, chapter 1`);
        await feed(paper).locator(".pl-prose").getByText(text).first().waitFor(); // Markdown is drawn a moment later
        assert.equal(await feed(paper).locator(".pl-prose").getByText(text).count(), 1);
        assert.equal(await feed(paper).locator(".pl-thread").nth(n - 1).locator(".pl-thread-body").getByText(text).count(), 1);
      }
      assert.deepEqual(faults, []);
      await context.close();
    }));
});
