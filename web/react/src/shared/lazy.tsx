import { useEffect, useState, type ComponentType, type ReactNode } from "react";
import { useShared } from "./context.js";

/** A part that is loaded when it is first shown. One that cannot be loaded says so and can be tried again; nothing else is harmed. */
export function lazyPart<P extends object>(load: () => Promise<ComponentType<P>>, waiting: ReactNode): ComponentType<P> & { preload: () => void } {
  let there: ComponentType<P> | undefined;
  const get = () => load().then((c) => (there = c));
  const Later = (props: P) => {
    const { texts } = useShared();
    const [Part, setPart] = useState(() => there);
    const [tries, setTries] = useState(0);
    const [failed, setFailed] = useState(false);
    useEffect(() => {
      if (Part) return;
      let here = true;
      setFailed(false);
      get().then(
        (c) => here && setPart(() => c),
        () => here && setFailed(true),
      );
      return () => void (here = false);
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
  Later.preload = () => void get().catch(() => {});
  return Later;
}
