// The Letta dialect, with the unchanged npm client @letta-ai/letta-client.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import Letta from '@letta-ai/letta-client';
import { tokens } from './client.mjs';
import { Server } from './server.mjs';

let server, client, agent;
before(async () => {
  server = await Server.start();
  client = new Letta({ baseURL: server.url, apiKey: 'any' });
  agent = await client.agents.create({ name: 'ann', model: 'parley/demo', tags: ['conformance'], metadata: { team: 'x' } });
});
after(() => server.stop());

const kinds = (list) => list.map((m) => m.message_type);
const fresh = (more = {}) => client.agents.create({ name: 'fresh', model: 'parley/demo', ...more });
const user = (content, more = {}) => ({ role: 'user', content, ...more });
const approve = (id, yes, reason, more = {}) => ({ type: 'approval', approvals: [{ type: 'approval', tool_call_id: id, approve: yes, reason }], ...more });

async function all(stream) {
  const out = [];
  for await (const chunk of await stream) out.push(chunk);
  return out;
}

// text joins the pieces of a stream, as a client shows them.
const text = (list) => list.filter((m) => m.message_type === 'assistant_message').map((m) => m.content).join('');

async function refused(promise) {
  try {
    await promise;
  } catch (e) {
    return e;
  }
  assert.fail('it was not refused');
}

test('health and models', async () => {
  const h = await client.health();
  assert.equal(h.status, 'ok');
  assert.ok(h.version);
  assert.ok((await client.models.list()).some((m) => m.handle === 'parley/demo'));
});

test('agents: create, retrieve, modify, list, delete', async () => {
  const a = await client.agents.create({
    name: 'bob', model: 'parley/demo', description: 'd', tags: ['one', 'two'], system: 'Be kind.', memory_blocks: [{ label: 'human', value: 'Ada' }],
  });
  assert.match(a.id, /^agent-[0-9a-f-]{36}$/);
  for (const key of ['name', 'agent_type', 'system', 'llm_config', 'memory', 'blocks', 'tools', 'sources', 'tags']) assert.ok(key in a, key);
  assert.equal(a.memory.blocks[0].value, 'Ada');
  assert.deepEqual((await client.agents.retrieve(a.id)).tags, ['one', 'two']);
  const changed = await client.agents.update(a.id, { name: 'rob', tags: ['three'] });
  assert.deepEqual([changed.name, changed.tags, changed.description], ['rob', ['three'], 'd']);
  const byTag = (await client.agents.list({ tags: ['three'] })).items;
  assert.deepEqual(byTag.map((x) => x.id), [a.id]);
  assert.deepEqual((await client.agents.list({ name: 'rob' })).items.map((x) => x.id), [a.id]);
  assert.equal((await refused(client.agents.create({ model: 'openai/gpt-none' }))).status, 400);
  await client.agents.delete(a.id);
  assert.equal((await refused(client.agents.retrieve(a.id))).status, 404);
  assert.equal((await refused(client.agents.messages.create(a.id, { input: 'x' }))).status, 404);
});

test('agents are listed in pages of one', async () => {
  const made = [];
  for (let i = 0; i < 5; i++) made.push((await fresh({ tags: ['page'] })).id);
  const seen = [];
  for await (const a of client.agents.list({ tags: ['page'], limit: 2, order: 'asc' })) seen.push(a.id);
  assert.deepEqual(seen, made);
});

test('a message is answered', async () => {
  const r = await client.agents.messages.create(agent.id, { messages: [user('hello')] });
  assert.deepEqual(kinds(r.messages), ['assistant_message']);
  assert.equal(r.messages[0].content, 'You said: hello');
  assert.match(r.messages[0].date, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/);
  assert.equal(r.stop_reason.stop_reason, 'end_turn');
  assert.equal(r.usage.step_count, 1);
});

test('usage is reported', async () => {
  const r = await client.agents.messages.create(agent.id, { input: '/usage 30 12' });
  assert.deepEqual([r.usage.prompt_tokens, r.usage.completion_tokens, r.usage.total_tokens], [30, 12, 42]);
  const run = r.messages[0].run_id;
  const usage = await client.runs.usage.retrieve(run);
  assert.deepEqual([usage.prompt_tokens, usage.completion_tokens, usage.total_tokens], [30, 12, 42]);
});

for (const stream_tokens of [false, true]) {
  test(`a stream, stream_tokens=${stream_tokens}`, async () => {
    const chunks = await all(client.agents.messages.create(agent.id, { messages: [user('/think one two three')], streaming: true, stream_tokens }));
    assert.equal(chunks[0].message_type, 'ping');
    assert.ok(chunks[0].run_id);
    assert.deepEqual(kinds(chunks.slice(-2)), ['stop_reason', 'usage_statistics']);
    assert.equal(text(chunks), 'Done thinking.');
    assert.equal(chunks.filter((c) => c.message_type === 'reasoning_message').map((c) => c.reasoning).join(''), 'one two three');
    for (let i = 0; i < chunks.length; i++) {
      assert.equal(typeof chunks[i].seq_id, 'number', JSON.stringify(chunks[i]));
      assert.equal(chunks[i].run_id, chunks[0].run_id);
      if (i > 0) assert.ok(chunks[i].seq_id > chunks[i - 1].seq_id);
    }
    // Frames have the ids of the list.
    const listed = (await client.runs.messages.list(chunks[0].run_id)).items.filter((m) => m.message_type !== 'user_message');
    const live = new Map(chunks.filter((c) => c.otid).map((c) => [c.otid, c]));
    assert.deepEqual([...live.keys()], listed.map((m) => m.otid));
    for (const m of listed) assert.deepEqual([live.get(m.otid).id, live.get(m.otid).step_id, live.get(m.otid).message_type], [m.id, m.step_id, m.message_type]);
  });
}

