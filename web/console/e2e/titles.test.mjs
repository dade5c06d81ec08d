// The titles of conversations.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { api, openPage, say } from "./harness.mjs";
import { browser, post, server, settled } from "./suite.mjs";

const list = (page) => page.getByRole("navigation", { name: "Conversations" });

describe("titles", () => {
  test("the title of a new conversation has no arguments of commands and no secrets", async () => {
    for (const [text, title] of [
      ['/tool deploy {"api_key":"k-very-secret"}', "/tool"],
      ["my password is hunter2 today", "my password is … today"],
    ]) {
      const { page, context } = await openPage(browser);
      await page.goto(server.url);
      await page.getByRole("heading", { name: "demo" }).waitFor();
      await say(page, text);
      await page.waitForURL(/\/s\//);
      await page.getByRole("heading", { name: title, exact: true }).waitFor();
      await list(page).getByText(title, { exact: true }).waitFor();
      assert.doesNotMatch(`${await list(page).innerText()} ${await page.title()}`, /secret|hunter2/);
      await context.close();
    }
  });

  test("a conversation of the API without a title shows its first message", async () => {
    await api(server, "/sessions", { id: "s-raw-and-long-id" });
    const { page, context } = await openPage(browser);
    await page.goto(`${server.url}/s/s-raw-and-long-id`);
    await page.getByRole("heading", { name: "Conversation", exact: true }).waitFor();
    assert.doesNotMatch(await page.locator("body").innerText(), /s-raw-and-long-id/);
    await post("s-raw-and-long-id", { type: "user.message", payload: { text: "Compare the vendors, token=abc123" } });
    await settled(page, "You said: Compare the vendors");
    await page.getByRole("heading", { name: "Compare the vendors, token=…", exact: true }).waitFor();
    await list(page).getByText("Compare the vendors, token=…").waitFor();
    const { sessions } = await api(server, "/sessions?q=compare");
    assert.deepEqual(sessions.map((s) => s.session_id), ["s-raw-and-long-id"]);
    await page.reload();
    await page.getByRole("heading", { name: "Compare the vendors, token=…", exact: true }).waitFor();
    await context.close();
  });
});
