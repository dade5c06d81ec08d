import { useEffect, useRef, useState } from "react";
import { Lightbox } from "../artifacts/lightbox.js";
import { useRowState, useShared } from "../shared/context.js";
import { Icon } from "../shared/icons.js";
import { CodeBlock, CopyButton } from "./code.js";
import { drawDiagram, mostSource, type Drawing } from "./diagrams.js";

/** A Mermaid diagram, or its source. A diagram with errors is shown as its source, with the reason. */
export function Diagram({ url, source }: { url: string; source: string }) {
  const { texts } = useShared();
  const box = useRef<HTMLDivElement>(null);
  const [asSource, setAsSource] = useRowState(`source ${source}`, false);
  const [drawing, setDrawing] = useState<Drawing>();
  const [fault, setFault] = useState<string>();
  const [look, setLook] = useState(0);
  useEffect(() => {
    const media = matchMedia("(prefers-color-scheme: dark)");
    const change = () => setLook((n) => n + 1);
    media.addEventListener("change", change);
    return () => media.removeEventListener("change", change);
  }, []);
  useEffect(() => {
    let mounted = true;
    const theme = box.current?.closest<HTMLElement>("[data-theme]")?.dataset["theme"];
    const dark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    const drawn = source.length > mostSource ? Promise.reject(new Error(texts.bytes(source.length))) : drawDiagram(url, source, dark);
    drawn.then(
      (d) => {
        if (!mounted) return;
        setDrawing(d);
        setFault(undefined);
      },
      (err: unknown) => mounted && setFault((err instanceof Error ? err.message : String(err)).split("\n", 1)[0]),
    );
    return () => void (mounted = false);
  }, [url, source, look, texts]);
  if (fault !== undefined)
    return (
      <div ref={box}>
        <CodeBlock code={source} lang="mermaid" closed plain />
        <p className="pl-fault">{texts.diagramFailed(fault)}</p>
      </div>
    );
  return (
    <div ref={box} className="pl-code pl-diagram">
      <div className="pl-code-head">
        <span>mermaid</span>
        <button type="button" className="pl-mini" aria-pressed={asSource} onClick={() => setAsSource(!asSource)}>
          <Icon name="code" size={14} />
          <span>{texts.source}</span>
        </button>
        <CopyButton text={() => source} label={texts.copy} />
      </div>
      {asSource ? (
        <pre tabIndex={0} role="region" aria-label={texts.codeBlock("mermaid")} dir="ltr">
          <code>{source}</code>
        </pre>
      ) : drawing ? (
        <Lightbox url={drawing.url} title={`${texts.diagram}: ${source.slice(0, 300)}`} width={drawing.width} height={drawing.height} />
      ) : (
        <div className="pl-skeleton pl-skeleton-chart" />
      )}
    </div>
  );
}
