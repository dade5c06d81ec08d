// How smooth the console is with much in it: 1000 conversations, one of them with 10 000 events, and eight workstreams that
// write 200 tokens a second each. Prints long frames, dropped frames and the p95 of the frame time while people scroll, while
// texts arrive, and while they switch between conversations. In web/console: npm run frames, with PARLEY_BIN naming the
// program; without it, it is built. npm run frames -- --seconds 30 measures each row for longer than 8 s. A frame is late if the
// page needs long for it, or if drawing in software or other programs have the processor: the last columns are what the page's own
// thread used, and the last row is a page without work of its own, which has the same frames where the page is not the cause.
import { loadavg } from "node:os";
import { api, startServer, until } from "../../web/testing/server.mjs";
import { at, frames, sleep } from "./measure.mjs";
import { openPlainPage } from "./plainpage.mjs";

const option = (name, otherwise) => (process.argv.includes(name) ? Number(process.argv[process.argv.indexOf(name) + 1]) : otherwise);
const seconds = option("--seconds", 8);
const conversations = option("--conversations", 1000);
const events = option("--events", 10_000);
const tokens = option("--tokens", 200);
const lanes = Array.from({ length: 8 }, (_, i) => `w${i + 1}`);
const interval = 1000 / 60;

const server = await startServer("--rate=-1", "--lease=1h");
const page = await openPlainPage();
const before = loadavg()[0].toFixed(1);
const rows = [];
let stop = async () => {};

/** Measures the frames while act runs. */
async function measure(what, act = async () => {}) {
  const from = await page.used();
  const times = await frames(page, seconds * 1000, act);
  const to = await page.used();
  const dropped = times.reduce((n, t) => n + Math.max(0, Math.round(t / interval) - 1), 0);
  const used = (...names) => (names.reduce((ms, n) => ms + (to[n] - from[n]) * 1000, 0) / times.length).toFixed(1);
  rows.push({ what, frames: times.length, dropped, long: times.filter((t) => t > 50).length, p95: at(times, 0.95), longest: at(times, 1), used: used("TaskDuration"), script: used("ScriptDuration"), layout: used("RecalcStyleDuration", "LayoutDuration") });
}

/** Fills a page with text as an open workstream does: some words in every frame, in a box that scrolls to its end. It has no other work. */
function drawText() {
  const box = document.createElement("div");
  box.style.cssText = "position: absolute; left: 300px; top: 100px; width: 580px; height: 400px; overflow-y: scroll; font: 13px/20px sans-serif";
  document.body.append(box);
  let last;
  let n = 0;
  const step = () => {
    if (n++ % 12 === 0) box.append((last = document.createElement("p")));
    last.append(`w${n} w${n} w${n} `);
    if (box.childElementCount > 60) box.firstElementChild.remove();
    box.scrollTop = 1e9;
    requestAnimationFrame(step);
  };
  step();
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
  await sleep(1100); // more than 512 sessions of one second are listed in any order
  // A short one near the top of the list, which contains only the rows in view.
  await api(server, "/sessions", { id: "short", title: "Short", agent: "none" });
  await api(server, "/sessions", { id: "large", title: "Large", agent: "none" });
  for (let i = 0; i < events; i += 500) await api(server, "/sessions/large/events", Array.from({ length: Math.min(500, events - i) }, (_, n) => draft(i + n)));
  await api(server, "/sessions", { id: "work", title: "Work", agent: "none" });
  await api(server, "/sessions/work/events", { type: "user.message", payload: { text: "Eight things at once" } });
  for (const id of lanes) await api(server, "/sessions/work/workstreams", { id, name: `Part ${id}`, instruction: `write ${id}`, agent: "writer" });

  const link = (id) => `.co-list a[href="/s/${id}"]`;
  const open = async (id) => {
    await page.click(link(id));
    await until(() => page.evaluate((path) => location.pathname === path, `/s/${id}`));
  };
  await page.goto(`${server.url}/s/large`);
  await page.waitFor(".pl-list article");
  // The list of conversations shows all of them.
  await page.waitFor(link("large"));
  await until(() => page.evaluate(() => (document.querySelector(".co-more")?.click(), !document.querySelector(".co-more"))));

  const list = await page.hover(".pl-list");
  await measure(`scroll through ${events} events`, repeat((i) => list(i % 120 < 90 ? -600 : 600)));
  const sidebar = await page.hover(".co-list-body");
  await measure(`scroll through ${conversations} conversations`, repeat((i) => sidebar(i % 120 < 60 ? 600 : -600)));
  // The browser may still be scrolling.
  await page.evaluate(async () => {
    const el = document.querySelector(".co-list-body");
    for (let still = 0; still < 10; still = el.scrollTop === 0 ? still + 1 : 0) {
      if (still === 0) el.scrollTo(0, 0);
      await new Promise((done) => requestAnimationFrame(done));
    }
  });

  await open("work");
  stop = write("work");
  await page.waitFor(".pl-thread > summary");
  await measure(`eight workstreams, ${tokens} tokens/s each`);
  await page.click(".pl-thread > summary");
  await page.waitFor(".pl-thread[open] .pl-prose");
  await measure("… with the first one open");
  await measure("switch between conversations meanwhile", repeat((i) => open(["large", "work", "short"][i % 3])));
  await page.goto("about:blank");
  await until(() => page.evaluate(() => location.href === "about:blank" && document.readyState === "complete"));
  await page.evaluate(drawText);
  await measure("for comparison, meanwhile: a page that only draws as much text");

  console.log("| what | frames | dropped | longer than 50 ms | p95 | longest | page, per frame | of it script | style and layout |\n|---|---|---|---|---|---|---|---|---|");
  for (const r of rows) console.log(`| ${r.what}, ${seconds} s | ${r.frames} | ${r.dropped} | ${r.long} | ${r.p95} ms | ${r.longest} ms | ${r.used} ms | ${r.script} ms | ${r.layout} ms |`);
  console.log(`\nLoad of the machine before and after: ${before}, ${loadavg()[0].toFixed(1)}.`);
} finally {
  await stop();
  await page.close();
  await server.stop();
}
