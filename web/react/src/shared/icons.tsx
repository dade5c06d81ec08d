/* Line icons on a grid of 16 by 16. */

const paths = {
  check: "M3 8.5 6.5 12 13 4.5",
  cross: "M4 4l8 8M12 4l-8 8",
  chevron: "M6 3.5 10.5 8 6 12.5",
  down: "M8 3v9M4 8.5 8 12.5l4-4",
  up: "M8 13V4M4 7.5 8 3.5l4 4",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  plus: "M8 3v10M3 8h10",
  stop: "M4.5 4.5h7v7h-7z",
  clock: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M8 5v3.2l2.2 1.3",
  dash: "M4 8h8",
  dot: "M8 6.5a1.5 1.5 0 1 0 0 3 1.5 1.5 0 0 0 0-3",
  ring: "M8 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8",
  copy: "M6 6h7v7H6zM3 10V3h7",
  file: "M4 2.5h5l3 3v8H4zM9 2.5v3h3",
  table: "M2.5 3.5h11v9h-11zM2.5 6.5h11M6.5 6.5v6",
  chart: "M3 13V3M3 13h10M6 10.5V8M9 10.5V5M12 10.5V7",
  image: "M2.5 3.5h11v9h-11zM3 11l3-3 2.5 2.5L10.5 8 13 10.5M6 6.2h.01",
  page: "M2.5 3.5h11v9h-11zM2.5 6h11M5 4.8h.01M7 4.8h.01",
  search: "M7 3a4 4 0 1 0 0 8 4 4 0 0 0 0-8M10 10l3.5 3.5",
  inbox: "M2.5 9.5 4.5 3.5h7l2 6v3h-11zM2.5 9.5h3.2l.8 1.5h3l.8-1.5h3.2",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  panel: "M2.5 3.5h11v9h-11zM10 3.5v9",
  warn: "M8 2.5 14 13H2zM8 6.5v3M8 11.3h.01",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6M8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M3.4 12.6l.9-.9M11.7 4.3l.9-.9",
  moon: "M12.8 9.6A5.3 5.3 0 0 1 6.4 3.2a5.3 5.3 0 1 0 6.4 6.4",
  half: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11",
  code: "M5.5 4.5 2 8l3.5 3.5M10.5 4.5 14 8l-3.5 3.5",
  wrap: "M2.5 4h11M2.5 8h8.5a2 2 0 0 1 0 4H8M9.5 10.5 8 12l1.5 1.5M2.5 12h3",
  edit: "M10.5 3.5l2 2L5.5 12.5l-2.5.5.5-2.5z",
  again: "M12.8 8a4.8 4.8 0 1 1-1.5-3.5M13 2.5v3h-3",
  pin: "M6 2.5h4l-.5 4 2.5 2.5H4L6.5 6.5zM8 9v4.5",
  quote: "M3.5 4.5h3v4l-2 3M9.5 4.5h3v4l-2 3",
  trash: "M3 4.5h10M6.5 4.5V3h3v1.5M4.5 4.5l.6 8.5h5.8l.6-8.5",
  link: "M6.5 9.5l3-3M7 5l1.5-1.5a2.5 2.5 0 0 1 3.8 3.8L11 8.6M9 11l-1.5 1.5a2.5 2.5 0 0 1-3.8-3.8L5 7.4",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg className="pl-icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={paths[name]} fill="none" stroke="currentColor" strokeWidth="1.5" strokeLinecap="round" strokeLinejoin="round" />
    </svg>
  );
}
