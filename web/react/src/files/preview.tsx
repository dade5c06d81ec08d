import { useEffect, useRef, useState, type ReactNode } from "react";
import { parseCSV } from "../artifacts/csv.js";
import { DataTable } from "../artifacts/table.js";
import { useShared } from "../shared/context.js";
import { Icon } from "../shared/icons.js";
import { useImage } from "./image.js";

/*
 * Previews of files, only on request. Files of agents are hostile: images are shown as images, values as a table; all others are
 * shown by the browser itself in a frame, from an address under which no script can run.
 */

type Kind = "image" | "csv" | "media" | "pdf";

const mostRows = 200;
const mostCSV = 5_000_000; // bytes

/** How a file is previewed; undefined: it can only be downloaded. */
export function previewKind(mediaType: string | undefined, size: number | undefined): Kind | undefined {
  const type = (mediaType ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";
  if (/^image\/(png|jpeg|gif|webp|avif)$/.test(type)) return "image";
  if (/^(text|application)\/csv$/.test(type)) return (size ?? 0) <= mostCSV ? "csv" : undefined;
  if (/^(audio\/(mpeg|mp4|ogg|wav|x-wav|webm|flac|aac)|video\/(mp4|webm|ogg))$/.test(type)) return "media";
  return type === "application/pdf" ? "pdf" : undefined;
}

/** The button that shows a file in a dialog; it can be a small picture of the file. */
export function Preview({ path, name, mediaType, size, children }: { path: string; name: string; mediaType: string | undefined; size?: number | undefined; children?: ReactNode }) {
  const { texts, store, pageURL } = useShared();
  const dialog = useRef<HTMLDialogElement>(null);
  const [open, setOpen] = useState(false);
  useEffect(() => {
    if (open) dialog.current?.showModal();
  }, [open]);
  const kind = previewKind(mediaType, size);
  if (!kind || ((kind === "media" || kind === "pdf") && !pageURL)) return children;
  return (
    <>
      <button type="button" className={children ? "pl-thumbbutton" : "pl-mini"} aria-label={`${texts.preview}: ${name}`} title={texts.preview} onClick={() => setOpen(true)}>
        {children || (
          <>
            <Icon name="page" size={14} />
            <span>{texts.preview}</span>
          </>
        )}
      </button>
      {open && (
        <dialog ref={dialog} className="pl-lightbox pl-preview" aria-label={name} onClose={() => setOpen(false)} onClick={(e) => e.target === e.currentTarget && dialog.current?.close()}>
          {kind === "image" ? (
            <Image path={path} name={name} />
          ) : kind === "csv" ? (
            <Values path={path} />
          ) : (
            // Browsers refuse to show PDF in a sandbox; their viewers have their own.
            <iframe title={name} src={pageURL?.(store.id, path)} referrerPolicy="no-referrer" {...(kind === "media" ? { sandbox: "allow-same-origin" } : {})} className={kind} />
          )}
          <button type="button" className="pl-button" autoFocus onClick={() => dialog.current?.close()}>
            {texts.close}
          </button>
        </dialog>
      )}
    </>
  );
}

function Image({ path, name }: { path: string; name: string }) {
  const [src, failed] = useImage(path);
  return src ? <img src={src} alt={name} onError={failed} /> : <div className="pl-skeleton" />;
}

/** The first rows of comma-separated values. */
function Values({ path }: { path: string }) {
  const { texts, client, store } = useShared();
  const [table, setTable] = useState<ReturnType<typeof parseCSV>>();
  const [fault, setFault] = useState<string>();
  useEffect(() => {
    const stop = new AbortController();
    client
      .download(store.id, path, { signal: stop.signal })
      .then((b) => b.text())
      .then((t) => setTable(parseCSV(t, mostRows)))
      .catch((err: unknown) => stop.signal.aborted || setFault(err instanceof Error ? err.message : String(err)));
    return () => stop.abort();
  }, [client, store.id, path]);
  if (fault) return <p className="pl-fault">{fault}</p>;
  if (!table) return <div className="pl-skeleton" />;
  return (
    <div className="pl-preview-rows">
      {table.more && <p className="pl-muted pl-small">{texts.firstRows(mostRows)}</p>}
      <DataTable table={table} keep={`preview ${path}`} whole />
    </div>
  );
}
