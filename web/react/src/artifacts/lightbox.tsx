import { useRef } from "react";
import { useShared } from "../shared/context.js";

/** An image that opens in a dialog. */
export function Lightbox({ url, title, width, height }: { url: string; title: string; width?: number; height?: number }) {
  const { texts } = useShared();
  const dialog = useRef<HTMLDialogElement>(null);
  return (
    <>
      <button type="button" className="pl-picture" aria-label={`${texts.open}: ${title}`} onClick={() => dialog.current?.showModal()}>
        <img src={url} alt={title} width={width} height={height} loading="lazy" />
      </button>
      <dialog ref={dialog} className="pl-lightbox" aria-label={title} onClick={(e) => e.target === e.currentTarget && dialog.current?.close()}>
        <img src={url} alt={title} loading="lazy" />
        <button type="button" className="pl-button" onClick={() => dialog.current?.close()}>
          {texts.close}
        </button>
      </dialog>
    </>
  );
}
