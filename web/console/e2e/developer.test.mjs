// The developer mode: raw events, trace and tokens are one key away, and are not shown otherwise.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { say } from "./harness.mjs";
import { developer, feed, inSession, server, settled } from "./suite.mjs";

describe("developer mode", () => {
  test("it is off at first, switched by a key, and remembered", () =>
    inSession(async (page) => {
      await say(page, "hello");
      await settled(page, "You said: hello");
      const numbers = feed(page).getByRole("button", { name: /^#\d+$/ });
      await page.getByRole("button", { name: "Plan, work" }).click();
      await page.getByRole("tab", { name: "Files" }).waitFor();
      assert.equal(await page.getByRole("tab", { name: "Inspector" }).count(), 0);
      assert.equal(await numbers.count(), 0);
      const box = page.getByRole("textbox", { name: "Message", exact: true });
      await box.press("."); // in a field it is text
      assert.equal(await box.inputValue(), ".");
      assert.equal(await page.getByRole("tab", { name: "Inspector" }).count(), 0);
      await developer(page);
      await page.getByRole("button", { name: /session\.started/ }).waitFor();
      await numbers.first().waitFor({ state: "attached" });
      await page.reload();
      await page.getByRole("tab", { name: "Inspector" }).waitFor();
      await settled(page, "You said: hello");
      // Its entry in the menu is for people without that key.
      await page.getByRole("button", { name: "More about this conversation" }).or(page.locator(".co-dots > summary")).first().click();
      await page.getByRole("button", { name: /Leave developer mode/ }).click();
      await page.getByRole("tab", { name: "Inspector" }).waitFor({ state: "detached" });
      await numbers.first().waitFor({ state: "detached" });
    }));

  test("a link to an event opens it", () =>
    inSession(async (page, id) => {
      await page.goto("about:blank");
      await page.goto(`${server.url}/s/${id}#seq=1`);
      await page.getByText("Event 1").first().waitFor();
    }));
});
