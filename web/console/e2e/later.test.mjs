// Parts of the console that are loaded when they are first shown, on a page that cannot load them.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { say } from "./harness.mjs";
import { axe, feed, inSession } from "./suite.mjs";

const expect = /Failed to load resource|fetch dynamically imported module|preload CSS/;
const failure = (page) => page.getByRole("alert").filter({ hasText: "This part could not be loaded." });

describe("without the files of the server", () => {
  const parts = {
    "the list of commands": { open: (page) => page.keyboard.press("Control+k"), done: (page) => page.getByRole("combobox", { name: "Commands and conversations" }) },
    "the filters": { open: (page) => page.getByRole("button", { name: "Filter", exact: true }).click(), done: (page) => page.getByRole("form", { name: "Filter" }) },
    "the inbox": { open: (page) => page.getByRole("link", { name: "Inbox" }).click(), done: (page) => page.getByText("Nothing needs you.") },
  };
  for (const [name, { open, done }] of Object.entries(parts))
    test(`${name}: the page stays, and the part is shown when the server answers again`, () =>
      inSession(
        async (page) => {
          await say(page, "/echo before");
          await feed(page).getByText("before", { exact: true }).waitFor();
          let lost = true;
          await page.route(/assets\/(palette|filters|inbox)|console\.json/, (r) => (lost ? r.abort() : r.continue()));
          await open(page);
          await failure(page).waitFor();
          await page.getByRole("link", { name: "New conversation" }).or(page.getByRole("button", { name: "New conversation" })).first().waitFor();
          if (name !== "the inbox") assert.equal(await feed(page).getByText("before", { exact: true }).isVisible(), true);
          await axe(page, name);
          // The page is not replaced while there is no server.
          await failure(page).getByRole("button", { name: "Retry" }).click();
          await failure(page).waitFor();
          lost = false;
          await Promise.all([page.waitForEvent("load"), failure(page).getByRole("button", { name: "Retry" }).click()]);
          if (name !== "the inbox") {
            await feed(page).getByText("before", { exact: true }).waitFor();
            await open(page);
          }
          await done(page).waitFor();
        },
        { expect },
      ));
});
