import { Component, memo, useId, type ReactNode } from "react";
import type { Item, ShownItem } from "@parley-hq/client";
import { CodeBlock, CopyButton } from "../markdown/code.js";
import { Markdown } from "../markdown/markdown.js";
import { codeOf, type Segment } from "../markdown/segments.js";
import { PromptCard, questionOf } from "../prompts/prompt.js";
import { workstreamColour, workstreamName, useShared, type Shared } from "../shared/context.js";
import { useItem, useItemPart } from "../shared/hooks.js";
import { Icon } from "../shared/icons.js";
import { Value } from "../shared/json.js";
import { lazyPart } from "../shared/lazy.js";
import { Activity } from "./activity.js";
import { Author, isOwn, nameOf } from "./author.js";
import { Message, Quote } from "./message.js";
import type { Row, Rows } from "./rows.js";
import { ToolGroup, ToolRow } from "./tool.js";

export const ArtifactCard = lazyPart(() => import("../artifacts/artifact.js").then((m) => m.ArtifactCard), <div className="pl-skeleton pl-skeleton-chart" />);

const FileEntry = lazyPart(() => import("../markdown/extras.js").then((m) => m.FileEntry), <div className="pl-notice" />);
const Thinking = lazyPart(() => import("../markdown/extras.js").then((m) => m.Thinking), <div className="pl-think" />);
const Notice = lazyPart(() => import("../markdown/extras.js").then((m) => m.Notice), <div className="pl-notice" />);
const StatusLine = lazyPart(() => import("../markdown/extras.js").then((m) => m.StatusLine), <div className="pl-status" />);
const ErrorEntry = lazyPart(() => import("../markdown/extras.js").then((m) => m.ErrorEntry), <div className="pl-failure" />);
const ShareEntry = lazyPart(() => import("../markdown/extras.js").then((m) => m.ShareEntry), <div className="pl-notice" />);
const PlanEntry = lazyPart(() => import("../work/plan.js").then((m) => m.PlanEntry), <div className="pl-tool pl-ended-wait" />);
const WorkstreamEntry = lazyPart(() => import("../work/workstream.js").then((m) => m.WorkstreamEntry), <div className="pl-tool pl-ended-wait" />);

/** One row of the list. */
export const Entry = memo(function Entry(p: { row: Row; rows: Rows; index: number; total: number; first: boolean; last: boolean }) {
  const shared = useShared();
  const label = useId();
  const { row } = p;
  const id = row.kind === "tools" ? (row.ids[0] ?? "") : row.kind === "activity" ? row.key : row.id;
  const colour = row.workstream ? workstreamColour(shared, row.workstream) : undefined;
  return (
    <article
      className={`pl-row pl-row-${row.kind}${row.signed ? " pl-signed" : ""}${colour === undefined ? "" : ` pl-lane-${colour}`}${p.first ? " pl-row-first" : ""}${p.last ? " pl-row-last" : ""}`}
      data-item={id}
      aria-posinset={p.index + 1}
      aria-setsize={p.total}
      aria-labelledby={label}
      tabIndex={-1}
    >
      <span id={label} className="pl-hidden">
        {row.kind === "activity" ? shared.texts.working : labelOf(shared, id)}
      </span>
      {row.signed && <Signature id={id} />}
      {row.named && row.workstream && <div className="pl-lane-name">{workstreamName(shared, row.workstream)}</div>}
      <ErrorBoundary id={id} shared={shared}>
        {row.kind === "activity" ? (
          <Activity line={row.workstream} />
        ) : row.kind === "tools" ? (
          <ToolGroup ids={row.ids} />
        ) : row.kind === "segment" ? (
          <TextSegment id={row.id} index={row.index} of={row.of} more={row.more} cut={row.cut} rows={p.rows} />
        ) : (
          <One id={row.id} tools={row.tools} />
        )}
      </ErrorBoundary>
    </article>
  );
});

/** The author of an entry: a person, or the agent of the session. */
function Signature({ id }: { id: string }) {
  const { store, texts, me } = useShared();
  const item = useItem(store, id); // none for the row of a turn
  const agent = item?.kind !== "message" || item.actor?.kind === "agent";
  const own = item?.kind === "message" && isOwn(item, me);
  const who = item?.actor?.id ?? (own ? (me ?? "") : (store.getSession()?.agent ?? ""));
  const name = nameOf(item?.actor);
  return <Author id={who} name={own ? texts.you : name || who || texts.agent} of={name || who} agent={agent} />;
}

/** The accessible name of an entry. */
function labelOf(shared: Shared, id: string): string {
  const { store, texts, me } = shared;
  const item = store.getItem(id);
  if (!item) return "";
  const time = texts.moment(item.at);
  switch (item.kind) {
    case "message":
      return `${isOwn(item, me) ? texts.you : nameOf(item.actor)} ${time}`;
    case "text":
      return `${nameOf(item.actor) || texts.agent} ${time}`;
    case "tool":
      return `${item.tool.tool ?? texts.tools(1)} ${time}`;
    case "thinking":
      return texts.thinking;
    case "prompt":
      return `${questionOf(item.prompt, texts)} ${time}`;
    case "plan":
      return `${texts.plan} ${time}`;
    case "artifact":
      return `${item.artifact.title || item.artifact.type} ${time}`;
    case "workstream":
      return `${item.workstream.name || item.workstream.id} ${time}`;
    case "status":
      return item.status.message ?? time;
    case "error":
      return item.error.message;
    case "notice":
      return `${texts.notices[item.notice.code] || item.notice.text || item.notice.code} ${time}`;
    default:
      return `${item.kind} ${time}`;
  }
}

