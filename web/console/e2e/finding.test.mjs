// Finding conversations: filters, the archive, undo, and the number of open questions on the icon.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { api, openPage } from "./harness.mjs";
import { axe, browser, inSession, post, server, until } from "./suite.mjs";

const list = (page) => page.getByRole("navigation", { name: "Conversations" });
const row = (page, title) => list(page).locator("li", { hasText: title });
const status = async (id) => (await fetch(`${server.url}/parley/v1/sessions/${id}`)).status;
const begin = (id, title, more = {}) => api(server, "/sessions", { id, title, agent: "none", ...more });
const erase = async (page) => {
  await page.getByLabel("More about this conversation").click();
  await page.getByRole("button", { name: "Erase" }).click();
};

describe("filters", () => {
  test("by agent, person, state and day; in the address, kept after a reload, removed with one key", () =>
    inSession(async (page, id) => {
      const carol = { actor: { kind: "user", id: "carol", name: "Carol" }, role: "viewer" };
      await begin("find-carol", "With Carol", { members: [carol] });
      await begin("find-done", "Done already", { members: [carol] });
      await post("find-done", { type: "session.completed", payload: {} });
      await row(page, "With Carol").waitFor();
      await page.getByRole("button", { name: "Filter", exact: true }).click();
      await page.getByRole("combobox", { name: "Person" }).selectOption("carol");
      await row(page, "Test").waitFor({ state: "detached" });
      await row(page, "Done already").waitFor();
      await page.getByRole("combobox", { name: "State" }).selectOption("completed");
      await row(page, "With Carol").waitFor({ state: "detached" });
      await page.getByRole("combobox", { name: "Last active" }).selectOption("7d");
      await axe(page, "filters");
      const address = () => new URL(page.url()).search;
      assert.equal(address(), "?person=carol&state=completed&active=7d");
      await page.reload();
      await row(page, "Done already").waitFor();
      assert.equal(await row(page, "With Carol").count(), 0);
      // The open conversation keeps its menus although the list does not have it, and the filters stay when another one is opened.
      await page.getByLabel("More about this conversation").waitFor();
      await row(page, "Done already").getByRole("link").click();
      await page.waitForURL(/find-done\?person=carol&state=completed&active=7d$/);
      await page.getByRole("searchbox", { name: "Search conversations" }).press("Backspace");
      await until(page, () => address() === "?person=carol&state=completed", "without the days");
      await page.getByRole("button", { name: "Remove the filter Completed" }).press("Delete");
      await row(page, "With Carol").waitFor();
      await page.getByRole("button", { name: "Remove the filter Carol" }).click();
      await row(page, "Test").first().waitFor();
      assert.equal(address(), "");
      await page.getByRole("button", { name: "Filter", exact: true }).click();
      await page.getByRole("combobox", { name: "Last active" }).selectOption("days");
      await page.getByLabel("To", { exact: true }).fill("2020-01-31");
      await list(page).getByText("No conversation matches the filters.").waitFor();
      assert.equal(address(), "?active=..2020-01-31");
      await page.getByRole("combobox", { name: "Last active" }).selectOption("");
      await page.getByRole("combobox", { name: "Agent" }).first().selectOption("demo");
      await row(page, "With Carol").waitFor({ state: "detached" });
      await list(page).locator(`a[href="/s/${id}"]`).waitFor();
    }));
});

describe("archive", () => {
  test("Esc closes the fields of the filter and returns to their button", () =>
    inSession(async (page) => {
      const button = page.getByRole("button", { name: "Filter", exact: true });
      await button.click();
      const form = page.getByRole("form", { name: "Filter" });
      await form.getByRole("checkbox", { name: "Archived" }).focus();
      await page.keyboard.press("Escape");
      await form.waitFor({ state: "detached" });
      assert.equal(await button.evaluate((el) => el === document.activeElement), true);
    }));

  test("an archived conversation leaves the list for everyone, is found by the filter, and comes back", () =>
    inSession(async (page) => {
      await begin("find-old", "Old plans");
      await row(page, "Old plans").waitFor();
      await row(page, "Old plans").hover();
      await page.getByRole("button", { name: "Archive Old plans" }).click();
      await row(page, "Old plans").waitFor({ state: "detached" });
      assert.equal((await api(server, "/sessions/find-old")).archived, true);
      await axe(page, "archived");
      await page.getByRole("button", { name: "Undo" }).click();
      await row(page, "Old plans").getByRole("link").click();
      await page.getByRole("heading", { name: "Old plans" }).waitFor();
      await page.getByLabel("More about this conversation").click();
      await page.getByRole("button", { name: "Archive", exact: true }).click();
      await row(page, "Old plans").waitFor({ state: "detached" });
      await page.locator(".co-archived").waitFor();
      await page.getByRole("button", { name: "Filter", exact: true }).click();
      await page.getByRole("checkbox", { name: "Archived" }).check();
      await row(page, "Old plans").waitFor();
      assert.match(page.url(), /archived=yes/);
      await page.getByLabel("More about this conversation").click();
      await page.getByRole("button", { name: "Bring back from the archive", exact: true }).click();
      await list(page).getByText("No conversation matches the filters.").waitFor();
      await page.getByRole("button", { name: "Remove the filter Archived" }).press("Backspace");
      await row(page, "Old plans").waitFor();
      await page.locator(".co-archived").waitFor({ state: "detached" });
    }));
});

