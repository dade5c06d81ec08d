// The OpenAI route of the NeMo dialect, with npm openai.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { Server } from './server.mjs';

const token = 'first-token-0123456789';
let server, client;
before(async () => {
  server = await Server.start('--token', token);
  client = new OpenAI({ baseURL: server.url + '/v1', apiKey: token, maxRetries: 0 });
});
after(() => server.stop());

const ask = (content, more = {}) => ({ model: 'demo', messages: [{ role: 'user', content }], ...more });

test('a whole answer, with usage', async () => {
  const c = await client.chat.completions.create(ask('/usage 12 34'));
  assert.equal(c.object, 'chat.completion');
  assert.equal(c.choices[0].message.content, 'Used 12 tokens in and 34 out.');
  assert.equal(c.choices[0].finish_reason, 'stop');
  assert.deepEqual(c.usage, { prompt_tokens: 12, completion_tokens: 34, total_tokens: 46 });
});

test('an answer in chunks, with usage', async () => {
  const stream = await client.chat.completions.create(ask('/usage 12 34', { stream: true, stream_options: { include_usage: true } }));
  let text = '', finish, usage;
  for await (const chunk of stream) {
    assert.equal(chunk.object, 'chat.completion.chunk');
    text += chunk.choices[0]?.delta?.content ?? '';
    finish ??= chunk.choices[0]?.finish_reason;
    usage ??= chunk.usage;
  }
  assert.equal(text, 'Used 12 tokens in and 34 out.');
  assert.equal(finish, 'stop');
  assert.deepEqual(usage, { prompt_tokens: 12, completion_tokens: 34, total_tokens: 46 });
});

test('tools and prompts do not break the client', async () => {
  const runner = client.chat.completions.stream(ask('/tool calc {"a":2}'));
  assert.equal(await runner.finalContent(), 'calc gave {"a":2}');
  const c = await client.chat.completions.create(ask('/ask radio'));
  assert.match(c.choices[0].message.content, /How should I notify you\?/);
});

test('parts and history', async () => {
  const c = await client.chat.completions.create({
    model: 'demo',
    messages: [
      { role: 'system', content: 'be brief' }, { role: 'user', content: 'hi' }, { role: 'assistant', content: 'hello' },
      { role: 'user', content: [{ type: 'text', text: 'look' }, { type: 'image_url', image_url: { url: 'data:image/png;base64,aGVsbG8=' } }] },
    ],
  });
  assert.equal(c.choices[0].message.content, 'You said: look');
});

test('a conversation by header', async () => {
  const headers = { 'Conversation-Id': 'by-header' };
  await client.chat.completions.create(ask('/ask text'), { headers });
  const c = await client.chat.completions.create(ask('Ada'), { headers });
  assert.equal(c.choices[0].message.content, 'You answered: Ada');
});

test('errors have the classes of the client', async () => {
  await assert.rejects(client.chat.completions.create({ model: 'demo', messages: [] }), OpenAI.BadRequestError);
  await assert.rejects(client.chat.completions.create(ask('/fail no luck')), (e) => e instanceof OpenAI.InternalServerError && /no luck/.test(e.message));
  await assert.rejects(async () => {
    for await (const _ of await client.chat.completions.create(ask('/fail no luck', { stream: true })));
  }, /no luck/);
  const stranger = new OpenAI({ baseURL: server.url + '/v1', apiKey: 'wrong', maxRetries: 0 });
  await assert.rejects(stranger.chat.completions.create(ask('hi')), OpenAI.AuthenticationError);
});
