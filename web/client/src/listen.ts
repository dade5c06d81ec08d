/** Adds a listener of a key; call the returned function to remove it. A key without listeners is removed. */
export function listen<K>(all: Map<K, Set<() => void>>, key: K, f: () => void): () => void {
  const set = all.get(key) ?? new Set();
  all.set(key, set.add(f));
  return () => {
    set.delete(f);
    if (set.size === 0 && all.get(key) === set) all.delete(key);
  };
}
