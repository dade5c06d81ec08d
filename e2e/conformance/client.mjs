// A NeMo client over npm ws that records the frames, as the stock UI does.
import { appendFileSync } from 'node:fs';
import WebSocket from 'ws';

const frames = process.env.PARLEY_FRAMES; // every frame is written there, to be checked against the schemas

export class Client {
  static async dial(url, query = {}, headers = {}) {
    const c = new Client();
    c.schema = query.schema ?? 'nemo';
    c.seen = [];
    c.waiting = [];
    c.ws = new WebSocket(`${url}?${new URLSearchParams(query)}`, { headers, autoPong: false });
    c.ws.on('ping', (data) => c.mute || c.ws.pong(data)); // as ws does by itself
    c.ws.on('message', (data) => c.take(JSON.parse(data)));
    c.closed = new Promise((done) => c.ws.on('close', (code) => done(code)));
    await new Promise((ok, bad) => {
      c.ws.on('open', ok);
      c.ws.on('error', bad);
    });
    c.ws.on('error', () => {});
    return c;
  }

  take(frame) {
    if (frames) appendFileSync(frames, JSON.stringify({ schema: this.schema, frame }) + '\n');
    this.seen.push(frame);
    this.onFrame?.(frame);
    this.waiting = this.waiting.filter((w) => !w(frame));
  }

  // until resolves with all frames from now on up to the first that matches.
  until(fits, from = this.read ?? 0) {
    return new Promise((done, fail) => {
      const timer = setTimeout(() => fail(new Error('nothing came in time; seen: ' + JSON.stringify(this.seen.slice(from)))), 60000);
      const check = () => {
        for (let i = from; i < this.seen.length; i++) {
          if (fits(this.seen[i])) {
            clearTimeout(timer);
            this.read = i + 1;
            done(this.seen.slice(from, i + 1));
            return true;
          }
        }
        return false;
      };
      if (!check()) this.waiting.push(check);
    });
  }

  say(conversation, id, text, more = {}) {
    this.send({
      type: 'user_message', schema_type: 'chat_stream', id, conversation_id: conversation,
      content: { messages: [{ role: 'user', content: [{ type: 'text', text }] }] },
      timestamp: new Date().toISOString(), ...more,
    });
  }

  answer(prompt, text) {
    this.send({
      type: 'user_interaction_message', id: crypto.randomUUID(), conversation_id: prompt.conversation_id,
      thread_id: prompt.thread_id, parent_id: prompt.parent_id,
      content: { messages: [{ role: 'user', content: [{ type: 'text', text }] }] }, timestamp: new Date().toISOString(),
    });
  }

  send(frame) {
    this.ws.send(typeof frame === 'string' ? frame : JSON.stringify(frame));
  }

  turn() {
    return this.until((f) => f.type === 'observability_trace_message');
  }

  async prompt() {
    return (await this.until((f) => f.content?.input_type)).at(-1);
  }

  async error() {
    return (await this.until((f) => f.type === 'error_message')).at(-1);
  }

  // received resolves when the server has read all frames that were sent so far.
  async received() {
    this.send({ type: 'nonsense', conversation_id: 'nowhere' });
    await this.until((f) => f.type === 'error_message' && f.conversation_id === 'nowhere', this.seen.length);
  }

  close() {
    this.ws.terminate();
  }
}

// text is the text that the stock UI shows: the joined pieces.
export const text = (list) =>
  list.filter((f) => f.type === 'system_response_message' && f.status === 'in_progress').map((f) => f.content.text ?? '').join('');

export const tokens = (n) => Array.from({ length: n }, (_, i) => `tok${i + 1}`).join(' ');
