// The look: actions that float, what is underlined, and what a phone shows.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { api } from "./harness.mjs";
import { axe, feed, inSession, openPanel, post, server, settled, steady, until } from "./suite.mjs";

const none = { session: { agent: "none" } };
const phone = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
const talk = [
  { type: "user.message", payload: { text: "Where is it?" } },
  { type: "agent.text", payload: { text: "In [the report](https://example.com/report).\n\nOn page two." } },
  { type: "agent.approval_request", payload: { request_id: "ap", calls: [{ call_id: "c", tool: "deploy", params: { env: "prod" } }] } },
];
const opacity = (locator) => locator.evaluate((el) => Number(getComputedStyle(el).opacity));

describe("look", () => {
  test("the actions of an entry float on it: they are shown on hover and focus, take no room and cover no other entry", () =>
    inSession(async (page, id) => {
      await post(id, ...talk);
      const text = feed(page).locator("article", { hasText: "On page two" });
      const actions = text.locator(".pl-actions");
      await page.getByRole("button", { name: "Approve once" }).waitFor();
      await steady(page, page.locator(".pl-list"));
      await page.evaluate(() => document.fonts.ready.then(() => {})); // another font has other heights
      assert.equal(await opacity(actions), 0);
      const room = await text.evaluate((el) => el.getBoundingClientRect().bottom - [...el.querySelectorAll(".pl-md > p")].at(-1).getBoundingClientRect().bottom);
      assert.ok(room <= 16, `${room} pixels below the text`);
      for (const row of [text, feed(page).locator("article", { hasText: "Where is it?" })]) {
        const before = await row.boundingBox();
        await row.hover();
        await until(page, async () => (await opacity(row.locator(".pl-actions"))) === 1, "the actions");
        assert.deepEqual(await row.boundingBox(), before);
        const on = await row.locator(".pl-actions").boundingBox();
        assert.ok(on.y >= before.y && on.y + on.height <= before.y + before.height, "the actions are inside of their row");
      }
      await page.mouse.move(0, 0);
      await actions.getByRole("button", { name: "Copy" }).focus();
      await until(page, async () => (await opacity(actions)) === 1, "the actions of the focused entry");
      await axe(page, "actions");
    }, none));

  test("the actions of a folded message are beside it, not below", () =>
    inSession(async (page, id) => {
      await post(id, { type: "user.message", payload: { text: Array.from({ length: 40 }, (_, i) => `line ${i}`).join("\n") } });
      const row = feed(page).locator("article", { hasText: "line 0" });
      await row.getByRole("button", { name: /^Show all/ }).waitFor();
      await row.hover();
      const [bubble, actions] = await Promise.all([row.locator(".pl-bubble").boundingBox(), row.locator(".pl-actions").boundingBox()]);
      assert.ok(actions.y >= bubble.y && actions.y + actions.height <= bubble.y + bubble.height, `actions at ${actions.y}, the message ends at ${bubble.y + bubble.height}`);
    }, none));

  test("the console has its own font, which it fetches once", () =>
    inSession(async (page) => {
      await until(page, () => page.evaluate(() => [...document.fonts].some((f) => f.family === "Inter" && f.status === "loaded")), "the font");
      assert.match(await page.locator(".pl-header > h2").evaluate((el) => getComputedStyle(el).fontFamily), /^Inter,/);
      assert.equal(await page.evaluate(() => performance.getEntriesByType("resource").filter((r) => r.name.includes("inter-")).length), 1);
    }, none));

  test("a question that is out of view replaces the button to the end", () =>
    inSession(async (page, id) => {
      await post(id, ...Array.from({ length: 12 }, (_, i) => ({ type: "agent.text", payload: { text: `Paragraph ${i}.\n\nMore of it.\n\nThe end of it.` } })), talk[2]);
      await page.getByRole("button", { name: "Approve once" }).waitFor();
      await steady(page, page.locator(".pl-list"));
      assert.equal(await page.locator(".pl-waiting, .pl-new").count(), 0);
      await feed(page).hover();
      await until(page, async () => {
        await page.mouse.wheel(0, -300);
        return page.locator(".pl-waiting").isVisible();
      }, "the question that waits");
      assert.equal(await page.locator(".pl-new").isVisible(), false);
      const [above, composer] = [await page.locator(".pl-waiting").boundingBox(), await page.locator(".pl-composer").boundingBox()];
      assert.ok(above.y + above.height <= composer.y, "it is above the composer");
      await page.locator(".pl-waiting").getByRole("button", { name: "Go" }).click();
      await page.locator(".pl-waiting").waitFor({ state: "detached" });
    }, none));

  test("the list shows the time of each conversation; its actions cover neither title nor time", () =>
    inSession(async (page) => {
      const row = page.locator(".co-list li", { has: page.locator("[aria-current]") });
      const time = row.locator("time");
      await until(page, () => time.isVisible(), "the time");
      assert.ok((await time.boundingBox()).width > 0);
      await row.hover();
      const actions = row.locator(".co-actions");
      await until(page, async () => (await opacity(actions)) === 1, "the actions");
      const [box, below, title] = [await actions.boundingBox(), await time.boundingBox(), await row.locator(".co-title").evaluate((el) => el.getBoundingClientRect().right - Number.parseFloat(getComputedStyle(el).paddingInlineEnd))];
      assert.ok(box.y + box.height <= below.y + 1 && title <= box.x + 1, JSON.stringify({ box, below, title }));
    }, none));

  test("a row of the list has its title above its state, also when it is unread", () =>
    inSession(async (page, id) => {
      await page.getByRole("button", { name: "New conversation" }).first().click();
      await page.getByRole("heading", { name: "demo" }).waitFor();
      await post(id, { type: "agent.text", payload: { text: "news" } });
      const row = page.locator(".co-list li", { has: page.locator(`a[href="/s/${id}"]`) });
      await row.locator(".co-unread").waitFor();
      const [title, about, time] = await Promise.all([".co-title", ".co-about", ".co-when"].map((part) => row.locator(part).boundingBox()));
      assert.ok(title.y + title.height <= about.y + 1 && title.y + title.height <= time.y + 1, JSON.stringify({ title, about, time }));
    }, none));

  test("amber marks the question, the state and one count, and nothing else", () =>
    inSession(async (page, id) => {
      await post(id, ...talk);
      await page.getByRole("button", { name: "Approve once" }).waitFor();
      await page.locator(".co-side .co-count").waitFor();
      const read = () => page.evaluate(() => {
        const probe = document.body.appendChild(document.createElement("i"));
        probe.className = "pl-root";
        probe.style.color = "var(--_wait)";
        const wanted = getComputedStyle(probe).color;
        probe.remove();
        return [...document.querySelectorAll("#app *")].filter((el) => el.checkVisibility() && getComputedStyle(el).color === wanted).map((el) => el.textContent);
      });
      let amber, wanted;
      await until(page, async () => {
        [amber, wanted] = [await read(), [await page.locator(".co-side .co-count").innerText(), "Needs you", "", "Needs you"]];
        return isDeepStrictEqual(amber, wanted);
      }, "the amber parts").catch(() => {}); // the comparison below says what differs
      assert.deepEqual(amber, wanted);
    }, none));

  test("only links in texts are underlined, and a view has one primary button", () =>
    inSession(async (page, id) => {
      await post(id, ...talk);
      await page.getByRole("button", { name: "Approve once" }).waitFor();
      const lines = await page.evaluate(() => [...document.querySelectorAll("a, button, summary, span")].filter((el) => getComputedStyle(el).textDecorationLine.includes("underline")).map((el) => el.textContent.trim()));
      assert.deepEqual(lines, ["the report"]);
      const primary = await page.locator(".pl-primary:not(:disabled)").allInnerTexts();
      assert.deepEqual(primary, ["Approve once"]);
    }, none));

  test("the lines of a diff are coloured in their whole width, and are copied as they were sent", () =>
    inSession(async (page, id) => {
      const diff = "-old\n+new\n same";
      await post(id, { type: "agent.text", payload: { text: `\`\`\`diff\n${diff}\n\`\`\`` } });
      const code = feed(page).locator("pre code", { hasText: "old" });
      await code.locator(".hljs-deletion").waitFor();
      const [removed, added, whole] = [await code.locator(".hljs-deletion").boundingBox(), await code.locator(".hljs-addition").boundingBox(), await code.boundingBox()];
      assert.ok(removed.width > 300 && removed.width === added.width, `${removed.width} and ${added.width} pixels`);
      assert.ok(Math.abs(added.y - removed.y - removed.height) < 1, "the lines follow each other");
      assert.ok(whole.height < 3.5 * removed.height, "there are no empty lines between them");
      assert.equal((await code.innerText()).trimEnd(), diff);
    }, none));

  for (const [name, context] of [["a wide page", {}], ["a phone", phone]])
    test(`${name}: long words widen nothing`, () =>
      inSession(async (page, id) => {
        const word = "Donaudampfschifffahrt".repeat(20);
        await api(server, `/sessions/${id}/workstreams`, { id: "w", name: word, instruction: word, agent: "demo" });
        await post(id,
          { type: "user.message", payload: { text: word, content: [{ type: "file", path: `${word.slice(0, 150)}.txt`, name: `${word}.txt` }] } },
          { type: "agent.text", payload: { text: `# ${word}\n\n${word} \`${word}\`\n\n- ${word}\n\n> ${word}\n\n| ${word} | b |\n|--|--|\n| a | ${word} |` } },
          { type: "agent.thinking", payload: { text: word } },
          { type: "agent.plan", payload: { tasks: [{ id: "1", title: "short", status: "done" }] } },
          { type: "agent.plan", payload: { tasks: [{ id: "1", title: word, status: "in_progress", detail: word }], comment: word } },
          { type: "agent.tool_call", payload: { call_id: "c", tool: word, params: { [word]: word } } },
          { type: "agent.tool_error", payload: { call_id: "c", tool: word, error: word } },
          { type: "agent.error", payload: { message: word, code: word } },
          { type: "agent.artifact", payload: { type: "table", title: word, data: { columns: [word], rows: [[word]] } } },
          { type: "agent.approval_request", payload: { request_id: "a", text: word, calls: [{ call_id: "d", tool: word, params: { [word]: word } }] } },
          { type: "agent.input_request", payload: { request_id: "q", input_type: "radio", text: word, options: [{ id: "x", label: word, description: word }] } },
        );
        /** Elements that reach beyond the page, except those in a box that scrolls or cuts them. */
        const wide = () =>
          page.evaluate(() =>
            [...document.querySelectorAll("main *")]
              .filter((el) => {
                if (!el.checkVisibility() || el.getBoundingClientRect().right <= innerWidth + 1) return false;
                for (let box = el; box && !box.matches(".pl-list, .pl-panel-body, main"); box = box.parentElement) if (getComputedStyle(box).overflowX !== "visible" && box.getBoundingClientRect().right <= innerWidth + 1) return false;
                return true;
              })
              .map((el) => `${el.tagName} ${el.className}`),
          );
        await settled(page, word);
        const list = page.locator(".pl-list");
        for (let i = 0; i < 12; i++) {
          for (const row of await list.locator("details:not([open]) > summary").all()) await row.click({ timeout: 2000 }).catch(() => {}); // rows out of view may be removed
          assert.deepEqual(await wide(), []);
          await list.first().evaluate((el) => el.scrollBy(0, -500));
        }
        if (context === phone) await page.getByRole("button", { name: /^Plan/ }).click();
        else await openPanel(page);
        for (const tab of ["Plan", "Work"]) {
          await page.getByRole("tab", { name: tab }).click();
          await page.getByRole("complementary").getByText("Donaudampf").first().waitFor();
          if (tab === "Plan") await page.getByRole("button", { name: "How the plan changed" }).click();
          assert.deepEqual(await wide(), [], tab);
        }
      }, { ...none, context }));

  test("a phone: the menus of the composer show their choice, the account is a small circle in a large target, and the search is as high as a finger", () =>
    inSession(async (page) => {
      const cut = await page.locator(".co-pick").evaluateAll((all) => all.filter((el) => el.scrollWidth > el.clientWidth).map((el) => el.selectedOptions[0].text));
      assert.deepEqual(cut, []);
      await page.getByRole("button", { name: "Conversations" }).click();
      const account = page.locator(".co-account > summary");
      await account.waitFor();
      const { width, padding } = await account.evaluate((el) => ({ width: el.getBoundingClientRect().width, padding: Number.parseFloat(getComputedStyle(el).paddingInlineStart) }));
      assert.deepEqual([width, width - 2 * padding], [44, 28]);
      assert.ok((await page.getByRole("searchbox").boundingBox()).height >= 44);
    }, { context: phone }));

  test("a phone: the items of a conversation's menu are as high as a finger, with their words in the middle", () =>
    inSession(async (page) => {
      await page.getByLabel("More about this conversation").tap();
      const items = page.locator(".co-dots .co-pop > *");
      await items.first().waitFor();
      const uneven = await items.evaluateAll((all) => all.filter((el) => {
        const [box, words] = [el.getBoundingClientRect(), document.createRange()];
        words.selectNodeContents(el.firstChild);
        const text = words.getBoundingClientRect();
        return el.offsetHeight < 44 || Math.abs(text.top + text.height / 2 - box.top - box.height / 2) > 1;
      }).map((el) => el.textContent));
      assert.deepEqual(uneven, []);
    }, { context: phone }));

  test("a phone: the rows of tools, plans and workstreams are as high as a finger, in the list and in the panel", () =>
    inSession(async (page, id) => {
      const high = async (rows, count) => {
        await rows.nth(count - 1).waitFor(); // the panel is loaded when it is opened
        const heights = await rows.evaluateAll((all) => all.map((el) => el.offsetHeight)); // whole pixels: an animation gives 43.99997
        for (const h of heights) assert.ok(h >= 44, `${h}`);
      };
      await post(id,
        { type: "agent.tool_call", payload: { call_id: "c", tool: "fetch", params: { url: "x" } } },
        { type: "agent.thinking", payload: { block: "t", text: "Hm." } },
        { type: "agent.plan", payload: { tasks: [{ id: "1", title: "Look", status: "done" }, { id: "2", title: "Tell", status: "pending" }] } },
        { type: "user.message", payload: { text: "/work 2 900 deadline=900" } },
      );
      await page.locator(".pl-timebar").last().waitFor();
      await high(page.locator(":is(.pl-tool, .pl-think) > summary"), 5);
      await high(page.locator(".pl-strip > button"), 3);
      await page.getByRole("button", { name: /^Plan/ }).click();
      await high(page.locator(".pl-panel .pl-tasks > li"), 2);
      await high(page.locator(".pl-panel .pl-tasks button"), 2);
      await high(page.getByRole("tab"), 3);
      await page.getByRole("tab", { name: "Work" }).click();
      await page.locator(".pl-panel .pl-lane").last().waitFor();
      await high(page.locator(".pl-panel .pl-lane :is(.pl-lane-button, summary)"), 6);
      await page.getByRole("button", { name: "Timeline" }).click();
      await high(page.locator(".pl-timeline .pl-lane-button"), 2);
      await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
      await api(server, `/sessions/${id}/stop`, {});
    }, { context: phone }));

  test("a phone shows the actions without hover and no event numbers; the composer has at most a fifth of the screen", () =>
    inSession(async (page, id) => {
      await post(id, ...talk.slice(0, 2));
      const actions = feed(page).locator("article", { hasText: "On page two" }).locator(".pl-actions");
      await actions.getByRole("button", { name: "Copy" }).waitFor();
      assert.equal(await opacity(actions), 1);
      assert.doesNotMatch(await feed(page).innerText(), /#\d/);
      await page.getByRole("textbox", { name: "Message", exact: true }).fill("a long message\n".repeat(30));
      const box = await page.locator(".pl-composer").boundingBox();
      assert.ok(box.height <= 844 / 5, `${box.height} pixels`);
    }, { ...none, context: phone }));
});
