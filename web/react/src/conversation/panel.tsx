import { useEffect, useRef, type RefObject } from "react";
import { FilesPanel } from "../files/files.js";
import { Inspector } from "../inspector/inspector.js";
import { useShared } from "../shared/context.js";
import { Icon } from "../shared/icons.js";
import { PlanPanel } from "../work/planpanel.js";
import { WorkPanel } from "../work/work.js";
import type { ConversationProps } from "./props.js";

export type PanelName = "plan" | "work" | "files" | "raw";

/** The panel beside the entries: plan, work, files or raw events. */
export function Panel(p: {
  name: PanelName;
  panels: ConversationProps["panels"];
  setName: (n: PanelName | null) => void;
  workstream: string | undefined;
  setWorkstream: (id: string | undefined) => void;
  seq: number | undefined;
  dialects: readonly string[];
  traceURL: ((traceID: string) => string) | undefined;
}) {
  const { texts } = useShared();
  const box = useRef<HTMLElement>(null);
  const all: [PanelName, string, boolean][] = [
    ["plan", texts.plan, p.panels?.plan !== false],
    ["work", texts.work, p.panels?.workstreams !== false],
    ["files", texts.files, p.panels?.files !== false],
    ["raw", texts.inspector, p.panels?.inspector === true || p.name === "raw"],
  ];
  return (
    <aside ref={box} className="pl-panel" aria-label={all.find(([n]) => n === p.name)?.[1]}>
      <Grip box={box} />
      <div className="pl-panel-head">
        <div className="pl-tabs" role="tablist">
          {all.filter(([, , on]) => on).map(([n, label]) => (
            <button key={n} type="button" role="tab" aria-selected={p.name === n} onClick={() => p.setName(n)}>
              {label}
            </button>
          ))}
        </div>
        <button type="button" className="pl-iconbutton" aria-label={texts.close} onClick={() => p.setName(null)}>
          <Icon name="cross" />
        </button>
      </div>
      <div className="pl-panel-body" role="tabpanel">
        {p.name === "plan" ? <PlanPanel /> : p.name === "work" ? <WorkPanel workstream={p.workstream} setWorkstream={p.setWorkstream} /> : p.name === "files" ? <FilesPanel /> : <Inspector at={p.seq} dialects={p.dialects} traceURL={p.traceURL} />}
      </div>
    </aside>
  );
}

const least = 280;
const most = 560;

/** The edge of the panel, moved by dragging or with the arrow keys. The width is stored in the browser. */
function Grip({ box }: { box: RefObject<HTMLElement | null> }) {
  const { texts } = useShared();
  const grip = useRef<HTMLDivElement>(null);
  const set = (width: number) => {
    const w = Math.round(Math.min(most, Math.max(least, width)));
    box.current?.style.setProperty("--pl-panel", `${w}px`);
    grip.current?.setAttribute("aria-valuenow", String(w));
    try {
      localStorage.setItem("parley.panelwidth", String(w));
    } catch {
      // Without storage the width is kept until the page is closed.
    }
  };
  useEffect(() => {
    try {
      const kept = Number(localStorage.getItem("parley.panelwidth"));
      if (kept >= least && kept <= most) set(kept);
    } catch {
      // As before.
    }
  }, []);
  const width = () => box.current?.getBoundingClientRect().width ?? 360;
  const towards = () => (box.current && getComputedStyle(box.current).direction === "rtl" ? -1 : 1);
  return (
    <div
      ref={grip}
      className="pl-grip"
      role="separator"
      aria-orientation="vertical"
      aria-label={texts.panelWidth}
      aria-valuemin={least}
      aria-valuemax={most}
      aria-valuenow={360}
      tabIndex={0}
      onKeyDown={(e) => {
        if (e.key === "ArrowLeft") set(width() + 20 * towards());
        else if (e.key === "ArrowRight") set(width() - 20 * towards());
      }}
      onPointerDown={(e) => {
        e.currentTarget.setPointerCapture(e.pointerId);
        e.preventDefault();
      }}
      onPointerMove={(e) => {
        const r = box.current?.getBoundingClientRect();
        if (r && e.currentTarget.hasPointerCapture(e.pointerId)) set(towards() > 0 ? r.right - e.clientX : e.clientX - r.left);
      }}
    />
  );
}
