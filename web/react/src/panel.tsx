import { useShared } from "./context.js";
import type { ConversationProps } from "./conversation.js";
import { Icon } from "./icons.js";
import { Inspector } from "./inspector.js";
import { FilesPanel, PlanPanel, WorkPanel } from "./panels.js";

export type PanelName = "plan" | "work" | "files" | "raw";

/** What stands beside the ledger: plan, work, files or raw events. */
export function Panel(p: {
  name: PanelName;
  panels: ConversationProps["panels"];
  setName: (n: PanelName | null) => void;
  lane: string | undefined;
  setLane: (id: string | undefined) => void;
  seq: number | undefined;
  dialects: readonly string[];
}) {
  const { texts } = useShared();
  const all: [PanelName, string, boolean][] = [
    ["plan", texts.plan, p.panels?.plan !== false],
    ["work", texts.work, p.panels?.workstreams !== false],
    ["files", texts.files, p.panels?.files !== false],
    ["raw", texts.inspector, p.panels?.inspector !== false],
  ];
  return (
    <aside className="pl-panel" aria-label={all.find(([n]) => n === p.name)?.[1]}>
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
        {p.name === "plan" ? <PlanPanel /> : p.name === "work" ? <WorkPanel lane={p.lane} setLane={p.setLane} /> : p.name === "files" ? <FilesPanel /> : <Inspector at={p.seq} dialects={p.dialects} />}
      </div>
    </aside>
  );
}