test('the older route streams too, without pings on request', async () => {
  const chunks = await all(client.agents.messages.stream(agent.id, { messages: [user('hi')], include_pings: false }));
  assert.deepEqual(kinds(chunks), ['assistant_message', 'stop_reason', 'usage_statistics']);
});

test('include_return_message_types selects kinds', async () => {
  const r = await client.agents.messages.create(agent.id, { input: '/tool calc {"a":2}', include_return_message_types: ['tool_return_message'] });
  assert.deepEqual(kinds(r.messages), ['tool_return_message']);
  assert.deepEqual([r.messages[0].status, r.messages[0].tool_return], ['success', '{"a":2}']);
});

test('tools: call, return, failure', async () => {
  const a = await fresh();
  const r = await client.agents.messages.create(a.id, { input: '/tool calc {"a":2}' });
  assert.deepEqual(kinds(r.messages), ['tool_call_message', 'tool_return_message', 'assistant_message']);
  assert.deepEqual(r.messages[0].tool_calls, [{ name: 'calc', arguments: '{"a":2}', tool_call_id: r.messages[1].tool_call_id }]);
  assert.equal(r.messages[0].step_id, r.messages[1].step_id);
  assert.notEqual(r.messages[1].step_id, r.messages[2].step_id);
  const failed = await client.agents.messages.create(a.id, { input: '/toolfail calc' });
  assert.equal(failed.messages[1].status, 'error');
  const steps = (await client.runs.steps.list(r.messages[0].run_id)).items;
  assert.equal(steps.length, 2);
  assert.ok(steps.every((s) => s.messages.every((m) => /^message-/.test(m.id) && m.role)));
  const streamed = await all(client.agents.messages.create(a.id, { messages: [user('/tool calc {"a":2}')], streaming: true, stream_tokens: true }));
  const call = streamed.find((c) => c.message_type === 'tool_call_message');
  assert.equal(call.tool_calls.name, 'calc'); // one piece, not a list
});

test('a failed run ends with an error', async () => {
  const a = await fresh();
  const e = await refused(client.agents.messages.create(a.id, { input: '/fail the disk is full' }));
  assert.equal(e.status, 500);
  assert.match(JSON.stringify(e.error), /the disk is full/);
  assert.equal((await client.agents.messages.list(a.id, { order: 'asc' })).items.filter((m) => m.message_type === 'user_message').length, 1, 'it was sent once');
  const streamed = await refused(all(client.agents.messages.create(a.id, { messages: [user('/fail again')], streaming: true })));
  assert.match(JSON.stringify(streamed.error), /again/);
  const runs = (await client.runs.list({ agent_id: a.id })).items;
  assert.deepEqual(runs.map((r) => [r.status, r.stop_reason]), [['failed', 'error'], ['failed', 'error']]);
  assert.equal((await client.agents.messages.create(a.id, { input: 'still there?' })).stop_reason.stop_reason, 'end_turn');
});

test('async: the run is followed by its id', async () => {
  const run = await client.agents.messages.createAsync(agent.id, { messages: [user('/stream 300 100')] });
  assert.equal(run.status, 'running');
  assert.equal(run.background, true);
  const chunks = await all(client.runs.messages.stream(run.id));
  assert.equal(text(chunks), tokens(300));
  assert.equal((await client.runs.retrieve(run.id)).status, 'completed');
});

test('cancel', async () => {
  const a = await fresh();
  const run = await client.agents.messages.createAsync(a.id, { messages: [user('/sleep 600')] });
  assert.deepEqual(await client.agents.messages.cancel(a.id, { run_ids: [run.id] }), { [run.id]: 'cancelled' });
  const seen = await client.runs.retrieve(run.id);
  assert.deepEqual([seen.status, seen.stop_reason], ['cancelled', 'cancelled']);
  assert.equal((await all(client.runs.messages.stream(run.id))).find((c) => c.stop_reason).stop_reason, 'cancelled');
  assert.equal((await refused(client.agents.messages.cancel(a.id))).status, 409);
});

test('a busy conversation refuses at once, and an otid attaches', async () => {
  const a = await fresh();
  const otid = randomUUID();
  const body = { messages: [user('/stream 400 100', { otid })], streaming: true, stream_tokens: true, background: true };
  const first = await client.agents.messages.create(a.id, body);
  const chunks = [];
  for await (const c of first) {
    chunks.push(c);
    if (chunks.length === 3) break; // the connection is dropped
  }
  let requests = 0;
  const counting = new Letta({ baseURL: server.url, apiKey: 'any', fetch: (...args) => (requests++, fetch(...args)) });
  const e = await refused(counting.agents.messages.create(a.id, { input: 'me too' }));
  assert.equal(e.status, 409);
  assert.equal(e.error.run_id, chunks[0].run_id);
  assert.equal(requests, 1, 'the client does not try again');
  const again = await all(client.agents.messages.create(a.id, body));
  assert.equal(again[0].run_id, chunks[0].run_id);
  assert.equal(text(again), tokens(400));
  const later = await all(client.agents.messages.create(a.id, body)); // also when it has ended
  assert.equal(text(later), tokens(400));
  const sent = (await client.agents.messages.list(a.id, { order: 'asc' })).items.filter((m) => m.message_type === 'user_message');
  assert.deepEqual(sent.map((m) => m.otid), [otid]);
});

