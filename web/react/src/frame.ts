/*
 * <parley-frame src="https://parley.example.com" session="…">: a conversation in a frame, for pages that load neither the
 * component's script nor its styles. Parley serves the frame. Page and frame exchange messages, and each checks the other's
 * origin. A token is sent in such a message, never in a URL.
 */

/** Messages from the host page to the frame. */
export type ToFrame = { parley: "open"; token?: string } | { parley: "send"; text: string } | { parley: "stop" };

/** Messages from the frame to the host page. */
export type FromFrame =
  | { parley: "ready" }
  | { parley: "start"; session: string }
  | { parley: "status"; status: string }
  | { parley: "prompt"; open: number }
  | { parley: "error"; code: string; message: string };

const passed = ["agent", "mode", "theme", "density", "placeholder", "locale", "hide-header"];

export class ParleyFrame extends HTMLElement {
  static observedAttributes = ["src", "session", "token", ...passed];

  #frame: HTMLIFrameElement | undefined;
  #token: string | undefined;
  #drawn = "";
  readonly #listen = (e: MessageEvent) => this.#receive(e);

  /** The token; setting it again signs the frame in again. Prefer this property to the attribute, which other scripts can read. */
  get token(): string | undefined {
    return this.#token ?? this.getAttribute("token") ?? undefined;
  }
  set token(t: string | undefined) {
    this.#token = t;
    this.#draw();
    this.#post({ parley: "open", ...(t ? { token: t } : {}) });
  }

  connectedCallback(): void {
    addEventListener("message", this.#listen);
    this.#draw();
  }

  disconnectedCallback(): void {
    removeEventListener("message", this.#listen);
    this.#frame?.remove();
    this.#frame = undefined;
    this.#drawn = "";
  }

  attributeChangedCallback(): void {
    this.#draw();
  }

  /** Sends a message to the conversation. */
  send(text: string): void {
    this.#post({ parley: "send", text });
  }

  /** Requests a stop of the running turn. */
  stop(): void {
    this.#post({ parley: "stop" });
  }

  get #server(): URL | undefined {
    try {
      return new URL(this.getAttribute("src") ?? "", location.href);
    } catch {
      return undefined;
    }
  }

  #draw(): void {
    const server = this.#server;
    if (!this.isConnected || !server) return;
    const session = this.getAttribute("session");
    const url = new URL(session ? `/embed/${encodeURIComponent(session)}` : "/embed", server);
    for (const name of passed) {
      const v = this.getAttribute(name);
      if (v !== null) url.searchParams.set(name, v);
    }
    if (this.token) url.searchParams.set("wait", "token");
    if (this.#drawn === url.href) return;
    this.#drawn = url.href;
    if (!this.#frame) {
      this.#frame = document.createElement("iframe");
      this.#frame.style.cssText = "display: block; border: 0; inline-size: 100%; block-size: 100%";
      this.#frame.allow = "clipboard-write";
      this.#frame.referrerPolicy = "origin";
      this.append(this.#frame);
    }
    this.#frame.title = this.getAttribute("title") ?? "Parley";
    this.#frame.src = url.href;
  }

  #post(m: ToFrame): void {
    const server = this.#server;
    if (server) this.#frame?.contentWindow?.postMessage(m, server.origin);
  }

  #receive(e: MessageEvent): void {
    if (e.source !== this.#frame?.contentWindow || e.origin !== this.#server?.origin) return;
    const m = e.data as FromFrame | undefined;
    if (!m || typeof m !== "object" || typeof m.parley !== "string") return;
    if (m.parley === "ready") {
      const token = this.token;
      this.#post({ parley: "open", ...(token ? { token } : {}) });
      return;
    }
    const { parley, ...detail } = m;
    this.dispatchEvent(new CustomEvent(parley, { detail, bubbles: true }));
  }
}

/** Registers the element, by default under its own name. */
export function defineParleyFrame(name = "parley-frame"): void {
  if (!customElements.get(name)) customElements.define(name, ParleyFrame);
}
