import { createElement, createRef } from "react";
import { createRoot, type Root } from "react-dom/client";
import { ParleyClient } from "@parley-hq/client";
import { Conversation } from "./conversation/conversation.js";
import type { ConversationHandle, ConversationProps } from "./conversation/props.js";

/*
 * <parley-conversation session="…" src="https://parley.example.com">: the component for pages without React. It renders
 * into a shadow root, so the styles of the page and of the component do not affect each other; CSS variables are inherited.
 * The styles are a link to the URL in `styles`, or style sheets that the page provides; there are no inline styles.
 */

const observed = ["session", "src", "token", "agent", "mode", "theme", "density", "placeholder", "styles", "hide-header", "locale", "dir"];

export class ParleyConversation extends HTMLElement {
  static observedAttributes = observed;

  /** Sheets for all elements of the page, instead of a link. */
  static sheets: CSSStyleSheet[] = [];

  /** Props of the React component that attributes cannot carry. */
  #props: Partial<ConversationProps> = {};
  #root: Root | undefined;
  #client: ParleyClient | undefined;
  #key = "";
  #words: { locale: string; messages: ConversationProps["messages"] } | undefined;
  readonly #handle = createRef<ConversationHandle>();

  get props(): Partial<ConversationProps> {
    return this.#props;
  }
  set props(p: Partial<ConversationProps>) {
    this.#props = p;
    this.#draw();
  }

  /** The methods of the component: send, stop, answer, … */
  get conversation(): ConversationHandle | null {
    return this.#handle.current;
  }

  connectedCallback(): void {
    const shadow = this.shadowRoot ?? this.attachShadow({ mode: "open" });
    shadow.adoptedStyleSheets = ParleyConversation.sheets;
    const styles = this.getAttribute("styles");
    if (styles && !shadow.querySelector("link")) {
      const link = document.createElement("link");
      link.rel = "stylesheet";
      link.href = styles;
      shadow.append(link);
    }
    let box = shadow.querySelector("div");
    if (!box) {
      box = document.createElement("div");
      box.style.blockSize = "100%";
      box.setAttribute("part", "conversation");
      shadow.append(box);
    }
    this.#root ??= createRoot(box);
    this.#draw();
  }

  disconnectedCallback(): void {
    // Moving an element disconnects and connects it: unmount only if it stays disconnected.
    queueMicrotask(() => {
      if (this.isConnected) return;
      this.#root?.unmount();
      this.#root = undefined;
      this.shadowRoot?.querySelector("div")?.remove();
    });
  }

  attributeChangedCallback(): void {
    this.#draw();
  }

  /** The texts of a language. A language that is not loaded yet is fetched; until then the texts are English. */
  #messages(locale: string | undefined): ConversationProps["messages"] {
    if (locale === undefined) this.#words = undefined;
    if (locale === undefined || this.#words?.locale === locale) return this.#words?.messages;
    const asked = { locale, messages: undefined };
    this.#words = asked;
    void wordsOf(locale).then(
      (messages) => {
        if (this.#words !== asked || !messages) return;
        this.#words = { locale, messages };
        this.#draw();
      },
      () => {}, // the language could not be loaded: keep English
    );
    return undefined;
  }

  #draw(): void {
    if (!this.#root) return;
    const at = (name: string) => this.getAttribute(name) ?? undefined;
    const key = `${at("src") ?? ""} ${at("token") ?? ""}`;
    if (!this.#client || this.#key !== key) {
      this.#key = key;
      const src = at("src");
      const token = at("token");
      this.#client = new ParleyClient({ ...(src ? { url: src } : {}), ...(token ? { token } : {}) });
    }
    const fire = (name: string, detail: unknown) => this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
    const given: Record<string, unknown> = { session: at("session"), agent: at("agent"), mode: at("mode"), theme: at("theme"), density: at("density"), placeholder: at("placeholder"), dir: at("dir"), locale: at("locale"), messages: this.#messages(at("locale")) };
    for (const k of Object.keys(given)) if (given[k] === undefined) delete given[k];
    this.#root.render(
      createElement(Conversation, {
        ref: this.#handle,
        client: this.#client,
        hideHeader: this.hasAttribute("hide-header"),
        onPrompt: (p) => fire("prompt", p),
        onStatus: (s) => fire("status", s),
        onError: (e) => fire("error", e),
        onStart: (id) => fire("start", id),
        ...given,
        ...this.#props,
      }),
    );
  }
}

/** Loads the texts of a language other than English, if there are any. */
const wordsOf = async (locale: string): Promise<ConversationProps["messages"]> => (/^de\b/i.test(locale) ? (await import("./i18n/german.js")).german : undefined);

/** Registers the element, by default under its own name. */
export function defineParleyConversation(name = "parley-conversation"): void {
  if (!customElements.get(name)) customElements.define(name, ParleyConversation);
}