test('an agent with parley.busy queue lets messages wait', async () => {
  const a = await fresh({ metadata: { 'parley.busy': 'queue' } });
  await client.agents.messages.createAsync(a.id, { messages: [user('/sleep 0.3')] });
  const r = await client.agents.messages.create(a.id, { input: 'second' });
  assert.equal(text(r.messages), 'You said: second');
});

for (const stream_tokens of [false, true]) {
  for (const background of [false, true]) {
    for (const cut of [1, 2, 7, 23]) {
      test(`dropped after ${cut} frames, resumed (tokens ${stream_tokens}, background ${background})`, async () => {
        const a = await fresh();
        const s = await client.agents.messages.create(a.id, { messages: [user('/stream 40 150')], streaming: true, stream_tokens, background });
        const got = [];
        for await (const c of s) {
          got.push(c);
          if (got.length === cut) break;
        }
        const { run_id, seq_id } = got.at(-1);
        got.push(...(await all(client.runs.messages.stream(run_id, { starting_after: seq_id }))).filter((c) => c.message_type !== 'ping'));
        assert.equal(text(got), tokens(40));
        assert.deepEqual(kinds(got.slice(-2)), ['stop_reason', 'usage_statistics']);
        assert.equal(got.filter((c) => c.message_type === 'stop_reason').length, 1);
        // From the start, and from just before the last message.
        const whole = await all(client.runs.messages.stream(run_id));
        assert.equal(text(whole), tokens(40));
        const tail = await all(client.runs.messages.stream(run_id, { starting_after: whole.at(-3).seq_id - 1, include_pings: false }));
        assert.deepEqual(kinds(tail), ['assistant_message', 'stop_reason', 'usage_statistics']);
      });
    }
  }
}

test('a run and its stream go on after a kill', async () => {
  const s2 = await Server.start();
  const c2 = new Letta({ baseURL: s2.url, apiKey: 'any' });
  try {
    const a = await c2.agents.create({ model: 'parley/demo' });
    const got = [];
    const s = await c2.agents.messages.create(a.id, { messages: [user('/stream 80 100')], streaming: true, stream_tokens: true });
    for await (const c of s) {
      got.push(c);
      if (got.length === 6) break;
    }
    await s2.restart('SIGKILL');
    const { run_id, seq_id } = got.at(-1);
    got.push(...(await all(c2.runs.messages.stream(run_id, { starting_after: seq_id }))));
    assert.equal(text(got), tokens(80));
    assert.equal((await c2.agents.retrieve(a.id)).id, a.id);
  } finally {
    await s2.stop();
  }
});

test('workstreams are system messages, also after every cut', async () => {
  const a = await fresh();
  const seen = await all(client.agents.messages.create(a.id, { messages: [user('/work 2 1')], streaming: true, stream_tokens: true, include_pings: false }));
  const told = seen.filter((m) => m.message_type === 'system_message');
  assert.deepEqual(told.map((m) => m.content).sort(), [
    'Workstream w1 (Part 1) was launched: Do part 1 of 2.', 'Workstream w1 completed. Part 1 of 2 is done.',
    'Workstream w2 (Part 2) was launched: Do part 2 of 2.', 'Workstream w2 completed. Part 2 of 2 is done.',
  ]);
  const names = (list) => [...new Set(list.filter((m) => m.id && m.otid && m.message_type !== 'user_message').map((m) => `${m.message_type} ${m.id} ${m.otid} ${m.run_id}`))];
  const listed = await all(client.agents.messages.list(a.id, { order: 'asc', limit: 2 }));
  assert.deepEqual(names(seen), names(listed));
  for (let i = 0; i < seen.length; i++) {
    const rest = await all(client.runs.messages.stream(seen[0].run_id, { starting_after: seen[i].seq_id, include_pings: false }));
    assert.equal(text([...seen.slice(0, i + 1), ...rest]), text(seen));
    assert.deepEqual(names([...seen.slice(0, i + 1), ...rest]), names(seen));
  }
});

