// The x1 dialect with the official NATS client for JavaScript.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { jetstream } from '@nats-io/jetstream';
import { connect, wsconnect } from '@nats-io/transport-node';
import WebSocket from 'ws';
import { Server } from './server.mjs';

globalThis.WebSocket ??= WebSocket; // older versions of node have none

let server;
before(async () => {
  server = await Server.start('--nats', '127.0.0.1:0', '--nats-websocket', '127.0.0.1:0');
});
after(() => server.stop());

const json = (m) => m.json();
const patient = { timeout: 30_000 }; // the client's own limit is a second
const subject = (id, kind) => `x1.session.${id}.${kind}`;
const post = async (path, body, token) => {
  const r = await fetch(server.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) },
    body: JSON.stringify(body ?? {}),
  });
  assert.ok(r.ok, `${path}: ${r.status}`);
  return r.json();
};
const credential = (id, role) => post(`/parley/v1/sessions/${id}/credentials`, { role });

// The address of NATS is part of every credential.
const open = async (options = {}) => {
  const { session_id } = await post('/parley/v1/sessions', { agent: 'none' });
  const { url } = await credential(session_id, 'viewer');
  return connect({ servers: url, ...options });
};
const as = async (cred, through = connect) =>
  through({ servers: through === wsconnect ? cred.websocket_url : cred.url, user: cred.user, pass: cred.password, inboxPrefix: cred.inbox_prefix, reconnect: false, timeout: 20_000 });

// collect records the messages of a subject; until waits for one that matches.
const collect = async (nc, on) => {
  const list = [];
  let wake = () => {};
  nc.subscribe(on, {
    callback: (err, m) => {
      if (err) list.error = err;
      else list.push({ ...json(m), headers: m.headers });
      wake();
    },
  });
  await nc.flush();
  list.until = async (fits) => {
    for (const end = Date.now() + 60_000; ; ) {
      const hit = list.find(fits);
      if (hit) return hit;
      assert.ok(Date.now() < end, `it did not come: ${JSON.stringify(list.map((e) => e.type))}`);
      await new Promise((go) => {
        wake = go;
        setTimeout(go, 500);
      });
    }
  };
  return list;
};
const envelope = (session_id, type, payload, more) => JSON.stringify({ session_id, timestamp: new Date().toISOString(), sequence: 0, type, payload, ...more });
const numbers = (list) => list.map((e) => e.sequence);
const contiguous = (list) => assert.deepEqual(numbers(list), list.map((_, i) => i + 1));

test('a message on input is answered, live and in the archive', async () => {
  const nc = await open();
  const events = await collect(nc, subject('talk', 'events'));
  const delta = await collect(nc, subject('talk', 'delta'));
  const reply = json(await nc.request(subject('talk', 'input'), envelope('talk', 'user.message', { text: '/echo one two three', user_id: 'u1' }), patient));
  assert.equal(reply.sequence, 2);
  await events.until((e) => e.type === 'turn.completed');
  contiguous(events);
  const answer = events.find((e) => e.type === 'agent.text');
  assert.equal(answer.payload.text, 'one two three');
  assert.equal(delta.map((d) => d.payload.text).join(''), 'one two three');
  for (const e of events) assert.ok(e.session_id === 'talk' && !Number.isNaN(Date.parse(e.timestamp)) && 'payload' in e);

  const stream = await jetstream(nc).consumers.get('X1_ARCHIVE', { filter_subjects: subject('talk', 'archive') });
  const kept = [];
  for await (const m of await stream.fetch({ max_messages: events.length, expires: 30_000 })) {
    kept.push(m.json());
    if (kept.length === events.length) break;
  }
  assert.deepEqual(kept, events.map(({ headers, ...e }) => e));

  const past = json(await nc.request(subject('talk', 'history'), JSON.stringify({ after: 1, limit: 2 }), patient));
  assert.deepEqual(numbers(past.events), [2, 3]);
  assert.equal(past.more, true);

  // The same conversation by HTTP.
  const native = await (await fetch(`${server.url}/parley/v1/sessions/talk/events?limit=100`)).json();
  assert.equal(native.events.length, events.length);
  await nc.close();
});

test('a session of another dialect is published', async () => {
  const nc = await open();
  const events = await collect(nc, 'x1.session.*.events');
  const r = await fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'conversation-id': 'from-nemo' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }], stream: false }),
  });
  assert.equal((await r.json()).choices[0].message.content, 'You said: hello');
  const e = await events.until((e) => e.type === 'agent.text' && e.payload.text === 'You said: hello');
  assert.ok(e.session_id);
  await nc.close();
});

test('an old sidecar that restarts loses and repeats nothing', async () => {
  const viewer = await open();
  const events = await collect(viewer, subject('pod', 'events'));
  const sidecar = await open({ user: 'sidecar' });
  const input = await collect(sidecar, subject('pod', 'input'));
  let n = 0;
  const publish = (type, payload) => {
    const body = JSON.stringify({ session_id: 'pod', timestamp: new Date().toISOString(), sequence: n++, type, payload });
    sidecar.publish(subject('pod', 'events'), body);
    sidecar.publish(subject('pod', 'archive'), body);
  };
  publish('session.started', { agent_id: 'coder', session_id: 'pod' });
  publish('agent.text', { text: 'first' });
  publish('agent.status', { status: 'working' });
  publish('agent.text', { text: 'second' });
  n = 0; // it died; the agent's stream is replayed under other numbers
  publish('agent.text', { text: 'first' });
  publish('agent.text', { text: 'second' });
  publish('agent.text', { text: 'third' });
  await events.until((e) => e.payload.text === 'third');
  contiguous(events);
  assert.deepEqual(events.filter((e) => e.type === 'agent.text').map((e) => e.payload.text), ['first', 'second', 'third']);

  await post('/parley/v1/sessions/pod/events', { type: 'user.message', payload: { text: 'from the console' } });
  const told = await input.until((m) => m.type === 'user.message');
  assert.equal(told.headers.get('Parley-Sequence'), String(told.sequence));
  publish('user.message', { text: 'from the console' }); // the agent's echo
  publish('agent.text', { text: 'done' });
  await events.until((e) => e.payload.text === 'done');
  assert.equal(events.filter((e) => e.type === 'user.message').length, 1);
  await Promise.all([viewer.close(), sidecar.close()]);
});

