import { useEffect, useState } from "react";

let math: typeof import("./math.js") | undefined;

/** A formula. It is shown as TeX until the library is loaded. */
export function Formula({ tex, display }: { tex: string; display: boolean }) {
  const [ready, setReady] = useState(math !== undefined);
  useEffect(() => {
    if (ready) return;
    let mounted = true;
    import("./math.js").then(
      (m) => {
        math = m;
        if (mounted) setReady(true);
      },
      () => {},
    );
    return () => void (mounted = false);
  }, [ready]);
  if (math) return <math.Formula tex={tex} display={display} />;
  return (
    <code className={display ? "pl-tex pl-formula-block" : "pl-tex"} dir="ltr">
      {tex}
    </code>
  );
}
