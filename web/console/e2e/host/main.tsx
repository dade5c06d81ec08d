import { createRoot } from "react-dom/client";
import { ParleyClient } from "@parley-hq/client";
import { Conversation } from "@parley-hq/react";
import "@parley-hq/react/styles.css";

const server = new URLSearchParams(location.search).get("server") ?? "";
const client = new ParleyClient({ url: server });
const boom = () => {
  throw new Error("a renderer of the host that fails");
};

createRoot(document.getElementById("app") as HTMLElement).render(
  <>
    <div className="pane" id="one">
      <Conversation client={client} session="host-one" tokenLimit={2000} renderers={{ tool: { fetch: boom } }} placeholder="To the first" />
    </div>
    <div className="pane" id="two">
      <Conversation client={client} session="host-two" mode="read-only" theme="dark" messages={{ idle: "Resting" }} />
    </div>
  </>,
);
