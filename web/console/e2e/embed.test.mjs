// The element on a page of somebody else: another origin, a strict policy of its own, hostile styles.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, extname, join } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { api, openPage } from "./harness.mjs";
import { axe, browser, inSession, post, server, settled } from "./suite.mjs";

const root = dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))));
const places = [join(root, "examples", "web-element"), join(root, "web", "react", "dist")];
const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };

/** Serves the example as a host would, under its own policy. */
function host() {
  const s = createServer((req, res) => {
    const name = new URL(req.url, "http://x").pathname.slice(1) || "index.html";
    const file = places.map((p) => join(p, name)).find((f) => !name.includes("..") && existsSync(f));
    if (!file) return res.writeHead(404).end();
    res.writeHead(200, {
      "Content-Type": types[extname(file)] ?? "application/octet-stream",
      "Content-Security-Policy": `default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' ${server.url}; connect-src ${server.url} ${server.url.replace("http", "ws")}; require-trusted-types-for 'script'; trusted-types 'none'`,
    });
    res.end(readFileSync(file, "utf8").replace("http://127.0.0.1:8000", server.url));
  });
  return new Promise((resolve) => s.listen(0, "127.0.0.1", () => resolve({ url: `http://127.0.0.1:${s.address().port}`, close: () => s.close() })));
}

describe("embedding", () => {
  test("the element works under a strict policy and leaves the page as it is", async () => {
    const h = await host();
    const { page, context, faults } = await openPage(browser);
    try {
      await page.goto(h.url);
      await page.getByRole("button", { name: "/ask radio" }).click();
      await page.getByRole("radio", { name: /SMS/ }).check();
      await page.getByText("Status: waiting").waitFor();
      assert.match(await page.title(), /^\(1\)/);
      await page.waitForTimeout(600);
      const send = page.getByRole("button", { name: "Send answer" });
      assert.notEqual(await send.evaluate((b) => getComputedStyle(b).backgroundColor), "rgb(255, 105, 180)");
      await send.click();
      await page.getByRole("feed").getByText("You answered: sms").first().waitFor();
      assert.match(await page.locator("h1").evaluate((e) => getComputedStyle(e).fontFamily), /Georgia/);
      assert.deepEqual(await page.evaluate(() => window.violations), []);
      assert.deepEqual(faults.filter((f) => !f.includes("favicon") && !f.includes("404")), []);
    } finally {
      await context.close();
      h.close();
    }
  });
});

describe("long and wide", () => {
  test("older entries load without moving what is read", () =>
    inSession(
      async (page, id) => {
        for (let i = 0; i < 4; i++) await post(id, ...Array.from({ length: 150 }, (_, n) => ({ type: "agent.text", payload: { text: `Entry ${i * 150 + n}\n\n${"words ".repeat((n % 7) * 12)}` } })));
        await page.reload();
        await page.getByText("Entry 599", { exact: true }).waitFor();
        assert.ok((await page.evaluate(() => document.querySelectorAll("*").length)) < 1500);
        // Hold the older page back, so that there is a moment before and one after.
        let release;
        const held = new Promise((r) => (release = r));
        await page.route("**/items?*", async (route) => {
          await held;
          await route.continue();
        });
        const list = page.locator(".pl-list");
        await list.hover();
        for (let i = 0; i < 40 && (await list.evaluate((el) => el.scrollTop)) > 300; i++) {
          await page.mouse.wheel(0, -4000);
          await page.waitForTimeout(80);
        }
        await page.waitForTimeout(500);
        const first = () => list.evaluate((el) => {
          const top = el.getBoundingClientRect().top;
          const a = [...el.querySelectorAll("article")].find((x) => x.getBoundingClientRect().bottom > top + 5);
          return [a?.dataset.item, Math.round(a?.getBoundingClientRect().top ?? 0)];
        });
        const before = await first();
        const height = await list.evaluate((el) => el.scrollHeight);
        release();
        await page.waitForFunction((h) => document.querySelector(".pl-list").scrollHeight > h + 1000, height);
        await page.waitForTimeout(300);
        const after = await first();
        assert.equal(after[0], before[0]);
        assert.ok(Math.abs(after[1] - before[1]) <= 1, `moved by ${after[1] - before[1]} px`);
        for (let i = 0; i < 80 && !(await page.getByText("Entry 0", { exact: true }).count()); i++) {
          await page.mouse.wheel(0, -6000);
          await page.waitForTimeout(80);
        }
        await page.getByText("Entry 0", { exact: true }).waitFor();
      },
      { session: { agent: "none" } },
    ));

  test("lanes: phases, time left and ends; one of them alone, but every question", () =>
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
        await page.getByRole("complementary").getByText(/using a tool · 1:(39|40) left/).waitFor();
        for (const word of ["ran out of time", "failed", "cancelled"]) await page.getByRole("complementary").getByText(word).waitFor();
        await axe(page, "lanes");
        await page.getByRole("button", { name: /^pricing/ }).click();
        await page.getByText("Words from news").waitFor({ state: "detached" });
        await page.getByText("Words from pricing").waitFor();
        assert.equal(await page.getByText("From the main line").count(), 0);
        assert.equal(await page.getByRole("textbox", { name: "Which vendor?" }).count(), 1);
        await page.getByRole("button", { name: "Show everything" }).click();
        await page.getByText("From the main line").waitFor();
      },
      { session: { agent: "none" } },
    ));

  test("a renderer that throws takes only its entry with it", () =>
    inSession(
      async (page, id) => {
        await api(server, `/sessions/${id}/events`, [{ type: "agent.artifact", payload: { type: "table", title: "Odd", data: { columns: [null], rows: [null, 3] } } }, { type: "agent.text", payload: { text: "Still here" } }]);
        await settled(page, "Still here");
        await settled(page, "This entry could not be shown.");
      },
      { session: { agent: "none" }, expect: /TypeError|error/i },
    ));
});
