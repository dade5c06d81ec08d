import type { ItemOf, Part } from "@parley-hq/client";
import { safeHref } from "../markdown/markdown.js";
import { useShared } from "../shared/context.js";
import { Icon } from "../shared/icons.js";
import { lazyPart } from "../shared/lazy.js";
import { useImage } from "./image.js";

const Preview = lazyPart(() => import("./preview.js").then((m) => m.Preview), null);

/** A file of the session that was added or removed. */
export function FileEntry({ item }: { item: ItemOf<"file"> }) {
  const { client, store, texts } = useShared();
  const f = item.file;
  const name = f.name ?? f.path;
  if (f.change === "removed")
    return (
      <div className="pl-notice">
        <Icon name="trash" size={14} />
        {texts.fileRemoved(name)}
      </div>
    );
  return (
    <div className="pl-notice">
      <Icon name="file" size={14} />
      {f.removed ? (
        <span>
          <s>{texts.uploaded(name)}</s> · {texts.removedFile}
        </span>
      ) : (
        <a href={client.artifactURL(store.id, f.path)} download={name}>
          {texts.uploaded(name)}
        </a>
      )}
      {f.size !== undefined && <span className="pl-muted">{texts.bytes(f.size)}</span>}
      {!f.removed && <Preview path={f.path} name={name} mediaType={f.media_type} size={f.size} />}
    </div>
  );
}

/** A file or an address that an agent shares. */
export function ShareEntry({ item }: { item: ItemOf<"share"> }) {
  const { texts, client, store } = useShared();
  const s = item.share;
  const title = s.title ?? s.path ?? s.url ?? "";
  const href = s.url ? safeHref(s.url) : s.path ? client.artifactURL(store.id, s.path) : undefined;
  return (
    <div className="pl-notice">
      <Icon name="link" size={14} />
      {href ? (
        <a href={href} target="_blank" rel="noopener noreferrer nofollow">
          {texts.shared(title)}
        </a>
      ) : (
        texts.shared(title)
      )}
    </div>
  );
}

/** A file of a message. A click on a picture shows it, a click on a name downloads the file. */
export function FileChip({ part }: { part: Part }) {
  const { client, store, texts } = useShared();
  const name = part.name ?? part.path?.split("/").pop() ?? part.type;
  const [image, failed] = useImage(part.type === "image" ? part.path : undefined);
  const inner = (
    <>
      {!image && <Icon name={part.type === "image" ? "image" : "file"} size={14} />}
      <span>{name}</span>
      {part.size ? <span className="pl-muted">{texts.bytes(part.size)}</span> : null}
    </>
  );
  return (
    <span className={image ? "pl-tile" : "pl-chip"}>
      {part.path && (
        <Preview path={part.path} name={name} mediaType={part.media_type} size={part.size}>
          {image && <img className="pl-thumb" src={image} alt="" loading="lazy" onError={failed} />}
        </Preview>
      )}
      {part.path ? (
        <a href={client.artifactURL(store.id, part.path)} download={name}>
          {inner}
        </a>
      ) : (
        inner
      )}
    </span>
  );
}
