// The AI-Q UI is stricter than the stock one. This client behaves like it: it refuses frames that do not match exactly, shows
// each response as one bubble, drops frames while it does not wait for an answer, sends messages as JSON, and reconnects
// without a conversation id.
import assert from 'node:assert/strict';
import { appendFileSync } from 'node:fs';
import net from 'node:net';
import { after, before, test } from 'node:test';
import WebSocket from 'ws';
import { Server } from './server.mjs';
import { tokens } from './client.mjs';

const text = (v) => typeof v === 'string';
const maybe = (fits) => (v) => v === undefined || fits(v);
const oneOf = (...list) => (v) => list.includes(v);
const status = oneOf('in_progress', 'complete', 'error');
const inputs = oneOf('text', 'multiple_choice', 'binary_choice', 'approval', 'notification', 'oauth_consent');
const fields = (v, rules) => v !== null && typeof v === 'object' && Object.entries(rules).every(([k, fits]) => fits(v[k]));

// kinds are the accepted frames, by their type.
const kinds = {
  system_response_message: (f) =>
    fields(f, { id: maybe(text), thread_id: maybe(text), parent_id: maybe(text), conversation_id: maybe(text), status, timestamp: maybe(text) }) &&
    (text(f.content) || fields(f.content, { text: (v) => v === undefined || v === null || text(v) })),
  system_intermediate_message: (f) =>
    fields(f, { id: maybe(text), thread_id: maybe(text), parent_id: maybe(text), conversation_id: maybe(text), status, timestamp: maybe(text) }) &&
    (text(f.content) || fields(f.content, { name: text, payload: text })),
  system_interaction_message: (f) =>
    fields(f, { id: text, thread_id: maybe(text), parent_id: text, conversation_id: maybe(text), status, timestamp: maybe(text) }) &&
    fields(f.content, { input_type: inputs, text, options: maybe((o) => Array.isArray(o) && o.every(text)), default_value: maybe(text) }),
  error_message: (f) =>
    fields(f, { id: maybe(text), conversation_id: maybe(text), status: maybe(oneOf('error')), timestamp: maybe(text) }) &&
    fields(f.content, { code: text, message: text, details: maybe(text) }),
};

class Page {
  static async open(url, conversation, lenient = false) {
    const p = Object.assign(new Page(), { url, conversation, lenient, bubbles: [], steps: [], prompts: [], errors: [], refused: [], dropped: [], ends: 0, n: 0 });
    await p.dial();
    return p;
  }

  dial() {
    return new Promise((ok) => {
      this.ws = new WebSocket(this.url);
      this.ws.on('open', ok);
      this.ws.on('error', () => {});
      this.ws.on('message', (data) => this.take(JSON.parse(data)));
      this.ws.on('close', () => {
        this.waits = false;
        if (!this.closed) setTimeout(() => this.closed || this.dial().then(ok), 300);
      });
    });
  }

  take(f) {
    if (process.env.PARLEY_FRAMES) appendFileSync(process.env.PARLEY_FRAMES, JSON.stringify({ schema: 'aiq', frame: f }) + '\n');
    if (!kinds[f.type]?.(f)) return this.refused.push(f);
    const late = !this.waits && !this.lenient;
    switch (f.type) {
      case 'system_response_message':
        if (late || (f.parent_id && f.parent_id !== this.parent)) return this.dropped.push(f);
        if (f.content.text?.trim()) this.bubbles.push(f.content.text);
        if (f.status === 'complete') {
          this.waits = false;
          this.ends++;
        }
        return;
      case 'system_intermediate_message':
        return late ? this.dropped.push(f) : this.steps.push(f.content.name);
      case 'system_interaction_message':
        this.waits = false;
        return this.prompts.push(f);
      case 'error_message':
        this.waits = false;
        return this.errors.push(f.content);
    }
  }

  send(frame) {
    this.ws.send(JSON.stringify({ id: `msg_${++this.n}`, conversation_id: this.conversation, timestamp: new Date().toISOString(), ...frame }));
  }

  say(query) {
    this.parent = `msg_${this.n + 1}`;
    this.waits = true;
    const packed = JSON.stringify({ query, data_sources: ['web'] });
    this.send({ type: 'user_message', schema_type: 'chat_stream', content: { messages: [{ role: 'user', content: [{ type: 'text', text: packed }] }] } });
  }

  answer(said) {
    const p = this.prompts.at(-1);
    this.waits = true;
    this.send({ type: 'user_interaction_message', parent_id: p.parent_id, content: { messages: [{ role: 'user', content: [{ type: 'text', text: said }] }] } });
  }

  async until(fits) {
    for (const end = Date.now() + 60000; !fits(this); ) {
      if (Date.now() > end) throw new Error('nothing came in time: ' + JSON.stringify({ ...this, ws: undefined }));
      await new Promise((r) => setTimeout(r, 20));
    }
  }

  // done closes the client: it must not have refused or dropped a frame.
  done() {
    this.closed = true;
    this.ws.close();
    assert.deepEqual([this.refused, this.dropped], [[], []]);
  }
}

