// The element on a page of another site, the component on a page with conflicting styles, and the frame; each on another origin.
import assert from "node:assert/strict";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { build, defaultClientConditions } from "vite";
import { api, openPage, startServer } from "./harness.mjs";
import { host } from "./host.mjs";
import { axe, browser, post, server, settled, until } from "./suite.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(dirname(dirname(here)));
/** A page of a host, which must have no errors. */
async function at(url, body, allow = /favicon|404/) {
  const { page, context, faults } = await openPage(browser);
  try {
    await page.goto(url);
    await body(page);
    assert.deepEqual(await page.evaluate(() => window.violations), []);
    assert.deepEqual(faults.filter((f) => !allow.test(f)), []);
  } finally {
    await context.close();
  }
}

describe("the element", () => {
  test("[39] the element works under a strict policy and does not change the page", async () => {
    const h = await host(server.url, [join(root, "examples", "web-element"), join(root, "web", "react", "dist")]);
    await at(h.url, async (page) => {
      await page.evaluate(() => {
        const rules = new CSSStyleSheet();
        rules.replaceSync("button { background: hotpink !important }");
        document.adoptedStyleSheets = [rules]; // a rule of the page does not reach into the element
      });
      await page.getByRole("button", { name: /^Ask me a question/ }).click();
      await page.getByRole("radio", { name: /SMS/ }).check();
      await page.locator("#status", { hasText: "The agent waits for your answer" }).waitFor();
      await until(page, async () => /^\(1\)/.test(await page.title()), "the count in the title");
      await page.locator(".pl-prompt-open[data-armed]").waitFor();
      const send = page.getByRole("button", { name: "Send answer" });
      assert.notEqual(await send.evaluate((b) => getComputedStyle(b).backgroundColor), "rgb(255, 105, 180)");
      await send.click();
      await page.getByRole("feed").getByText("You answered: sms").first().waitFor();
      assert.match(await page.locator("h1").evaluate((e) => getComputedStyle(e).fontFamily), /Georgia/);
      const font = () => page.locator(".pl-root").evaluate((e) => getComputedStyle(e).fontFamily);
      assert.match(await font(), /Georgia/); // that of the page, until the page sets another one
      await page.locator("parley-conversation").evaluate((el) => el.style.setProperty("--pl-sans", "Verdana, sans-serif"));
      assert.match(await font(), /^Verdana/);
      await page.locator("parley-conversation").evaluate((el) => el.style.removeProperty("--pl-sans"));
      // Variables of the element and of the page around it win over the defaults.
      const colours = () => page.locator(".pl-root").evaluate((e) => [getComputedStyle(e).backgroundColor, getComputedStyle(e).accentColor]);
      await page.evaluate(() => {
        document.documentElement.style.setProperty("--pl-paper", "rgb(1, 2, 3)");
        document.querySelector("parley-conversation").style.setProperty("--pl-accent", "rgb(4, 5, 6)");
      });
      assert.deepEqual(await colours(), ["rgb(1, 2, 3)", "rgb(4, 5, 6)"]);
      await page.evaluate(() => {
        document.documentElement.style.removeProperty("--pl-paper");
        document.querySelector("parley-conversation").style.removeProperty("--pl-accent");
      });
      // The attribute sets another language; without it the language is English.
      await page.locator("parley-conversation").evaluate((el) => el.setAttribute("locale", "de"));
      await page.getByRole("feed").getByText("Du hast geantwortet").first().waitFor();
      await page.locator("parley-conversation").evaluate((el) => el.removeAttribute("locale"));
      await page.getByRole("feed").getByText("You answered").first().waitFor();
    });
    h.close();
  });
});