test('approvals: approve, deny, refusals', async () => {
  const a = await fresh();
  const ask = async () => {
    const r = await client.agents.messages.create(a.id, { input: '/approve deploy {"env":"prod"}' });
    assert.equal(r.stop_reason.stop_reason, 'requires_approval');
    assert.equal(r.messages.at(-1).message_type, 'approval_request_message');
    return r.messages.at(-1);
  };
  let request = await ask();
  assert.equal(request.otid, request.id);
  const call = request.tool_call.tool_call_id;
  assert.equal((await client.runs.retrieve(request.run_id)).stop_reason, 'requires_approval');
  assert.equal((await client.agents.retrieve(a.id, { include: ['agent.pending_approval'] })).pending_approval.id, request.id);
  // Another message and a wrong id are refused without an effect.
  const e = await refused(client.agents.messages.create(a.id, { input: 'hello?' }));
  assert.equal(e.status, 409);
  assert.deepEqual([e.error.detail.code, e.error.detail.pending_request_id], ['PENDING_APPROVAL', request.id]);
  assert.equal((await refused(client.agents.messages.create(a.id, { messages: [approve('call-wrong', true)] }))).status, 400);
  const yes = await client.agents.messages.create(a.id, { messages: [approve(call, true)] });
  assert.deepEqual(kinds(yes.messages), ['tool_return_message', 'assistant_message']);
  assert.equal(text(yes.messages), 'deploy gave {"env":"prod"}');
  assert.equal(yes.stop_reason.stop_reason, 'end_turn');
  // Answered twice.
  const twice = await refused(client.agents.messages.create(a.id, { messages: [approve(call, false, 'late')] }));
  assert.equal(twice.status, 400);
  assert.match(twice.error.detail, /No tool call is currently awaiting approval/);
  // Denied, in the older form.
  request = await ask();
  const no = await client.agents.messages.create(a.id, { messages: [{ type: 'approval', approve: false, approval_request_id: request.id, reason: 'too risky' }] });
  assert.deepEqual(kinds(no.messages), ['tool_return_message', 'assistant_message']);
  assert.equal(no.messages[0].status, 'error');
  assert.match(no.messages[0].tool_return, /too risky/);
  // For a run that was cancelled.
  request = await ask();
  await client.agents.messages.cancel(a.id);
  const late = await refused(client.agents.messages.create(a.id, { messages: [approve(request.tool_call.tool_call_id, true)] }));
  assert.equal(late.status, 400);
  assert.match(late.error.detail, /withdrawn/);
  assert.equal(text((await client.agents.messages.create(a.id, { input: 'usable' })).messages), 'You said: usable');
  const listed = kinds((await client.agents.messages.list(a.id, { order: 'asc' })).items);
  for (const k of ['approval_request_message', 'approval_response_message', 'tool_return_message']) assert.ok(listed.includes(k), k);
});

test('a message after an approval is answered in the same stream', async () => {
  const a = await fresh();
  const ask = async () => (await client.agents.messages.create(a.id, { input: '/approve deploy {}' })).messages.at(-1).tool_call.tool_call_id;
  const both = async () => [approve(await ask(), true), user('and then')];
  assert.equal(text((await client.agents.messages.create(a.id, { messages: await both() })).messages), 'deploy gave {}You said: and then');
  const chunks = await all(client.agents.messages.create(a.id, { messages: await both(), streaming: true, stream_tokens: true }));
  assert.equal(text(chunks), 'deploy gave {}You said: and then');
  assert.equal(chunks.filter((c) => c.message_type === 'stop_reason').length, 1);
  assert.equal(chunks.at(-1).run_ids.length, 2);
});

test('all texts of a message reach the agent, in their order', async () => {
  const a = await fresh();
  const content = [{ type: 'text', text: 'one' }, { type: 'text', text: 'two' }];
  assert.equal(text((await client.agents.messages.create(a.id, { messages: [user(content)] })).messages), 'You said: one\ntwo');
  assert.deepEqual((await client.agents.messages.list(a.id, { order: 'asc' })).items[0].content, content);
});

test('the agent is free after an approval expires', async () => {
  const a = await fresh();
  const r = await client.agents.messages.create(a.id, { input: '/approve deploy {} timeout=3' });
  const asked = r.messages.find((m) => m.message_type === 'approval_request_message'); // a stream that waits for the answer gets the end, too
  const rest = await all(client.runs.messages.stream(asked.run_id, { starting_after: asked.seq_id + 2 }));
  assert.equal(text(rest), 'No answer in time.');
  const late = await refused(client.agents.messages.create(a.id, { messages: [approve(asked.tool_call.tool_call_id, true)] }));
  assert.equal(late.status, 400);
  assert.match(late.error.detail, /expired/);
  assert.equal((await client.agents.messages.create(a.id, { input: 'on' })).stop_reason.stop_reason, 'end_turn');
});

test('an approval survives a kill, streamed', async () => {
  const s2 = await Server.start();
  const c2 = new Letta({ baseURL: s2.url, apiKey: 'any' });
  try {
    const a = await c2.agents.create({ model: 'parley/demo' });
    const asked = await all(c2.agents.messages.create(a.id, { messages: [user('/approve deploy {"env":"prod"}')], streaming: true, stream_tokens: true }));
    assert.deepEqual(kinds(asked), ['ping', 'approval_request_message', 'stop_reason', 'usage_statistics']);
    await s2.restart('SIGKILL');
    const pending = (await c2.agents.retrieve(a.id, { include: ['agent.pending_approval'] })).pending_approval;
    assert.equal(pending.id, asked[1].id);
    const otid = randomUUID();
    const body = { messages: [approve(pending.tool_call.tool_call_id, true, undefined, { otid })], streaming: true };
    const rest = await all(c2.agents.messages.create(a.id, body));
    assert.equal(text(rest), 'deploy gave {"env":"prod"}');
    const again = await all(c2.agents.messages.create(a.id, body)); // the same answer again is a retry
    assert.deepEqual(again.map((c) => c.seq_id).slice(1), rest.map((c) => c.seq_id).slice(1));
  } finally {
    await s2.stop();
  }
});

