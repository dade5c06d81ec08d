// The HTTP routes of the NeMo dialect, with fetch.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server } from './server.mjs';

const token = 'first-token-0123456789';
const page = 'https://app.example';
let server;
before(async () => (server = await Server.start('--token', token, '--allow-origin', page)));
after(() => server.stop());

const key = { 'X-API-Key': token };
async function call(method, path, body, headers = key) {
  const res = await fetch(server.url + path, {
    method, headers: { ...(body === undefined ? {} : { 'Content-Type': 'application/json' }), ...headers },
    body: body === undefined || typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await res.text();
  return { status: res.status, headers: res.headers, text, get json() { return JSON.parse(text); } };
}
const chat = (content, more = {}) => ({ messages: [{ role: 'user', content }], ...more });
const data = (text) => text.split('\n').filter((l) => l.startsWith('data: ') && l !== 'data: [DONE]').map((l) => JSON.parse(l.slice(6)));
const steps = (text) => text.split('\n').filter((l) => l.startsWith('intermediate_data: ')).map((l) => JSON.parse(l.slice(19)));
async function poll(path, fits) {
  for (const end = Date.now() + 60000; Date.now() < end; ) {
    const r = await call('GET', path);
    if (fits(r.json)) return r.json;
    await new Promise((r) => setTimeout(r, 20));
  }
  throw new Error(`${path} did not come to an end`);
}

test('the user can be named in three ways', async () => {
  for (const headers of [key, { Authorization: 'Bearer ' + token }, { Authorization: 'Basic ' + btoa('me:' + token) }]) {
    assert.equal((await call('POST', '/chat', chat('hi'), headers)).status, 200);
  }
  for (const headers of [{}, { 'X-API-Key': 'wrong' }, { Authorization: 'Bearer wrong' }, { Authorization: 'Basic ' + btoa('me:wrong') }]) {
    const r = await call('POST', '/chat', chat('hi'), headers);
    assert.deepEqual([r.status, r.json.code], [401, 'user_auth_error']);
  }
});

for (const path of ['/chat', '/v1/chat', '/v1/chat/completions']) {
  test(`${path} answers at once`, async () => {
    const r = await call('POST', path, chat('/usage 3 4'));
    assert.equal(r.json.object, 'chat.completion');
    assert.equal(r.json.choices[0].message.content, 'Used 3 tokens in and 4 out.');
    assert.equal(r.json.usage.total_tokens, 7);
    assert.equal(typeof r.json.created, 'number');
    assert.ok(r.headers.get('observability-trace-id'));
  });
}

for (const path of ['/chat/stream', '/v1/chat/stream']) {
  test(`${path} answers in pieces, with steps`, async () => {
    const r = await call('POST', path, chat('/tool calc {"a":2}', { stream: true }));
    assert.match(r.headers.get('content-type'), /^text\/event-stream/);
    assert.equal(data(r.text).map((d) => d.choices[0]?.delta?.content ?? '').join(''), 'calc gave {"a":2}');
    assert.ok(steps(r.text).every((s) => s.name === 'Tool: calc' && s.parent_id === 'root') && steps(r.text).length === 2);
    assert.match(r.text, /observability_trace: \{"observability_trace_id":"/);
  });
}

for (const path of ['/generate', '/v1/workflow']) {
  test(`${path} and its streams`, async () => {
    assert.deepEqual((await call('POST', path, { input_message: 'hi' })).json, { value: 'You said: hi' });
    for (const kind of ['/stream', '/full']) {
      const r = await call('POST', path + kind, { input_message: '/tool calc {"a":2}' });
      assert.equal(data(r.text).map((d) => d.value).join(''), 'calc gave {"a":2}');
      assert.ok(steps(r.text).length >= 2);
    }
    const none = await call('POST', path + '/full?filter_steps=none', { input_message: '/tool calc {"a":2}' });
    assert.equal(steps(none.text).length, 0);
    const failed = await call('POST', path, { input_message: '/fail no luck' });
    assert.deepEqual([failed.status, failed.json.code], [422, 'workflow_error']);
  });

  test(`${path}/async`, async () => {
    const id = 'job' + path.replaceAll('/', '-');
    const r = await call('POST', path + '/async', { input_message: '/stream 20 40', job_id: id });
    assert.deepEqual([r.status, r.json], [202, { job_id: id, status: 'submitted' }]);
    const job = await poll(`${path}/async/job/${id}`, (j) => j.status !== 'submitted' && j.status !== 'running');
    assert.equal(job.status, 'success');
    assert.match(JSON.stringify(job.output), /tok20/);
    assert.equal((await call('GET', `${path}/async/job/none`)).json.detail !== undefined, true);
  });
}

test('a prompt over HTTP: accepted, asked, answered, result fetched', async () => {
  const r = await call('POST', '/v1/workflow', { input_message: '/ask radio timeout=60' });
  assert.deepEqual([r.status, r.json.status, r.json.prompt.input_type], [202, 'interaction_required', 'radio']);
  const { status_url, response_url, prompt } = r.json;
  assert.equal((await call('GET', status_url)).json.status, 'interaction_required');
  const pick = (value) => ({ response: { type: 'radio', selected_option: { id: value, label: value, value } } });
  assert.equal((await call('POST', response_url, pick('pigeon'))).status, 422);
  assert.equal((await call('POST', response_url, pick(prompt.options[1].value))).status, 204);
  assert.equal((await call('POST', response_url, pick('email'))).status, 400);
  assert.deepEqual((await poll(status_url, (e) => e.status === 'completed')).result, { value: 'You answered: sms' });
});

test('consent: the redirect of the authorization server answers the prompt', async () => {
  const r = await call('POST', '/v1/workflow', { input_message: '/ask oauth_consent' });
  assert.deepEqual([r.status, r.json.status], [202, 'oauth_required']);
  assert.equal((await call('GET', '/auth/redirect?state=wrong&code=c')).status, 400);
  assert.equal((await call('GET', '/auth/redirect?code=c&state=' + r.json.oauth_state, undefined, {})).status, 400);
  const done = await call('GET', '/auth/redirect?code=c&state=' + r.json.oauth_state);
  assert.equal(done.status, 200);
  assert.match(done.text, /AUTH_SUCCESS/);
  assert.deepEqual((await poll(r.json.status_url, (e) => e.status === 'completed')).result, { value: 'You answered: code=c' });
});

test('headers: conversation, message and trace', async () => {
  const headers = { ...key, 'Conversation-Id': 'by-header', 'User-Message-ID': 'm-1', traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' };
  const first = await call('POST', '/chat', chat('hi'), headers);
  assert.equal(first.headers.get('conversation-id'), 'by-header');
  assert.equal(first.headers.get('observability-trace-id'), '0af7651916cd43dd8448eb211c80319c');
  await call('POST', '/chat', chat('hi'), headers);
  const log = await call('GET', '/parley/v1/sessions/by-header/events?types=user.message', undefined, { Authorization: 'Bearer ' + token });
  assert.equal(log.json.events.length, 1);
});

test('feedback is stored', async () => {
  const headers = { ...key, 'Conversation-Id': 'rated' };
  const trace = (await call('POST', '/chat', chat('hi'), headers)).headers.get('observability-trace-id');
  const r = await call('POST', '/feedback', { observability_trace_id: trace, reaction_type: '👍', comment: 'good' });
  assert.equal(r.status, 200);
  assert.ok(r.json.message);
  assert.equal((await call('POST', '/feedback', { observability_trace_id: trace })).status, 422);
  const log = await call('GET', '/parley/v1/sessions/rated/events?types=user.feedback', undefined, { Authorization: 'Bearer ' + token });
  assert.match(JSON.stringify(log.json.events[0].payload), /👍/);
});

test('files', async () => {
  const form = new FormData();
  form.append('file', new Blob(['four'], { type: 'text/plain' }), 'a.txt');
  const put = (method) => fetch(server.url + '/static/notes/a.txt', { method, headers: key, body: form });
  assert.deepEqual([(await put('POST')).status, (await put('POST')).status, (await put('PUT')).status], [200, 409, 200]);
  const got = await call('GET', '/static/notes/a.txt');
  assert.deepEqual([got.text, got.headers.get('x-content-type-options')], ['four', 'nosniff']);
  assert.deepEqual([(await call('DELETE', '/static/notes/a.txt')).status, (await call('GET', '/static/notes/a.txt')).status], [204, 404]);
});

test('health and tools', async () => {
  assert.deepEqual((await call('GET', '/health', undefined, {})).json, { status: 'healthy' });
  assert.ok(Array.isArray((await call('GET', '/mcp/client/tool/list')).json.mcp_clients));
});

test('other origins are refused unless they are allowed', async () => {
  const ask = (origin) => call('OPTIONS', '/chat', undefined, { Origin: origin, 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': 'content-type,conversation-id' });
  assert.equal((await ask(page)).headers.get('access-control-allow-origin'), page);
  assert.equal((await ask('https://evil.example')).headers.get('access-control-allow-origin'), null);
  const evil = await call('POST', '/chat', chat('hi'), { ...key, Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' });
  assert.equal(evil.status, 403);
});
