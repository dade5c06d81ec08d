/** The element that has the focus, also in a shadow root. */
export function focused(): HTMLElement | undefined {
  let el = document.activeElement;
  while (el?.shadowRoot?.activeElement) el = el.shadowRoot.activeElement;
  return el instanceof HTMLElement ? el : undefined;
}
