// The palette of commands and conversations, and the account.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { api } from "./harness.mjs";
import { axe, inSession, server, until } from "./suite.mjs";

describe("palette", () => {
  test("Ctrl+K, also from the composer, finds a conversation and runs a command with the keyboard", () =>
    inSession(async (page) => {
      await api(server, "/sessions", { id: "vendors", title: "Compare the vendors" });
      await page.getByRole("textbox", { name: "Message", exact: true }).focus();
      await page.keyboard.press("Control+k");
      const field = page.getByRole("combobox", { name: "Commands and conversations" });
      await field.waitFor();
      await axe(page, "palette");
      await field.fill("vend");
      await page.getByRole("option", { name: /Compare the vendors/, selected: true }).waitFor();
      await page.keyboard.press("Enter");
      await page.waitForURL(/\/s\/vendors$/);
      await field.waitFor({ state: "detached" });
      await page.keyboard.press("Control+k");
      await field.waitFor();
      await page.keyboard.press("ArrowDown");
      await page.getByRole("option", { name: "Inbox", selected: true }).waitFor();
      await page.keyboard.press("Enter");
      await page.waitForURL(/\/inbox$/);
      await page.keyboard.press("Control+k");
      await field.waitFor();
      await page.keyboard.press("Escape");
      await field.waitFor({ state: "detached" });
      assert.equal(new URL(page.url()).pathname, "/inbox");
    }));

  test("the account is named; an open server needs no sign-in", () =>
    inSession(async (page) => {
      const menu = page.locator(".co-account");
      await until(page, async () => /^Signed in as ./.test((await menu.locator("summary").getAttribute("aria-label")) ?? ""), "the name");
      await menu.locator("summary").click();
      await menu.getByText("No sign-in is needed on this server.").waitFor();
      const box = await menu.locator(".pl-pop").boundingBox();
      assert.ok(box.x >= 0 && box.x + box.width <= 1280, "the menu is in the window");
      assert.equal(await menu.locator(".pl-pop").evaluate((el) => el.scrollWidth > el.clientWidth), false);
      await axe(page, "account");
    }));
});