describe("undo of an erasure", () => {
  test("an erased conversation is hidden, comes back with Undo, and is erased after eight seconds", () =>
    inSession(
      async (page, id) => {
        await page.clock.install();
        await page.reload();
        await page.getByRole("textbox", { name: "Message", exact: true }).waitFor();
        const link = list(page).locator(`a[href="/s/${id}"]`);
        await link.waitFor();
        // The time does not run while the pointer is on the bar.
        const undo = page.getByRole("button", { name: "Undo" });
        await erase(page);
        await undo.hover();
        await link.waitFor({ state: "detached" });
        await page.waitForURL(/\/$/);
        await axe(page, "erased");
        assert.equal(await status(id), 200);
        await undo.click();
        await page.waitForURL(new RegExp(`/s/${id}$`));
        await link.waitFor();
        await erase(page);
        await undo.hover();
        await link.waitFor({ state: "detached" });
        const now = () => page.evaluate(() => Date.now());
        const begun = await now();
        await page.mouse.move(5, 5);
        await page.clock.fastForward(Math.max(0, begun + 5000 - (await now())));
        assert.equal(await status(id), 200);
        await page.clock.fastForward(3500);
        await until(page, async () => (await status(id)) === 410, "the erasure");
        await undo.waitFor({ state: "detached" });
      },
      { expect: /410/ },
    ));

  test("a page that is left erases at once; a refused erasure brings the conversation back", async () => {
    await begin("find-left", "Left behind");
    await begin("find-kept", "Refused");
    const { page, context } = await openPage(browser);
    await page.clock.install();
    await page.goto(`${server.url}/s/find-kept`);
    await page.route("**/sessions/find-kept", (r) => (r.request().method() === "DELETE" ? r.fulfill({ status: 503, json: { error: { code: "unavailable", message: "the disk is nearly full" } } }) : r.continue()));
    await erase(page);
    await row(page, "Refused").waitFor({ state: "detached" });
    await page.mouse.move(5, 5);
    await page.clock.fastForward(8500);
    await page.getByText("Refused was not erased: the disk is nearly full").waitFor();
    await row(page, "Refused").waitFor();
    await axe(page, "refused");
    await page.goto(`${server.url}/s/find-left`);
    await erase(page);
    await row(page, "Left behind").waitFor({ state: "detached" });
    assert.equal(await status("find-left"), 200);
    await page.goto("about:blank");
    await until(page, async () => (await status("find-left")) === 410, "the erasure");
    await context.close();
  });
});

describe("being told", () => {
  test("the icon and the title of the tab show the number of open questions", () =>
    inSession(
      async (page, id) => {
        const icon = async () => decodeURIComponent(await page.locator("link[rel=icon]").getAttribute("href"));
        assert.equal(await icon(), "/favicon.svg");
        for (const r of ["q1", "q2"]) await post(id, { type: "agent.input_request", payload: { request_id: `${r}-${id}`, input_type: "text", text: "Which one?" } });
        await until(page, async () => (await page.title()).startsWith("(2) "), "the title");
        assert.match(await icon(), /^data:image\/svg\+xml.*>2<\/text>/);
        for (const r of ["q1", "q2"]) await api(server, `/sessions/${id}/prompts/${r}-${id}/answer`, { text: "this" });
        await until(page, async () => (await icon()) === "/favicon.svg", "the plain icon");
      },
      { session: { agent: "none" } },
    ));
});
