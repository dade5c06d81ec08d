/*
 * The page that draws Mermaid diagrams for the console. It runs in a sandboxed frame with an origin of its own, so that
 * neither the library nor a diagram can reach the session. Its parent sends sources and gets drawings as SVG, which it shows as
 * images. Scripts of this server cannot be loaded from another origin: the build puts them into the page, so that this one
 * imports nothing.
 */

interface Mermaid {
  initialize(config: object): void;
  render(id: string, source: string): Promise<{ svg: string }>;
}

declare const mermaid: Mermaid; // the library is a script before this one

/** Draws a diagram. The result is well-formed XML with a size, as an image needs it. */
async function draw(n: number, source: string, dark: boolean): Promise<{ svg: string; width: number; height: number }> {
  mermaid.initialize({
    startOnLoad: false, securityLevel: "strict", look: "classic", theme: dark ? "dark" : "neutral", htmlLabels: false, flowchart: { htmlLabels: false },
    // The words at an edge have the colour of the surface behind them, so that the line does not cross them.
    themeVariables: { edgeLabelBackground: dark ? "#1a201e" : "#ffffff" }, themeCSS: ".edgeLabel rect, .labelBkg { opacity: 1; }",
    fontFamily: "system-ui, sans-serif", suppressErrorRendering: true, deterministicIds: true, maxTextSize: 20_000, maxEdges: 300,
  });
  const box = document.createElement("div");
  box.innerHTML = (await mermaid.render(`d${n}`, source)).svg;
  const svg = box.querySelector("svg");
  const view = svg?.viewBox.baseVal;
  if (!svg || !view || !(view.width > 0 && view.height > 0)) throw new Error("the diagram is empty");
  const [width, height] = [Math.ceil(view.width), Math.ceil(view.height)];
  svg.setAttribute("width", String(width));
  svg.setAttribute("height", String(height));
  svg.removeAttribute("style");
  return { svg: new XMLSerializer().serializeToString(svg), width, height };
}

// The library has one configuration at a time: diagrams are drawn one after the other.
let last: Promise<void> = Promise.resolve();
addEventListener("message", (e: MessageEvent) => {
  const { n, source, dark } = (e.data ?? {}) as { n?: number; source?: string; dark?: boolean };
  if (e.source !== parent || typeof n !== "number" || typeof source !== "string") return;
  const answer = (result: object) => parent.postMessage({ n, ...result }, "*");
  last = last.then(() =>
    draw(n, source, dark === true).then(answer, (err: unknown) => {
      document.querySelectorAll(`#dd${n}, #d${n}`).forEach((el) => el.remove()); // what a failed drawing leaves behind
      answer({ error: err instanceof Error ? err.message : String(err) });
    }),
  );
});
parent.postMessage({ ready: true }, "*");

export {};