test('client tools: tool_return, as an approval, failed, refused', async () => {
  const a = await fresh();
  const client_tools = [{ name: 'clipboard', description: 'Reads the clipboard', parameters: { type: 'object', properties: {} } }];
  const ask = async () => {
    const r = await client.agents.messages.create(a.id, { input: '/tool clipboard {}', client_tools });
    assert.equal(r.stop_reason.stop_reason, 'requires_approval');
    assert.equal(r.messages.at(-1).message_type, 'approval_request_message');
    return r.messages.at(-1).tool_call.tool_call_id;
  };
  const give = (message) => client.agents.messages.create(a.id, { messages: [message], client_tools });
  const result = (tool_call_id, tool_return, status) => ({ type: 'tool', tool_call_id, tool_return, status });
  let id = await ask();
  const first = await give({ type: 'tool_return', tool_returns: [result(id, 'copied', 'success')] });
  assert.deepEqual(kinds(first.messages), ['tool_return_message', 'assistant_message']);
  assert.equal(first.messages[0].tool_return, 'copied');
  assert.equal(text(first.messages), 'clipboard gave "copied"');
  id = await ask();
  assert.equal(text((await give({ type: 'approval', approvals: [result(id, 'again', 'success')] })).messages), 'clipboard gave "again"');
  id = await ask();
  const failed = await give({ type: 'tool_return', tool_returns: [result(id, 'it is locked', 'error')] });
  assert.equal(failed.messages[0].status, 'error');
  assert.equal(text(failed.messages), 'clipboard failed: it is locked');
  id = await ask();
  const e = await refused(give(approve(id, true))); // an approval is not a result
  assert.equal(e.status, 400);
  assert.match(e.error.detail, /result/);
  assert.equal(text((await give(approve(id, false, 'private'))).messages), 'Denied: private');
  const streamed = await all(client.agents.messages.create(a.id, { messages: [user('/tool clipboard {}')], client_tools, streaming: true, stream_tokens: true }));
  assert.deepEqual(kinds(streamed), ['ping', 'approval_request_message', 'stop_reason', 'usage_statistics']);
  id = streamed[1].tool_calls.tool_call_id;
  const rest = await all(client.agents.messages.create(a.id, { messages: [{ type: 'tool_return', tool_returns: [result(id, 'x', 'success')] }], streaming: true, stream_tokens: true }));
  assert.equal(text(rest), 'clipboard gave "x"');
  const answers = (await client.agents.messages.list(a.id, { order: 'asc' })).items.filter((m) => m.message_type === 'approval_response_message');
  assert.deepEqual(answers.map((m) => m.approvals[0].tool_return ?? m.approvals[0].approve), ['copied', 'again', 'it is locked', false, 'x']);
});

test('several calls in one step, of the server and of the client', async () => {
  const a = await fresh();
  const several = await client.agents.messages.create(a.id, { input: '/tools search {"q":1}; count {"n":2}' });
  assert.deepEqual(kinds(several.messages), ['tool_call_message', 'tool_return_message', 'assistant_message']);
  assert.deepEqual(several.messages[0].tool_calls.map((c) => c.name), ['search', 'count']);
  assert.deepEqual(several.messages[1].tool_returns.map((r) => r.tool_return), ['{"n":2}', '{"q":1}']);
  const client_tools = [{ name: 'clipboard' }];
  const asked = await client.agents.messages.create(a.id, { input: '/tools search {"q":1}; clipboard {}', client_tools });
  assert.deepEqual(kinds(asked.messages), ['tool_call_message', 'approval_request_message']);
  const tool_returns = [{ type: 'tool', tool_call_id: asked.messages[1].tool_calls[0].tool_call_id, tool_return: 'copied', status: 'success', stdout: ['out'], stderr: ['err'] }];
  const rest = await client.agents.messages.create(a.id, { messages: [{ type: 'tool_return', tool_returns }], client_tools });
  const returns = rest.messages.flatMap((m) => m.tool_returns ?? []);
  assert.deepEqual(returns.map((r) => r.tool_return), ['{"q":1}', 'copied']);
  assert.deepEqual([returns[1].stdout, returns[1].stderr], [['out'], ['err']]);
  assert.equal(new Set(rest.messages.map((m) => m.id + m.otid)).size, rest.messages.length);
  const listed = (await client.agents.messages.list(a.id, { order: 'asc' })).items.flatMap((m) => m.tool_returns ?? []);
  assert.deepEqual(listed.at(-1).stdout, ['out']);
});

test('a prompt without a message type is shown as text, and the next message answers it', async () => {
  const a = await fresh();
  const r = await client.agents.messages.create(a.id, { input: '/ask radio' });
  assert.match(text(r.messages), /How should I notify you\?/);
  assert.equal(r.stop_reason.stop_reason, 'end_turn');
  assert.equal((await refused(client.agents.messages.create(a.id, { input: 'pigeon' }))).status, 400);
  assert.equal(text((await client.agents.messages.create(a.id, { input: 'sms' })).messages), 'You answered: sms');
});

