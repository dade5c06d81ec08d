import { useEffect, useState } from "react";
import { useShared } from "../shared/context.js";

/**
 * The address of an image of the session, and what to do when it cannot be shown. The server refuses its images to pages of other
 * origins, and to pages that sign in with a token: there the client fetches them.
 */
export function useImage(path: string | undefined): [string | undefined, () => void] {
  const { client, store } = useShared();
  const url = path ? client.artifactURL(store.id, path) : undefined;
  const near = url !== undefined && new URL(url, location.href).origin === location.origin;
  const [fetches, setFetches] = useState(!near);
  const [blob, setBlob] = useState<string>();
  useEffect(() => {
    if (!path || !fetches) return;
    const stop = new AbortController();
    let made = "";
    client.download(store.id, path, { signal: stop.signal }).then(
      (b) => !stop.signal.aborted && setBlob((made = URL.createObjectURL(b))),
      () => {},
    );
    return () => {
      stop.abort();
      URL.revokeObjectURL(made);
    };
  }, [client, store.id, path, fetches]);
  return fetches ? [blob, () => setBlob(undefined)] : [url, () => setFetches(true)];
}
