// Long lists of entries, workstreams, and entries that cannot be drawn.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { api } from "./harness.mjs";
import { axe, feed, inSession, openPanel, post, server, settled, steady, until } from "./suite.mjs";

describe("long and wide", () => {
  test("[31] older entries load without moving the view", () =>
    inSession(
      async (page, id) => {
        for (let i = 0; i < 4; i++) await post(id, ...Array.from({ length: 150 }, (_, n) => ({ type: "agent.text", payload: { text: `Entry ${i * 150 + n}\n\n${"words ".repeat((n % 7) * 12)}` } })));
        await page.reload();
        await page.getByText("Entry 599", { exact: true }).first().waitFor();
        assert.ok((await page.evaluate(() => document.querySelectorAll("*").length)) < 1500);
        // Delay the page of older entries, so that the state before it can be checked.
        let release;
        const held = new Promise((r) => (release = r));
        await page.route("**/items?*", async (route) => {
          await held;
          await route.continue();
        });
        const list = page.locator(".pl-list");
        await list.hover();
        // One wheel event leaves the end; more of them could arrive later and move the view.
        await page.mouse.wheel(0, -200);
        await page.getByRole("button", { name: "To the end" }).waitFor();
        await steady(page, list);
        await until(page, () => list.evaluate((el) => {
          el.scrollTop = Math.min(el.scrollTop, 150);
          return el.scrollTop <= 150;
        }), "the top of the list");
        await steady(page, list);
        // The position of an entry that is completely visible: the one at the edge may change with a fraction of a pixel.
        const inView = await list.evaluate((el) => [...el.querySelectorAll("article")].find((x) => x.getBoundingClientRect().top > el.getBoundingClientRect().top).dataset.item);
        const place = () => list.locator(`article[data-item="${inView}"]`).evaluate((el) => el.getBoundingClientRect().top);
        const before = await place();
        const height = await list.evaluate((el) => el.scrollHeight);
        release();
        await until(page, () => list.evaluate((el, h) => el.scrollHeight > h + 1000, height), "older entries");
        await steady(page, list);
        const after = await place();
        assert.ok(Math.abs(after - before) <= 1.5, `moved by ${after - before} px`);
        await until(page, async () => {
          await page.mouse.wheel(0, -6000);
          return page.getByText("Entry 0", { exact: true }).isVisible();
        }, "the first entry");
      },
      { session: { agent: "none" } },
    ));

  test("[23] [24] [34] workstreams: phases, time left and ends; filtered by one of them, every prompt stays visible", () =>
    inSession(
      async (page, id) => {
        await post(id, { type: "agent.text", payload: { text: "From the main line" } }, { type: "agent.input_request", payload: { request_id: "q", input_type: "text", text: "Which vendor?" } });
        await page.route("**/snapshot*", async (route) => {
          const s = await (await route.fetch()).json();
          const now = Date.parse(s.server_now);
          const at = (seconds) => new Date(now + seconds * 1000).toISOString();
          const work = (name, state, more) => ({ id: name, name, task: `Look into ${name}`, state, launched_at: at(-100), deadline: at(100), ...more });
          s.state.workstreams = [work("pricing", "running", { phase: "executing_tool" }), work("news", "timeout", { ended_at: at(-1) }), work("fx", "failed", { ended_at: at(-1) }), work("law", "canceled", { ended_at: at(-1) })];
          s.items.push(...["pricing", "news"].map((w, i) => ({ id: `x${i}`, kind: "text", seq: 90 + i, workstream_id: w, text: { text: `Words from ${w}` } })));
          await route.fulfill({ json: s });
        });
        await page.reload();
        await openPanel(page);
        await page.getByRole("complementary").getByText(/using a tool · (1:[0-4]\d|0:\d\d) left/).first().waitFor();
        for (const word of ["ran out of time", "failed", "cancelled"]) await page.getByRole("complementary").getByText(word).first().waitFor();
        await axe(page, "lanes");
        await page.getByRole("button", { name: /^pricing/ }).click();
        await page.getByText("Words from news").first().waitFor({ state: "detached" });
        await page.getByText("Words from pricing").first().waitFor();
        assert.equal(await page.getByText("From the main line").count(), 0);
        assert.equal(await page.getByRole("textbox", { name: "Which vendor?" }).count(), 1);
        await page.getByRole("button", { name: "Show everything" }).click();
        await page.getByText("From the main line").first().waitFor();
      },
      { session: { agent: "none" } },
    ));

  test("[40] an entry that cannot be drawn affects no other entry", () =>
    inSession(
      async (page, id) => {
        await api(server, `/sessions/${id}/events`, [{ type: "agent.artifact", payload: { type: "table", title: "Odd", data: { columns: [null], rows: [null, 3] } } }, { type: "agent.text", payload: { text: "Still here" } }]);
        await settled(page, "Still here");
        await settled(page, "This entry could not be shown.");
        // Bookkeeping of a dialect is not an entry; an event of an unknown type is one.
        await api(server, `/sessions/${id}/events`, [{ type: "x1.input.delivered", payload: { sequence: 1 } }, { type: "acme.lunch", payload: { at: 12 } }]);
        await settled(page, "acme.lunch");
        assert.equal(await page.getByText("x1.input.delivered").count(), 0);
      },
      { session: { agent: "none" }, expect: /TypeError|error/i },
    ));
});

