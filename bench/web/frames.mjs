// How smooth the console is with much in it: 1000 conversations, one of them with 10 000 events, and eight workstreams that
// write 200 tokens a second each. Prints long frames, dropped frames and the p95 of the frame time while people scroll, while
// texts arrive, and while they switch between conversations. In web/console: npm run frames, with PARLEY_BIN naming the
// program; without it, it is built. npm run frames -- --seconds 30 measures each row for longer than 8 s.
import { loadavg } from "node:os";
import { api, openPage, startBrowser, startServer } from "../../web/console/e2e/harness.mjs";
import { at, frames, sleep } from "./measure.mjs";

const option = (name, otherwise) => (process.argv.includes(name) ? Number(process.argv[process.argv.indexOf(name) + 1]) : otherwise);
const seconds = option("--seconds", 8);
const conversations = option("--conversations", 1000);
const events = option("--events", 10_000);
const tokens = option("--tokens", 200);
const lanes = Array.from({ length: 8 }, (_, i) => `w${i + 1}`);
const interval = 1000 / 60;

const server = await startServer("--rate=-1", "--lease=1h");
const browser = await startBrowser();
const before = loadavg()[0].toFixed(1);
const rows = [];

/** Measures the frames of a page while act runs. */
async function measure(what, page, act) {
  const times = await frames(page, seconds * 1000, act);
  const dropped = times.reduce((n, t) => n + Math.max(0, Math.round(t / interval) - 1), 0);
  rows.push({ what, frames: times.length, dropped, long: times.filter((t) => t > 50).length, p95: at(times, 0.95), longest: at(times, 1) });
}

/** Repeats a step until the time of a measurement is over. */
const repeat = (step) => async () => {
  const end = Date.now() + seconds * 1000 - 200;
  for (let i = 0; Date.now() < end; i++) await step(i);
};

const draft = (i) => {
  const k = i % 10;
  if (k === 0) return { type: "user.message", payload: { text: `question ${i}` } };
  if (k < 5) return { type: "agent.text", payload: { text: `Answer **${i}** with prose, a [link](https://example.com) and \`code\`.\n\n- one\n- two` } };
  if (k % 2 === 1) return { type: "agent.tool_call", payload: { call_id: `c${i}`, tool: "search", params: { q: i } } };
  return { type: "agent.tool_result", payload: { call_id: `c${i - 1}`, result: { n: i } } };
};

/** Writes tokens into one text of each workstream until it is told to stop. */
function write(session) {
  const offsets = new Map(lanes.map((l) => [l, 0]));
  let going = true;
  const loop = (async () => {
    const from = Date.now();
    for (let sent = 0; going; ) {
      const due = Math.floor(((Date.now() - from) * tokens) / 1000);
      if (due === sent) {
        await sleep(4);
        continue;
      }
      const text = Array.from({ length: due - sent }, (_, i) => ((sent + i) % 40 === 0 ? `\n\n## Part ${sent + i}\n\n- one\n- two\n\n` : `w${(sent + i) % 97} `)).join("");
      sent = due;
      const pieces = lanes.map((l) => ({ block: `b-${l}`, workstream_id: l, offset: offsets.get(l), text, kind: "text" }));
      for (const l of lanes) offsets.set(l, offsets.get(l) + Buffer.byteLength(text));
      await api(server, `/sessions/${session}/previews`, pieces);
    }
  })();
  return async () => {
    going = false;
    await loop;
  };
}

try {
  for (let i = 0; i < conversations; i += 50) await Promise.all(Array.from({ length: Math.min(50, conversations - i) }, (_, n) => api(server, "/sessions", { id: `c${i + n}`, title: `Conversation ${i + n}`, agent: "none" })));
  await api(server, "/sessions", { id: "large", title: "Large", agent: "none" });
  for (let i = 0; i < events; i += 500) await api(server, "/sessions/large/events", Array.from({ length: Math.min(500, events - i) }, (_, n) => draft(i + n)));
  await api(server, "/sessions", { id: "work", title: "Work", agent: "none" });
  await api(server, "/sessions/work/events", { type: "user.message", payload: { text: "Eight things at once" } });
  for (const id of lanes) await api(server, "/sessions/work/workstreams", { id, name: `Part ${id}`, instruction: `write ${id}`, agent: "writer" });

  const { page, context } = await openPage(browser);
  const open = async (id) => {
    await page.locator(`.co-list a[href="/s/${id}"]`).click();
    await page.waitForURL(new RegExp(`/s/${id}$`));
  };
  await page.goto(`${server.url}/s/large`);
  await page.locator(".pl-list article").first().waitFor();
  // The list of conversations shows all of them.
  const more = page.getByRole("button", { name: "Show more" });
  const height = () => page.locator(".co-list-body").evaluate((el) => el.scrollHeight);
  for (let before = await height(); await more.isVisible(); before = await height()) {
    await more.click();
    await page.waitForFunction((n) => document.querySelector(".co-list-body").scrollHeight > n, before);
  }

  await page.locator(".pl-list").hover();
  await measure(`scroll through ${events} events`, page, repeat((i) => page.mouse.wheel(0, i % 120 < 90 ? -600 : 600)));
  await page.locator(".co-list-body").hover();
  await measure(`scroll through ${conversations} conversations`, page, repeat((i) => page.mouse.wheel(0, i % 120 < 60 ? 600 : -600)));
  await page.locator(".co-list-body").evaluate((el) => el.scrollTo(0, 0));

  await open("work");
  const stop = write("work");
  await page.locator(".pl-list article").first().waitFor();
  await measure(`eight workstreams, ${tokens} tokens/s each`, page, () => sleep(0));
  await page.locator(".pl-thread > summary").first().click();
  await page.locator(".pl-thread[open] .pl-prose").first().waitFor();
  await measure("… with the first one open", page, () => sleep(0));
  await measure("switch between conversations meanwhile", page, repeat((i) => open(["large", "work", `c${conversations - 1}`][i % 3])));
  await stop();
  await context.close();

  console.log("| what | frames | dropped | longer than 50 ms | p95 | longest |\n|---|---|---|---|---|---|");
  for (const r of rows) console.log(`| ${r.what}, ${seconds} s | ${r.frames} | ${r.dropped} | ${r.long} | ${r.p95} ms | ${r.longest} ms |`);
  console.log(`\nLoad of the machine before and after: ${before}, ${loadavg()[0].toFixed(1)}.`);
} finally {
  await browser.close();
  await server.stop();
}
