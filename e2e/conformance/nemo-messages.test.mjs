// The fields of NeMo messages and the events they become, with npm ws. The log is read with the native API.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Client, text, tokens } from './client.mjs';
import { Server } from './server.mjs';

let server;
before(async () => (server = await Server.start()));
after(() => server.stop());

const dial = (query, headers) => Client.dial(server.ws, query, headers);
const events = async (id, types) => (await (await fetch(`${server.url}/parley/v1/sessions/${id}/events?types=${types}`)).json()).events;
const user = (...content) => ({ content: { messages: [{ role: 'user', content }] } });

for (const schema of ['chat_stream', 'generate_stream']) {
  test(`schema_type ${schema}: pieces`, async () => {
    const c = await dial();
    c.say(schema, 'm-1', '/stream 100000 50', { schema_type: schema });
    const pieces = () => c.seen.filter((f) => f.type === 'system_response_message' && f.status === 'in_progress');
    await c.until(() => pieces().length > 1, 0);
    await fetch(`${server.url}/parley/v1/sessions/${schema}/stop`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' });
    await c.turn();
    assert.ok(tokens(100000).startsWith(text(pieces()).trim()));
    c.close();
  });
}

for (const schema of ['chat', 'generate']) {
  test(`schema_type ${schema}: the whole text`, async () => {
    const c = await dial();
    c.say(schema, 'm-1', '/stream 30 100', { schema_type: schema });
    const said = (await c.turn()).filter((f) => f.type === 'system_response_message' && f.status === 'in_progress');
    assert.equal(text(said), tokens(30));
    assert.equal(said.length, 1);
    c.close();
  });
}

test('only thread_id, and schema_version', async () => {
  const c = await dial();
  c.say(undefined, 'm-1', 'hi', { thread_id: 'thread_456', schema_version: '1.0.0' });
  for (const f of await c.turn()) {
    assert.equal(f.conversation_id, 'thread_456');
    if (f.type !== 'observability_trace_message') assert.deepEqual([f.thread_id, f.schema_version], ['thread_456', '1.0.0']);
  }
  c.close();
});

test('attachments are stored, large ones as artifacts', async () => {
  const c = await dial();
  const small = Buffer.from('a small picture').toString('base64');
  const large = Buffer.alloc(100_000, 7).toString('base64');
  c.say('attached', 'm-1', '', user(
    { type: 'text', text: 'look' }, { type: 'image_url', image_url: { url: 'data:image/png;base64,' + small } },
    { type: 'input_audio', input_audio: { data: large, format: 'mp3' } }, { type: 'video_url', video_url: { url: 'https://films.example/one.mp4' } },
  ));
  assert.equal(text(await c.turn()), 'You said: look');
  const [e] = await events('attached', 'user.message');
  assert.equal(e.payload.text, 'look');
  assert.deepEqual(e.payload.content.map((p) => p.type), ['text', 'image', 'audio', 'video']);
  assert.ok(JSON.stringify(e).length < 10_000);
  const { artifacts } = await (await fetch(server.url + '/parley/v1/sessions/attached/artifacts')).json();
  assert.deepEqual(artifacts.map((a) => a.size), [100_000]);
  c.close();
});

test('of a history only the last message is new', async () => {
  const c = await dial();
  const said = (role, text) => ({ role, content: [{ type: 'text', text }] });
  const first = [said('system', 'be brief'), said('user', 'one'), said('assistant', 'ONE'), said('user', 'two')];
  c.say('history', 'm-1', '', { content: { messages: first } });
  assert.equal(text(await c.turn()), 'You said: two');
  c.say('history', 'm-2', '', { content: { messages: [...first, said('assistant', 'You said: two'), said('user', 'three')] } });
  assert.equal(text(await c.turn()), 'You said: three');
  const log = await events('history', 'user.message,agent.text');
  assert.deepEqual(log.map((e) => e.payload.text), ['one', 'ONE', 'two', 'You said: two', 'three', 'You said: three']);
  c.close();
});

test('user becomes part of the actor; other keys are stored', async () => {
  const c = await dial();
  c.say('about', 'm-1', 'hi', { user: { name: 'Ada', email: 'ada@example.com', team: 'engines' }, tenant: 7 });
  await c.turn();
  const [e] = await events('about', 'user.message');
  assert.deepEqual([e.actor.name, e.actor.email, e.actor.info], ['Ada', 'ada@example.com', { team: 'engines' }]);
  assert.match(JSON.stringify(e.payload), /"tenant":7/);
  c.close();
});

test('security authenticates one message and is not stored', async () => {
  const secret = 'very-secret-token-0123456789';
  const own = await Server.start('--token', secret, '--log-level', 'debug');
  try {
    const c = await Client.dial(own.ws);
    c.say('secured', 'm-1', 'hi', { security: { api_key: 'wrong' } });
    assert.equal((await c.error()).content.code, 'user_auth_error');
    c.say('secured', 'm-2', 'hi', { security: { token: secret } });
    assert.equal(text(await c.turn()), 'You said: hi');
    const log = await fetch(own.url + '/parley/v1/sessions/secured/events', { headers: { Authorization: 'Bearer ' + secret } });
    const stored = await log.text();
    assert.match(stored, /"hi"/);
    assert.ok(!stored.includes(secret) && !own.log.includes(secret));
    c.close();
  } finally {
    await own.stop();
  }
});

test('a prompt expires at its deadline', async () => {
  const c = await dial();
  c.say('expires', 'm-1', '/ask radio timeout=1');
  const p = await c.prompt();
  assert.deepEqual([p.content.timeout, p.content.error], [1, 'This prompt is no longer available.']);
  assert.equal(text(await c.turn()), 'No answer in time.');
  c.answer(p, 'sms');
  assert.equal((await c.error()).content.code, 'invalid_message');
  c.close();
});

test('a prompt first raised after the reconnect can be answered', async () => {
  const c = await dial({ conversation_id: 'later' });
  c.say('later', 'm-1', '/stream 30 60');
  await c.until((f) => f.content.text);
  c.close();
  const back = await dial({ conversation_id: 'later' });
  await back.turn();
  back.say('later', 'm-2', '/ask binary_choice');
  back.answer(await back.prompt(), 'continue');
  assert.equal(text(await back.turn()), 'You answered: continue');
  back.close();
});

test('an error as the first frame is preceded by a step, so that the UI shows it', async () => {
  const c = await dial();
  c.say('first', 'm-1', '/fail no luck');
  const frames = await c.turn();
  assert.deepEqual(frames.map((f) => f.type), [
    'system_intermediate_message', 'error_message', 'system_response_message', 'observability_trace_message',
  ]);
  c.close();
});

test('steps stay small', async () => {
  const c = await dial();
  c.say('small', 'm-1', '/think ' + 'thinking hard '.repeat(3000));
  const steps = (await c.turn()).filter((f) => f.type === 'system_intermediate_message');
  assert.ok(steps.length > 0 && steps.every((f) => f.content.payload.length < 17 << 10));
  assert.ok(steps.reduce((n, f) => n + f.content.payload.length, 0) < 4 * 42_000);
  c.close();
});
