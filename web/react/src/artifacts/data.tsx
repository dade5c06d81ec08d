import { useEffect, useState } from "react";
import type { ItemOf } from "@parley-hq/client";
import { useRowState, useShared } from "../shared/context.js";
import { Value } from "../shared/json.js";
import { lazyPart } from "../shared/lazy.js";
import { Chart, readChart } from "./chart.js";
import { parseCSV } from "./csv.js";
import { fetches, inlineValues, readSpec, type Spec } from "./spec.js";
import { DataTable, readTable } from "./table.js";

const SpecChart = lazyPart(() => import("./vega.js").then((m) => m.SpecChart), <div className="pl-skeleton pl-skeleton-chart" />);

/** A table or a chart; data that is too large to be inline is fetched when the card is mounted. */
export function Data({ item, url }: { item: ItemOf<"artifact">; url: string | undefined }) {
  const { texts, client, store } = useShared();
  const a = item.artifact;
  const [asData, setAsData] = useRowState(`data ${item.id}`, false);
  const [data, setData] = useState<unknown>(a.data);
  const [failed, setFailed] = useState<string>();
  useEffect(() => {
    if (a.data !== undefined || !url || !a.path) return;
    const stop = new AbortController();
    client
      .download(store.id, a.path, { signal: stop.signal })
      .then((b) => b.text())
      .then((t) => setData(a.media_type?.includes("csv") ? parseCSV(t) : JSON.parse(t)))
      .catch((err: unknown) => stop.signal.aborted || setFailed(err instanceof Error ? err.message : String(err)));
    return () => stop.abort();
  }, [a, client, store.id, url]);
  if (failed) return <p className="pl-fault">{failed}</p>;
  if (data === undefined) return <div className="pl-skeleton" />;
  if (a.type === "chart") {
    const spec = readSpec(data);
    if (spec) return <SpecView spec={spec} title={a.title ?? ""} keep={item.id} />;
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

/** A chart by specification, or its data; a specification that loads data is shown as JSON. */
function SpecView({ spec, title, keep }: { spec: Spec; title: string; keep: string }) {
  const { texts } = useShared();
  const [asData, setAsData] = useRowState(`data ${keep}`, false);
  if (fetches(spec))
    return (
      <>
        <p className="pl-fault">{texts.chartRefused}</p>
        <Value value={spec} label={texts.raw} keep={keep} />
      </>
    );
  const table = readTable(inlineValues(spec));
  return (
    <>
      {asData && table ? (
        <DataTable table={table} keep={keep} />
      ) : (
        <SpecChart spec={spec} title={title} />
      )}
      {table && (
        <button type="button" className="pl-link pl-small" onClick={() => setAsData(!asData)}>
          {asData ? texts.asChart : texts.asData}
        </button>
      )}
    </>
  );
}
