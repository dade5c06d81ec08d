/** A text, or what is selected in its entry, as a quotation in Markdown. */
export function quoted(text: string, entry: Element | null): string {
  const selected = entry?.ownerDocument.getSelection();
  const inside = selected && entry?.contains(selected.anchorNode) && entry.contains(selected.focusNode) ? selected.toString().trim() : "";
  return `${(inside || text.trim()).replace(/^/gm, "> ").replace(/^> $/gm, ">")}\n\n`;
}
