// How fast the console is: opens a session of 100 000 events, streams into a long message, types. Prints one JSON object.
// PARLEY_BIN names the program; without it, it is built.
import { api, openPage, startBrowser, startServer } from "../e2e/harness.mjs";

const server = await startServer();
const browser = await startBrowser();
const result = {};

/** Frame times over a while, in milliseconds, sorted. */
const frames = (page, ms) =>
  page.evaluate(
    (ms) =>
      new Promise((done) => {
        const out = [];
        let last = performance.now();
        const end = last + ms;
        const frame = (t) => {
          out.push(t - last);
          last = t;
          if (t < end) requestAnimationFrame(frame);
          else done(out.slice(1).sort((a, b) => a - b));
        };
        requestAnimationFrame(frame);
      }),
    ms,
  );
const at = (sorted, share) => Number(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))].toFixed(1));

try {
  await api(server, "/sessions", { id: "big", agent: "none", title: "Big" });
  const draft = (i) => {
    const k = i % 10;
    if (k === 0) return { type: "user.message", payload: { text: `question ${i}` } };
    if (k < 5) return { type: "agent.text", payload: { text: `Answer **${i}** with prose, a [link](https://example.com) and \`code\`.\n\n- one\n- two` } };
    if (k % 2 === 1) return { type: "agent.tool_call", payload: { call_id: `c${i}`, tool: "search", params: { q: i } } };
    return { type: "agent.tool_result", payload: { call_id: `c${i - 1}`, result: { n: i } } };
  };
  for (let i = 0; i < 100_000; i += 500) await api(server, "/sessions/big/events", Array.from({ length: 500 }, (_, n) => draft(i + n)));

  const { page, context } = await openPage(browser);
  // The page itself notes when the last entry is in view and drawn: waiting from outside would measure the waiting.
  await page.addInitScript(() => {
    const look = () => {
      const list = document.querySelector(".pl-list");
      const last = list?.querySelector(".pl-row-last");
      const end = list?.getBoundingClientRect().bottom ?? 0;
      if (last && last.getBoundingClientRect().top < end) requestAnimationFrame(() => setTimeout(() => (window.drawnAt = performance.now())));
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
  const opened = [];
  for (let i = 0; i < 5; i++) {
    await page.goto("about:blank");
    await page.goto(`${server.url}/s/big`, { waitUntil: "commit" });
    await page.locator(".pl-row-last").waitFor();
    await page.waitForTimeout(300);
    opened.push(Math.round(await page.evaluate(() => window.drawnAt)));
  }
  result.open_100k_ms = { median: [...opened].sort((a, b) => a - b)[2], runs: opened };
  result.elements = await page.evaluate(() => document.querySelectorAll("*").length);
  const cdp = await context.newCDPSession(page);
  await cdp.send("Performance.enable");
  await cdp.send("HeapProfiler.collectGarbage");
  const metric = async (name) => (await cdp.send("Performance.getMetrics")).metrics.find((m) => m.name === name).value;
  result.heap_mb = Number(((await metric("JSHeapUsedSize")) / 1e6).toFixed(1));

  await api(server, "/sessions", { id: "long", title: "Long", agent: "none" });
  await page.goto(`${server.url}/s/long`);
  await page.getByRole("textbox", { name: "Message", exact: true }).waitFor();
  // One block of 400 kB of mixed Markdown, which then goes on at 200 pieces a second.
  const piece = (i) => (i % 40 === 0 ? `\n\n## Part ${i}\n\n- one\n- two\n\n\`\`\`go\nfunc f${i}() {}\n\`\`\`\n\n| a | b |\n|---|---|\n| ${i} | x |\n\n` : `word${i} **bold** `);
  let offset = 0;
  let n = 0;
  const preview = async (count) => {
    let text = "";
    for (let i = 0; i < count; i++) text += piece(n++);
    const answer = await api(server, "/sessions/long/previews", [{ block: "b1", offset, text, kind: "text" }]);
    if (answer?.error) throw new Error(answer.error.message);
    offset += Buffer.byteLength(text);
  };
  while (offset < 400_000) await preview(400);
  await page.waitForTimeout(1500);
  let going = true;
  const stream = (async () => {
    const from = Date.now();
    for (let sent = 0; going; ) {
      const due = Math.floor((Date.now() - from) / 5);
      if (due > sent) {
        await preview(due - sent);
        sent = due;
      } else await new Promise((done) => setTimeout(done, 5));
    }
  })();
  await page.waitForTimeout(1000);
  result.message_kb_before = Math.round(offset / 1000);
  const script = await metric("ScriptDuration");
  const times = await frames(page, 10_000);
  result.stream_200_per_s = { frames: times.length, p50_ms: at(times, 0.5), p95_ms: at(times, 0.95), max_ms: at(times, 1), script_share: Number((((await metric("ScriptDuration")) - script) / 10).toFixed(3)) };
  const box = page.getByRole("textbox", { name: "Message", exact: true });
  await box.focus();
  const keys = await page.evaluate(async () => {
    const area = document.activeElement;
    const set = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value").set;
    const out = [];
    for (let i = 0; i < 50; i++) {
      const from = performance.now();
      set.call(area, `${area.value}x`);
      area.dispatchEvent(new Event("input", { bubbles: true }));
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      out.push(performance.now() - from);
    }
    return out.sort((a, b) => a - b);
  });
  result.keystroke_p95_ms = at(keys, 0.95);
  going = false;
  await stream;
  result.message_kb_after = Math.round(offset / 1000);
  console.log(JSON.stringify(result, null, 2));
} finally {
  await browser.close();
  await server.stop();
}
