import { lazy, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { createRoot } from "react-dom/client";
import { filePath, localOutbox, ParleyClient, type AgentInfo, type ParleyError, type Prompt, type Status } from "@parley-hq/client";
import { Conversation, type ConversationHandle, type Mode } from "@parley-hq/react";
import type { FromFrame, ToFrame } from "@parley-hq/react/frame";
import "@parley-hq/react/styles.css";
import "./console.css";
import { about, useAbout } from "./about.js";
import { startersOf } from "./starters.js";
import { Later } from "./later.js";
import { LocaleProvider, preferred, useLocale } from "./locale.js";

const Compose = lazy(() => import("./compose.js").then((m) => ({ default: m.Compose })));

/*
 * The conversation as other pages show it in a frame. Options are part of the URL; a token is received as a message from the
 * host page, if the operator allows that page. The server also sends frame-ancestors, so other pages cannot show the frame;
 * this check protects its messages.
 */

const framed = window.parent !== window;
const query = new URLSearchParams(location.search);
const session = /^\/embed\/([^/]+)$/.exec(location.pathname)?.[1];
const read = <T extends string>(name: string, ...allowed: T[]): T | undefined => allowed.find((v) => v === query.get(name));

/** Reports whether an origin is allowed; a star stands for any port. */
export function allows(list: readonly string[], origin: string): boolean {
  return list.some((a) => a === origin || (a.endsWith(":*") && origin.startsWith(a.slice(0, -1)) && /^\d+$/.test(origin.slice(a.length - 1))));
}

function Embedded() {
  const locale = useLocale(query.get("locale") ?? preferred(""));
  const offers = useAbout();
  const host = useRef<string>(undefined); // the origin of the host page, after its first message
  const token = useRef<string>(undefined);
  const conversation = useRef<ConversationHandle>(null);
  const [signedIn, setSignedIn] = useState(query.get("wait") === "token" ? 0 : 1); // a counter, so that a new token opens the session again
  const [stranger, setStranger] = useState<string>();
  const [agents, setAgents] = useState<AgentInfo[]>([]);
  const client = useMemo(() => new ParleyClient({ storage: localOutbox(), token: () => token.current }), [signedIn]);
  const post = useCallback((m: FromFrame) => host.current && window.parent.postMessage(m, host.current), []);

  useEffect(() => {
    if (!framed) return;
    const receive = (e: MessageEvent) => {
      if (e.source !== window.parent || !e.data || typeof (e.data as ToFrame).parley !== "string") return;
      const m = e.data as ToFrame;
      void about().then((a) => {
        if (e.origin !== location.origin && !allows(a.frames, e.origin)) return setStranger(e.origin);
        host.current = e.origin;
        if (m.parley === "open" && m.token !== token.current) {
          token.current = m.token;
          setSignedIn((n) => n + 1);
        } else if (m.parley === "send") void conversation.current?.send(String(m.text)).catch(() => {});
        else if (m.parley === "stop") void conversation.current?.stop().catch(() => {});
      });
    };
    addEventListener("message", receive);
    // The message has no content, so it may be sent to any origin.
    window.parent.postMessage({ parley: "ready" } satisfies FromFrame, "*");
    return () => removeEventListener("message", receive);
  }, []);
  useEffect(() => {
    if (signedIn > 0) client.agents().then(setAgents, () => {});
  }, [client, signedIn]);

  const [begun, setBegun] = useState(session && decodeURIComponent(session));
  const onStart = useCallback(
    (id: string) => {
      setBegun(id);
      post({ parley: "start", session: id });
    },
    [post],
  );
  const onStatus = useCallback((status: Status) => post({ parley: "status", status }), [post]);
  const onPrompt = useCallback((open: Prompt[]) => post({ parley: "prompt", open: open.length }), [post]);
  const onError = useCallback((e: ParleyError) => post({ parley: "error", code: e.code, message: e.message }), [post]);
  const pageURL = useCallback((s: string, path: string) => `/page/${encodeURIComponent(s)}/${filePath(path)}`, []);

  if (!locale) return null;
  if (stranger || signedIn === 0)
    return (
      <div className="pl-root co-root">
        <main className="co-signin">
          <p role="alert">{stranger ? locale.words.notHere(stranger) : locale.words.waitsForToken}</p>
        </main>
      </div>
    );
  const wanted = query.get("agent");
  const agent = agents.find((a) => a.name === wanted) ?? agents.find((a) => a.default) ?? agents[0];
  const mode = read<Mode>("mode", "interactive", "answer-only", "read-only");
  const theme = read("theme", "auto", "light", "dark");
  const density = read("density", "comfortable", "compact");
  const placeholder = query.get("placeholder");
  return (
    <LocaleProvider value={locale}>
      <main className="co-embed">
        <Conversation
          key={signedIn}
          ref={conversation}
          client={client}
          session={session ? decodeURIComponent(session) : undefined}
          {...(agent ? { agent: agent.name, about: agent.description ?? "", starters: startersOf(agent, locale.words) } : {})}
          {...(mode ? { mode } : {})}
          {...(theme ? { theme } : {})}
          {...(density ? { density } : {})}
          {...(placeholder ? { placeholder } : {})}
          {...(offers.images ? {} : { loadImage: false as const })}
          // A frame that signs in with a token has no cookie, so the page of an HTML artifact would be refused.
          {...(token.current ? {} : { pageURL })}
          diagramURL="/diagram"
          hideHeader={query.has("hide-header")}
          locale={locale.texts.locale}
          dir={locale.dir}
          messages={locale.texts}
          dialects={offers.dialects}
          slots={{
            composerEnd: (
              <Later around={() => null}>
                <Compose client={client} id={begun} me={undefined} commands={agent?.commands} />
              </Later>
            ),
          }}
          onStart={onStart}
          onStatus={onStatus}
          onPrompt={onPrompt}
          onError={onError}
        />
      </main>
    </LocaleProvider>
  );
}

const root = document.getElementById("app");
if (root) createRoot(root).render(<Embedded />);
