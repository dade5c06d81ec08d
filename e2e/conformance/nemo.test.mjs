// The NeMo dialect, with npm ws.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Client, text, tokens } from './client.mjs';
import { Server } from './server.mjs';

let server;
before(async () => (server = await Server.start()));
after(() => server.stop());

const dial = (query, headers) => Client.dial(server.ws, query, headers);

test('a message is answered in pieces, then ended, then traced', async () => {
  const c = await dial({ conversation_id: 'turn' });
  c.say('turn', 'm-1', 'hello there');
  const frames = await c.turn();
  assert.equal(text(frames), 'You said: hello there');
  const end = frames.at(-2);
  assert.deepEqual([end.type, end.status, end.content], ['system_response_message', 'complete', { text: null }]);
  for (const f of frames) assert.deepEqual([f.conversation_id, f.parent_id], ['turn', 'm-1']);
  c.close();
});

test('steps replace each other by id and name', async () => {
  const c = await dial();
  c.say('steps', 'm-1', '/tool calc {"a":2}');
  const steps = (await c.turn()).filter((f) => f.type === 'system_intermediate_message');
  assert.equal(steps.length, 2);
  assert.equal(steps[0].id, steps[1].id);
  assert.equal(steps[0].content.name, 'Tool: calc');
  assert.match(steps[1].content.payload, /\*\*Output:\*\*/);
  c.close();
});

for (const [kind, answer, said] of [
  ['text', 'Ada', 'Ada'], ['binary_choice', 'continue', 'continue'], ['radio', 'sms', 'sms'],
  ['checkbox', '["email","sms"]', 'email, sms'], ['dropdown', 'push', 'push'],
]) {
  test(`a prompt of type ${kind} is answered`, async () => {
    const c = await dial();
    c.say('ask-' + kind, 'm-1', `/ask ${kind} timeout=60`);
    const p = await c.prompt();
    assert.equal(p.content.input_type, kind);
    assert.ok(p.content.timeout > 40 && p.content.timeout <= 60, `timeout ${p.content.timeout}`);
    for (const o of p.content.options ?? []) assert.equal(typeof o.value, 'string');
    c.answer(p, answer);
    assert.equal(text(await c.turn()), 'You answered: ' + said);
    c.close();
  });
}

test('an approval is a choice of two', async () => {
  const c = await dial();
  c.say('approve', 'm-1', '/approve deploy {"env":"prod"}');
  const p = await c.prompt();
  assert.deepEqual(p.content.options.map((o) => o.value), ['continue', 'cancel']);
  c.answer(p, 'continue');
  assert.equal(text(await c.turn()), 'deploy gave {"env":"prod"}');
  c.close();
});

const words = (list) => text(list).split(' ').filter(Boolean).length;

for (const after of [1, 4, 15]) {
  test(`disconnected after ${after} words: the next socket gets the rest without repeats`, async () => {
    const name = 'cut-' + after;
    const c = await dial({ session: 's', conversation_id: name });
    const got = [];
    c.onFrame = (f) => {
      if (words(got) >= after) return; // what arrives behind the cut was not seen
      got.push(f);
      if (words(got) >= after) c.ws.terminate();
    };
    c.say(name, 'm-1', '/stream 60 100');
    await c.closed;
    const back = await dial({ session: 's', conversation_id: name });
    got.push(...(await back.turn()));
    assert.equal(text(got), tokens(60));
    assert.ok(got.some((f) => f.status === 'complete'));
    back.close();
  });
}

// After a shutdown nothing is repeated. After a kill only text that the client had not acknowledged is repeated.
for (const signal of ['SIGTERM', 'SIGKILL']) {
  test(`the server ends by ${signal} during an answer and is restarted`, async () => {
    const own = await Server.start();
    try {
      const c = await Client.dial(own.ws, { conversation_id: 'restart' });
      c.say('restart', 'm-1', '/stream 600 40');
      await c.until((f) => f.content.text?.includes('tok20'));
      const answered = text(c.seen);
      c.mute = signal === 'SIGKILL';
      await c.received();
      await c.until((f) => f.content.text, c.seen.length);
      await own.restart(signal);
      await c.closed;
      const back = await Client.dial(own.ws, { conversation_id: 'restart' });
      const rest = text(await back.turn());
      assert.equal((c.mute ? answered : text(c.seen)) + rest, tokens(600));
      back.close();
    } finally {
      await own.stop();
    }
  });
}

test('an open prompt is sent again with the remaining time', async () => {
  const begun = Date.now();
  const c = await dial({ conversation_id: 'pending' });
  c.say('pending', 'm-1', '/ask text timeout=60');
  const first = await c.prompt();
  c.close();
  await new Promise((r) => setTimeout(r, 2100));
  const back = await dial({ conversation_id: 'pending' });
  const again = await back.prompt();
  const least = Math.floor(60 - (Date.now() - begun) / 1000) - 1;
  assert.ok(again.content.timeout >= least && again.content.timeout <= 58, `timeout ${again.content.timeout}`);
  assert.notEqual(again.id, first.id);
  back.answer(again, 'Ada');
  assert.equal(text(await back.turn()), 'You answered: Ada');
  back.close();
});