describe("the element in one file", () => {
  test("[39] one script is all that a page needs: styles, colours of code, formulas and German are in it; a chart library is not", async () => {
    const dir = mkdtempSync(join(tmpdir(), "parley-onefile-"));
    const file = "parley-conversation.onefile.js";
    copyFileSync(join(root, "web", "react", "dist", file), join(dir, file));
    const h = await host(server.url, [dir, join(here, "onefile")]);
    const scripts = [];
    await at(h.url, async (page) => {
      page.on("request", (r) => r.resourceType() === "script" && scripts.push(new URL(r.url()).pathname));
      await page.getByRole("textbox", { name: "Message", exact: true }).fill("/help");
      await page.keyboard.press("Enter");
      await settled(page, "I answer without a model.");
      const made = (await api(server, "/sessions?limit=1")).sessions[0].session_id;
      await post(made, { type: "agent.text", payload: { text: "```sql\nselect 1\n```\n\n$$a^2$$" } });
      await page.locator("pre .hljs-keyword").first().waitFor();
      await page.locator("math").first().waitFor();
      assert.notEqual(await page.locator(".pl-root").evaluate((e) => getComputedStyle(e).backgroundColor), "rgba(0, 0, 0, 0)");
      await page.locator("parley-conversation").evaluate((el) => el.setAttribute("locale", "de"));
      await page.getByRole("textbox", { name: "Nachricht", exact: true }).waitFor();
      assert.deepEqual(scripts, []);
      // Where the host does not manage the panel, a button opens it.
      await page.getByRole("button", { name: "Plan, Arbeit, Dateien" }).click();
      await page.getByRole("tab", { name: "Dateien", selected: true }).waitFor();
      await page.getByRole("button", { name: "Plan, Arbeit, Dateien" }).click();
      await page.getByRole("complementary").waitFor({ state: "detached" });
      // A chart by specification needs the library, which a page can put beside it.
      await post(made, { type: "agent.artifact", payload: { type: "chart", title: "Points", data: { $schema: "https://vega.github.io/schema/vega-lite/v6.json", mark: "bar", data: { values: [{ a: 1 }] }, encoding: { x: { field: "a" } } } } });
      await page.locator(".pl-spec .pl-fault").waitFor();
      assert.deepEqual(scripts, ["/parley-conversation.charts.js"]);
    });
    h.close();
    rmSync(dir, { recursive: true });
  });
});

describe("the component in a React page", () => {
  const dist = join(here, "host", "dist");
  before(() =>
    build({
      configFile: false, logLevel: "error", root: join(here, "host"), base: "./", plugins: [react()], resolve: { conditions: ["parley-source", ...defaultClientConditions] },
      build: { target: "es2022", outDir: dist, emptyOutDir: true, assetsInlineLimit: 0, modulePreload: { polyfill: false }, chunkSizeWarningLimit: 2000 },
    }),
  );

  test("[29] [39] [40] two components among conflicting styles look as in the console; a failing renderer affects one entry", async () => {
    for (const id of ["host-one", "host-two"]) await api(server, "/sessions", { id, title: id, agent: "none" });
    const h = await host(server.url, [dist]);
    await at(`${h.url}/?server=${server.url}`, async (page) => {
      const one = page.locator("#one");
      const two = page.locator("#two");
      await post("host-one", { type: "agent.tool_call", payload: { call_id: "c", tool: "fetch" } }, { type: "agent.text", payload: { text: "Still here" } }, { type: "agent.usage", payload: { input_tokens: 1100, output_tokens: 300 } });
      await one.getByText("This entry could not be shown.").first().waitFor();
      await settled(one, "Still here");
      // The stream continues after the broken entry.
      await api(server, "/sessions/host-one/previews", [{ block: "b", offset: 0, text: "And more", kind: "text" }]);
      await settled(one, "And more");
      await one.getByText("1.4K/2K tokens").first().waitFor();
      assert.equal(await one.locator(".pl-tokens.pl-wait").count(), 0);
      await post("host-one", { type: "agent.usage", payload: { input_tokens: 100 } });
      await one.locator(".pl-tokens.pl-wait").getByText("1.5K/2K").first().waitFor(); // amber from three quarters
      await post("host-one", { type: "agent.usage", payload: { input_tokens: 300 } });
      await one.locator(".pl-tokens.pl-err").getByText("1.8K/2K").first().waitFor();
      await two.getByText("Resting").first().waitFor();
      assert.equal(await two.getByRole("textbox").count(), 0);
      const look = (el) => {
        const s = getComputedStyle(el);
        return [s.backgroundColor, s.borderStyle, s.borderRadius, s.fontSize, s.letterSpacing, s.textTransform, s.color];
      };
      const hosted = await one.getByRole("button", { name: "Send" }).evaluate(look);
      const { page: own, context } = await openPage(browser);
      await own.goto(`${server.url}/s/host-one`);
      await settled(own, "Still here");
      assert.deepEqual(hosted, await own.getByRole("button", { name: "Send" }).evaluate(look));
      await context.close();
      // The host's own elements are unchanged, and the two components do not affect each other.
      assert.match(await page.locator("#own").evaluate((e) => getComputedStyle(e).backgroundColor), /rgb\(255, 105, 180\)/);
      assert.match(await page.locator("h1").evaluate((e) => getComputedStyle(e).fontFamily), /Georgia/);
      assert.notEqual(await one.locator(".pl-root").evaluate((e) => getComputedStyle(e).backgroundColor), await two.locator(".pl-root").evaluate((e) => getComputedStyle(e).backgroundColor));
      assert.equal(await two.getByText("Still here").count(), 0);
    }, /favicon|404|renderer of the host/);
    h.close();
  });
});

