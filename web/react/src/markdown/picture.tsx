import { useState } from "react";
import { useShared } from "../shared/context.js";
import { Icon } from "../shared/icons.js";
import { hostOf, Link, ownFile, safeHref } from "./markdown.js";

/**
 * An image in a text. A file of the session is shown. Any other URL could leak data or reach the API, so an external image is
 * fetched by the server, and only on request; other URLs of this server are not fetched.
 */
export function Picture({ href, alt }: { href: string; alt: string }) {
  const { texts, loadImage, memory, store } = useShared();
  const [broken, setBroken] = useState(false);
  const safe = safeHref(href);
  const key = `image ${safe ?? ""}`;
  const [loaded, setLoaded] = useState(() => memory.get(key) as string | undefined);
  const [asked, setAsked] = useState(false);
  const [fault, setFault] = useState<string>();
  if (safe && ownFile(safe, store.id) && !broken) return <img className="pl-inlineimg" src={safe} alt={alt} loading="lazy" onError={() => setBroken(true)} />;
  if (loaded && !broken) return <img className="pl-inlineimg" src={loaded} alt={alt} onError={() => setBroken(true)} />;
  const load = () => {
    if (!loadImage || !safe || asked) return;
    setAsked(true);
    setFault(undefined);
    loadImage(safe, AbortSignal.timeout(30_000))
      .then((blob) => {
        const url = URL.createObjectURL(blob);
        memory.set(key, url);
        setLoaded(url);
      })
      .catch((err: unknown) => setFault(err instanceof Error ? err.message : String(err)))
      .finally(() => setAsked(false));
  };
  const about = safe ? (alt ? `${alt}. ${texts.imageFrom(hostOf(safe))}` : texts.imageFrom(hostOf(safe))) : alt;
  return (
    <span className="pl-chip pl-imagechip">
      <Icon name="image" size={14} />
      {safe ? <Link href={safe}>{about}</Link> : about}
      {loadImage && safe && /^https?:/i.test(safe) && (
        <button type="button" className="pl-link" disabled={asked} aria-label={`${texts.loadImage}: ${about}`} onClick={load}>
          {asked ? texts.loadingImage : texts.loadImage}
        </button>
      )}
      {fault && <span className="pl-bad">{fault}</span>}
    </span>
  );
}
