/*
 * Checks of Vega-Lite specifications. The renderer is loaded on demand.
 */

export type Spec = Record<string, unknown>;

/** The specification in a chart's data, if it is one. */
export function readSpec(data: unknown): Spec | undefined {
  const d = data as { $schema?: unknown; spec?: unknown } | null;
  if (!d || typeof d !== "object") return undefined;
  if (typeof d.$schema === "string" && /vega-lite/i.test(d.$schema)) return d as Spec;
  return d.spec !== undefined ? readSpec(d.spec) : undefined;
}

/** Reports whether a specification loads data from a URL: such a chart is not rendered. */
export function fetches(spec: unknown): boolean {
  if (Array.isArray(spec)) return spec.some(fetches);
  if (!spec || typeof spec !== "object") return false;
  return Object.entries(spec).some(([k, v]) => (k === "url" && typeof v === "string" && !/^data:/i.test(v)) || (k !== "values" && fetches(v)));
}

/** The inline values of a specification. */
export function inlineValues(spec: Spec): unknown {
  return (spec["data"] as { values?: unknown } | undefined)?.values;
}
