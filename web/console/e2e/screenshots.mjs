// Makes the pictures in docs/screenshots, or those that are named: npm run screenshots [-- NAME...], with PARLEY_BIN naming the program.
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ParleyClient } from "@parley-hq/client";
import { work } from "@parley-hq/client/worker";
import { api, openPage, say, startBrowser, startServer } from "./harness.mjs";

const out = join(dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url))))), "docs", "screenshots");
const only = process.argv.slice(2);
mkdirSync(out, { recursive: true });
const server = await startServer();
const browser = await startBrowser();
const session = (id, title, agent = "demo") => api(server, "/sessions", { id, title, agent });
const ended = new AbortController();
const worker = work(new ParleyClient({ url: server.url }), "analyst", answer, { signal: ended.signal, slots: 16 });
/** A conversation with the agent of the pictures. */
async function begin(id, title, text) {
  await session(id, title, "analyst");
  await api(server, `/sessions/${id}/events`, [{ type: "user.message", payload: { text } }]);
}

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

const tasks = (...list) => ({ tasks: list.map(([title, status], i) => ({ id: `${i}`, title, status })) });

const parts = [
  ["Pricing", "Compare the prices of the five largest vendors.", "web.search", "Reading price lists", "The list prices are within **8 %** of each other. The discounts are not: two vendors give up to 30 % for three years."],
  ["Customers", "Summarise what customers wrote in reviews this year.", "reviews.list", "Grouping 412 reviews", "Most reviews name the same two problems: slow support, and invoices that are hard to read."],
  ["Regulation", "List the rules that change in 2027.", "web.search", "Comparing two drafts", "Two rules change in the spring. Both concern the labels of packaging."],
  ["Suppliers", "Find the suppliers that two vendors share.", "registry.find", "Matching names", "Three suppliers deliver to more than one vendor."],
  ["Shares", "Describe the market share of each vendor.", "registry.find", "Waiting for the register", "The register of 2025 is complete; that of 2026 has no data for the south yet."],
];

/** The agent of the pictures. */
async function answer(turn) {
  const part = parts.find(([name]) => name === turn.launched?.name);
  if (part) {
    const [name, task, tool, doing, text] = part;
    await turn.progress({ phase: "executing_tool", tool });
    await turn.call(tool, { query: task }, async () => ({ found: 40 }));
    await turn.say(text);
    if (name === "Suppliers") return;
    await turn.progress({ phase: "synthesizing", message: doing });
    return new Promise((_, reject) => turn.signal.addEventListener("abort", () => reject(turn.signal.reason)));
  }
  if (turn.text.startsWith("Prepare")) {
    await turn.plan(tasks(...parts.map(([name], i) => [`Chapter ${i + 1}: ${name.toLowerCase()}`, name === "Suppliers" ? "done" : "in_progress"]), ["Summary", "pending"]));
    await turn.say("I work on the five chapters at the same time.");
    for (const [i, [name, instruction]] of parts.entries()) await turn.launch({ id: `chapter-${i + 1}`, name, instruction, deadline_seconds: 300 + 60 * i });
    await turn.wait();
    return;
  }
  if (turn.text.startsWith("Ship")) {
    await turn.call("ci.status", { branch: "release/4.2" }, async () => ({ passed: 318, failed: 0 }));
    await turn.say("All 318 checks passed. The last release of this service was 4.1.7, nine days ago.");
    await turn.approve({ text: "May I deploy release 4.2 to production?", timeout: 1800, calls: [{ call_id: "deploy", tool: "deploy", risk: "high", params: { environment: "production", version: "4.2.0", api_key: "c1f7e02b94" } }] });
    return;
  }
  await turn.plan(tasks(["Load margins", "done"], ["Explain the south", "in_progress"], ["Check with legal", "pending"], ["Draft the summary", "pending"]));
  const thought = turn.think();
  await thought.write("Compare against the same quarter, then look for one-off costs.");
  await thought.close();
  await turn.call("warehouse.query", { region: "south", measure: "margin" }, async () => ({ rows: 214 }));
  await turn.call("web.search", { query: "copper price 2026 Q3" }, async () => Promise.reject(new Error("rate limited, try again in 20 s"))).catch(() => {});
  await turn.say(report);
  await turn.usage({ input_tokens: 38_200, output_tokens: 2900 });
  await turn.ask({ input_type: "radio", text: "Which baseline should the summary use?", timeout: 1500, options: [{ id: "ly", label: "Same quarter last year", description: "Takes the season out" }, { id: "pq", label: "Previous quarter", description: "Shows the recent turn" }] });
}

async function picture(name, path, options, prepare = async () => {}, rest = 1000) {
  if (only.length > 0 && !only.includes(name)) return;
  const { page, context } = await openPage(browser, options);
  await page.goto(server.url + path);
  await page.locator(".pl-row-last, .pl-empty, .co-ask-body .pl-primary").first().waitFor();
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
  await begin("study", "Market study", "Prepare the market study for Thursday. Work on the chapters in parallel.");
  await session("vendor", "Vendor comparison");
  await begin("review", "Quarterly margin review", "Why did the south lose margin last quarter?");
  await picture("console-light", "/s/review", wide);
  await picture("console-dark", "/s/review", dark, async (page) => {
    await page.locator(".pl-list").hover();
    await page.mouse.wheel(0, -620);
    await page.locator(".pl-waiting").waitFor();
  });
  await picture("phone", "/s/review", phone);
  await picture("inspector", "/s/review#seq=5", dark);
  await begin("deploy", "Release 4.2", "Ship release 4.2 when the checks are green.");
  await picture("approval", "/s/deploy", wide);
  await picture("inbox", "/inbox", wide);
  await picture("inbox-dark", "/inbox", dark);
  await picture("inbox-phone", "/inbox", phone);
  await picture("artifacts", "/s/vendor", wide, async (page) => {
    await say(page, "/artifact table");
    await page.getByRole("feed").getByText("Here is the table.").waitFor();
    await say(page, "/artifact chart");
    await page.getByRole("feed").getByText("Here is the chart.").waitFor();
  });
  await picture("empty", "/", wide);
  await picture("empty-dark", "/", dark);
  await picture("empty-phone", "/", phone);
  for (const [name, options] of [["work-light", wide], ["work-dark", dark], ["work-phone", phone]])
    await picture(name, "/s/study", options, async (page) => {
      if (name === "work-light") await page.getByRole("button", { name: "Plan, work, files" }).click();
      if (name === "work-phone") await page.getByRole("button", { name: /^Work/ }).click();
      else await page.locator(".pl-thread summary").first().click();
      if (name !== "work-light") return;
      await page.getByRole("button", { name: "To the end" }).click();
      await page.getByLabel("Steer Regulation").click();
    });
  await picture("timeline", "/s/study", wide, async (page) => {
    await page.getByRole("button", { name: "Plan, work, files" }).click();
    await page.getByRole("button", { name: "Timeline" }).click();
  });
  await picture("dialects", "/s/deploy#seq=4", wide, async (page) => {
    await page.getByRole("tab", { name: "nemo" }).click();
  });
  await session("tour", "A tour");
  await picture("tour", "/s/tour", wide, async (page) => {
    await say(page, "/tour");
    await page.getByRole("feed").locator(".pl-thread", { hasText: "Writing down" }).first().waitFor();
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
  ended.abort();
  await worker.catch(() => {});
  await server.stop();
}
