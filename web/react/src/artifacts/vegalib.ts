/* The chart library, loaded when the first chart by specification is shown. */
export { parse, View } from "vega";
export { expressionInterpreter } from "vega-interpreter";
export { compile } from "vega-lite";
