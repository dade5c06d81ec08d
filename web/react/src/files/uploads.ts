import { useCallback, useRef, useState } from "react";
import { newClientID, type Part, type ParleyClient } from "@parley-hq/client";
import type { Texts } from "../i18n/texts.js";

export interface UploadRules {
  /** As the accept attribute of a file input: types and endings, separated by commas. */
  accept?: string;
  maxFiles?: number;
  maxBytes?: number;
  /** Uploads a file with the host's code; the returned part is added to the message. */
  upload?: (file: File, onProgress: (done: number, total: number) => void, signal: AbortSignal) => Promise<Part>;
}

export interface Attached {
  key: number;
  name: string;
  size: number;
  /** The uploaded share, 0 to 1. */
  share: number;
  loading: boolean;
  part?: Part;
  /** The address of a picture of the file in this page. */
  thumb?: string | undefined;
  error?: string | undefined;
}

/**
 * The files of the next message. A file is uploaded at once if the session exists or the host uploads it; otherwise it is
 * kept until the first message is sent, because the message creates the session.
 */
export function useUploads(client: ParleyClient, session: string | undefined, rules: UploadRules, texts: Texts) {
  const [files, setFiles] = useState<Attached[]>([]);
  const [fault, setFault] = useState<string>();
  const next = useRef(1);
  const under = useRef(new Map<number, { file: File; stop: AbortController }>());
  const patch = useCallback((key: number, p: Partial<Attached>) => setFiles((all) => all.map((f) => (f.key === key ? { ...f, ...p } : f))), []);
  const own = rules.upload;
  const now = session !== undefined || own !== undefined;

  /** Uploads a file; it returns undefined when that fails. */
  const start = useCallback(
    async (key: number, file: File, to: string): Promise<Part | undefined> => {
      const stop = new AbortController();
      under.current.set(key, { file, stop });
      const progress = (done: number, total: number) => patch(key, { share: total > 0 ? done / total : 0 });
      patch(key, { loading: true, share: 0, error: undefined });
      try {
        const part = own ? await own(file, progress, stop.signal) : await store(client, to, file, progress, stop.signal);
        patch(key, { part, loading: false });
        return part;
      } catch (err) {
        if (!stop.signal.aborted) patch(key, { loading: false, error: err instanceof Error ? err.message : String(err) });
        return undefined;
      }
    },
    [client, own, patch],
  );

  const add = (list: Iterable<File>) => {
    setFault(undefined);
    let room = (rules.maxFiles ?? 5) - files.length;
    for (const file of list) {
      if (rules.maxBytes && file.size > rules.maxBytes) setFault(texts.tooLarge(file.name, texts.bytes(rules.maxBytes)));
      else if (!accepted(file, rules.accept)) setFault(texts.notAccepted(file.name));
      else if (room <= 0) setFault(texts.tooMany(rules.maxFiles ?? 5));
      else {
        room--;
        const key = next.current++;
        under.current.set(key, { file, stop: new AbortController() });
        setFiles((all) => [...all, { key, name: file.name || "pasted", size: file.size, share: 0, loading: false, thumb: /^image\/(png|jpeg|gif|webp|avif)$/.test(file.type) ? URL.createObjectURL(file) : undefined }]);
        if (now) void start(key, file, session ?? "");
      }
    }
  };
  /** Adds files that are stored already. */
  const keep = useCallback((parts: Part[]) => {
    setFiles((all) => [...all, ...parts.map((part) => ({ key: next.current++, name: part.name ?? part.path ?? part.type, size: part.size ?? 0, share: 1, loading: false, part }))]);
  }, []);
  /** Uploads the kept files into a new session; it returns undefined when one of them fails. */
  const finish = async (to: string): Promise<Part[] | undefined> => {
    const parts = await Promise.all(files.map((f) => f.part ?? start(f.key, under.current.get(f.key)?.file as File, to)));
    return parts.every((p) => p !== undefined) ? parts : undefined;
  };
  const remove = (key: number) => {
    under.current.get(key)?.stop.abort();
    under.current.delete(key);
    forget(files.filter((f) => f.key === key));
    setFiles((all) => all.filter((f) => f.key !== key));
    setFault(undefined);
  };
  const retry = (key: number) => {
    const u = under.current.get(key);
    if (u && now) void start(key, u.file, session ?? "");
    else patch(key, { error: undefined });
  };
  const clear = () => {
    under.current.clear();
    forget(files);
    setFiles([]);
    setFault(undefined);
  };
  return {
    files, fault, add, keep, finish, remove, retry, clear,
    busy: files.some((f) => f.loading),
    /** Some files are uploaded when the message is sent. */
    kept: !now && files.some((f) => !f.part),
  };
}

/** Releases the pictures of files. */
const forget = (files: Attached[]) => files.forEach((f) => f.thumb && URL.revokeObjectURL(f.thumb));

async function store(client: ParleyClient, session: string, file: File, onProgress: (done: number, total: number) => void, signal: AbortSignal): Promise<Part> {
  // Two files of the same name must not replace each other: each has its own folder.
  const folder = newClientID().slice(2, 12);
  const name = (file.name || "pasted").replace(/[/\\\u0000-\u001f]/g, "_");
  const info = await client.upload(session, `files/${folder}/${name}`, file, { mediaType: file.type || "application/octet-stream", onProgress, signal });
  return { type: info.media_type.startsWith("image/") ? "image" : "file", path: info.path, name, media_type: info.media_type, size: info.size };
}

/** Reports whether a file was stored by a composer: its message shows it, or will. */
export const isAttachment = (path: string): boolean => /^files\/[^/]{10}\/[^/]+$/.test(path);

function accepted(file: File, accept: string | undefined): boolean {
  if (!accept) return true;
  return accept.split(",").some((raw) => {
    const a = raw.trim().toLowerCase();
    if (a.startsWith(".")) return file.name.toLowerCase().endsWith(a);
    return a.endsWith("/*") ? file.type.startsWith(a.slice(0, -1)) : file.type === a;
  });
}
