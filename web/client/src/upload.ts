import { errorOf, unreachable } from "./error.js";
import type { Http } from "./http.js";
import type { FileInfo } from "./types.gen.js";

export interface UploadOptions {
  /** Absent: the server derives it from the path. */
  mediaType?: string;
  onProgress?: (done: number, total: number) => void;
  signal?: AbortSignal;
}

/** Stores a file. Browsers report the progress of an upload only for XMLHttpRequest. */
export async function upload(http: Http, path: string, body: Blob | ArrayBuffer | Uint8Array<ArrayBuffer> | string, o: UploadOptions): Promise<FileInfo> {
  const blob = body instanceof Blob ? body : new Blob([body]);
  const type = o.mediaType ?? blob.type;
  const headers: Record<string, string> = type ? { "Content-Type": type } : {};
  if (o.onProgress && typeof XMLHttpRequest === "function") return byXHR(http, path, blob, await http.headers(headers), o);
  // A body of bytes is sent without a guessed Content-Type.
  const bytes = await blob.arrayBuffer();
  const res = await http.send(path, { method: "PUT", body: o.onProgress ? counted(bytes, o.onProgress) : bytes, headers, signal: o.signal });
  return (await res.json()) as FileInfo;
}

function byXHR(http: Http, path: string, blob: Blob, headers: Record<string, string>, o: UploadOptions): Promise<FileInfo> {
  return new Promise((resolve, reject) => {
    const x = new XMLHttpRequest();
    const stop = () => x.abort();
    x.open("PUT", http.address(path));
    for (const [k, v] of Object.entries(headers)) x.setRequestHeader(k, v);
    x.upload.onprogress = (ev) => o.onProgress?.(ev.loaded, blob.size);
    x.onloadend = () => {
      o.signal?.removeEventListener("abort", stop);
      if (o.signal?.aborted) return reject(o.signal.reason as Error);
      if (x.status === 0) return reject(unreachable(http.url));
      let answer: unknown;
      try {
        answer = JSON.parse(x.responseText);
      } catch {
        // The response of a proxy; its status is enough.
      }
      if (x.status < 300 && answer) resolve(answer as FileInfo);
      else reject(errorOf(answer, x.status));
    };
    if (o.signal?.aborted) return reject(o.signal.reason as Error);
    o.signal?.addEventListener("abort", stop);
    x.send(blob);
  });
}

/** A stream of the bytes that reports its progress. */
function counted(bytes: ArrayBuffer, report: (done: number, total: number) => void): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream({
    pull(c) {
      const piece = new Uint8Array(bytes.slice(at, at + 65536));
      at += piece.length;
      if (piece.length > 0) c.enqueue(piece);
      report(at, bytes.byteLength);
      if (at >= bytes.byteLength) c.close();
    },
  });
}
