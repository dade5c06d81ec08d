import { useEffect, useState } from "react";
import type { AgentArtifact, FileInfo } from "@parley-hq/client";
import { useShared } from "../shared/context.js";
import { useItems } from "../shared/hooks.js";
import { Icon } from "../shared/icons.js";
import { Preview } from "./preview.js";

/** Every file of the session. */
export function FilesPanel() {
  const { client, store, texts } = useShared();
  const [files, setFiles] = useState<FileInfo[]>();
  const [titles, setTitles] = useState<ReadonlyMap<string, string>>(new Map());
  const order = useItems(store);
  // Reload when the number of items changes: file and artifact entries change the list.
  const mark = order.reduce((n, id) => {
    const kind = store.getItem(id)?.kind;
    return kind === "file" || kind === "artifact" ? n + 1 : n;
  }, 0);
  useEffect(() => {
    const stop = new AbortController();
    client
      .artifacts(store.id, { limit: 500 }, { signal: stop.signal })
      .then((p) => setFiles(p.artifacts))
      .catch(() => {});
    // A card shows the title that the agent gave the file.
    client
      .events(store.id, { types: ["agent.artifact"], limit: 500 }, { signal: stop.signal })
      .then((p) => setTitles(new Map(p.events.map((e) => e.payload as AgentArtifact).map((a) => [a.path ?? "", a.title ?? ""]))))
      .catch(() => {});
    return () => stop.abort();
  }, [client, store.id, mark]);
  if (!files) return <div className="pl-skeleton" />;
  if (files.length === 0) return <p className="pl-panel-empty">{texts.noFiles}</p>;
  return (
    <section className="pl-section" aria-label={texts.files}>
      <header>
        <h3>{texts.files}</h3>
        <span>{files.length}</span>
      </header>
      <ul className="pl-files">
        {files.map((f) => (
          <li key={f.path}>
            <Icon name={f.media_type.startsWith("image/") ? "image" : "file"} size={14} />
            <a href={client.artifactURL(store.id, f.path)} download={f.path.split("/").pop()} title={f.path}>
              {titles.get(f.path) || f.path.split("/").pop()}
            </a>
            <span className="pl-muted pl-small">
              {texts.bytes(f.size)} · {texts.moment(f.stored_at)}
            </span>
            <Preview path={f.path} name={titles.get(f.path) || (f.path.split("/").pop() ?? f.path)} mediaType={f.media_type} size={f.size} />
          </li>
        ))}
      </ul>
    </section>
  );
}
