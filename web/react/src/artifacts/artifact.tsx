import type { ItemOf } from "@parley-hq/client";
import { CodeBlock } from "../markdown/code.js";
import { Preview } from "../files/preview.js";
import { useRowState, useShared } from "../shared/context.js";
import { Icon, type IconName } from "../shared/icons.js";
import { Value } from "../shared/json.js";
import { lazyPart } from "../shared/lazy.js";
import { Lightbox } from "./lightbox.js";

const Data = lazyPart(() => import("./data.js").then((m) => m.Data), <div className="pl-skeleton pl-skeleton-chart" />);

Data.preload(); // before the connection may be lost

const icons: Record<string, IconName> = { table: "table", chart: "chart", image: "image", html: "page", code: "code" };

/** The card of an artifact. */
export function ArtifactCard({ item }: { item: ItemOf<"artifact"> }) {
  const { client, store, texts, renderers } = useShared();
  const a = item.artifact;
  const own = (a.media_type && renderers.artifact?.[a.media_type]) || renderers.artifact?.[a.type];
  const drawn = own ? own(a, item) : undefined;
  if (drawn !== undefined) return <>{drawn}</>;
  const title = a.title || a.path?.split("/").pop() || a.type;
  const url = a.path ? client.artifactURL(store.id, a.path) : undefined;
  return (
    <section className={`pl-artifact pl-artifact-${a.type}`} aria-label={title}>
      <header>
        <Icon name={icons[a.type] ?? "file"} />
        <span className="pl-artifact-title" dir="auto">
          {title}
        </span>
        <span className="pl-muted pl-small">
          {a.type}
          {a.size !== undefined ? ` · ${texts.bytes(a.size)}` : ""}
        </span>
        {a.path && a.type === "file" && <Preview path={a.path} name={title} mediaType={a.media_type} size={a.size} />}
        {url && (
          <a className="pl-mini" href={url} download={a.path?.split("/").pop()}>
            <Icon name="down" size={14} />
            <span>{texts.download}</span>
          </a>
        )}
      </header>
      <Content item={item} title={title} url={url} />
    </section>
  );
}

function Content({ item, title, url }: { item: ItemOf<"artifact">; title: string; url: string | undefined }) {
  const { texts } = useShared();
  const a = item.artifact;
  const image = a.media_type?.startsWith("image/") || a.type === "image";
  if (image && url) return <Lightbox url={url} title={title} />;
  if (a.type === "html" && a.path) return <Page path={a.path} title={title} keep={item.id} />;
  if (a.type === "table" || a.type === "chart") return <Data item={item} url={url} />;
  if (a.type === "code" && typeof a.data === "string") return <CodeBlock code={a.data} lang={a.language ?? ""} closed />;
  if (a.data !== undefined) return <Value value={a.data} label={a.media_type ?? texts.raw} keep={item.id} />;
  return null;
}

/** An HTML artifact in a sandbox without scripts, requests or an origin. */
function Page({ path, title, keep }: { path: string; title: string; keep: string }) {
  const { texts, store, pageURL } = useShared();
  const [open, setOpen] = useRowState(`page ${keep}`, false);
  if (!pageURL) return null;
  return open ? (
    <>
      <iframe className="pl-page" sandbox="" title={title} src={pageURL(store.id, path)} referrerPolicy="no-referrer" />
      <p className="pl-muted pl-small">{texts.pageNote}</p>
    </>
  ) : (
    <button type="button" className="pl-link" onClick={() => setOpen(true)}>
      {texts.showPage}
    </button>
  );
}
