/** The part of the WebSocket interface that is used. */
export interface Socket {
  onopen: ((ev: never) => unknown) | null;
  onmessage: ((ev: { data: unknown } & never) => unknown) | null;
  onclose: ((ev: never) => unknown) | null;
  onerror: ((ev: never) => unknown) | null;
  send(data: string): void;
  close(code?: number, reason?: string): void;
}
export type SocketMaker = new (url: string) => unknown;

/** Removes the handlers of a socket and closes it. */
export function detach(s: Socket): void {
  s.onopen = s.onmessage = s.onclose = null;
  s.onerror = () => {}; // some implementations throw an error that has no handler
  try {
    s.close();
  } catch {
    // It is not open.
  }
}
