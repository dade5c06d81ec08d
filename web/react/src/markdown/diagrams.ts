/*
 * Drawings of diagrams. A page of the server draws them in a hidden, sandboxed frame, one for all diagrams of this page, and
 * sends SVG, which is shown as an image: an image cannot run scripts or load anything.
 */

export interface Drawing {
  /** A data URL. */
  url: string;
  width: number;
  height: number;
}

const mostTime = 15_000;
const mostKept = 100;
export const mostSource = 20_000;

const kept = new Map<string, Promise<Drawing>>();
let frame: { url: string; el: HTMLIFrameElement; ready: Promise<void>; waiting: Map<number, (answer: Answer) => void> } | undefined;
let next = 1;

interface Answer {
  svg?: unknown;
  width?: unknown;
  height?: unknown;
  error?: unknown;
}

/** Draws a diagram with the page at a URL. Equal diagrams are drawn once. */
export function drawDiagram(url: string, source: string, dark: boolean): Promise<Drawing> {
  const key = `${url} ${dark} ${source}`;
  let drawing = kept.get(key);
  if (!drawing) {
    drawing = ask(url, source, dark);
    if (kept.size >= mostKept) kept.delete(kept.keys().next().value ?? "");
    kept.set(key, drawing);
    drawing.catch(() => kept.delete(key));
  }
  return drawing;
}

async function ask(url: string, source: string, dark: boolean): Promise<Drawing> {
  const f = frame?.url === url ? frame : (frame = open(url));
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<never>((_, failed) => {
    timer = setTimeout(() => {
      // A diagram may keep the frame busy for ever.
      if (frame === f) frame = undefined;
      f.el.remove();
      failed(new Error("it takes too long"));
    }, mostTime);
  });
  try {
    const answer = await Promise.race([drawn(f, source, dark), timeout]);
    if (typeof answer.svg !== "string") throw new Error(String(answer.error));
    return { url: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(answer.svg)}`, width: Number(answer.width), height: Number(answer.height) };
  } finally {
    clearTimeout(timer);
  }
}

async function drawn(f: NonNullable<typeof frame>, source: string, dark: boolean): Promise<Answer> {
  await f.ready;
  const n = next++;
  return new Promise<Answer>((done) => {
    f.waiting.set(n, done);
    f.el.contentWindow?.postMessage({ n, source, dark }, "*");
  });
}

function open(url: string) {
  const el = document.createElement("iframe");
  el.setAttribute("sandbox", "allow-scripts");
  el.setAttribute("aria-hidden", "true");
  el.tabIndex = -1;
  el.title = "";
  // Texts are measured, so that the frame must have a size.
  Object.assign(el.style, { position: "fixed", insetInlineStart: "-3000px", insetBlockStart: "0", inlineSize: "1200px", blockSize: "800px", border: "0", visibility: "hidden" });
  const waiting = new Map<number, (answer: Answer) => void>();
  const ready = new Promise<void>((done) => {
    addEventListener("message", (e) => {
      if (e.source !== el.contentWindow || typeof e.data !== "object" || e.data === null) return;
      if (e.data.ready === true) return done();
      waiting.get(e.data.n)?.(e.data as Answer);
      waiting.delete(e.data.n);
    });
  });
  el.src = url;
  document.body.append(el);
  return { url, el, ready, waiting };
}
