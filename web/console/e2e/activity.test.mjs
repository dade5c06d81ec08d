// What the page shows while the agent is silent.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { openPage, say } from "./harness.mjs";
import { axe, browser, events, feed, inSession, post, server, settled, stopButton, until } from "./suite.mjs";

const activity = (at) => at.getByRole("feed").locator(".pl-activity");

describe("a silent agent", () => {
  test("at the place of the answer: what it does and for how long; the composer has the only button that stops it", () =>
    inSession(async (page, id) => {
      await say(page, "/sleep 600");
      await activity(page).getByText("Working").waitFor();
      await until(page, async () => /\b[2-9] s|\d\d s/.test(await activity(page).innerText()), "the time");
      const turn_id = (await events(id)).find((e) => e.type === "turn.started").payload.turn_id;
      await post(id, { type: "agent.status", turn_id, payload: { message: "Starting tool server files…" } });
      await activity(page).getByText("Starting tool server files…").waitFor();
      assert.equal(await feed(page).getByText("Starting tool server files…").count(), 1);
      await post(id, { type: "agent.tool_call", turn_id, payload: { call_id: "c", tool: "files.read" } });
      await activity(page).getByText("using files.read").waitFor();
      await say(page, "and then this");
      await feed(page).getByText("Queued").waitFor();
      const rows = await feed(page).locator("article").evaluateAll((all) => all.map((a) => a.innerText));
      const at = (text) => rows.findIndex((r) => r.includes(text));
      assert.ok(at("/sleep") < at("using files.read") && at("using files.read") < at("and then this"), rows.join(" | "));
      await axe(page, "a silent agent");
      assert.equal(await page.getByRole("button", { name: /^Stop/ }).count(), 1);
      await stopButton(page).click();
      await settled(page, "You said: and then this");
      await activity(page).waitFor({ state: "detached" });
      assert.equal((await events(id)).find((e) => e.type === "turn.completed").payload.outcome, "stopped");
      await settled(page, "Stopped");
      assert.equal(await feed(page).locator(".pl-notice, .pl-cut").count(), 1, "a stop is one row");
      // The status stays in the record.
      await settled(page, "Starting tool server files…");
    }));

  test("its words change with the events, not with the clock", () =>
    inSession(async (page) => {
      await page.addInitScript(() => {
        const every = window.setInterval;
        window.setInterval = (f, ms, ...rest) => (ms === 1000 ? 0 : every(f, ms, ...rest)); // the tick of all clocks of the page
      });
      await page.reload();
      await say(page, "/sleep 600");
      await activity(page).getByText("Working").waitFor();
      const id = page.url().split("/").pop();
      const turn_id = (await events(id)).find((e) => e.type === "turn.started").payload.turn_id;
      await post(id, { type: "agent.tool_call", turn_id, payload: { call_id: "c", tool: "files.read" } });
      await activity(page).getByText("using files.read").waitFor();
      await post(id, { type: "agent.tool_result", turn_id, payload: { call_id: "c", tool: "files.read", result: 1 } }, { type: "agent.status", turn_id, payload: { message: "Reading" } });
      await activity(page).getByText("Reading").waitFor();
      await stopButton(page).click();
      await settled(page, "Stopped");
    }));

  test("a question takes its place, and after the answer it returns", () =>
    inSession(async (page) => {
      await say(page, "/ask text");
      const field = page.getByRole("textbox", { name: "What is your name?" });
      await field.waitFor();
      assert.equal(await activity(page).count(), 0);
    }));

  test("on a phone it is one line", async () => {
    const { page, context } = await openPage(browser, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
    await page.goto(server.url);
    await page.getByRole("textbox", { name: "Message", exact: true }).fill("/sleep 600");
    await page.getByRole("button", { name: "Send" }).click();
    await activity(page).getByText("Working").waitFor();
    assert.ok((await activity(page).boundingBox()).height < 60);
    await axe(page, "a silent agent on a phone");
    await stopButton(page).click();
    await settled(page, "Stopped");
    await context.close();
  });
});
