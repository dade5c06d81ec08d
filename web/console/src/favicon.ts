import { useEffect } from "react";

/** The icon of the page with a number on it; 0 shows the plain icon. */
export function iconOf(count: number): string {
  if (count === 0) return "/favicon.svg";
  const text = count > 9 ? "9+" : String(count);
  const wide = text.length > 1;
  const svg =
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#0b6b63"/>` +
    `<path d="M7 8h14M7 14h5" stroke="#fff" stroke-width="2.6" stroke-linecap="round"/>` +
    `<rect x="${wide ? 8 : 12}" y="11" width="${wide ? 24 : 20}" height="21" rx="9" fill="#b3261e"/>` +
    `<text x="${wide ? 20 : 22}" y="27" font-family="sans-serif" font-size="${wide ? 15 : 17}" font-weight="700" text-anchor="middle" fill="#fff">${text}</text></svg>`;
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}

/** Shows the number of open questions on the icon of the page. */
export function useIcon(count: number): void {
  useEffect(() => {
    const link = document.querySelector<HTMLLinkElement>("link[rel=icon]");
    if (link) link.href = iconOf(count);
  }, [count]);
}
