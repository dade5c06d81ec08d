import { memo, useLayoutEffect, useRef, useState } from "react";
import katex, { type KatexOptions } from "katex";
import "katex/dist/katex.min.css";

/* Loaded when the first formula is rendered. */

interface Virtual {
  attributes?: Record<string, string>;
  children?: Virtual[];
  toNode?: () => Node;
}

/** Draws a formula. A strict policy refuses style attributes, so that styles are set as properties. */
function draw(tex: string, into: HTMLElement, options: KatexOptions): void {
  const tree = (katex as unknown as { __renderToDomTree: (tex: string, options: KatexOptions) => Virtual }).__renderToDomTree(tex, options);
  const rename = (v: Virtual) => {
    const a = v.attributes;
    if (a?.["style"]) {
      a["data-style"] = a["style"];
      delete a["style"];
    }
    v.children?.forEach(rename);
  };
  rename(tree);
  into.replaceChildren(tree.toNode?.() ?? "");
  for (const el of into.querySelectorAll<HTMLElement>("[data-style]")) {
    el.style.cssText = el.dataset["style"] ?? "";
    el.removeAttribute("data-style");
  }
}

/** A formula. One with errors is shown as TeX. */
export const Formula = memo(function Formula({ tex, display }: { tex: string; display: boolean }) {
  const box = useRef<HTMLSpanElement>(null);
  const [fault, setFault] = useState<string>();
  useLayoutEffect(() => {
    const el = box.current;
    if (!el) return;
    // The style sheet is that of the page. In a shadow root the browser draws MathML, which needs none.
    const output = el.getRootNode() instanceof ShadowRoot ? "mathml" : "htmlAndMathml";
    try {
      draw(tex, el, { displayMode: display, output, trust: false, strict: "ignore", maxSize: 20, maxExpand: 500 });
      setFault(undefined);
    } catch (err) {
      el.textContent = tex;
      setFault(err instanceof Error ? err.message : String(err));
    }
  }, [tex, display]);
  return <span ref={box} className={`${display ? "pl-formula pl-formula-block" : "pl-formula"}${fault ? " pl-tex" : ""}`} title={fault} dir="ltr" tabIndex={display ? 0 : undefined} />;
});
