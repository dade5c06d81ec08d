import { Component, Suspense, type ReactNode } from "react";
import { useLanguage } from "./locale.js";

interface Props {
  children: ReactNode;
  /** Places the text that says that the part could not be loaded. */
  around?: (failure: ReactNode) => ReactNode;
}

/** A part of the page that is loaded when it is first shown. When that fails, the rest of the page stays. */
export class Later extends Component<Props, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  override render(): ReactNode {
    if (!this.state.failed) return <Suspense>{this.props.children}</Suspense>;
    return this.props.around ? this.props.around(<Failure />) : <Failure />;
  }
}

function Failure() {
  const { texts } = useLanguage();
  // A new version of the server has other files, so the whole page is loaded again, but only when the server answers.
  const retry = () => void fetch("/console.json").then((r) => r.ok && location.reload(), () => {});
  return (
    <p className="co-note" role="alert">
      {texts.notLoaded}{" "}
      <button type="button" className="pl-link" onClick={retry}>
        {texts.retry}
      </button>
    </p>
  );
}
