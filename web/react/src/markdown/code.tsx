import { memo, useEffect, useMemo, useState, type ReactNode } from "react";
import { useShared } from "../shared/context.js";
import { Icon } from "../shared/icons.js";
import { extras } from "./extension.js";

/**
 * A code block with its language, line wrapping and a copy button, or what it describes, unless it is plain. The segments of a
 * long block copy the whole block.
 */
export const CodeBlock = memo(function CodeBlock(p: { code: string; lang: string; closed: boolean; plain?: boolean; first?: boolean; whole?: () => string }) {
  const { texts, renderers, diagramURL } = useShared();
  const [wrap, setWrap] = useState(false);
  const lang = p.lang.split(/\s/)[0] ?? "";
  const coloured = useColours(p.code, lang, p.closed && p.first === undefined);
  if (p.closed && lang && !p.plain) {
    let drawn = renderers.code?.[lang]?.(p.code);
    if (drawn === undefined && p.first === undefined) drawn = extras?.drawCode(lang, p.code, diagramURL);
    if (drawn !== undefined) return <>{drawn}</>;
  }
  return (
    <div className={`pl-code${p.first === false ? " pl-code-rest" : ""}`}>
      {p.first !== false && (
        <div className="pl-code-head">
          <span>{lang || " "}</span>
          <button type="button" className="pl-mini" aria-pressed={wrap} title={texts.wrap} aria-label={texts.wrap} onClick={() => setWrap(!wrap)}>
            <Icon name="wrap" size={14} />
          </button>
          <CopyButton text={p.whole ?? (() => p.code)} label={texts.copy} />
        </div>
      )}
      <pre tabIndex={0} role="region" aria-label={texts.codeBlock(lang)} dir="ltr" className={wrap ? "pl-wrap" : undefined}>
        <code>{coloured ?? p.code}</code>
      </pre>
    </div>
  );
});

const colourLimit = 50_000;
let colours: typeof import("./highlight.js") | undefined;

/** The highlighted code, once the highlighter is loaded. */
function useColours(code: string, lang: string, closed: boolean): ReactNode | undefined {
  const [, loaded] = useState(colours !== undefined);
  const wanted = closed && lang !== "" && code.length < colourLimit;
  useEffect(() => {
    if (!wanted || colours) return;
    let here = true;
    // Without the highlighter the code is shown as plain text.
    import("./highlight.js").then(
      (m) => {
        colours = m;
        if (here) loaded(true);
      },
      () => {},
    );
    return () => void (here = false);
  }, [wanted]);
  const there = colours !== undefined;
  return useMemo(() => (wanted && there ? colours?.highlight(code, lang.toLowerCase()) : undefined), [code, lang, wanted, there]);
}

/** Copies a text. A bare button has no word. */
export function CopyButton({ text, label, icon = true, bare = false }: { text: () => string; label: string; icon?: boolean; bare?: boolean }) {
  const { texts } = useShared();
  const [done, setDone] = useState(false);
  const copy = async () => {
    await copyText(text());
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <button type="button" className="pl-mini" onClick={() => void copy()} title={label}>
      {icon && <Icon name={done ? "check" : "copy"} size={14} />}
      <span className={bare ? "pl-hidden" : undefined}>{done ? texts.copied : label}</span>
    </button>
  );
}

/** Copies a text; on pages without clipboard permission with a selection. */
export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    return;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.style.position = "fixed";
    area.style.opacity = "0";
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
