// Pinned and unread conversations; notifications of the browser.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { api } from "./harness.mjs";
import { axe, inSession, post, server, until } from "./suite.mjs";

const list = (page) => page.getByRole("navigation", { name: "Conversations" });
const row = (page, title) => list(page).locator("li", { hasText: title });

describe("marks", () => {
  test("a conversation with new events is unread until it is opened; a pinned one is at the top after a reload", () =>
    inSession(async (page) => {
      for (const title of ["Alpha", "Beta"]) await api(server, "/sessions", { id: title.toLowerCase(), title, agent: "none" });
      await row(page, "Alpha").waitFor();
      await row(page, "Alpha").getByRole("link").click();
      await page.waitForURL(/alpha/);
      await row(page, "Beta").getByRole("link").click();
      await page.waitForURL(/beta/);
      await row(page, "Beta").locator(".co-unread").waitFor({ state: "detached" });
      await post("alpha", { type: "agent.text", payload: { text: "news" } });
      await row(page, "Alpha").getByText("(unread)").waitFor({ state: "attached" });
      await axe(page, "unread");
      await row(page, "Alpha").getByRole("link").click();
      await row(page, "Alpha").locator(".co-unread").waitFor({ state: "detached" });
      await row(page, "Beta").hover();
      await row(page, "Beta").getByRole("button", { name: "Pin Beta" }).click();
      await page.reload();
      await list(page).locator("section", { hasText: "Pinned" }).getByText("Beta").waitFor();
      await page.getByRole("button", { name: "Pin Beta", pressed: true }).waitFor();
    }));

  test("a question is told by a notification while the page is not in front", () =>
    inSession(
      async (page, id, context) => {
        await context.grantPermissions(["notifications"]);
        await page.addInitScript(() => {
          window.told = [];
          window.Notification = class {
            static permission = "granted";
            static requestPermission = async () => "granted";
            constructor(title) {
              window.told.push(title);
              window.notification = this;
            }
            close() {}
          };
          document.hasFocus = () => false;
        });
        await page.reload();
        await page.locator(".co-account summary").click();
        await page.getByRole("button", { name: "Notify me of questions and finished work" }).click();
        await post(id, { type: "agent.input_request", payload: { request_id: `n-${id}`, input_type: "text", text: "Which one?" } });
        await until(page, () => page.evaluate(() => window.told.includes("Which one?")), "the notification");
        assert.equal(await page.evaluate(() => window.told.length), 1);
        // A click leads to the question.
        await page.evaluate(() => window.notification.onclick());
        await page.waitForURL(/#at=\d+$/);
        await until(page, () => page.getByRole("textbox", { name: "Which one?" }).evaluate((el) => el === document.activeElement), "focus on the question");
      },
      { session: { agent: "none" } },
    ));
});
