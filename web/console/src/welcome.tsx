import { Icon } from "@parley-hq/react";
import { useWords } from "./locale.js";

/** What the console is, and how to connect an agent; above the start view of the demo agent. */
export function Welcome() {
  const words = useWords();
  return (
    <div className="co-welcome">
      <p className="co-welcome-what">{words.welcome}</p>
      <p>{words.welcomeNote}</p>
      <details>
        <summary>
          <Icon name="chevron" /> {words.connect}
        </summary>
        <dl>
          {words.connectWays.map(([what, how, code]) => (
            <div key={what}>
              <dt>{what}</dt>
              <dd>
                {how} <code dir="ltr">{code}</code>
              </dd>
            </div>
          ))}
        </dl>
      </details>
    </div>
  );
}