/** An error boundary: an entry that fails to render does not affect other entries. */
class ErrorBoundary extends Component<{ id: string; shared: Shared; children: ReactNode }, { failed: boolean }> {
  override state = { failed: false };
  static getDerivedStateFromError() {
    return { failed: true };
  }
  override render() {
    if (!this.state.failed) return this.props.children;
    const { texts, store } = this.props.shared;
    return (
      <div className="pl-broken">
        <Icon name="warn" /> {texts.brokenEntry}
        <Value value={store.getItem(this.props.id)} label={texts.raw} keep={`broken ${this.props.id}`} />
      </div>
    );
  }
}

function One({ id, tools }: { id: string; tools: readonly string[] | undefined }) {
  const { store, renderers } = useShared();
  const item = useItem(store, id);
  if (!item) return null;
  const own = renderers.item?.(item as Item);
  if (own !== undefined) return <>{own}</>;
  return <Kind item={item} tools={tools} />;
}

function Kind({ item, tools }: { item: ShownItem; tools: readonly string[] | undefined }) {
  const { texts } = useShared();
  switch (item.kind) {
    case "message":
      return <Message item={item} />;
    case "thinking":
      return <Thinking item={item} />;
    case "tool":
      return <ToolRow id={item.id} />;
    case "prompt":
      return <PromptCard item={item} tools={tools} />;
    case "plan":
      return <PlanEntry item={item} />;
    case "artifact":
      return <ArtifactCard item={item} />;
    case "file":
      return <FileEntry item={item} />;
    case "share":
      return <ShareEntry item={item} />;
    case "status":
      return <StatusLine item={item} />;
    case "error":
      return <ErrorEntry item={item} />;
    case "notice":
      return <Notice item={item} />;
    case "workstream":
      return <WorkstreamEntry item={item} />;
    case "custom":
      return (
        <details className="pl-tool">
          <summary>
            <span className="pl-notice">{texts.unknownKind(item.custom.type)}</span>
          </summary>
          <Value value={item.custom.payload} label={item.custom.type} keep={item.id} />
        </details>
      );
    default:
      return null;
  }
}

/** A segment of the agent's text. Sealed segments are not rendered again while the text grows. */
const TextSegment = memo(function TextSegment({ id, index, of, more, cut, rows }: { id: string; index: number; of: number; more: boolean; cut: boolean; rows: Rows }) {
  const { store, renderers, texts } = useShared();
  const segment = useItemPart(store, id, (item) => (item ? rows.segments(item)[index] : undefined));
  const tail = index === of - 1;
  const open = useItemPart(store, id, (item) => Boolean(item?.open)) && tail;
  const own = useItemPart(store, id, (item) => (renderers.item && item ? renderers.item(item as Item) : undefined));
  const links = useItemPart(store, id, () => rows.segmenter.links(id));
  if (own !== undefined) return index === 0 ? <>{own}</> : null;
  if (!segment) return null;
  return (
    <div className={`pl-prose${open ? " pl-open" : ""}`}>
      {segment.fence ? <FencePart id={id} segment={segment} rows={rows} open={open} /> : <Markdown text={segment.text} open={open} mid={segment.mid ?? false} known={links} />}
      {more && (
        <button type="button" className="pl-link pl-small pl-more" onClick={() => rows.unfold(id)}>
          {texts.showAll(texts.bytes(rows.length(id)))}
        </button>
      )}
      {(more || (tail && !open)) && <TextFoot id={id} cut={cut} />}
    </div>
  );
});

function FencePart({ id, segment, rows, open }: { id: string; segment: Segment; rows: Rows; open: boolean }) {
  const { store } = useShared();
  const f = segment.fence;
  const whole = () => {
    const item = store.getItem(id);
    const parts = item ? rows.segments(item).filter((s) => s.fence?.block === f?.block) : [];
    return parts.map(codeOf).join("\n");
  };
  return <CodeBlock code={codeOf(segment)} lang={f?.lang ?? ""} first={f?.first ?? true} closed={!open} whole={whole} />;
}

function TextFoot({ id, cut }: { id: string; cut: boolean }) {
  const { store, texts, inspect } = useShared();
  const item = useItem(store, id);
  if (item?.kind !== "text") return null;
  const seq = item.seq;
  return (
    <>
      {cut && <div className="pl-cut">{texts.cutShort}</div>}
      <div className="pl-actions">
        <CopyButton text={() => item.text.text} label={texts.copy} />
        <Quote text={item.text.text} />
        {seq !== undefined && inspect && (
          <button type="button" className="pl-mini pl-seq" title={texts.inspect} onClick={() => inspect(seq)}>
            <Icon name="code" size={14} />
            <span>#{seq}</span>
          </button>
        )}
        <time dateTime={item.at}>{texts.moment(item.at)}</time>
      </div>
    </>
  );
}
