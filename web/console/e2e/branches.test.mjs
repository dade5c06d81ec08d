// Editing a message and having it answered again: both are branches.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { say } from "./harness.mjs";
import { axe, events, feed, inSession, settled } from "./suite.mjs";

/** The links to the branches at a message, which say which of them is shown. */
const at = (page, text, which) =>
  feed(page).locator(".pl-own", { has: page.locator(".pl-bubble", { hasText: new RegExp(`^${text}$`) }) }).getByRole("group", { name: "Branches" }).filter({ hasText: which });

describe("branches", () => {
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

  test("an edited message starts a branch; the original stays, and both are reached from the message", () =>
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
      assert.equal(await field.evaluate((el) => el.selectionStart === el.value.length && el.matches(":focus")), true, "typing continues the text");
      await field.fill("another thing");
      assert.deepEqual(await feed(page).locator("article", { has: field }).getByRole("button").allInnerTexts(), ["Send", "Cancel"]);
      await axe(page, "editing");
      await field.press("Enter");
      await page.waitForURL((url) => url.pathname !== `/s/${id}`);
      await settled(page, "You said: another thing");
      await settled(page, "You said: first thing");
      assert.equal(await feed(page).getByText("second thing").count(), 0);
      await page.getByRole("navigation", { name: "Conversations" }).locator("[aria-current]").getByText("Branch · demo").waitFor();
      await at(page, "another thing", "2/2").getByRole("link", { name: "Previous branch" }).click();
      await page.waitForURL(`**/s/${id}`);
      await settled(page, "You said: second thing");
      assert.equal((await events(id)).length, before);
      await at(page, "second thing", "1/2").waitFor();
      assert.equal(await page.getByRole("group", { name: "Branches" }).count(), 1);
    }));

  test("each message that was changed has its own branches, also in branches of branches; a message that was answered again has them, too", () =>
    inSession(async (page, id) => {
      for (const text of ["one", "two"]) {
        await say(page, text);
        await settled(page, `You said: ${text}`);
      }
      await edit(page, "two", "two b");
      const second = page.url();
      await edit(page, "one", "one b");
      await edit(page, "one b", "one c");
      await at(page, "one c", "3/3").getByRole("link", { name: "Previous branch" }).click();
      await at(page, "one b", "2/3").waitFor();
      await page.goto(second);
      await at(page, "one", "1/3").waitFor();
      await at(page, "two b", "2/2").getByRole("link", { name: "Previous branch" }).click();
      await page.waitForURL(`**/s/${id}`);
      await at(page, "one", "1/3").waitFor();
      await at(page, "two", "1/2").waitFor();
      const message = feed(page).locator(".pl-own", { hasText: "two" });
      await message.hover();
      await message.getByRole("button", { name: "Answer again" }).click();
      await page.waitForURL((url) => url.pathname !== `/s/${id}`);
      await settled(page, "You said: two");
      await at(page, "two", "3/3").waitFor();
      await axe(page, "two places with branches");
      assert.equal(await page.getByRole("group", { name: "Branches" }).count(), 2);
    }));

  test("edits of edits are all branches of one conversation; a branch is named by its own message, and the original stays read", () =>
    inSession(async (page, id) => {
      await say(page, "one");
      await settled(page, "You said: one");
      await edit(page, "one", "two");
      await edit(page, "two", "three");
      await page.getByRole("heading", { name: "three", exact: true }).waitFor();
      await axe(page, "the last branch");
      await at(page, "three", "3/3").getByRole("link", { name: "Previous branch" }).click();
      await settled(page, "You said: two");
      await at(page, "two", "2/3").getByRole("link", { name: "Previous branch" }).click();
      await page.waitForURL(`**/s/${id}`);
      await at(page, "one", "1/3").waitFor();
      await axe(page, "the first branch");
      assert.equal(await page.locator(".co-unread").count(), 0);
    }, { session: { title: undefined } }));

  test("an edit and a repeat are one request; when it fails, the page says so and keeps what was typed", () =>
    inSession(async (page, id) => {
      await say(page, "one");
      await settled(page, "You said: one");
      const message = feed(page).locator(".pl-own", { has: page.locator(".pl-bubble", { hasText: /^one$/ }) });
      let refuse = true;
      const sent = [];
      await page.route("**/parley/v1/sessions/**", (route) => {
        const r = route.request();
        if (r.method() === "GET") return route.continue();
        sent.push(`${r.method()} ${new URL(r.url()).pathname.replace(/.*\/sessions\//, "")}`);
        return refuse ? route.fulfill({ status: 503, json: { error: { code: "unavailable", message: "the disk is nearly full" } } }) : route.continue();
      });
      await message.hover();
      await message.getByRole("button", { name: "Answer again" }).click();
      await message.getByRole("alert").getByText("Not sent: the disk is nearly full").waitFor();
      await axe(page, "a repeat that failed");
      await message.getByRole("button", { name: "Edit" }).click();
      const field = page.getByRole("textbox", { name: "Edit" });
      await field.fill("one, better");
      await field.press("Enter");
      await page.locator(".pl-editor").getByRole("alert").getByText("Not sent: the disk is nearly full").waitFor();
      assert.equal(await field.inputValue(), "one, better");
      await axe(page, "an edit that failed");
      // What was typed is there when one comes back.
      const open = (path) => page.evaluate((to) => (history.pushState(null, "", to), dispatchEvent(new PopStateEvent("popstate"))), path);
      await open("/inbox");
      await field.waitFor({ state: "detached" });
      await open(`/s/${id}`);
      await field.waitFor();
      assert.equal(await field.inputValue(), "one, better");
      refuse = false;
      await field.press("Enter");
      await page.waitForURL((url) => url.pathname !== `/s/${id}`);
      await settled(page, "You said: one, better");
      assert.deepEqual(sent, Array(3).fill(`POST ${id}/fork`));
    }, { expect: /503/ }));

  test("a branch of a message that waited has the whole answer before it, and not the message", () =>
    inSession(async (page) => {
      await say(page, "/stream 12 4");
      await settled(page, "tok2");
      await say(page, "waits");
      await settled(page, "You said: waits");
      await edit(page, "waits", "comes instead");
      await settled(page, "tok12");
      await at(page, "comes instead", "2/2").waitFor();
      const text = await feed(page).innerText();
      assert.ok(text.indexOf("tok12") < text.indexOf("comes instead"), text);
      assert.doesNotMatch(text, /waits|Withdrawn|Interrupted/);
      await page.reload();
      await settled(page, "You said: comes instead");
      assert.doesNotMatch(await feed(page).innerText(), /waits|Withdrawn/);
    }));
});
