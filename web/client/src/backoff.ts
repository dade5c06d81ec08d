/** The pause between attempts, in milliseconds: it begins at min, doubles up to max, and is shortened at random by up to half. */
export interface Backoff {
  min: number;
  max: number;
}

/** The pause before attempt n, counted from 1. */
export function pause(b: Backoff, n: number): number {
  const d = Math.min(b.max, b.min * 2 ** Math.min(n - 1, 30));
  return d / 2 + Math.random() * (d / 2);
}
