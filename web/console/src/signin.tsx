import { useState, type FormEvent } from "react";

export interface Me {
  open: boolean;
  id: string | undefined;
  name: string | undefined;
}

/** Who the server takes this browser for; undefined when it wants a token first. */
export async function whoAmI(): Promise<Me | undefined> {
  const res = await fetch("/auth/session");
  if (res.status === 401) return undefined;
  if (!res.ok) throw new Error(`the server answered with status ${res.status}`);
  const body = (await res.json()) as { open?: boolean; actor?: { id?: string; name?: string } };
  return { open: Boolean(body.open), id: body.actor?.id, name: body.actor?.name };
}

/** Asks for a token, which becomes a cookie that scripts cannot read. */
export function SignIn({ done }: { done: () => void }) {
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
      setFault(body?.error?.message ?? `The server answered with status ${res.status}.`);
    } catch {
      setFault("The server cannot be reached.");
    } finally {
      setBusy(false);
    }
  };
  return (
    <main className="co-signin">
      <form onSubmit={(e) => void submit(e)}>
        <h1>Parley</h1>
        <p>This server wants to know who you are. Paste a token, or open the link that the server printed when it started.</p>
        <label htmlFor="token">Token</label>
        <input id="token" className="pl-field" type="password" autoComplete="off" autoFocus value={token} aria-describedby={fault ? "fault" : undefined} onChange={(e) => setToken(e.target.value)} />
        {fault && (
          <p id="fault" className="pl-fault" role="alert">
            {fault}
          </p>
        )}
        <button type="submit" className="pl-primary" disabled={busy || token.trim() === ""}>
          Sign in
        </button>
      </form>
    </main>
  );
}
