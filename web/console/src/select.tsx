import type { ComponentProps } from "react";
import { Icon } from "@parley-hq/react";

/** A select with the chevron of the other controls. */
export function Select(p: ComponentProps<"select">) {
  return (
    <span className="co-select">
      <select {...p} />
      <Icon name="chevron" size={12} />
    </span>
  );
}
