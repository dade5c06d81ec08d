import { useEffect, useRef } from "react";
import { useShared } from "../shared/context.js";

const most = 400;

/** The transcript of a workstream, in a box that scrolls by itself and is as high as its entries, up to a limit. */
export function Thread({ id, name }: { id: string; name: string }) {
  const { thread } = useShared();
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const el = box.current;
    if (!el) return;
    const sizes = new ResizeObserver(([entry]) => {
      if (entry) el.style.blockSize = `${Math.min(most, entry.contentRect.height)}px`;
    });
    // The list appears with the first entry. Observing it again would report its size again.
    let seen: Element | null | undefined;
    const watch = () => {
      const inner = el.querySelector(".pl-list")?.firstElementChild;
      if (!inner || inner === seen) return;
      sizes.disconnect();
      sizes.observe((seen = inner));
    };
    const children = new MutationObserver(watch);
    children.observe(el, { childList: true, subtree: true });
    watch();
    return () => {
      sizes.disconnect();
      children.disconnect();
    };
  }, []);
  return (
    // Keep the outer list from handling this wheel event.
    <div ref={box} className="pl-thread-body" role="group" aria-label={name} onWheel={(e) => e.stopPropagation()}>
      {thread?.(id)}
    </div>
  );
}
