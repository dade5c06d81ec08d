import { lazy, useState } from "react";
import { Icon } from "@parley-hq/react";
import { Later } from "./later.js";
import { useWords } from "./locale.js";

const Connect = lazy(() => import("./connect.js").then((m) => ({ default: m.Connect })));

/** What the console is, and how to connect an agent; above the start view of the demo agent. */
export function Welcome() {
  const words = useWords();
  const [open, setOpen] = useState(false);
  return (
    <div className="co-welcome">
      <p className="co-welcome-what">{words.welcome}</p>
      <p>{words.welcomeNote}</p>
      <details open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
        <summary>
          <Icon name="chevron" /> {words.connect}
        </summary>
        {open && (
          <Later>
            <Connect />
          </Later>
        )}
      </details>
    </div>
  );
}