test('a credential opens one session, by TCP and by WebSocket', async () => {
  await post('/parley/v1/sessions', { id: 'mine', agent: 'none' });
  await post('/parley/v1/sessions', { id: 'other', agent: 'none' });
  for (const through of [connect, wsconnect]) {
    const nc = await as(await credential('mine', 'participant'), through);
    const mine = await collect(nc, subject('mine', 'events'));
    const r = json(await nc.request(subject('mine', 'input'), envelope('mine', 'user.message', { text: 'hi' }, { client_id: `hi-${through.name}` }), patient));
    await mine.until((e) => e.sequence === r.sequence);
    for (const forbidden of [subject('other', 'events'), 'x1.session.*.events', 'x1.>', '>', '_INBOX.>']) {
      const stolen = await collect(nc, forbidden).catch((err) => ({ error: err }));
      for (const end = Date.now() + 30_000; !stolen.error && Date.now() < end; ) await new Promise((go) => setTimeout(go, 10));
      assert.match(String(stolen.error), /[Pp]ermission/, forbidden);
    }
    await assert.rejects(nc.request(subject('other', 'history'), '', { timeout: 1000 }));
    await assert.rejects(nc.request('$JS.API.STREAM.INFO.X1_ARCHIVE', '', { timeout: 1000 }));
    await nc.close();
  }
  const bad = await credential('mine', 'viewer');
  await assert.rejects(connect({ servers: bad.url, user: bad.user, pass: 'x', reconnect: false }), /[Aa]uthorization/);
});

test('a turn is stopped over NATS, and so is an external agent', async () => {
  const nc = await open();
  const events = await collect(nc, subject('busy', 'events'));
  const say = async (id, type, payload) => json(await nc.request(subject(id, 'input'), envelope(id, type, payload), patient));
  await say('busy', 'user.message', { text: '/sleep 600' });
  await events.until((e) => e.type === 'turn.started');
  assert.equal((await say('busy', 'turn.stop_requested', { reason: 'enough' })).stopped, true);
  const end = await events.until((e) => e.type === 'turn.completed');
  assert.equal(end.payload.outcome, 'stopped');
  assert.equal((await say('busy', 'turn.stop_requested', {})).stopped, false);

  const sidecar = await open({ user: 'sidecar' });
  const input = await collect(sidecar, subject('away', 'input'));
  await sidecar.request(subject('away', 'events'), envelope('away', 'agent.text', { text: 'working' }), patient);
  assert.equal((await say('away', 'turn.stop_requested', { reason: 'enough' })).stopped, true);
  const told = await input.until((m) => m.type === 'turn.stop_requested');
  assert.equal(told.payload.reason, 'enough');
  await Promise.all([nc.close(), sidecar.close()]);
});

test('an expired input, a repeated one and one for another session', async () => {
  const nc = await open();
  const say = async (more, payload = { text: 'once' }) => json(await nc.request(subject('keys', 'input'), envelope(more.session_id ?? 'keys', 'user.message', payload, more), patient));
  assert.equal((await say({ expires_at: Date.now() - 1000 })).dropped, 'expired');
  const first = await say({ client_id: 'k1' });
  assert.deepEqual(await say({ client_id: 'k1' }), first);
  assert.equal((await say({ client_id: 'k1' }, { text: 'other words' })).error.reason, 'conflict');
  assert.equal((await say({ session_id: 'other' })).error.reason, 'invalid');
  const log = await (await fetch(`${server.url}/parley/v1/sessions/keys/events?types=user.message`)).json();
  assert.equal(log.events.length, 1);
  await assert.rejects(nc.request('x1.provider.calendar.list', '{}', patient), /no responders/i);
  await nc.close();
});

test('two viewers answer an approval at once', async () => {
  const [a, b] = [await open(), await open()];
  const events = await collect(a, subject('race', 'events'));
  a.publish(subject('race', 'input'), envelope('race', 'user.message', { text: '/approve rm {"path":"x"}' }));
  const ask = await events.until((e) => e.type === 'agent.approval_request');
  const answer = (nc, text) => nc.request(subject('race', 'input'), envelope('race', 'user.input_response', { text, request_id: ask.payload.request_id }), patient);
  const replies = (await Promise.all([answer(a, 'approve'), answer(b, 'deny')])).map(json);
  assert.equal(replies.filter((r) => !r.error).length, 1);
  assert.equal(replies.find((r) => r.error).error.reason, 'conflict');
  await events.until((e) => e.type === 'turn.completed');
  assert.equal(events.filter((e) => e.type === 'user.approval_response').length, 1);
  await Promise.all([a.close(), b.close()]);
});
