// Artifacts and uploads: tables, charts, pages, images, files.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { describe, test } from "node:test";
import { api, say } from "./harness.mjs";
import { atEnd, axe, copied, events, feed, inSession, post, server, settled, steady, until } from "./suite.mjs";

const none = { session: { agent: "none" } };

describe("artifacts", () => {
  test("[26] ten thousand rows are sorted and scrolled; only the visible ones are drawn", () =>
    inSession(async (page, id) => {
      const rows = Array.from({ length: 10_000 }, (_, i) => [`City ${i}`, (i * 7919) % 10_007]);
      await fetch(`${server.url}/parley/v1/sessions/${id}/artifacts/out/cities.json`, { method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ columns: ["City", "People"], rows }) });
      await post(id, { type: "agent.artifact", payload: { type: "table", title: "Cities", path: "out/cities.json", media_type: "application/json" } });
      await page.getByRole("button", { name: "People" }).click();
      await page.getByRole("button", { name: "People" }).click();
      const most = rows.toSorted((a, b) => b[1] - a[1])[0];
      await page.locator(".pl-table").getByText(most[0], { exact: true }).first().waitFor();
      await page.getByRole("button", { name: "Show all (10,000 rows)" }).click();
      await page.locator(".pl-bigtable").waitFor();
      assert.ok((await page.evaluate(() => document.querySelectorAll("*").length)) < 1500);
      const least = rows.toSorted((a, b) => a[1] - b[1])[0];
      await page.locator(".pl-bigtable-list").evaluate((el) => (el.scrollTop = el.scrollHeight));
      await page.locator(".pl-bigtable").getByText(least[0], { exact: true }).first().waitFor();
      await axe(page, "a big table");
    }, none));

  test("[26] a chart by specification is interpreted; one that loads data is refused", () =>
    inSession(async (page, id) => {
      const spec = (data) => ({
        $schema: "https://vega.github.io/schema/vega-lite/v6.json", data, transform: [{ calculate: "datum.v * 2 + length('ab')", as: "double" }],
        mark: "bar", encoding: { x: { field: "day", type: "nominal" }, y: { field: "double", type: "quantitative" } },
      });
      await post(id, { type: "agent.artifact", payload: { type: "chart", title: "Visits", data: spec({ values: [{ day: "Mon", v: 3 }, { day: "Tue", v: 5 }] }) } });
      const chart = page.getByLabel("Visits").locator(".pl-spec");
      await until(page, () => chart.locator("svg path[aria-roledescription=bar]").count().then((n) => n === 2), "two bars");
      // The value of a bar was computed by the expression.
      await chart.locator("svg [aria-label='day: Tue; double: 12']").waitFor();
      await page.getByRole("button", { name: "Show the data" }).click();
      await page.getByRole("cell", { name: "Tue" }).waitFor();
      await post(id, { type: "agent.artifact", payload: { type: "chart", title: "Far", data: spec({ url: "https://evil.example/data.json" }) } });
      await settled(page, "This chart loads data from a URL.");
      await axe(page, "charts");
    }, none));

  test("[27] a download has its name and bytes; an HTML page of an agent runs no script and sends no request", () =>
    inSession(async (page, id) => {
      const put = (path, type, body) => fetch(`${server.url}/parley/v1/sessions/${id}/artifacts/${path}`, { method: "PUT", headers: { "Content-Type": type }, body });
      // Another server, which counts its requests.
      const reached = [];
      const sink = createServer((req, res) => {
        reached.push(req.url);
        res.end();
      });
      await new Promise((done) => sink.listen(0, "127.0.0.1", done));
      sink.unref();
      const elsewhere = `http://127.0.0.1:${sink.address().port}`;
      await put("out/report.csv", "text/csv", "a,b\n1,2\n");
      await put("out/page.html", "text/html", `<h1>Made here</h1><script>parent.PWN = 1; document.title = "ran"</script><img src="${elsewhere}/leak.png"><link rel="stylesheet" href="${elsewhere}/leak.css"><iframe src="${elsewhere}/frame"></iframe><form action="${elsewhere}/form"></form><meta http-equiv="refresh" content="0; url=${elsewhere}/gone">`);
      await post(id, { type: "agent.artifact", payload: { type: "file", title: "Report", path: "out/report.csv", media_type: "text/csv", size: 8 } }, { type: "agent.artifact", payload: { type: "html", title: "Page", path: "out/page.html", media_type: "text/html" } });
      const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("region", { name: "Report" }).getByRole("link", { name: "Download" }).click()]);
      assert.equal(download.suggestedFilename(), "report.csv");
      assert.equal(readFileSync(await download.path(), "utf8"), "a,b\n1,2\n");
      await page.getByRole("button", { name: "Show the page" }).click();
      await page.frameLocator("iframe.pl-page").getByText("Made here").first().waitFor();
      assert.equal(await page.evaluate(() => window.PWN), undefined);
      assert.deepEqual(reached, []);
      sink.close();
    }, { ...none, expect: /Content Security Policy|Blocked script|sandboxed|frame/i }));

  test("[7] an external image is loaded only on request, and through the server", () =>
    inSession(async (page, id) => {
      const asked = [];
      page.on("request", (r) => asked.push(`${r.method()} ${new URL(r.url()).pathname}`));
      await post(id, { type: "agent.text", payload: { text: "Look: ![a map](https://maps.example/south.png) and ![inside](http://127.0.0.1:1/x.png)" } });
      const chip = page.locator(".pl-imagechip", { hasText: "maps.example" });
      await chip.waitFor();
      assert.deepEqual(asked.filter((a) => a.includes("image")), []);
      const pixel = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
      await page.route("**/parley/v1/image", (route) => (route.request().postDataJSON().url.includes("maps.example") ? route.fulfill({ contentType: "image/png", body: pixel }) : route.continue()));
      await chip.getByRole("button", { name: /^Load/ }).click();
      await page.getByRole("img", { name: "a map" }).waitFor();
      // The real server refuses addresses of its own network and reports that.
      await page.locator(".pl-imagechip", { hasText: "127.0.0.1" }).getByRole("button", { name: /^Load/ }).click();
      await page.locator(".pl-imagechip .pl-bad").getByText(/ports 80|private network/).first().waitFor();
    }, { ...none, expect: /40\d|50\d/ }));
});