test('several conversations run at once on one socket', async () => {
  const c = await dial();
  const names = ['at-once-1', 'at-once-2', 'at-once-3'];
  for (const n of names) c.say(n, 'm-' + n, '/stream 30 80');
  for (const n of names) await c.until((f) => f.type === 'observability_trace_message' && f.conversation_id === n, 0);
  for (const n of names) assert.equal(text(c.seen.filter((f) => f.conversation_id === n)), tokens(30));
  c.close();
});

test('two tabs get the same frames', async () => {
  const one = await dial({ session: 's', conversation_id: 'tabs' });
  one.say('tabs', 'm-1', '/stream 300 20'); // long enough for a second tab to come
  await one.until((f) => f.content.text?.includes('tok5'), 0);
  const two = await dial({ session: 's', conversation_id: 'tabs' });
  await two.turn();
  one.read = 0;
  assert.equal(text(await one.turn()), tokens(300));
  assert.equal(text(two.seen), tokens(300));
  one.close();
  two.close();
});

test('a new message interrupts the turn of the previous one', async () => {
  const c = await dial();
  c.say('overtake', 'm-1', '/stream 1000 50');
  await c.until((f) => f.content.text);
  c.say('overtake', 'm-2', 'stop that');
  const frames = await c.turn();
  const begun = frames.findIndex((f) => f.parent_id === 'm-2');
  assert.ok(frames.slice(begun).every((f) => f.parent_id === 'm-2'));
  assert.equal(text(frames.slice(begun)), 'You said: stop that');
  assert.equal(frames.filter((f) => f.status === 'complete').length, 1);
  c.close();
});

test('bad frames are answered, and the socket stays open', async () => {
  const c = await dial({ conversation_id: 'bad' });
  for (const [frame, code] of [
    ['{"type":', 'invalid_message'], ['[]', 'invalid_message'], ['{"type":"shout"}', 'invalid_message_type'],
    [{ type: 'user_message', schema_type: 'chat', id: 'x', conversation_id: 'bad' }, 'invalid_user_message_content'],
    [{ type: 'user_message', schema_type: 'chat', id: 'x', conversation_id: 'bad', content: { messages: [{ role: 'user', content: [{ type: 'smell' }] }] } }, 'invalid_data_content'],
  ]) {
    c.send(frame);
    const e = await c.error();
    assert.equal(e.content.code, code);
    assert.equal(e.conversation_id, 'bad');
  }
  c.ws.send(Buffer.from([0, 1, 2]));
  assert.equal((await c.error()).content.code, 'invalid_message');
  c.say('bad', 'm-1', '/fail no luck');
  assert.equal((await c.error()).content.code, 'workflow_error');
  await c.turn();
  c.say('bad', 'm-2', 'still there?');
  assert.equal(text(await c.turn()), 'You said: still there?');
  c.close();
});

for (const [schema, done, failed] of [['documented', 'completed', 'failed'], ['agentiq', 'completed', 'failed'], ['aiq', 'complete', 'complete']]) {
  test(`the frames of ?schema=${schema}`, async () => {
    const c = await dial({ schema });
    const ended = (f) => f.type === 'system_response_message' && f.status !== 'in_progress';
    c.say(schema, 'm-1', '/tool calc {"a":2}');
    assert.equal((await c.until(ended)).at(-1).status, done);
    c.say(schema, 'm-2', '/fail no luck');
    assert.equal((await c.until(ended)).at(-1).status, failed);
    c.say(schema, 'm-3', '/ask radio');
    const p = await c.prompt();
    c.answer({ ...p, conversation_id: schema }, 'Email');
    assert.equal(text(await c.until(ended)), 'You answered: email');
    c.close();
  });
}

test('reconnecting is bound to the identity', async () => {
  const own = await Server.start('--token', 'first-token-0123456789', '--jwt-secret', 'x'.repeat(40));
  try {
    const c = await Client.dial(own.ws, { conversation_id: 'mine' });
    c.say('mine', 'm-1', 'hi');
    assert.equal((await c.error()).content.code, 'user_auth_error');
    c.send({ type: 'auth_message', payload: { method: 'api_key', token: 'first-token-0123456789' } });
    const ok = (await c.until((f) => f.type === 'auth_response_message')).at(-1);
    assert.equal(ok.status, 'success');
    c.say('mine', 'm-2', 'hi');
    assert.equal(text(await c.turn()), 'You said: hi');
    const stranger = await Client.dial(own.ws, { conversation_id: 'mine' });
    stranger.answer({ conversation_id: 'mine', parent_id: 'm-2' }, 'x');
    assert.equal((await stranger.error()).content.code, 'user_auth_error');
    c.close();
    stranger.close();
  } finally {
    await own.stop();
  }
});
