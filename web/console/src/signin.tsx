import { useState, type FormEvent } from "react";
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

/** The sign-in form: the server stores the token in a cookie that scripts cannot read. */
export function SignIn({ done }: { done: () => void }) {
  const words = useWords();
  const [token, setToken] = useState("");
  const [fault, setFault] = useState<string>();
  const [busy, setBusy] = useState(false);
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    setBusy(true);
    setFault(undefined);
    try {
      const res = await fetch("/auth/session", { method: "POST", headers: { Authorization: `Bearer ${token.trim()}` } });
      if (res.ok) return done();
      const body = (await res.json().catch(() => undefined)) as { error?: { message?: string } } | undefined;
      setFault(body?.error?.message ?? words.answered(res.status));
    } catch {
      setFault(words.cannotReach);
    } finally {
      setBusy(false);
    }
  };
  return (
    <main className="co-signin">
      <form onSubmit={(e) => void submit(e)}>
        <h1>{words.brand}</h1>
        <p>{words.signInNote}</p>
        <label htmlFor="token">{words.token}</label>
        <input id="token" className="pl-field" type="password" autoComplete="off" autoFocus value={token} aria-describedby={fault ? "fault" : undefined} onChange={(e) => setToken(e.target.value)} />
        {fault && (
          <p id="fault" className="pl-fault" role="alert">
            {fault}
          </p>
        )}
        <button type="submit" className="pl-primary" disabled={busy || token.trim() === ""}>
          {words.signIn}
        </button>
      </form>
    </main>
  );
}