test('conversations: create, list, send, stream, messages, update, cancel, delete', async () => {
  const a = await fresh();
  const c1 = await client.conversations.create({ agent_id: a.id, summary: 'first one' });
  assert.match(c1.id, /^conv-[0-9a-f-]{36}$/);
  assert.deepEqual([c1.agent_id, c1.summary], [a.id, 'first one']);
  const c2 = await client.conversations.create({ agent_id: a.id });
  assert.deepEqual((await client.conversations.list({ agent_id: a.id, order: 'asc' })).map((c) => c.id), [c1.id, c2.id]);
  assert.deepEqual((await client.conversations.list({ agent_id: a.id, limit: 1 })).map((c) => c.id), [c2.id]);
  assert.deepEqual((await client.conversations.list({ agent_id: a.id, summary_search: 'FIRST' })).map((c) => c.id), [c1.id]);
  const said = await all(client.conversations.messages.create(c1.id, { messages: [user('in one')] }));
  assert.equal(text(said), 'You said: in one');
  await all(client.conversations.messages.create(c2.id, { messages: [user('in two')] }));
  await all(client.conversations.messages.create('default', { agent_id: a.id, messages: [user('at home')] }));
  const inOne = (await client.conversations.messages.list(c1.id)).items;
  assert.deepEqual(inOne.map((m) => m.content), ['You said: in one', 'in one']);
  assert.deepEqual((await client.conversations.messages.list('default', { agent_id: a.id })).items.map((m) => m.content), ['You said: at home', 'at home']);
  assert.equal((await client.agents.messages.list(a.id, { conversation_id: 'default' })).items.length, 2);
  assert.deepEqual((await client.agents.messages.list(a.id, { order: 'asc' })).items.map((m) => m.content), [
    'in one', 'You said: in one', 'in two', 'You said: in two', 'at home', 'You said: at home',
  ]);
  assert.equal((await client.conversations.update(c1.id, { summary: 'renamed' })).summary, 'renamed');
  assert.equal((await client.conversations.retrieve(c1.id)).summary, 'renamed');
  assert.equal((await refused(client.conversations.messages.stream(c1.id))).status, 400); // nothing runs
  const otid = randomUUID();
  const s = await client.conversations.messages.create(c1.id, { messages: [user('/stream 400 100', { otid })], stream_tokens: true });
  const got = [];
  for await (const c of s) {
    got.push(c);
    if (got.length === 4) break;
  }
  const active = await all(client.conversations.messages.stream(c1.id, { starting_after: got.at(-1).seq_id }));
  assert.equal(text([...got, ...active]), tokens(400));
  assert.equal(text(await all(client.conversations.messages.stream(c1.id, { otid }))), tokens(400));
  assert.equal((await refused(client.conversations.messages.stream(c1.id, { otid: 'unknown' }))).status, 404);
  const sleeping = await client.conversations.messages.create(c2.id, { messages: [user('/sleep 600')] });
  for await (const c of sleeping) if (c.message_type === 'ping') break;
  const cancelled = await client.conversations.cancel(c2.id);
  assert.deepEqual(Object.values(cancelled), ['cancelled']);
  const runs = (await client.runs.list({ conversation_id: c2.id })).items;
  assert.deepEqual(runs.map((r) => r.status), ['cancelled', 'completed']);
  await client.conversations.delete(c2.id);
  assert.ok([404, 410].includes((await refused(client.conversations.messages.list(c2.id))).status));
  assert.deepEqual((await client.conversations.list({ agent_id: a.id })).map((c) => c.id), [c1.id]);
});

test('runs: list with paging, filters, messages', async () => {
  const a = await fresh();
  const ids = [];
  for (let i = 0; i < 7; i++) ids.push((await client.agents.messages.create(a.id, { input: 'n' + i })).messages[0].run_id);
  for (const order of ['asc', 'desc']) {
    const seen = [];
    for await (const r of client.runs.list({ agent_id: a.id, limit: 3, order })) seen.push(r.id);
    assert.deepEqual(seen, order === 'asc' ? ids : ids.toReversed());
  }
  assert.equal((await client.runs.list({ agent_id: a.id, active: true })).items.length, 0);
  assert.equal((await client.runs.list({ agent_id: a.id, statuses: ['completed'], stop_reason: 'end_turn' })).items.length, 7);
  const listed = (await client.runs.messages.list(ids[2])).items;
  assert.deepEqual(listed.map((m) => [m.message_type, m.content]), [['user_message', 'n2'], ['assistant_message', 'You said: n2']]);
  assert.equal((await refused(client.runs.retrieve('run-00000000-0000-4000-8000-000000000000'))).status, 404);
  const one = await client.messages.retrieve(listed[1].id);
  assert.deepEqual(one.map((m) => m.content), ['You said: n2']);
});

test('steps: list, retrieve, messages, metrics', async () => {
  const a = await fresh();
  const r = await client.agents.messages.create(a.id, { input: '/tool calc {}' });
  const ids = [...new Set(r.messages.map((m) => m.step_id))];
  const seen = [];
  for await (const s of client.steps.list({ agent_id: a.id, limit: 1, order: 'asc' })) seen.push(s.id);
  assert.deepEqual(seen, ids);
  for (const id of ids) {
    const step = await client.steps.retrieve(id);
    assert.deepEqual([step.id, step.run_id], [id, r.messages[0].run_id]);
    const said = (await client.steps.messages.list(id)).items;
    assert.deepEqual(said.map((m) => m.otid), r.messages.filter((m) => m.step_id === id).map((m) => m.otid));
    assert.equal((await client.steps.metrics.retrieve(id)).run_id, step.run_id);
    assert.equal(await client.steps.trace.retrieve(id), null);
  }
});

test('a conversation is forked, a system prompt recompiled', async () => {
  const a = await fresh({ system: 'Be kind.' });
  const c = await client.conversations.create({ agent_id: a.id, summary: 'one' });
  await all(client.conversations.messages.create(c.id, { messages: [user('shared')] }));
  const f = await client.conversations.fork(c.id);
  assert.deepEqual([f.agent_id, f.summary], [a.id, 'one']);
  await all(client.conversations.messages.create(f.id, { messages: [user('apart')] }));
  const said = async (id) => (await client.conversations.messages.list(id, { order: 'asc' })).items.map((m) => m.content);
  assert.deepEqual(await said(f.id), ['Be kind.', 'shared', 'You said: shared', 'apart', 'You said: apart']);
  assert.deepEqual(await said(c.id), ['Be kind.', 'shared', 'You said: shared']);
  assert.equal(await client.agents.recompile(a.id), 'Be kind.');
  assert.equal(await client.conversations.recompile(f.id), 'Be kind.');
});

