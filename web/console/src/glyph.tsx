/* Icons that only the console has, on the grid of those of the package react. */

const paths = {
  filter: "M2.5 4h11M4.5 8h7M6.5 12h3",
  archive: "M2.5 3h11v3h-11zM3.5 6v7h9V6M6.5 8.5h3",
  mic: "M8 2.5a1.8 1.8 0 0 0-1.8 1.8v3.4a1.8 1.8 0 0 0 3.6 0V4.3A1.8 1.8 0 0 0 8 2.5M4 7.5a4 4 0 0 0 8 0M8 11.5v2",
} as const;

export function Glyph({ name, size = 16 }: { name: keyof typeof paths; size?: number }) {
  return (
    <svg className="pl-icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={paths[name]} fill="none" stroke="currentColor" strokeWidth="1.5" strokeLinecap="round" strokeLinejoin="round" />
    </svg>
  );
}
