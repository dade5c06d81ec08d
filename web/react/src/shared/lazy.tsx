import { useEffect, useState, type ComponentType, type ReactNode } from "react";
import { useShared } from "./context.js";

/** A component that is loaded when it is first rendered. When loading fails, it shows an error and a button to retry. */
export function lazyPart<P extends object>(load: () => Promise<ComponentType<P>>, waiting: ReactNode): ComponentType<P> & { preload: () => void } {
  let loaded: ComponentType<P> | undefined;
  const get = () => load().then((c) => (loaded = c));
  const Lazy = (props: P) => {
    const { texts } = useShared();
    const [Part, setPart] = useState(() => loaded);
    const [tries, setTries] = useState(0);
    const [failed, setFailed] = useState(false);
    useEffect(() => {
      if (Part) return;
      let mounted = true;
      setFailed(false);
      get().then(
        (c) => mounted && setPart(() => c),
        () => mounted && setFailed(true),
      );
      return () => void (mounted = false);
    }, [Part, tries]);
    if (Part) return <Part {...props} />;
    if (!failed) return waiting;
    return (
      <p className="pl-panel-empty" role="alert">
        {texts.notLoaded}{" "}
        <button type="button" className="pl-link" onClick={() => setTries(tries + 1)}>
          {texts.retry}
        </button>
      </p>
    );
  };
  Lazy.preload = () => void get().catch(() => {});
  return Lazy;
}
