// A session with a hundred thousand events. bench/web measures its speed; these tests hold on any machine.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { api, openPage } from "./harness.mjs";
import { axe, browser, feed, server, steady } from "./suite.mjs";

const many = 100_000;

describe("a hundred thousand events", () => {
  before(async () => {
    await api(server, "/sessions", { id: "big", agent: "none", title: "Big" });
    const draft = (i) => {
      const k = i % 10;
      if (k === 0) return { type: "user.message", payload: { text: `question ${i}` } };
      if (k < 5) return { type: "agent.text", payload: { text: `Answer ${i} with **prose** and \`code\`.` } };
      if (k % 2 === 1) return { type: "agent.tool_call", payload: { call_id: `c${i}`, tool: "search", params: { q: i } } };
      return { type: "agent.tool_result", payload: { call_id: `c${i - 1}`, result: { n: i } } };
    };
    for (let i = 0; i < many; i += 1000) await api(server, "/sessions/big/events", Array.from({ length: 1000 }, (_, n) => draft(i + n)));
  });

  test("[31] [32] the last entries are shown with few elements; typing renders none of them; a search finds the first entry", async () => {
    const { page, context, faults } = await openPage(browser);
    await page.goto(`${server.url}/s/big`);
    await feed(page).getByText(`Answer ${many - 6}`, { exact: false }).first().waitFor();
    assert.ok((await page.evaluate(() => document.querySelectorAll("*").length)) <= 1500);
    const box = page.getByRole("textbox", { name: "Message", exact: true });
    await box.focus();
    await steady(page, page.locator(".pl-list"));
    await page.evaluate(() => {
      window.drawn = 0;
      new MutationObserver((list) => (window.drawn += list.length)).observe(document.querySelector(".pl-list"), { subtree: true, childList: true, characterData: true, attributes: true });
    });
    await box.pressSequentially("x".repeat(50));
    assert.equal(await page.evaluate(() => window.drawn), 0, "typing drew the list");
    // To the first entry: with the server's index, not by scrolling.
    await page.getByRole("button", { name: "Search this conversation" }).click();
    await page.getByRole("searchbox", { name: "Search this conversation" }).fill(`Answer ${many - 2999} with`);
    await page.getByRole("search").getByRole("button", { name: new RegExp(`Answer ${many - 2999}`) }).click();
    await feed(page).getByText(`Answer ${many - 2999} with`, { exact: false }).first().waitFor();
    assert.ok((await page.evaluate(() => document.querySelectorAll("*").length)) <= 1500);
    assert.deepEqual(faults, []);
    await context.close();
  });

  test("[30] the inspector has all events: filter, link, a marked gap, the same event in each dialect", async () => {
    const { page, context, faults } = await openPage(browser);
    await page.goto(`${server.url}/s/big#seq=${many / 2}`);
    await page.getByText(`Event ${many / 2}`).first().waitFor();
    // One event is removed from the response: the inspector names it.
    await page.route("**/events?*", async (route) => {
      const res = await route.fetch();
      const body = await res.json();
      body.events = body.events.filter((e) => e.sequence !== many - 3);
      await route.fulfill({ response: res, json: body });
    });
    await page.goto(`${server.url}/s/big`);
    // The panel still shows the raw events.
    await page.getByText(`Missing: ${many - 3} to ${many - 3}`).first().waitFor();
    await page.getByRole("button", { name: "Load all" }).click();
    const total = many; // one more was written at the start, one was removed
    await page.locator(".pl-inspector-count").getByText(`${total.toLocaleString("en")} of ${total.toLocaleString("en")}`).first().waitFor({ timeout: 500_000 });
    await page.getByRole("searchbox", { name: /Filter events/ }).fill('"n":12346');
    await page.locator(".pl-inspector-count").getByText(`1 of ${total.toLocaleString("en")}`).first().waitFor();
    await page.getByRole("button", { name: /agent\.tool_result/ }).click();
    await page.getByRole("region", { name: /^Event/ }).getByText('"n": 12346').first().waitFor();
    await page.getByRole("tab", { name: "nemo" }).click();
    await page.getByRole("region", { name: /nemo$/ }).getByText("system_intermediate_message").first().waitFor();
    assert.match(await page.getByRole("region", { name: /nemo$/ }).innerText(), /12346/);
    await axe(page, "inspector with dialects");
    assert.ok((await page.evaluate(() => document.querySelectorAll("*").length)) <= 1500);
    assert.deepEqual(faults, []);
    await context.close();
  });
});