describe("the frame", () => {
  const secret = "a-long-enough-secret-token-0123456789";
  let locked;
  before(async () => {
    locked = await startServer("--token", secret);
  });
  after(() => locked?.stop());

  test("[39] on a page of another origin: it creates a conversation, answers, and reports to the page", async () => {
    const h = await host(server.url, [here]);
    await at(`${h.url}/frame.html`, async (page) => {
      const frame = page.frameLocator("parley-frame iframe");
      await frame.getByRole("button", { name: /Ask a question that waits/ }).click(); // not the command itself
      await frame.getByRole("radio").first().waitFor();
      await page.getByText("Status: waiting").first().waitFor();
      await frame.getByRole("radio", { name: /SMS/ }).check();
      await frame.locator(".pl-prompt-open[data-armed]").waitFor();
      await frame.getByRole("button", { name: "Send answer" }).click();
      await frame.getByText("You answered: sms").first().waitFor();
      await page.getByText("Status: idle").first().waitFor();
      await frame.getByRole("button", { name: "Files", exact: true }).waitFor();
      assert.equal(await frame.getByRole("button", { name: "Inspector" }).count(), 0, "raw events are for developers");
      await until(page, async () => /^s-/.test(await page.title()), "the session in the title");
      await page.locator("parley-frame").evaluate((el) => el.send("hello from outside"));
      await frame.getByText("You said: hello from outside").first().waitFor();
      await axe(page, "a page with a frame");
    });
    h.close();
  });

  test("[39] a token is sent by message and is in no URL", async () => {
    // The page is on the same host as the server, whose own origin is always allowed; so the page uses the host name.
    const { page, context } = await openPage(browser);
    const asked = [];
    page.on("request", (r) => asked.push(r.url()));
    await page.goto(`${locked.url}/favicon.svg`);
    await page.route(`${locked.url}/host.html`, (route) => route.fulfill({ contentType: "text/html", body: `<!doctype html><title>x</title><script type="module" src="/embed.js"></script><parley-frame style="display:block;height:500px" src="${locked.url}"></parley-frame>` }));
    await page.goto(`${locked.url}/host.html`);
    const frame = page.frameLocator("parley-frame iframe");
    await page.locator("parley-frame").evaluate((el, t) => (el.token = t), secret);
    await frame.getByRole("heading", { name: "demo" }).waitFor();
    await frame.getByRole("textbox", { name: "Message", exact: true }).fill("hello");
    await frame.getByRole("button", { name: "Send" }).click();
    await frame.getByText("You said: hello").first().waitFor();
    // A socket has no headers, so its URL contains the token; no URL of a page or script does.
    assert.deepEqual(asked.filter((u) => u.includes(secret) && !/^wss?:/.test(u) && !u.includes("/ws?")), []);
    await context.close();
  });

  test("[39] a page that is not allowed gets no frame", async () => {
    const h = await host(locked.url, [here]); // with a token set, no other origin is allowed unless it is named
    const { page, context, faults } = await openPage(browser);
    await page.goto(`${h.url}/frame.html?token=${secret}`);
    await until(page, () => faults.some((f) => /frame-ancestors|CORS|blocked/i.test(f)), "the browser's refusal");
    assert.equal(await page.frames().filter((f) => f.url().startsWith(locked.url)).length, 0);
    await context.close();
    h.close();
  });
});
