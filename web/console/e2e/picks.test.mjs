// The menus of the composer: agent, model, effort and who approves.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { api, openPage, say, startServer } from "./harness.mjs";
import { axe, browser, feed, server, settled, until } from "./suite.mjs";

const sessionOf = (at, page) => api(at, `/sessions/${page.url().split("/").pop()}`);

describe("menus of the composer", () => {
  test("who approves is chosen for a new conversation, and changed in it", async () => {
    const { page, context, faults } = await openPage(browser);
    await page.goto(server.url);
    await page.getByLabel("Approvals").selectOption("all");
    await axe(page, "menus");
    await say(page, '/approve deploy {"env":"prod"}');
    await settled(page, 'deploy gave {"env":"prod"}'); // without a question
    assert.equal((await sessionOf(server, page)).settings.approvals, "all");
    await until(page, async () => (await page.getByLabel("Approvals").inputValue()) === "all", "the setting of the session");
    await page.getByLabel("Approvals").selectOption("ask");
    await until(page, async () => (await sessionOf(server, page)).settings?.approvals === "ask", "the new setting");
    await say(page, '/approve deploy {"env":"again"}');
    await page.getByRole("button", { name: "Approve once" }).waitFor();
    // The next conversation asks, as usual.
    await page.getByRole("button", { name: "New conversation" }).click();
    await until(page, async () => (await page.getByLabel("Approvals").inputValue()) === "ask", "the usual setting");
    assert.deepEqual(faults, []);
    await context.close();
  });

  test("the agent, its model and its effort are chosen where the agent offers them", async () => {
    const dir = mkdtempSync(join(tmpdir(), "parley-picks-"));
    const file = join(dir, "parley.yaml");
    writeFileSync(file, "agents:\n  - name: helper\n    kind: model\n    endpoint: http://127.0.0.1:1/v1\n    model: small\n    models: [large]\n", { mode: 0o600 });
    const own = await startServer("--config", file);
    const { page, context } = await openPage(browser);
    try {
      await page.goto(own.url);
      await page.getByLabel("Agent", { exact: true }).selectOption("demo");
      await until(page, async () => (await page.getByLabel("Model").count()) === 0, "an agent without models");
      await page.getByLabel("Agent", { exact: true }).selectOption("helper");
      await page.getByLabel("Model").selectOption("large");
      await page.getByLabel("Effort").selectOption("high");
      // A phone shows the whole choice of each of the four, and the composer keeps its height.
      await page.setViewportSize({ width: 390, height: 844 });
      const cut = await page.locator(".co-pick").evaluateAll((all) => all.filter((el) => el.clientWidth < 48 || el.scrollWidth > el.clientWidth).map((el) => el.getAttribute("aria-label")));
      assert.deepEqual(cut, []);
      assert.ok((await page.locator(".pl-composer").boundingBox()).height <= 844 / 5);
      await page.setViewportSize({ width: 1280, height: 800 });
      await say(page, "hello");
      await page.waitForURL(/\/s\//);
      const s = await sessionOf(own, page);
      assert.deepEqual([s.agent, s.settings.model, s.settings.effort], ["helper", "large", "high"]);
      await page.getByLabel("Model").selectOption("small");
      await until(page, async () => ((await sessionOf(own, page)).settings?.model ?? "") === "", "the default model");
      await page.getByLabel("Agent", { exact: true }).selectOption("demo");
      await until(page, async () => (await sessionOf(own, page)).agent === "demo", "the other agent");
      await feed(page).getByText("hello").first().waitFor();
    } finally {
      await context.close();
      await own.stop();
      rmSync(dir, { recursive: true, force: true });
    }
  });
});
