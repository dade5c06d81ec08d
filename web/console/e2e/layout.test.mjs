// The frame of the console: one header, the sidebar, and what each of them shows.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { axe, inSession, post } from "./suite.mjs";

const members = [{ actor: { kind: "user", id: "mira", name: "Mira Holm" }, role: "answerer" }];

describe("layout", () => {
  test("one header of 44 pixels with title, agent, state and people; the sidebar has brand, search and inbox", () =>
    inSession(
      async (page) => {
        const header = page.locator(".pl-header");
        await header.getByRole("heading", { name: /^Test/ }).waitFor();
        await header.getByText("demo", { exact: true }).waitFor();
        await header.getByText("Idle").waitFor();
        await header.getByRole("img", { name: "You (owner), Mira Holm (may answer)" }).waitFor();
        const box = await header.boundingBox();
        assert.deepEqual([box.y, box.height], [0, 44], "something is above the header");
        const side = page.locator(".co-side");
        assert.equal((await side.boundingBox()).y, 0);
        await side.getByRole("heading", { name: "Parley" }).waitFor();
        await side.getByRole("searchbox", { name: "Search conversations" }).waitFor();
        await side.getByRole("link", { name: /Inbox/ }).waitFor();
        await axe(page, "layout");
      },
      { session: { members } },
    ));

  test("phone: the header has room for the title, and leads to the inbox", () =>
    inSession(
      async (page, id) => {
        const title = page.locator(".pl-header > h2");
        assert.ok((await title.boundingBox()).width > 100, "the title has no room");
        await post(id, { type: "agent.input_request", payload: { request_id: `ask-${id}`, input_type: "text", text: "Which one?" } });
        await page.getByRole("link", { name: "1 needs you" }).click();
        await page.getByRole("textbox", { name: "Which one?" }).waitFor();
        assert.equal(new URL(page.url()).pathname, "/inbox");
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
      },
      { session: { agent: "none", members, title: "The margins of all regions in the third quarter" }, context: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true } },
    ));
});
