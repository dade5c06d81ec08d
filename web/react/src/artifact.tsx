import { useEffect, useRef, useState } from "react";
import type { ItemOf } from "@parley-hq/client";
import { Chart, readChart } from "./chart.js";
import { CodeBlock } from "./code.js";
import { useKept, useShared } from "./context.js";
import { Icon, type IconName } from "./icons.js";
import { Value } from "./json.js";
import { DataTable, readTable } from "./table.js";
import { bytes } from "./texts.js";

const icons: Record<string, IconName> = { table: "table", chart: "chart", image: "image", html: "page", code: "code" };

/** Something the agent made, in a card. */
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
          {a.size !== undefined ? ` · ${bytes(a.size)}` : ""}
        </span>
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
  if (image && url) return <Picture url={url} title={title} />;
  if (a.type === "html" && a.path) return <Page path={a.path} title={title} keep={item.id} />;
  if (a.type === "table" || a.type === "chart") return <Data item={item} url={url} />;
  if (a.type === "code" && typeof a.data === "string") return <CodeBlock code={a.data} lang={a.language ?? ""} closed />;
  if (a.data !== undefined) return <Value value={a.data} label={a.media_type ?? texts.raw} keep={item.id} />;
  return null;
}

/** A table or a chart; data that is too large to be inline is fetched when the card is seen. */
function Data({ item, url }: { item: ItemOf<"artifact">; url: string | undefined }) {
  const { texts, client, store } = useShared();
  const a = item.artifact;
  const [asData, setAsData] = useKept(`data ${item.id}`, false);
  const [data, setData] = useState<unknown>(a.data);
  const [failed, setFailed] = useState<string>();
  useEffect(() => {
    if (a.data !== undefined || !url || !a.path) return;
    const stop = new AbortController();
    client
      .download(store.id, a.path, { signal: stop.signal })
      .then((b) => b.text())
      .then((t) => setData(a.media_type?.includes("csv") ? csv(t) : JSON.parse(t)))
      .catch((err: unknown) => stop.signal.aborted || setFailed(err instanceof Error ? err.message : String(err)));
    return () => stop.abort();
  }, [a, client, store.id, url]);
  if (failed) return <p className="pl-fault">{failed}</p>;
  if (data === undefined) return <div className="pl-ghost" />;
  if (a.type === "chart") {
    const chart = readChart(data);
    if (!chart) return <Value value={data} label={texts.raw} keep={item.id} />;
    return (
      <>
        {asData ? <DataTable table={{ columns: ["", ...chart.series.map((s) => s.name)], rows: chart.x.map((x, i) => [x, ...chart.series.map((s) => s.values[i] ?? "")]) }} keep={item.id} /> : <Chart chart={chart} title={a.title ?? ""} />}
        <button type="button" className="pl-link pl-small" onClick={() => setAsData(!asData)}>
          {asData ? texts.asChart : texts.asData}
        </button>
      </>
    );
  }
  const table = readTable(data);
  return table ? <DataTable table={table} keep={item.id} /> : <Value value={data} label={texts.raw} keep={item.id} />;
}

/** Comma-separated values with quotes, as rows. */
function csv(text: string): { columns: string[]; rows: string[][] } {
  const rows: string[][] = [];
  let row: string[] = [];
  for (const m of text.matchAll(/(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|$)/g)) {
    if (m[0] === "" && row.length === 0) break;
    row.push(m[1] !== undefined ? m[1].replaceAll('""', '"') : (m[2] ?? ""));
    if (m[3] !== ",") {
      rows.push(row);
      row = [];
    }
  }
  return { columns: rows[0] ?? [], rows: rows.slice(1) };
}

function Picture({ url, title }: { url: string; title: string }) {
  const { texts } = useShared();
  const dialog = useRef<HTMLDialogElement>(null);
  return (
    <>
      <button type="button" className="pl-picture" aria-label={`${texts.open}: ${title}`} onClick={() => dialog.current?.showModal()}>
        <img src={url} alt={title} loading="lazy" />
      </button>
      <dialog ref={dialog} className="pl-lightbox" aria-label={title} onClick={(e) => e.target === e.currentTarget && dialog.current?.close()}>
        <img src={url} alt={title} loading="lazy" />
        <button type="button" className="pl-button" onClick={() => dialog.current?.close()}>
          {texts.close}
        </button>
      </dialog>
    </>
  );
}

/** A page that the agent made, without scripts, requests or an origin. */
function Page({ path, title, keep }: { path: string; title: string; keep: string }) {
  const { texts, store, pageURL } = useShared();
  const [open, setOpen] = useKept(`page ${keep}`, false);
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
