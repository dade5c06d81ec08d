import { useShared } from "../shared/context.js";
import { useView } from "../shared/hooks.js";

/** The token usage of the session, with its limit if there is one. */
export function TokenMeter({ limit }: { limit?: number }) {
  const { store, texts } = useShared();
  const u = useView(store)?.usage;
  const input = u?.input_tokens ?? 0;
  const output = u?.output_tokens ?? 0;
  if (!u || input + output === 0) return null;
  const share = limit ? (input + output) / limit : 0;
  const detail = [
    [texts.tokensIn, input], [texts.tokensOut, output], [texts.tokensCached, u.cache_read_input_tokens ?? 0], [texts.tokensReasoning, u.reasoning_tokens ?? 0],
  ] as const;
  return (
    <span
      className={`pl-tokens${share >= 0.9 ? " pl-err" : share >= 0.75 ? " pl-wait" : ""}`}
      title={`${texts.tokens}: ${detail.filter(([, n]) => n > 0).map(([w, n]) => `${n} ${w}`).join(", ")}`}
    >
      {texts.compact(input + output)}
      {limit ? `/${texts.compact(limit)}` : ""} <span className="pl-tokens-word">{texts.tokens.toLowerCase()}</span>
    </span>
  );
}
