// A page with useChat of version 5 or 6 that goes on by itself when its connection was lost, as docs/aisdk.md says.
import { Chat, useChat } from "@ai-sdk/react";
import { DefaultChatTransport } from "ai";
import { useState } from "react";
import { createRoot } from "react-dom/client";

const five = import.meta.env.MODE === "5";
const query = new URLSearchParams(location.search);
const id = query.get("chat");
const messages = () => fetch(`/api/chat/${id}/messages${five ? "?sdk=5" : ""}`);
const transport = new DefaultChatTransport({ api: five ? "/api/chat?sdk=5" : "/api/chat?replay=finished" });

/** Waits until the server answers again, and returns the messages. */
async function reachable() {
  for (;;) {
    const res = await messages().catch(() => null);
    if (res?.ok) return res.json();
    await new Promise((done) => setTimeout(done, 500));
  }
}

/** Version 6: the page makes the chat, which replaces its half of the message. */
function Six({ loaded }) {
  const [own] = useState(
    () => new Chat({ id, messages: loaded, transport, onError: (e) => e instanceof TypeError && reachable().then(() => own.resumeStream()) }),
  );
  return <Messages chat={useChat({ chat: own, resume: true })} />;
}

/** Version 5: the page loads the messages and makes the component again. */
function Five({ loaded }) {
  const [now, setNow] = useState({ times: 0, loaded });
  const again = () => reachable().then((list) => setNow({ times: now.times + 1, loaded: list }));
  return <Once key={now.times} loaded={now.loaded} again={again} />;
}

function Once({ loaded, again }) {
  return <Messages chat={useChat({ id, messages: loaded, resume: true, transport, onError: (e) => e instanceof TypeError && again() })} />;
}

function Messages({ chat }) {
  const texts = (m) => m.parts.map((p) => (p.type === "text" ? p.text : "")).join("");
  return (
    <>
      <ol>{chat.messages.map((m) => <li key={m.id}>{texts(m)}</li>)}</ol>
      <form onSubmit={(e) => (e.preventDefault(), chat.sendMessage({ text: new FormData(e.target).get("text") }))}>
        <input aria-label="Message" name="text" />
      </form>
    </>
  );
}

const res = await messages();
const loaded = res.ok ? await res.json() : [];
createRoot(document.getElementById("root")).render(five ? <Five loaded={loaded} /> : <Six loaded={loaded} />);