test('memory blocks, tags, tools and all messages', async () => {
  const a = await fresh({ tags: ['rare'], memory_blocks: [{ label: 'human', value: 'Ada' }] });
  assert.equal((await client.agents.blocks.retrieve('human', { agent_id: a.id })).value, 'Ada');
  assert.equal((await client.agents.blocks.update('human', { agent_id: a.id, value: 'Grace' })).value, 'Grace');
  assert.deepEqual((await client.agents.blocks.list(a.id)).items.map((b) => b.value), ['Grace']);
  assert.equal((await client.agents.retrieve(a.id)).memory.blocks[0].value, 'Grace');
  assert.ok((await client.tags.list()).includes('rare'));
  assert.deepEqual((await client.agents.tools.list(a.id)).items, []);
  assert.deepEqual((await client.tools.list()).items, []);
  await client.agents.messages.create(a.id, { input: 'the newest' });
  assert.deepEqual((await client.messages.list({ limit: 2 })).map((m) => m.content), ['You said: the newest', 'the newest']);
});

test('requests that are not offered are refused once', async () => {
  let requests = 0;
  const counting = new Letta({ baseURL: server.url, apiKey: 'any', fetch: (...args) => (requests++, fetch(...args)) });
  for (const [call, words] of [
    [() => counting.agents.messages.reset(agent.id, {}), /never rewritten/],
    [() => counting.agents.messages.compact(agent.id), /compact their context/],
    [() => counting.blocks.create({ label: 'x', value: 'y' }), /memory_blocks/],
    [() => counting.tools.create({ source_code: 'x' }), /client_tools/],
    [() => counting.folders.list(), /not offered/],
    [() => counting.messages.search({ query: 'x' }), /not offered/],
  ]) {
    requests = 0;
    const e = await refused(call());
    assert.deepEqual([e.status, requests], [501, 1]);
    assert.match(e.error.detail, words);
  }
});

test('a deleted agent is in no file, also when the server is killed meanwhile', async () => {
  const s2 = await Server.start();
  const c2 = new Letta({ baseURL: s2.url, apiKey: 'any', maxRetries: 0 });
  const secret = 'the-marmot-sleeps-' + randomUUID();
  const holders = async () => {
    const names = (await readdir(s2.dir, { recursive: true, withFileTypes: true })).filter((f) => f.isFile()).map((f) => path.join(f.parentPath, f.name));
    const found = await Promise.all(names.map(async (f) => (await readFile(f).catch(() => Buffer.alloc(0))).includes(secret)));
    return names.filter((_, i) => found[i]);
  };
  try {
    const ids = [];
    for (let i = 0; i < 6; i++) {
      const a = await c2.agents.create({ name: secret, model: 'parley/demo', system: secret });
      await c2.conversations.create({ agent_id: a.id, summary: secret });
      await c2.agents.messages.create(a.id, { input: secret });
      ids.push(a.id);
    }
    assert.notDeepEqual(await holders(), []);
    await c2.agents.delete(ids[0]);
    const under = ids.slice(1).map((id) => c2.agents.delete(id).catch(() => {}));
    await s2.restart('SIGKILL');
    await Promise.all(under);
    // Agents that were not deleted before the kill are deleted now; the server finishes the others.
    for (const a of (await c2.agents.list()).items) await c2.agents.delete(a.id);
    for (const id of ids) assert.ok([404, 410].includes((await refused(c2.agents.retrieve(id))).status));
    const deadline = Date.now() + 60_000;
    while ((await holders()).length > 0 && Date.now() < deadline) await new Promise((done) => setTimeout(done, 50));
    assert.deepEqual(await holders(), []);
  } finally {
    await s2.stop();
  }
});

