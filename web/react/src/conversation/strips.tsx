import { useRef, useSyncExternalStore } from "react";
import { clock } from "../i18n/formats.js";
import { useShared } from "../shared/context.js";
import { useDrawn, usePlan, usePrompts, useWorkstreams } from "../shared/hooks.js";
import { Icon } from "../shared/icons.js";
import { tasksDone } from "../work/plan.js";
import type { PanelName } from "./panel.js";
import type { ConversationProps } from "./props.js";

/** The number of open prompts that are not visible, with a button to scroll to them. */
export function PromptStrip({ show }: { show: (request: string) => void }) {
  const { store, texts, mode, inView } = useShared();
  const prompts = usePrompts(store);
  useSyncExternalStore(inView.subscribe, () => inView.version);
  const time = useRef<HTMLSpanElement>(null);
  const at = useRef(0);
  const deadlines = prompts.flatMap((p) => (p.deadline ? [Date.parse(p.deadline)] : []));
  const first = deadlines.length > 0 ? Math.min(...deadlines) : undefined;
  useDrawn(() => {
    if (time.current) time.current.textContent = first === undefined ? "" : ` · ${clock((first - store.serverNow()) / 1000)}`;
  });
  if (mode === "read-only" || prompts.every((p) => inView.has(p.request_id))) return null;
  const go = () => {
    const hidden = prompts.filter((p) => !inView.has(p.request_id));
    const p = hidden[at.current % hidden.length];
    at.current++;
    if (p) show(p.request_id);
  };
  return (
    <div className="pl-waiting">
      <Icon name="clock" size={14} />
      <span>
        {texts.questionsWaiting(prompts.length)}
        <span ref={time} />
      </span>
      <span className="pl-grow" />
      <button type="button" className="pl-link" onClick={go} title="Alt+Q">
        {texts.go}
      </button>
    </div>
  );
}

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
