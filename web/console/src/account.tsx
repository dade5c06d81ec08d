import { onMenuKey } from "@parley-hq/react/menukeys";
import { useWords } from "./locale.js";
import type { Me } from "./signin.js";

/** Ends the sign-in of this browser. */
export async function signOut(): Promise<void> {
  await fetch("/auth/session", { method: "DELETE" });
  location.assign("/");
}

/** The signed-in person, with a menu for notifications and to sign out. */
export function Account({ me, notify, toggleNotify }: { me: Me; notify: boolean; toggleNotify: (() => void) | undefined }) {
  const words = useWords();
  const name = me.name || me.id || "";
  return (
    <details
      className="co-account"
      onBlur={(e) => {
        if (!e.currentTarget.contains(e.relatedTarget)) e.currentTarget.open = false;
      }}
      onKeyDown={onMenuKey}
    >
      <summary className="pl-iconbutton" aria-label={words.account(name)} title={name}>
        <span aria-hidden="true">{[...name][0]?.toLocaleUpperCase() ?? "?"}</span>
      </summary>
      <div className="pl-pop co-pop">
        <p>
          <strong>{name}</strong>
          {me.open ? words.openServer : me.name && me.id}
        </p>
        {toggleNotify && (
          <button type="button" aria-pressed={notify} onClick={toggleNotify}>
            {notify ? words.notifyOff : words.notifyOn}
          </button>
        )}
        {!me.open && (
          <button type="button" onClick={() => void signOut()}>
            {words.signOut}
          </button>
        )}
      </div>
    </details>
  );
}
