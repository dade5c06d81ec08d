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

  const edit = async (page, text, next) => {
    const message = feed(page).locator(".pl-own", { has: page.locator(".pl-bubble", { hasText: new RegExp(`^${text}$`) }) });
    await message.hover();
    await message.getByRole("button", { name: "Edit" }).click();
    const field = page.getByRole("textbox", { name: "Edit" });
    await field.fill(next);
    const before = page.url();
    await field.press("Enter");
    await page.waitForURL((url) => url.href !== before);
    await settled(page, `You said: ${next}`);
  };

  test("edits of edits are all branches of one conversation; a branch is named by its own message, and the original stays read", () =>
    inSession(async (page, id) => {
      await say(page, "one");
      await settled(page, "You said: one");
      await edit(page, "one", "two");
      await edit(page, "two", "three");
      await page.getByRole("heading", { name: "three", exact: true }).waitFor();
      const branches = page.getByRole("group", { name: "Branches" });
      await branches.getByText("3/3").waitFor();
      await axe(page, "the last branch");
      await branches.getByRole("link", { name: "Previous branch" }).click();
      await settled(page, "You said: two");
      await branches.getByText("2/3").waitFor();
      await branches.getByRole("link", { name: "Previous branch" }).click();
      await page.waitForURL(`**/s/${id}`);
      await branches.getByText("1/3").waitFor();
      await axe(page, "the first branch");
      assert.equal(await page.locator(".co-unread").count(), 0);
    }, { session: { title: undefined } }));

  test("a branch of a message that waited has the whole answer before it, and not the message", () =>
    inSession(async (page) => {
      await say(page, "/stream 12 4");
      await settled(page, "tok2");
      await say(page, "waits");
      await settled(page, "You said: waits");
      await edit(page, "waits", "comes instead");
      await settled(page, "tok12");
      const text = await feed(page).innerText();
      assert.ok(text.indexOf("tok12") < text.indexOf("comes instead"), text);
      assert.doesNotMatch(text, /waits|Withdrawn|Interrupted/);
      await page.reload();
      await settled(page, "You said: comes instead");
      assert.doesNotMatch(await feed(page).innerText(), /waits|Withdrawn/);
    }));
});