describe("approvals", () => {
  test("an answered approval with much stays in the column, and its secrets stay hidden until they are revealed", () =>
    inSession(async (page, id) => {
      const rows = Array.from({ length: 60 }, (_, i) => ({ service: `svc-${i}`, image: `registry.example.com/team/service-${i}:4.2.0`, password: "hunter2" }));
      await post(id, { type: "agent.approval_request", payload: { request_id: "much", calls: [{ call_id: "m1", tool: "deploy", params: { api_key: "c1f7e02b94", rows } }] } });
      await page.getByText("deploy").first().waitFor();
      await post(id, { type: "user.approval_response", payload: { request_id: "much", decisions: [{ call_id: "m1", approve: true }] } });
      const row = page.locator(".pl-approved .pl-tool");
      await row.waitFor();
      assert.match(await row.innerText(), /api_key ••••••/);
      await row.locator("summary").click();
      await row.locator("pre").waitFor();
      assert.doesNotMatch(await row.innerText(), /c1f7e02b94|hunter2/);
      const [outer, inner] = await Promise.all([page.locator(".pl-row", { has: row }), row].map((el) => el.boundingBox()));
      assert.ok(inner.x + inner.width <= outer.x + outer.width, "the row ends in the column");
      await row.getByRole("button", { name: "Reveal" }).click();
      assert.match(await row.locator("pre").innerText(), /c1f7e02b94/);
    }, { session: { agent: "none" } }));

  test("an answered approval, its call and its result are one row: the name first, then risk, state and duration", () =>
    inSession(
      async (page, id) => {
        await post(id, { type: "agent.approval_request", payload: { request_id: "r", calls: [{ call_id: "c1", tool: "deploy", params: { env: "prod" }, risk: "high" }, { call_id: "c2", tool: "erase", params: { all: true } }] } });
        const head = page.locator(".pl-call-head").first();
        await head.getByText("Risk: high").waitFor();
        assert.match(await head.innerText(), /^deploy\s+Risk: high/);
        await api(server, `/sessions/${id}/prompts/r/answer`, { decisions: [{ call_id: "c1", approve: true }, { call_id: "c2", approve: false, reason: "not today" }] });
        await page.locator(".pl-approved").getByText("not today").waitFor();
        await post(id, { type: "agent.tool_call", payload: { call_id: "c1", tool: "deploy", params: { env: "prod" } } }, { type: "agent.tool_result", payload: { call_id: "c1", tool: "deploy", result: "deployed" } });
        const row = page.locator(".pl-approved .pl-tool", { hasText: "deploy" });
        await row.locator(".pl-state-ok", { hasText: "ok" }).waitFor(); // before the call it says that it was approved
        assert.match((await row.locator("summary").innerText()).replace(/\s+/g, " "), /^deploy env prod Risk: high ok/);
        await page.locator(".pl-approved .pl-tool", { hasText: "erase" }).getByText("Denied").waitFor();
        assert.equal(await feed(page).locator("article").count(), 1, "the call has another row");
        await row.locator("summary").click();
        await row.getByText("Approved deploy").waitFor();
        await row.getByText("deployed").waitFor();
        await axe(page, "answered approval");
        // After a reload it is the same row.
        await page.reload();
        await page.locator(".pl-approved .pl-tool", { hasText: "deploy" }).locator(".pl-state-ok").waitFor();
        assert.equal(await feed(page).locator("article").count(), 1);
      },
      { session: { agent: "none" } },
    ));
});
