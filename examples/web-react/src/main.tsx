import { useState } from "react";
import { createRoot } from "react-dom/client";
import { ParleyClient } from "@parley-hq/client";
import { Conversation } from "@parley-hq/react";
import "@parley-hq/react/styles.css";

// The page and the server are on different ports: without a token Parley accepts pages of this machine.
const client = new ParleyClient({ url: "http://127.0.0.1:8000" });

function Page() {
  const [session, setSession] = useState<string>();
  const [waiting, setWaiting] = useState(0);
  return (
    <main>
      <h1>Orders {waiting > 0 && <small>({waiting} waiting for you)</small>}</h1>
      <p>This is the host page. The conversation on the right is the component.</p>
      <section>
        <Conversation
          client={client}
          session={session}
          agent="demo"
          starters={["/tour", "/ask radio"]}
          onStart={setSession}
          onReset={() => setSession(undefined)}
          onPrompt={(open) => setWaiting(open.length)}
          context={() => ({ page: location.pathname })}
          renderers={{ tool: { search: (tool) => <p>Searched for {JSON.stringify(tool.params)}</p> } }}
        />
      </section>
    </main>
  );
}

const root = document.getElementById("app");
if (root) createRoot(root).render(<Page />);
