import { useShared } from "../shared/context.js";
import { useRecord } from "../shared/hooks.js";
import { Icon } from "../shared/icons.js";
import { lazyPart } from "../shared/lazy.js";
import { StatusDot } from "./banner.js";
import type { ConversationProps } from "./props.js";

const People = lazyPart(() => import("./people.js").then((m) => m.People), null);
const PanelButton = lazyPart(() => import("./panelstrip.js").then((m) => m.PanelButton), null);
const TokenMeter = lazyPart(() => import("./tokens.js").then((m) => m.TokenMeter), null);

/** The header: title, agent, status, people, tokens and actions. */
export function Header({ props: p, searching, setSearching, panel, open }: { props: ConversationProps; searching: boolean; setSearching: (on: boolean) => void; panel: boolean; open: () => void }) {
  const { store, texts } = useShared();
  const record = useRecord(store);
  const name = record?.title || record?.heading || texts.transcript;
  return (
    <header className="pl-header">
      {p.slots?.headerStart}
      <h2 title={name}>{p.title ?? name}</h2>
      {record && record.agent !== "none" && <span className="pl-agent">{record.agent}</span>}
      <StatusDot />
      <span className="pl-grow" />
      {record?.members?.length ? <People session={record} /> : null}
      {(p.panels?.inspector || p.tokenLimit) && <TokenMeter {...(p.tokenLimit ? { limit: p.tokenLimit } : {})} />}
      <button type="button" className="pl-iconbutton" aria-label={texts.search} title={texts.search} aria-expanded={searching} onClick={() => setSearching(!searching)}>
        <Icon name="search" />
      </button>
      {p.panel === undefined && <PanelButton panels={p.panels} panel={panel} open={open} />}
      {p.slots?.headerEnd}
      {p.onReset && (
        <button type="button" className="pl-mini" onClick={p.onReset}>
          {texts.reset}
        </button>
      )}
      {p.onClose && (
        <button type="button" className="pl-iconbutton" aria-label={texts.close} onClick={p.onClose}>
          <Icon name="cross" />
        </button>
      )}
    </header>
  );
}
