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

  test("long names leave the other menus and the buttons whole; a failure keeps its words whole", async () => {
    const dir = mkdtempSync(join(tmpdir(), "parley-names-"));
    const file = join(dir, "parley.yaml");
    writeFileSync(file, "agents:\n  - name: research-assistant-of-the-market-team\n    kind: model\n    endpoint: http://127.0.0.1:1/v1\n    model: qwen3-coder-480b-a35b-instruct-2507\n    models: [large]\n    retries: 1\n    default: true\n", { mode: 0o600 });
    const own = await startServer("--config", file);
    const { page, context } = await openPage(browser);
    try {
      await page.goto(own.url);
      await page.getByLabel("Effort").waitFor();
      const cut = () => page.locator(".pl-composer-bar").evaluate((bar) => {
        const narrow = [...bar.querySelectorAll("button")].filter((b) => b.offsetWidth < 36);
        const short = [...bar.querySelectorAll('select[aria-label="Effort"], select[aria-label="Approvals"]')].filter((el) => {
          const width = el.offsetWidth;
          const copy = el.parentElement.cloneNode(true);
          copy.style.cssText = "position:absolute;inline-size:max-content";
          copy.firstChild.value = el.value;
          el.parentElement.after(copy);
          const whole = copy.firstChild.offsetWidth;
          copy.remove();
          return width < whole - 1;
        });
        return [...narrow, ...short].map((el) => el.getAttribute("aria-label"));
      });
      assert.deepEqual(await cut(), []);
      await page.getByLabel("Agent", { exact: true }).selectOption("demo");
      await page.setViewportSize({ width: 320, height: 640 });
      await page.getByLabel("Approvals").selectOption("review");
      const over = await page.locator(".pl-composer-bar").evaluate((bar) => {
        const all = [...bar.querySelectorAll("button, select")].filter((el) => el.offsetWidth > 0).map((el) => el.getBoundingClientRect()).sort((a, b) => a.left - b.left);
        return all.some((r, i) => i > 0 && all[i - 1].right > r.left + 1);
      });
      assert.equal(over, false, "at 320 px no control covers another one");
      await page.setViewportSize({ width: 1280, height: 800 });
      await page.getByLabel("Agent", { exact: true }).selectOption("research-assistant-of-the-market-team");
      await say(page, "hello");
      const row = feed(page).locator(".pl-failure", { hasText: "Try again" });
      await row.waitFor();
      for (const width of [1280, 390]) {
        await page.setViewportSize({ width, height: 800 });
        const broken = await row.locator("> :is(code, button, time)").evaluateAll((all) => all.filter((el) => {
          const words = document.createRange();
          words.selectNodeContents(el);
          return new Set([...words.getClientRects()].map((r) => Math.round(r.top))).size > 1 || el.scrollWidth > el.clientWidth + 1;
        }).map((el) => el.textContent));
        assert.deepEqual(broken, [], `${width} px`);
        assert.ok((await row.locator("> span").boundingBox()).width >= 240, `the text at ${width} px`);
      }
    } finally {
      await context.close();
      await own.stop();
      rmSync(dir, { recursive: true });
    }
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
