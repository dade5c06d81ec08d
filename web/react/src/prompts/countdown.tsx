import { useRef } from "react";
import { clock } from "../i18n/formats.js";
import { useShared } from "../shared/context.js";
import { useDrawn } from "../shared/hooks.js";

const radius = 16;
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
    box.current?.classList.toggle("pl-ring-long", left > 3_600_000);
    box.current?.classList.toggle("pl-ring-soon", share <= 0.2);
    box.current?.classList.toggle("pl-ring-now", left <= 10_000);
    // A screen reader would read a label that changes every second.
    const mark = left <= 0 ? texts.sayExpired : left <= 20_000 ? texts.sayTwenty : left <= 60_000 ? texts.saySixty : texts.timeLeft(clock((deadline - from) / 1000));
    if (box.current && box.current.getAttribute("aria-label") !== mark) box.current.setAttribute("aria-label", mark);
  });
  return (
    <span ref={box} className="pl-ring" role="timer" aria-live="off">
      <svg width="40" height="40" viewBox="0 0 40 40" aria-hidden="true">
        <circle cx="20" cy="20" r={radius} className="pl-ring-track" />
        <circle ref={arc} cx="20" cy="20" r={radius} className="pl-ring-arc" strokeDasharray={length} transform="rotate(-90 20 20)" />
      </svg>
      <span ref={text} className="pl-ring-text" aria-hidden="true" />
    </span>
  );
}