describe("uploads", () => {
  test("[28] by drop and paste, with progress, cancel and retry", () =>
    inSession(async (page, id) => {
      const composer = page.locator(".pl-composer");
      // The first upload is delayed, so that its progress is visible and it can be cancelled.
      let release;
      const held = new Promise((r) => (release = r));
      let fail = true;
      await page.route("**/artifacts/**", async (route) => {
        if (route.request().method() !== "PUT") return route.continue();
        const url = route.request().url();
        if (url.includes("slow.txt")) await held;
        if (url.includes("flaky.txt") && fail) {
          fail = false;
          return route.fulfill({ status: 507, json: { error: { code: "too_large", message: "the disk is full" } } });
        }
        await route.continue();
      });
      const give = (event, names) =>
        composer.evaluate((el, [event, names]) => {
          const data = new DataTransfer();
          for (const n of names) data.items.add(new File([`content of ${n}`], n, { type: "text/plain" }));
          const init = { bubbles: true, cancelable: true };
          el.dispatchEvent(event === "paste" ? new ClipboardEvent("paste", { ...init, clipboardData: data }) : new DragEvent(event, { ...init, dataTransfer: data }));
        }, [event, names]);
      await give("dragover", ["x"]);
      await page.getByPlaceholder("Drop files to add them").waitFor();
      await give("drop", ["slow.txt"]);
      await composer.getByRole("progressbar", { name: "slow.txt" }).waitFor();
      assert.equal(await page.getByRole("button", { name: "Send" }).isDisabled(), true);
      await composer.getByRole("button", { name: "Remove slow.txt" }).click();
      await composer.getByText("slow.txt").first().waitFor({ state: "detached" });
      release();
      await give("paste", ["flaky.txt"]);
      await composer.getByText("the disk is full").first().waitFor();
      await axe(page, "a failed upload");
      await composer.getByRole("button", { name: "Retry" }).click();
      await composer.getByText("20 B").first().waitFor();
      await say(page, "here");
      await settled(page, "You said: here");
      const part = (await events(id)).find((e) => e.type === "user.message").payload.content.find((p) => p.type === "file");
      assert.equal(await (await fetch(`${server.url}/parley/v1/sessions/${id}/artifacts/${part.path}`)).text(), "content of flaky.txt");
      // Larger than the limit of the component: refused with a text before anything is sent.
      await composer.evaluate((el) => {
        const data = new DataTransfer();
        const big = new File(["x"], "big.bin");
        Object.defineProperty(big, "size", { value: 200_000_000 });
        data.items.add(big);
        const e = new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: data });
        Object.defineProperty(e.dataTransfer, "files", { value: [big] });
        el.dispatchEvent(e);
      });
      await page.getByText("big.bin is larger than 100 MB and was not added.").first().waitFor();
    }, { expect: /507/ }));
});

