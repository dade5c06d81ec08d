// Makes the pictures in docs/screenshots: node e2e/screenshots.mjs, with PARLEY_BIN naming the program.
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { api, openPage, say, startBrowser, startServer } from "./harness.mjs";

const out = join(dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url))))), "docs", "screenshots");
mkdirSync(out, { recursive: true });
const server = await startServer();
const browser = await startBrowser();
const session = (id, title, agent = "demo") => api(server, "/sessions", { id, title, agent });
const post = (id, ...drafts) => api(server, `/sessions/${id}/events`, drafts);

const report = `## South region, third quarter

Margins fell by **2.4 points** against the same quarter last year. Two causes explain most of it:

1. copper, up 11 % since June
2. rush freight for the \`SKU-4411\` recall

| Region | Margin | Change |
|---|--:|--:|
| North | 31.2 % | +0.3 |
| South | 24.8 % | −2.4 |

\`\`\`sql
select region, sum(margin) / sum(revenue)
from   sales
where  quarter = '2026Q3'
group  by region
\`\`\``;

async function review(id) {
  await session(id, "Quarterly margin review", "none");
  await post(
    id,
    { type: "user.message", payload: { text: "Why did the south lose margin last quarter?" } },
    { type: "agent.plan", payload: { tasks: [["Load margins", "done"], ["Explain the south", "in_progress"], ["Check with legal", "pending"], ["Draft the summary", "pending"]].map(([title, status], i) => ({ id: `${i}`, title, status })) } },
    { type: "agent.thinking", payload: { text: "Compare against the same quarter, then look for one-off costs." } },
    { type: "agent.tool_call", payload: { call_id: "1", tool: "warehouse.query", params: { region: "south", measure: "margin" } } },
    { type: "agent.tool_result", payload: { call_id: "1", result: { rows: 214 } } },
    { type: "agent.tool_call", payload: { call_id: "2", tool: "web.search", params: { query: "copper price 2026 Q3" } } },
    { type: "agent.tool_error", payload: { call_id: "2", error: "rate limited, try again in 20 s" } },
    { type: "agent.text", payload: { text: report } },
    { type: "agent.usage", payload: { input_tokens: 38_200, output_tokens: 2900 } },
    { type: "agent.input_request", payload: { request_id: `${id}-q`, input_type: "radio", text: "Which baseline should the summary use?", timeout: 300, options: [{ id: "ly", label: "Same quarter last year", description: "Takes the season out" }, { id: "pq", label: "Previous quarter", description: "Shows the recent turn" }] } },
  );
}

async function picture(name, path, options, prepare = async () => {}, rest = 1000) {
  const { page, context } = await openPage(browser, options);
  await page.goto(server.url + path);
  await page.locator(".pl-row-last, .pl-empty").first().waitFor();
  await page.waitForTimeout(2000); // until the last entries and the panel are shown
  await prepare(page);
  await page.waitForTimeout(rest);
  await page.screenshot({ path: join(out, `${name}.png`) });
  await context.close();
}

const wide = { viewport: { width: 1280, height: 800 } };
const dark = { ...wide, colorScheme: "dark" };
const phone = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 1.5 };
try {
  await session("crawl", "Site crawl");
  await post("crawl", { type: "user.message", payload: { text: "/sleep 60" } });
  await session("vendor", "Vendor comparison");
  await review("review");
  await picture("console-light", "/s/review", wide);
  await picture("console-dark", "/s/review", dark, async (page) => {
    await page.locator(".pl-list").hover();
    await page.mouse.wheel(0, -620);
  });
  await picture("phone", "/s/review", phone);
  await picture("inspector", "/s/review#seq=5", dark);
  await session("deploy", "Release 4.2");
  await picture("approval", "/s/deploy", wide, async (page) => {
    await say(page, '/approve deploy {"environment":"production","version":"4.2.0","api_key":"k-123"} timeout=240');
    await page.getByRole("button", { name: "Approve once" }).waitFor();
  });
  await picture("artifacts", "/s/vendor", wide, async (page) => {
    await say(page, "/artifact table");
    await page.getByRole("feed").getByText("Here is the table.").waitFor();
    await say(page, "/artifact chart");
    await page.getByRole("feed").getByText("Here is the chart.").waitFor();
  });
  await picture("empty", "/", wide);
  await picture("empty-dark", "/", dark);
  await picture("empty-phone", "/", phone);
  for (const [name, options] of [["work-light", wide], ["work-dark", dark], ["work-phone", phone]]) {
    await session(name, "Market study");
    await picture(name, `/s/${name}`, options, async (page) => {
      await page.getByRole("textbox", { name: "Message", exact: true }).fill("/work 8 20 deadline=40");
      await page.getByRole("button", { name: "Send" }).click();
      await page.getByText("Part 8, chapter 2", { exact: false }).first().waitFor({ state: "attached" });
      if (name === "work-phone") await page.getByRole("button", { name: /^Work/ }).click();
      if (name === "work-light") await page.getByLabel("Steer Part 3").click();
    });
  }
  await picture("timeline", "/s/work-phone", wide, async (page) => {
    await page.getByRole("button", { name: "Timeline" }).click();
  });
  await picture("dialects", "/s/deploy#seq=4", wide, async (page) => {
    await page.getByRole("tab", { name: "nemo" }).click();
  });
  await session("tour", "A tour");
  await picture("tour", "/s/tour", wide, async (page) => {
    await say(page, "/tour");
    await page.getByRole("complementary", { name: "Work" }).getByText("Writing down").first().waitFor();
    await page.getByRole("feed").getByText("Copper is up").waitFor();
  }, 100);
  await picture("tour-question", "/s/tour", phone, async (page) => {
    await page.getByRole("radio").first().waitFor();
  });
  await picture("trace", "/s/tour", dark, async (page) => {
    await page.evaluate(() => document.activeElement?.blur());
    await page.keyboard.press(".");
    await page.getByRole("tab", { name: "Trace", exact: true }).click();
    await page.getByRole("button", { name: /^Turn/ }).waitFor();
  });
  await picture("print", "/s/tour?print", { viewport: { width: 800, height: 1100 }, colorScheme: "dark" });
  await picture("german", "/s/deploy", wide, async (page) => {
    await page.getByLabel("Language").selectOption("de");
  });
} finally {
  await browser.close();
  await server.stop();
}
