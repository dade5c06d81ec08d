import { useShared } from "../shared/context.js";
import { usePlan, useWorkstreams } from "../shared/hooks.js";
import { Icon } from "../shared/icons.js";
import { tasksDone } from "../work/plan.js";
import type { PanelName } from "./panel.js";
import type { ConversationProps } from "./props.js";

/** The panels as one line below the composer, on narrow pages. */
export function PanelStrip({ panels, open }: { panels: ConversationProps["panels"]; open: (n: PanelName) => void }) {
  const { store, texts } = useShared();
  const plan = usePlan(store);
  const work = useWorkstreams(store);
  const running = work.filter((w) => !w.ended_at).length;
  return (
    <nav className="pl-strip" aria-label={texts.plan}>
      {panels?.plan !== false && plan && plan.tasks.length > 0 && (
        <button type="button" onClick={() => open("plan")}>
          {texts.plan} {tasksDone(plan.tasks)}/{plan.tasks.length}
        </button>
      )}
      {panels?.workstreams !== false && work.length > 0 && (
        <button type="button" onClick={() => open("work")}>
          {texts.work} {running > 0 ? running : work.length}
        </button>
      )}
      {panels?.files !== false && (
        <button type="button" onClick={() => open("files")}>
          {texts.files}
        </button>
      )}
      {panels?.inspector && (
        <button type="button" onClick={() => open("raw")}>
          {texts.inspector}
        </button>
      )}
    </nav>
  );
}

/** The button that opens a panel, on wide pages. */
export function PanelButton({ panels, panel, open }: { panels: ConversationProps["panels"]; panel: boolean; open: () => void }) {
  const { texts } = useShared();
  if (panels?.plan === false && panels.workstreams === false && panels.files === false) return null;
  return (
    <button type="button" className="pl-iconbutton pl-panelbutton" aria-label={[texts.plan, texts.work, texts.files].join(", ")} aria-pressed={panel} onClick={open}>
      <Icon name="panel" />
    </button>
  );
}
