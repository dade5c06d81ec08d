// Editing a message and having it answered again: both are branches.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { say } from "./harness.mjs";
import { axe, events, feed, inSession, settled } from "./suite.mjs";

describe("branches", () => {
  test("an edited message starts a branch; the original stays, and both are reached from the header", () =>
    inSession(async (page, id) => {
      await say(page, "first thing");
      await settled(page, "You said: first thing");
      await say(page, "second thing");
      await settled(page, "You said: second thing");
      const before = (await events(id)).length;
      const message = feed(page).locator("article", { hasText: /^\s*(You [^\n]*)?\s*second thing/ }).first();
      await message.hover();
      await message.getByRole("button", { name: "Edit" }).click();
      const field = page.getByRole("textbox", { name: "Edit" });
      await field.fill("another thing");
      assert.deepEqual(await feed(page).locator("article", { has: field }).getByRole("button").allInnerTexts(), ["Send", "Cancel"]);
      await axe(page, "editing");
      await field.press("Enter");
      await page.waitForURL((url) => url.pathname !== `/s/${id}`);
      await settled(page, "You said: another thing");
      await settled(page, "You said: first thing");
      assert.equal(await feed(page).getByText("second thing").count(), 0);
      const branches = page.getByRole("group", { name: "Branches" });
      await branches.getByText("2/2").waitFor();
      await branches.getByRole("link", { name: "Previous branch" }).click();
      await page.waitForURL(`**/s/${id}`);
      await settled(page, "You said: second thing");
      assert.equal((await events(id)).length, before);
      await branches.getByText("1/2").waitFor();
    }));
});
