// What the rows of speed.mjs measure with.
import { api } from "../../web/console/e2e/harness.mjs";

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** The value that a share of a sorted list does not exceed. */
export const at = (sorted, share) => Number((sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0).toFixed(1));

export const metric = async (cdp, name) => (await cdp.send("Performance.getMetrics")).metrics.find((m) => m.name === name).value;

/** Bytes of the page's own objects, after what nobody needs was collected. */
export async function heap(cdp) {
  await cdp.send("HeapProfiler.collectGarbage");
  return metric(cdp, "JSHeapUsedSize");
}

/** Frame times over a while, in milliseconds, sorted; act is done meanwhile. */
export async function frames(page, ms, act = async () => {}) {
  const watched = page.evaluate(
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
  await act();
  return watched;
}

/**
 * How much the page's main thread was at work while body ran, in milliseconds of the processor's time: the longest in one
 * piece, and all of it. A frame is late when the first is long, but also when other programs have the processor: that is not
 * the page's doing.
 */
export async function work(cdp, body) {
  const events = [];
  cdp.on("Tracing.dataCollected", (e) => events.push(...e.value));
  await cdp.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories: ["toplevel", "devtools.timeline"] } });
  await body();
  const ended = new Promise((done) => cdp.once("Tracing.tracingComplete", done));
  await cdp.send("Tracing.end");
  await ended;
  // The page is where animation frames are fired.
  const main = events.find((e) => e.name === "FireAnimationFrame");
  let most = 0;
  let all = 0;
  for (const e of events) {
    if (!main || e.pid !== main.pid || e.tid !== main.tid || !/RunTask$/.test(e.name)) continue;
    most = Math.max(most, e.tdur ?? 0);
    all += e.tdur ?? 0;
  }
  return { longest: Number((most / 1000).toFixed(1)), all: all / 1000 };
}

/** How long each of some keys takes from the press to the paint, in milliseconds, sorted. The composer has the focus. */
export const keystrokes = (page, count) =>
  page.evaluate(async (count) => {
    const area = document.activeElement;
    const set = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value").set;
    const out = [];
    for (let i = 0; i < count; i++) {
      const from = performance.now();
      set.call(area, `${area.value}x`);
      area.dispatchEvent(new Event("input", { bubbles: true }));
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      out.push(performance.now() - from);
    }
    return out.sort((a, b) => a - b);
  }, count);

/** How long the inspector's filter takes from the key to the paint of what was found, for each of some words. */
export const filtering = (page, words) =>
  page.evaluate(async (words) => {
    const field = document.querySelector(".pl-inspector input[type=search]");
    const count = document.querySelector(".pl-inspector-count");
    const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
    const out = [];
    for (const w of words) {
      const before = count.firstChild.textContent;
      const from = performance.now();
      set.call(field, w);
      field.dispatchEvent(new Event("input", { bubbles: true }));
      while (count.firstChild.textContent === before) await new Promise((done) => requestAnimationFrame(done));
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      out.push(performance.now() - from);
    }
    return out.sort((a, b) => a - b);
  }, words);

/** Writes into open blocks at a pace until it is told to stop. */
export function writer(server, session, blocks, perSecond) {
  const offsets = new Map(blocks.map((b) => [b, 0]));
  let n = 0;
  // About as long as tokens are; a minute of them fits into the block of 512 KiB that begins with 400 kB.
  const piece = () => (++n % 40 === 0 ? `\n\n## Part ${n}\n\n- one\n- two\n\n\`\`\`go\nfunc f${n}() {}\n\`\`\`\n\n| a | b |\n|---|---|\n| ${n} | x |\n\n` : n % 8 === 0 ? "**b** " : `w${n % 97} `);
  const write = async (count) => {
    const pieces = blocks.map((block) => {
      const text = Array.from({ length: count }, piece).join("");
      const offset = offsets.get(block);
      offsets.set(block, offset + Buffer.byteLength(text));
      return { block, offset, text, kind: "text" };
    });
    const answer = await api(server, `/sessions/${session}/previews`, pieces);
    if (answer?.error) throw new Error(answer.error.message);
  };
  let going = false;
  let loop;
  return {
    write,
    bytes: () => Math.max(...offsets.values()),
    all: () => [...offsets.values()].reduce((a, b) => a + b, 0),
    start: () => {
      going = true;
      loop = (async () => {
        const from = Date.now();
        for (let sent = 0; going; ) {
          const due = Math.floor(((Date.now() - from) * perSecond) / 1000);
          if (due > sent) {
            await write(due - sent);
            sent = due;
          } else await sleep(4);
        }
      })();
    },
    stop: () => {
      going = false;
      return loop;
    },
  };
}