let server, relay, url;
const lines = new Set();
before(async () => {
  server = await Server.start('--nemo-schema', 'aiq');
  const to = new URL(server.url);
  relay = net.createServer((near) => {
    const far = net.connect(+to.port, to.hostname);
    lines.add(near).add(far);
    near.pipe(far).pipe(near);
    for (const s of [near, far]) {
      s.on('error', () => {});
      s.on('close', () => {
        near.destroy();
        far.destroy();
        lines.delete(s);
      });
    }
  });
  await new Promise((r) => relay.listen(0, '127.0.0.1', r));
  url = `ws://127.0.0.1:${relay.address().port}/websocket`;
});
after(async () => {
  relay.close();
  cut();
  await server.stop();
});

const cut = () => lines.forEach((s) => s.destroy());

test('a chat: one bubble per answer', async () => {
  const p = await Page.open(url, 'chat');
  for (const [say, bubble] of [['hello', 'You said: hello'], ['/stream 50 200', tokens(50)], ['/tool calc {"a":2}', 'calc gave {"a":2}'], ['/think hard', 'Done thinking.']]) {
    const n = p.ends;
    p.bubbles = [];
    p.say(say);
    await p.until(() => p.ends > n);
    assert.deepEqual(p.bubbles, [bubble]);
  }
  assert.ok(p.steps.includes('Tool: calc') && p.steps.includes('Thinking'));
  p.done();
});

for (const [kind, shown, pick, said] of [
  ['text', 'text', () => 'Ada', 'Ada'], ['binary_choice', 'binary_choice', (o) => o[0], 'continue'], ['radio', 'multiple_choice', (o) => o[1], 'sms'],
  ['checkbox', 'multiple_choice', (o) => o[2], 'push'], ['dropdown', 'multiple_choice', (o) => o[0], 'email'], ['oauth_consent', 'oauth_consent', () => 'done', 'done'],
]) {
  test(`a prompt of type ${kind}`, async () => {
    const p = await Page.open(url, 'ask-' + kind);
    p.say(`/ask ${kind} timeout=60`);
    await p.until(() => p.prompts.length);
    assert.equal(p.prompts[0].content.input_type, shown);
    p.answer(pick(p.prompts[0].content.options));
    await p.until(() => p.ends);
    assert.deepEqual(p.bubbles, ['You answered: ' + said]);
    p.done();
  });
}

test('an approval, and a wrong answer before the right one', async () => {
  const p = await Page.open(url, 'approve');
  p.say('/approve deploy {"env":"prod"}');
  await p.until(() => p.prompts.length);
  p.answer('perhaps');
  await p.until(() => p.errors.length && p.prompts.length === 2);
  assert.equal(p.errors[0].code, 'invalid_data_content');
  assert.equal(p.prompts[1].content.input_type, 'approval');
  p.answer('approve');
  await p.until(() => p.ends);
  assert.deepEqual(p.bubbles, ['deploy gave {"env":"prod"}']);
  p.done();
});

test('a notification does not end the wait for the answer', async () => {
  const p = await Page.open(url, 'notify');
  p.say('/ask notification');
  await p.until(() => p.ends);
  assert.deepEqual([p.bubbles, p.prompts], [['This is a notification.', 'Notified.'], []]);
  p.done();
});

test('errors', async () => {
  const p = await Page.open(url, 'errors', true);
  p.say('/fail no luck');
  await p.until(() => p.ends);
  p.send({ type: 'shout' });
  await p.until(() => p.errors.length === 2);
  assert.deepEqual(p.errors.map((e) => e.code), ['workflow_error', 'invalid_message_type']);
  p.done();
});

test('the connection is lost during an answer', async () => {
  const p = await Page.open(url, 'cut', true);
  p.say('/plan 4 2');
  await p.until(() => p.steps.length);
  cut();
  await p.until(() => p.ends);
  assert.deepEqual(p.bubbles, ['All 4 tasks are done.']);
  p.done();
});

test('the connection is lost while a prompt is open', async () => {
  const p = await Page.open(url, 'cut-ask');
  p.say('/ask text timeout=60');
  await p.until(() => p.prompts.length === 1);
  p.send({ type: 'shout' });
  await p.until(() => p.errors.length); // the server knows by now that the prompt has arrived
  const before = p.ws;
  cut();
  await p.until(() => p.ws !== before && p.ws.readyState === 1);
  p.answer('Ada');
  await p.until(() => p.ends);
  assert.deepEqual([p.bubbles, p.prompts.length], [['You answered: Ada'], 1]); // the page keeps a prompt; it would show another twice
  p.done();
});

test('a page that opens another conversation gets no frames of the first', async () => {
  const p = await Page.open(url, 'first');
  p.say('/plan 4 1');
  await p.until(() => p.steps.length);
  p.done();
  const q = await Page.open(url, 'second');
  q.say('/sleep 1.5');
  await q.until(() => q.ends);
  assert.deepEqual(q.bubbles, ['Awake.']);
  q.done();
});
