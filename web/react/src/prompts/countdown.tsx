import { useRef } from "react";
import { clock } from "../i18n/formats.js";
import { useShared } from "../shared/context.js";
import { useDrawn } from "../shared/hooks.js";

const radius = 6;
const length = 2 * Math.PI * radius;

/** The time left until the deadline by the server's clock; it updates the DOM without a React render. */
export function Countdown({ from, deadline, now }: { from: number; deadline: number; now: () => number }) {
  const { texts } = useShared();
  const box = useRef<HTMLSpanElement>(null);
  const arc = useRef<SVGCircleElement>(null);
  const text = useRef<HTMLSpanElement>(null);
  useDrawn(() => {
    const left = Math.max(0, deadline - now());
    const share = deadline > from ? left / (deadline - from) : 0;
    if (arc.current) arc.current.style.strokeDashoffset = String(length * (1 - Math.min(1, share)));
    if (text.current) text.current.textContent = clock(left / 1000);
    box.current?.classList.toggle("pl-ring-soon", share <= 0.2);
    box.current?.classList.toggle("pl-ring-now", left <= 10_000);
    // A screen reader would read a label that changes every second.
    const mark = left <= 0 ? texts.sayExpired : left <= 20_000 ? texts.sayTwenty : left <= 60_000 ? texts.saySixty : texts.timeLeft(clock((deadline - from) / 1000));
    if (box.current && box.current.getAttribute("aria-label") !== mark) box.current.setAttribute("aria-label", mark);
  });
  return (
    <span ref={box} className="pl-ring" role="timer" aria-live="off" title={texts.until(texts.moment(deadline))}>
      <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
        <circle cx="8" cy="8" r={radius} className="pl-ring-track" />
        <circle ref={arc} cx="8" cy="8" r={radius} className="pl-ring-arc" strokeDasharray={length} transform="rotate(-90 8 8)" />
      </svg>
      <span ref={text} className="pl-ring-text" aria-hidden="true" />
    </span>
  );
}