describe("text", () => {
  test("[5] unfinished Markdown is drawn as if it were closed, and correctly once it is complete", () =>
    inSession(async (page, id, context) => {
      await context.grantPermissions(["clipboard-read", "clipboard-write"]);
      const code = Array.from({ length: 120 }, (_, i) => `line${i} := "<${i}>"`).join("\n");
      const whole = `Some **bold words** and \`code\`.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n\`\`\`go\n${code}\n\`\`\`\n\nThe **end** of it.`;
      let offset = 0;
      const write = async (to) => {
        const text = whole.slice(offset, to);
        await api(server, `/sessions/${id}/previews`, [{ block: "b1", offset, text, kind: "text" }]);
        offset = to;
      };
      await write(whole.indexOf(" words**"));
      await page.locator(".pl-prose strong").getByText("bold").first().waitFor();
      assert.ok(!(await feed(page).innerText()).includes("**"), "raw marks are seen");
      await write(whole.indexOf("| 1 |") + 3);
      await page.locator(".pl-prose table").waitFor();
      await write(whole.indexOf("line60"));
      await page.locator(".pl-code").getByText("line59").first().waitFor();
      assert.ok(!(await feed(page).innerText()).includes("```"), "a raw fence is seen");
      await write(whole.length);
      await post(id, { type: "agent.text", payload: { block: "b1", text: whole } });
      await page.locator(".pl-prose strong").getByText("end").first().waitFor();
      assert.ok(!/\*\*|```|\|--/.test(await feed(page).innerText()), "raw Markdown is left");
      // The button stays visible while the block is scrolled down and up.
      const copy = page.locator(".pl-code-head").first().getByRole("button", { name: "Copy" });
      const list = page.locator(".pl-list");
      await list.hover();
      await page.mouse.wheel(0, -60); // at the end the list follows new entries
      await page.getByRole("button", { name: /To the end/ }).waitFor();
      await steady(page, list);
      for (const to of [700, 1200, 400]) {
        await list.evaluate((el, to) => (el.scrollTop = to), to);
        await until(page, () => copy.evaluate((b) => {
          const r = b.getBoundingClientRect();
          const l = b.closest(".pl-list").getBoundingClientRect();
          return r.top >= l.top - 1 && r.bottom <= l.bottom + 1;
        }), `the copy button in view at ${to}`);
      }
      await copy.click();
      await copied(page, code);
    }, none));

  test("[9] opening a row does not move the row under the pointer", () =>
    inSession(async (page, id) => {
      await post(id, ...Array.from({ length: 20 }, (_, i) => ({ type: "agent.text", payload: { text: `Text ${i}` } })), { type: "agent.thinking", payload: { text: "one\n\ntwo\n\nthree" } }, { type: "agent.tool_call", payload: { call_id: "c", tool: "fetch", params: { a: 1 } } });
      const tool = page.locator(".pl-tool", { hasText: "fetch" });
      await tool.getByText("running").first().waitFor();
      await post(id, { type: "agent.tool_result", payload: { call_id: "c", tool: "fetch", result: { rows: 3 } } });
      await tool.getByText("ok").first().waitFor();
      await page.locator(".pl-list").hover();
      await page.mouse.wheel(0, -60);
      await page.getByRole("button", { name: /To the end/ }).waitFor();
      for (const summary of [page.locator(".pl-think summary"), tool.locator("summary")]) {
        await summary.hover(); // scrolls it into view
        await steady(page, page.locator(".pl-list"));
        const before = await summary.boundingBox();
        // Not with a click of Playwright, which scrolls first when the button to the end covers the row.
        await summary.evaluate((s) => s.click());
        await until(page, () => summary.evaluate((s) => s.parentElement.open), "an open row");
        await steady(page, page.locator(".pl-list"));
        const after = await summary.boundingBox();
        assert.ok(Math.abs(after.y - before.y) <= 1, `the row moved by ${after.y - before.y}`);
      }
    }, none));

  test("[9] two rows expanded at the end within one animation frame", () =>
    inSession(async (page, id) => {
      await post(id, ...Array.from({ length: 20 }, (_, i) => ({ type: "agent.text", payload: { text: `Text ${i}` } })), { type: "agent.thinking", payload: { text: "one\n\ntwo\n\nthree" } }, { type: "agent.tool_call", payload: { call_id: "c", tool: "fetch", params: { a: 1 } } }, { type: "agent.tool_result", payload: { call_id: "c", tool: "fetch", result: { rows: 3 } } });
      const tool = page.locator(".pl-tool", { hasText: "fetch" }).locator("summary");
      await tool.getByText("ok").first().waitFor();
      await atEnd(page.locator(".pl-list"));
      await steady(page, page.locator(".pl-list"));
      // Timers and frames run in the order of their requests, so the second click is always just before the check.
      const before = await page.evaluate(() => new Promise((done) => {
        const summary = document.querySelector(".pl-tool summary");
        const press = () => {
          const y = summary.getBoundingClientRect().y;
          summary.click();
          done(y);
        };
        setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(press)), 400);
        document.querySelector(".pl-think summary").click();
        setTimeout(() => (document.querySelector(".pl-list").scrollTop = 1e9), 300);
      }));
      await until(page, () => tool.evaluate((s) => s.parentElement.querySelector(".pl-tool-body") !== null), "an open row");
      await steady(page, page.locator(".pl-list"));
      const after = (await tool.boundingBox()).y;
      assert.ok(Math.abs(after - before) <= 1, `the row moved by ${after - before}`);
    }, none));
});
