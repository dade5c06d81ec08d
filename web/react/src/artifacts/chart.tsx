import { useLayoutEffect, useRef, useState } from "react";

export interface ChartData {
  type: "bar" | "line";
  x: string[];
  series: { name: string; values: (number | undefined)[] }[];
}

/** Reads the chart formats that agents send. */
export function readChart(data: unknown): ChartData | undefined {
  const d = data as { type?: string; x?: unknown[]; labels?: unknown[]; series?: unknown[]; datasets?: unknown[]; values?: unknown[]; data?: unknown } | null;
  if (!d || typeof d !== "object") return undefined;
  const nested = d.data && typeof d.data === "object" && !Array.isArray(d.data) ? readChart({ type: d.type, ...(d.data as object) }) : undefined;
  if (nested) return nested;
  const list = d.series ?? d.datasets ?? (Array.isArray(d.values) ? [{ values: d.values }] : undefined);
  if (!Array.isArray(list)) return undefined;
  const series = list.flatMap((s) => {
    const one = s as { name?: string; label?: string; values?: unknown[]; data?: unknown[] } | null;
    const values = one?.values ?? one?.data;
    return Array.isArray(values) ? [{ name: one?.name ?? one?.label ?? "", values: values.map((v) => (Number.isFinite(Number(v)) && v !== null ? Number(v) : undefined)) }] : [];
  });
  if (series.length === 0) return undefined;
  const most = Math.max(...series.map((s) => s.values.length));
  const x = (d.x ?? d.labels ?? Array.from({ length: most }, (_, i) => i + 1)).map(String);
  return { type: d.type === "line" || d.type === "area" || x.length > 40 ? "line" : "bar", x, series };
}

const height = 240;
const pad = { left: 48, right: 8, top: 10, bottom: 24 };

/** A bar or line chart as SVG in the available width, so that its text is not scaled. */
export function Chart({ chart, title }: { chart: ChartData; title: string }) {
  const box = useRef<HTMLElement>(null);
  const [width, setWidth] = useState(640);
  useLayoutEffect(() => {
    const el = box.current;
    if (!el) return;
    const look = () => setWidth(Math.max(200, Math.round(el.clientWidth)));
    look();
    const watch = new ResizeObserver(look);
    watch.observe(el);
    return () => watch.disconnect();
  }, []);
  const values = chart.series.flatMap((s) => s.values).filter((v) => v !== undefined);
  const ticks = scale(Math.min(0, ...values), Math.max(0, ...values));
  const low = ticks[0] ?? 0;
  const high = ticks[ticks.length - 1] ?? 1;
  const inner = { w: width - pad.left - pad.right, h: height - pad.top - pad.bottom };
  const y = (v: number) => pad.top + inner.h * (1 - (v - low) / (high - low || 1));
  const slot = inner.w / Math.max(1, chart.x.length);
  const longest = Math.min(12, Math.max(1, ...chart.x.map((l) => l.length)));
  const every = Math.ceil(chart.x.length / Math.max(1, Math.floor(inner.w / (longest * 6 + 8))));
  return (
    <figure ref={box} className="pl-chart">
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`${title}. ${summary(chart)}`}>
        {ticks.map((t) => (
          <g key={t}>
            <line x1={pad.left} x2={width - pad.right} y1={y(t)} y2={y(t)} className={t === 0 ? "pl-axis" : "pl-grid"} />
            <text x={pad.left - 6} y={y(t) + 4} textAnchor="end">
              {short(t)}
            </text>
          </g>
        ))}
        {chart.x.map((label, i) =>
          i % every === 0 ? (
            <text key={i} x={pad.left + slot * (i + 0.5)} y={height - 6} textAnchor="middle">
              {label.length > 12 ? `${label.slice(0, 11)}…` : label}
            </text>
          ) : null,
        )}
        {chart.series.map((s, n) => {
          const colour = `pl-series-${(n % 6) + 1}`;
          if (chart.type === "line") {
            const points = s.values.flatMap((v, i) => (v === undefined ? [] : [`${pad.left + slot * (i + 0.5)},${y(v)}`]));
            return <polyline key={n} points={points.join(" ")} className={`pl-line ${colour}`} />;
          }
          const bar = Math.min(44, (slot * 0.72) / chart.series.length);
          const start = (slot - bar * chart.series.length) / 2;
          return s.values.map((v, i) =>
            v === undefined ? null : (
              <rect key={`${n} ${i}`} className={`pl-bar ${colour}`} rx="2" x={pad.left + slot * i + start + bar * n + 1} width={Math.max(1, bar - 2)} y={Math.min(y(v), y(0))} height={Math.max(1, Math.abs(y(v) - y(0)))}>
                <title>{`${s.name ? `${s.name}, ` : ""}${chart.x[i] ?? ""}: ${v}`}</title>
              </rect>
            ),
          );
        })}
      </svg>
      {(chart.series.length > 1 || chart.series[0]?.name) && (
        <figcaption>
          {chart.series.map((s, n) => (
            <span key={n} className={`pl-key pl-series-${(n % 6) + 1}`}>
              {s.name}
            </span>
          ))}
        </figcaption>
      )}
    </figure>
  );
}

/** About five round numbers that include the range of the values. */
function scale(min: number, max: number): number[] {
  if (min === max) max = min + 1;
  const rough = (max - min) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough) ?? power;
  const out = [];
  for (let i = Math.floor(min / step); i <= Math.ceil(max / step); i++) out.push(Number((i * step).toPrecision(12)));
  return out;
}

const short = (n: number): string => new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 2 }).format(n);

function summary(c: ChartData): string {
  return c.series.map((s) => `${s.name}: ${s.values.slice(0, 20).map((v, i) => `${c.x[i] ?? ""} ${v ?? ""}`).join(", ")}`).join(". ");
}
