import { useShared } from "../shared/context.js";

/** The risk of a call, in the words of the agent. */
export function Risk({ risk }: { risk: string }) {
  const { texts } = useShared();
  return <span className={`pl-risk pl-risk-${risk.toLowerCase().replace(/[^a-z]/g, "")}`}>{texts.risk(risk)}</span>;
}
