import { useRef, useState, type FormEvent } from "react";
import { Icon } from "@parley-hq/react";
import { useWords } from "./locale.js";

export interface Me {
  open: boolean;
  id: string | undefined;
  name: string | undefined;
}

/** The signed-in person; undefined when the server requires a token. */
export async function fetchMe(): Promise<Me | undefined> {
  const res = await fetch("/auth/session");
  if (res.status === 401) return undefined;
  if (!res.ok) throw new Error(`the server answered with status ${res.status}`);
  const body = (await res.json()) as { open?: boolean; actor?: { id?: string; name?: string } };
  return { open: Boolean(body.open), id: body.actor?.id, name: body.actor?.name };
}

/** Removes drafts and unsent messages of another person, who used this browser before: this one must neither see nor send them. */
export function forgetOthers(id: string | undefined): void {
  try {
    const before = localStorage.getItem("parley.person");
    if (before === (id ?? "")) return;
    if (before !== null) for (const key of Object.keys(localStorage)) if (/^parley\.(draft\.|outbox$)/.test(key)) localStorage.removeItem(key);
    localStorage.setItem("parley.person", id ?? "");
  } catch {
    // Without storage nothing was kept.
  }
}

/** The sign-in form: the server stores the token in a cookie that scripts cannot read. */
export function SignIn({ ended, done }: { ended: boolean; done: () => void }) {
  const words = useWords();
  const [token, setToken] = useState("");
  const [fault, setFault] = useState<string>();
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const refuse = (why: string) => {
    setFault(why.charAt(0).toLocaleUpperCase() + why.slice(1));
    field.current?.focus();
    field.current?.select();
  };
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    if (busy || token.trim() === "") return;
    if (/[^!-~]/.test(token.trim())) return refuse(words.notToken); // a header cannot have it
    setBusy(true);
    setFault(undefined);
    try {
      const res = await fetch("/auth/session", { method: "POST", headers: { Authorization: `Bearer ${token.trim()}` } });
      if (res.ok) return done();
      const body = (await res.json().catch(() => undefined)) as { error?: { message?: string } } | undefined;
      refuse(body?.error?.message ?? words.answered(res.status));
    } catch {
      refuse(words.cannotReach);
    } finally {
      setBusy(false);
    }
  };
  return (
    <main className="co-signin">
      <form onSubmit={(e) => void submit(e)}>
        <h1>{words.brand}</h1>
        <p>{ended ? words.signInEnded : words.signInNote}</p>
        <label htmlFor="token">{words.token}</label>
        <input ref={field} id="token" className="pl-field" type="password" autoComplete="off" autoFocus value={token} aria-invalid={fault ? true : undefined} aria-describedby={fault ? "fault" : undefined} onChange={(e) => setToken(e.target.value)} />
        {fault && (
          <p id="fault" className="pl-fault" role="alert">
            <Icon name="warn" size={14} /> {fault}
          </p>
        )}
        <button type="submit" className="pl-primary" disabled={busy || token.trim() === ""}>
          {words.signIn}
        </button>
      </form>
    </main>
  );
}
