import { useRef, useSyncExternalStore } from "react";
import type { Prompt } from "@parley-hq/client";
import { clock } from "../i18n/formats.js";
import { useShared } from "../shared/context.js";
import { useDrawn, usePrompts } from "../shared/hooks.js";
import { Icon } from "../shared/icons.js";

/** The number of open prompts that are not visible, with a button to scroll to them. */
export function PromptStrip({ show }: { show: (p: Prompt) => void }) {
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
    if (p) show(p);
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