test('10 000 messages are listed in pages without repeats or gaps', async () => {
  const session = 'long-' + randomUUID();
  const native = async (path, body) => {
    const r = await fetch(server.url + '/parley/v1/sessions' + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
    assert.equal(r.status, 201, await r.clone().text());
  };
  await native('', { id: session, agent: 'none' });
  const want = [];
  for (let i = 0; i < 10; i++) {
    const drafts = [];
    for (let j = 0; j < 500; j++) {
      const n = i * 500 + j;
      drafts.push({ type: 'user.message', payload: { text: 'q' + n } }, { type: 'agent.text', payload: { text: 'a' + n } });
      want.push('q' + n, 'a' + n);
    }
    await native(`/${session}/events`, drafts);
  }
  for (const order of ['asc', 'desc']) {
    for (const limit of [97, 1000]) {
      const seen = [];
      for await (const m of client.conversations.messages.list(session, { order, limit })) seen.push(m.content);
      assert.deepEqual(seen, order === 'asc' ? want : want.toReversed());
    }
  }
  // Backwards from the middle.
  const [middle] = (await client.conversations.messages.list(session, { limit: 1, order: 'asc', after: (await client.conversations.messages.list(session, { order: 'asc', limit: 1000 })).items.at(-1).id })).items;
  const back = [];
  let page = await client.conversations.messages.list(session, { order: 'asc', before: middle.id, limit: 300 });
  while (page.items.length > 0) {
    back.unshift(...page.items.map((m) => m.content));
    page = await page.getNextPage();
  }
  assert.deepEqual(back, want.slice(0, 1000));
  const [elsewhere] = (await client.agents.messages.list(agent.id, { limit: 1 })).items;
  for (const order of ['asc', 'desc']) assert.equal((await refused(client.conversations.messages.list(session, { order, after: elsewhere.id }))).status, 404);
});

test("an agent's messages: asc pages to the end, desc gives the newest, oldest first", async () => {
  const a = await fresh();
  const want = [];
  for (let i = 0; i < 25; i++) {
    await client.agents.messages.create(a.id, { input: 'm' + i });
    want.push('m' + i, 'You said: m' + i);
  }
  const seen = [];
  for await (const m of client.agents.messages.list(a.id, { order: 'asc', limit: 7 })) seen.push(m.content);
  assert.deepEqual(seen, want);
  const newest = (await client.agents.messages.list(a.id, { limit: 6 })).items;
  assert.deepEqual(newest.map((m) => m.content), want.slice(-6));
  const older = (await client.agents.messages.list(a.id, { limit: 6, before: newest[0].id })).items;
  assert.deepEqual(older.map((m) => m.content), want.slice(-12, -6));
  const newer = (await client.agents.messages.list(a.id, { after: newest[3].id })).items;
  assert.deepEqual(newer.map((m) => m.content), want.slice(-2));
  assert.equal((await refused(client.agents.messages.list(a.id, { after: 'message-00000000-0000-4000-8000-000000000000' }))).status, 404);
});

test('senders, groups, names and images stay with the message', async () => {
  const post = async (path, body) => (await fetch(server.url + '/v1' + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })).json();
  const a = await fresh();
  const who = await post('/identities/', { identifier_key: randomUUID(), name: 'Ada', identity_type: 'user' });
  assert.match(who.id, /^identity-/);
  const group = await post('/groups/', { agent_ids: [a.id], description: 'both' });
  assert.match(group.id, /^group-/);
  await client.agents.identities.attach(who.id, { agent_id: a.id });
  assert.deepEqual((await client.agents.retrieve(a.id)).identity_ids, [who.id]);
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } };
  await client.agents.messages.create(a.id, {
    messages: [
      { role: 'system', content: 'A note.' },
      { role: 'user', content: [{ type: 'text', text: 'look' }, image], sender_id: who.id, group_id: group.id, name: 'Ada' },
    ],
  });
  const [note, sent] = (await client.agents.messages.list(a.id, { order: 'asc' })).items;
  assert.deepEqual([note.message_type, note.content], ['system_message', 'A note.']);
  assert.deepEqual([sent.sender_id, sent.name], [who.id, 'Ada']);
  assert.deepEqual(sent.content.map((p) => p.type), ['text', 'image']);
  assert.deepEqual((await client.agents.messages.list(a.id, { group_id: group.id })).items.map((m) => m.id), [sent.id]);
  await client.agents.identities.detach(who.id, { agent_id: a.id });
  assert.deepEqual((await client.agents.retrieve(a.id)).identity_ids, []);
});

test('refusals have a text', async () => {
  const send = (body) => refused(client.agents.messages.create(agent.id, body));
  for (const [body, status, words] of [
    [{}, 422, /exactly one of messages and input/],
    [{ input: 'x', messages: [user('y')] }, 422, /exactly one/],
    [{ messages: [] }, 422, /at least one/],
    [{ messages: [user('')] }, 400, /empty/],
    [{ messages: [{ role: 'nobody', content: 'x' }] }, 422, /role/],
    [{ input: 'x', background: true }, 422, /streaming/],
    [{ input: [{ type: 'image', source: { type: 'url', url: 'file:///etc/passwd' } }] }, 400, /http/],
    [{ messages: [approve('x', true)] }, 400, /No tool call is currently awaiting approval/],
  ]) {
    const e = await send(body);
    assert.equal(e.status, status, JSON.stringify(body));
    assert.match(String(e.error.detail), words);
  }
  assert.equal((await refused(client.agents.messages.list(agent.id, { limit: 0 }))).status, 422);
});

test('the API key is a token, and a model can be assigned to an agent', async () => {
  const token = 'a-token-of-some-length-0123456789';
  const s2 = await Server.start('--token', token, '--letta-model', 'openai/gpt-4.1=demo');
  try {
    const c2 = new Letta({ baseURL: s2.url, apiKey: token });
    const a = await c2.agents.create({ model: 'openai/gpt-4.1', embedding: 'openai/text-embedding-3-small', tools: ['web_search'] });
    assert.equal(a.model, 'openai/gpt-4.1');
    assert.equal(text((await c2.agents.messages.create(a.id, { input: 'hello' })).messages), 'You said: hello');
    const stranger = new Letta({ baseURL: s2.url, apiKey: 'wrong' });
    const e = await refused(stranger.agents.list());
    assert.deepEqual([e.status, e.error.detail], [401, 'Unauthorized']);
    assert.equal((await stranger.health()).status, 'ok');
  } finally {
    await s2.stop();
  }
});

test('one conversation in two dialects: NeMo and Letta see the messages of each other', async () => {
  const r = await fetch(server.url + '/v1/chat/completions', {
    method: 'POST', headers: { 'content-type': 'application/json', 'conversation-id': 'shared' }, body: JSON.stringify({ messages: [{ role: 'user', content: 'from there' }] }),
  });
  const id = r.headers.get('conversation-id');
  await r.text();
  const listed = (await client.conversations.messages.list(id, { order: 'asc' })).items;
  assert.deepEqual(listed.map((m) => m.content), ['from there', 'You said: from there']);
  const events = await (await fetch(`${server.url}/parley/v1/sessions/${agent.id}/events?types=user.message`)).json();
  assert.equal(events.events[0].via, 'letta');
});
