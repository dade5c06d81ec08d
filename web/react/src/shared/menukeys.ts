import type { KeyboardEvent } from "react";

/** The keys of a menu in a details element: arrows, Home and End move the focus, Esc closes the menu. */
export function onMenuKey(e: KeyboardEvent<HTMLDetailsElement>): void {
  const menu = e.currentTarget;
  const root = menu.getRootNode() as Document | ShadowRoot;
  const items = [...menu.querySelectorAll<HTMLElement>("summary + * > :is(a, button)")];
  const at = items.indexOf(root.activeElement as HTMLElement);
  const to = { ArrowDown: at + 1, ArrowUp: at > 0 ? at - 1 : items.length - 1, Home: 0, End: items.length - 1 }[e.key];
  if (e.key === "Escape" ? !menu.open : to === undefined || (!menu.open && !e.key.startsWith("Arrow"))) return;
  e.preventDefault();
  e.stopPropagation();
  menu.open = e.key !== "Escape";
  (to === undefined ? menu.querySelector("summary") : items[to % items.length])?.focus();
}
