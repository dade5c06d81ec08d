import { useEffect, useRef, useState } from "react";
import type { Loader, Spec as VegaSpec, View } from "vega";
import type { TopLevelSpec } from "vega-lite";
import { useShared } from "../shared/context.js";
import type { Spec } from "./spec.js";

/*
 * A specification is untrusted code of an agent. Its expressions are interpreted, never compiled to JavaScript, and loading
 * is refused.
 */

const refuse = () => Promise.reject(new Error("a chart may not load anything"));
const nothing = { load: refuse, sanitize: refuse, http: refuse, file: refuse, options: {} } as unknown as Loader;

/** Draws a Vega-Lite specification as SVG. */
export function SpecChart({ spec, title }: { spec: Spec; title: string }) {
  const { texts } = useShared();
  const box = useRef<HTMLDivElement>(null);
  const [fault, setFault] = useState<string>();
  const [look, setLook] = useState(0);
  useEffect(() => {
    const media = matchMedia("(prefers-color-scheme: dark)");
    const change = () => setLook((n) => n + 1);
    media.addEventListener("change", change);
    return () => media.removeEventListener("change", change);
  }, []);
  useEffect(() => {
    const el = box.current;
    if (!el) return;
    let view: View | undefined;
    let here = true;
    const draw = async () => {
      const { compile, expressionInterpreter, parse, View: Drawing } = await import("./vegalib.js");
      if (!here) return;
      const single = "mark" in spec || "layer" in spec;
      const fitted = single ? { height: 240, ...spec, width: Math.max(160, el.clientWidth - 8), autosize: { type: "fit", contains: "padding" } } : spec;
      const vega = compile({ description: title || texts.chart, ...fitted, background: "transparent" } as unknown as TopLevelSpec, { config: config(el), logger: quiet }).spec as VegaSpec;
      view = new Drawing(parse(vega, undefined, { ast: true } as object), { expr: expressionInterpreter as never, loader: nothing, renderer: "svg", hover: false, logLevel: 0 }).initialize(el);
      await view.runAsync();
    };
    draw().then(
      () => here && setFault(undefined),
      (err: unknown) => here && setFault(err instanceof Error ? err.message : String(err)),
    );
    return () => {
      here = false;
      view?.finalize();
    };
  }, [spec, look, title, texts]);
  return (
    <figure className="pl-chart pl-spec">
      {/* The library sets the accessible name and the roles of the marks. */}
      <div ref={box} />
      {fault && <p className="pl-fault">{texts.chartFailed(fault)}</p>}
    </figure>
  );
}

const quiet = { level: () => quiet, error: () => quiet, warn: () => quiet, info: () => quiet, debug: () => quiet } as never;

/** The colours and fonts of the page. */
function config(el: HTMLElement): object {
  const style = getComputedStyle(el);
  const v = (name: string) => {
    // A variable may contain light-dark(); only a computed property has the colour.
    const probe = document.createElement("span");
    probe.style.color = `var(--_${name})`;
    el.append(probe);
    const c = getComputedStyle(probe).color;
    probe.remove();
    return c;
  };
  const [ink, muted, line] = [v("ink"), v("muted"), v("line")];
  return {
    font: style.fontFamily,
    view: { stroke: "transparent" },
    axis: { labelColor: muted, titleColor: ink, gridColor: line, domainColor: line, tickColor: line, labelFontSize: 12, titleFontSize: 12 },
    legend: { labelColor: ink, titleColor: ink },
    title: { color: ink },
    header: { labelColor: ink, titleColor: ink },
    range: { category: [1, 2, 3, 4, 5, 6].map((n) => v(`lane-${n}`)) },
    mark: { color: v("accent") },
  };
}
