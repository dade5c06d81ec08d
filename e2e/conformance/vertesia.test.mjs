// The Vertesia dialect, with the unmodified npm @vertesia/client.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { createCompactMessage, parseMessage, toAgentMessage, toCompactMessage } from '@vertesia/common';
import WebSocket from 'ws';
import { connect, follow, KEY, Proxy, Reader, T, tokens } from './vertesia.client.mjs';
import { Server } from './server.mjs';

for (const level of ['log', 'warn', 'error', 'debug']) console[level] = () => {}; // the client is talkative
globalThis.WebSocket ??= WebSocket;

let server, agents, workflows, files, asks;
before(async () => {
  server = await Server.start('--token', KEY);
  ({ agents, workflows, files, asks } = connect(server.url));
});
after(() => server.stop());

const start = (task, more = {}) => agents.start({ interaction: 'demo', data: { task }, interactive: true, ...more });
const once = (task, more = {}) => start(task, { interactive: false, ...more });
const isIdle = (m) => m.type === T.IDLE;

test('the test vectors for Go equal the output of the published package', () => {
  const v = JSON.parse(readFileSync(new URL('../../internal/dialect/vertesia/testdata/messages.json', import.meta.url)));
  for (const { input, want } of v.parse) assert.deepEqual(parseMessage(input), want);
  for (const { input } of v.refused) assert.throws(() => parseMessage(input));
  for (const { input, run, want } of v.toAgent) assert.deepEqual(toAgentMessage(parseMessage(input), run), want);
  for (const { input, want } of v.toCompact) assert.deepEqual(toCompactMessage(input), want);
  for (const { type, options, want } of v.create) assert.deepEqual(createCompactMessage(type, options), want);
});

test('a key is exchanged for a token, and a wrong one is refused', async () => {
  await assert.rejects(connect(server.url, 'sk-somebody-else-0000').agents.list());
  assert.ok(Array.isArray((await agents.list()).items));
});

test('a run that is not interactive streams to its end, and the promise resolves', async () => {
  const run = await once('/stream 200');
  assert.deepEqual([run.run_kind, run.run_type, run.interaction, run.interactive], ['agent', 'autonomous', 'demo', false]);
  const r = follow(agents, run.id);
  await r.ended;
  r.check();
  assert.deepEqual(r.texts(T.ANSWER), [tokens(200)]);
  assert.equal(r.seen.at(-1).type, T.COMPLETE);
  assert.equal((await agents.retrieve(run.id)).status, 'completed');
  // A later reader gets the same from the history, without a stream.
  const late = follow(agents, run.id);
  await late.ended;
  assert.deepEqual(late.stored, r.stored);
  assert.deepEqual(await agents.retrieveMessages(run.id), r.stored);
  // A reader that has all messages gets the end again.
  const again = follow(agents, run.id, {}, r.seen.at(-1).timestamp);
  await again.ended;
});

test('a message is echoed with its ack, and each turn ends idle', async () => {
  const run = await start('hello');
  const r = follow(agents, run.id);
  await r.until(isIdle);
  const reply = await agents.sendSignal(run.id, 'UserInput', { message: 'and now?', client_message_id: 'c-1', metadata: { _messageId: 'c-1', page: 7 } });
  assert.equal(reply.status, 'ok');
  await agents.sendSignal(run.id, 'UserInput', { message: 'and now?', client_message_id: 'c-1', metadata: { _messageId: 'c-1', page: 7 } }); // a retry
  await r.until((m) => m.type === T.ANSWER && m.message === 'You said: and now?');
  await agents.terminate(run.id, 'enough');
  await r.ended;
  r.check();
  const echo = r.seen.filter((m) => m.type === T.QUESTION && m.message === 'and now?');
  assert.equal(echo.length, 1);
  assert.deepEqual([echo[0].details.ack, echo[0].details.metadata.page], ['c-1', 7]);
  assert.equal(r.seen.at(-1).type, T.TERMINATED);
  assert.equal((await agents.retrieve(run.id)).status, 'cancelled');
});

test('closeOnIdle ends a stream with the turn', async () => {
  const run = await start('hello');
  const r = follow(agents, run.id, { closeOnIdle: true });
  await r.ended;
  r.check();
  assert.deepEqual(r.texts(T.ANSWER), ['You said: hello']);
});

test('a stop ends the turn and is acknowledged', async () => {
  const run = await start('/stream 100000 50');
  const r = follow(agents, run.id);
  await r.until((m) => m.type === T.STREAMING_CHUNK);
  await agents.sendSignal(run.id, 'Stop', { client_message_id: 'stop-1' });
  const idle = await r.until((m) => isIdle(m) && m.details?.ack === 'stop-1');
  assert.equal(idle.details.status_reason, 'user_stopped');
  assert.equal(r.buffers.size, 0, 'what was shown has become a message');
  assert.match(r.texts(T.ANSWER)[0], /^tok1 /);
  await agents.terminate(run.id);
  await r.ended;
  r.check();
});

test('a stream that is cut repeatedly loses and repeats nothing', async () => {
  const cut = (n) => (n < 3 ? 300 + 200 * n : Infinity);
  const proxy = await Proxy.start(new URL(server.url), cut);
  try {
    const via = connect(proxy.url).agents;
    const run = await via.start({ interaction: 'demo', data: { task: '/stream 600 60' }, interactive: false });
    const r = follow(via, run.id);
    await r.ended;
    r.check();
    assert.ok(proxy.cuts >= 3, `it was cut ${proxy.cuts} times`);
    // The joined chunks are the text; a text that was finished while the client was disconnected arrives as a whole.
    const text = r.seen.filter((m) => m.type === T.STREAMING_CHUNK).map((m) => m.message).join('');
    assert.ok(text && tokens(600).startsWith(text), text);
    assert.deepEqual(r.texts(T.ANSWER), [tokens(600)]);
    assert.deepEqual(r.stored, await agents.retrieveMessages(run.id));
  } finally {
    await proxy.stop();
  }
});

test('the older stream and the older socket continue after a disconnect, too', async () => {
  for (const over of ['stream', 'socket']) {
    const proxy = await Proxy.start(new URL(server.url), (n) => (n < 2 ? 300 + 200 * n : Infinity));
    try {
      const run = await once('/stream 300 80');
      const r = new Reader();
      const { workflows: via } = connect(proxy.url);
      let cleanup = () => {};
      if (over === 'stream') await via.streamMessages(run.workflow_id, run.id, r.take);
      else ({ cleanup } = await via.streamMessagesWS(run.workflow_id, run.id, (m) => r.take(toAgentMessage(m, run.id))));
      await r.until((m) => m.type === T.COMPLETE);
      cleanup();
      r.check();
      assert.ok(proxy.cuts >= 2, `${over} was cut ${proxy.cuts} times`);
      const text = r.seen.filter((m) => m.type === T.STREAMING_CHUNK).map((m) => m.message).join('');
      assert.ok(tokens(300).startsWith(text), text);
      assert.deepEqual(r.texts(T.ANSWER), [tokens(300)]);
      assert.deepEqual(r.stored, await agents.retrieveMessages(run.id));
    } finally {
      await proxy.stop();
    }
  }
});

test('a server that is killed during a run loses and repeats nothing', async () => {
  const other = await Server.start('--token', KEY);
  try {
    const api = connect(other.url).agents;
    const run = await api.start({ interaction: 'demo', data: { task: '/stream 300 100' }, interactive: false });
    const r = follow(api, run.id);
    await r.until((m) => m.type === T.STREAMING_CHUNK && r.seen.length > 20);
    await other.restart('SIGKILL');
    await r.ended;
    r.check();
    const text = r.seen.filter((m) => m.type === T.STREAMING_CHUNK).map((m) => m.message).join('');
    assert.ok(text && tokens(300).startsWith(text), text);
    assert.deepEqual(r.texts(T.ANSWER), [tokens(300)]);
    assert.deepEqual(r.stored, await api.retrieveMessages(run.id));
  } finally {
    await other.stop();
  }
});

for (const [kind, answer, said] of [['text', 'Ada', 'Ada'], ['radio', 'sms', 'sms'], ['checkbox', 'email, sms', 'email, sms'], ['dropdown', 'push', 'push'], ['binary_choice', 'continue', 'continue']]) {
  test(`a question of type ${kind} is asked and answered`, async () => {
    const run = await once(`/ask ${kind}`);
    const r = follow(agents, run.id);
    const asked = await r.until((m) => m.type === T.REQUEST_INPUT);
    if (kind !== 'text') assert.ok(asked.details.ux.options.every((o) => o.id && o.label));
    if (kind === 'checkbox') assert.equal(asked.details.ux.multiSelect, true);
    await agents.sendSignal(run.id, 'UserInput', { message: answer, client_message_id: 'a-1', metadata: { request_input_response: { request_id: asked.details.request_id } } });
    await r.ended;
    r.check();
    assert.deepEqual(r.texts(T.ANSWER), ['You answered: ' + said]);
    const echo = r.seen.find((m) => m.details?.request_input_response);
    assert.deepEqual([echo.type, echo.details.ack, echo.details.request_input_response.request_id], [T.QUESTION, 'a-1', asked.details.request_id]);
  });
}

test('a wrong answer is refused with a reason, and the question stays open', async () => {
  const run = await once('/ask radio');
  const r = follow(agents, run.id);
  const asked = await r.until((m) => m.type === T.REQUEST_INPUT);
  const answer = (message) => agents.sendSignal(run.id, 'UserInput', { message, metadata: { request_input_response: { request_id: asked.details.request_id } } });
  await assert.rejects(answer('pigeon'), /not one of the options/);
  await answer('push');
  await r.ended;
});

test('a tool waits for approval', async () => {
  for (const [decision, says] of [['allow_once', /^deploy gave/], ['deny', /^Denied/]]) {
    const run = await once('/approve deploy {"env":"prod"}');
    const r = follow(agents, run.id);
    const asked = await r.until((m) => m.type === T.REQUEST_INPUT);
    const { approval_key, tool_name } = asked.details.tool_approval;
    assert.equal(tool_name, 'deploy');
    assert.deepEqual(asked.details.ux.options.map((o) => o.id), ['allow_once', 'allow_for_run', 'deny']);
    await agents.sendSignal(run.id, 'UserInput', {
      message: decision, client_message_id: 'd-' + decision,
      metadata: { request_input_response: { request_id: asked.details.request_id }, tool_approval_response: { decision, approval_key } },
    });
    await r.ended;
    r.check();
    assert.match(r.texts(T.ANSWER)[0], says);
    assert.equal(r.seen.find((m) => m.details?.tool_approval_response).details.tool_approval_response.decision, decision);
  }
});

test('pending questions are listed over all runs and can be answered there', async () => {
  const run = await once('/ask text');
  const r = follow(agents, run.id);
  await r.until((m) => m.type === T.REQUEST_INPUT);
  const open = (await asks.list()).asks.find((a) => a.runId === run.id);
  assert.deepEqual([open.status, open.agentName], ['pending', 'demo']);
  assert.equal((await asks.retrieve(open.askId)).askId, open.askId);
  assert.equal((await asks.resolve(open.askId, { response: 'Grace' })).success, true);
  await r.ended;
  assert.deepEqual(r.texts(T.ANSWER), ['You answered: Grace']);
  await assert.rejects(asks.resolve(open.askId, { response: 'too late' }));
});

test('thinking, tools, plans and usage are shown', async () => {
  const said = async (task) => {
    const run = await once(task);
    const r = follow(agents, run.id);
    await r.ended;
    r.check();
    return [r, run];
  };
  const [thinking] = await said('/think about it');
  assert.equal(thinking.seen.find((m) => m.type === T.THOUGHT).details.display_role, 'thinking');
  const [tool] = await said('/tool calc {"a":2}');
  const calls = tool.seen.filter((m) => m.details?.tool === 'calc').map((m) => m.details);
  assert.deepEqual(calls.map((d) => [d.tool_event, d.tool_status]), [['started', 'running'], ['completed', 'completed']]);
  assert.equal(calls[0].tool_run_id, calls[1].tool_run_id);
  const [failing] = await said('/toolfail calc');
  assert.ok(failing.seen.some((m) => m.details?.tool_event === 'failed'));
  const [plan, planned] = await said('/plan 3');
  assert.deepEqual(plan.seen.findLast((m) => m.type === T.PLAN).details.plan.map((t) => [t.id, t.status]), [[1, 'completed'], [2, 'completed'], [3, 'completed']]);
  assert.equal((await agents.query(planned.id, 'AgentPlan')).plan.length, 3);
  assert.ok(Array.isArray((await agents.query(planned.id, 'AvailableTools')).tools));
  const [usage] = await said('/usage 100 20');
  assert.deepEqual(usage.seen.find((m) => m.details?.token_usage).details.token_usage, { prompt: 100, result: 20, total: 120 });
  const [failed, run] = await said('/fail no luck');
  assert.ok(failed.seen.some((m) => m.type === T.ERROR && m.message.includes('no luck')));
  assert.equal((await agents.retrieve(run.id)).status, 'failed');
});

test('artifacts are uploaded to a signed URL, listed and downloaded', async () => {
  const run = await start('hello');
  const text = 'a, b\n1, 2\n';
  const put = await agents.uploadArtifact(run.id, 'files/a table #1.csv', new Blob([text]), 'text/csv');
  assert.equal(put.path, `agents/${run.id}/files/a table #1.csv`);
  assert.deepEqual(await agents.listArtifacts(run.id), ['files/a table #1.csv']);
  const body = await agents.downloadArtifact(run.id, 'files/a table #1.csv');
  assert.equal(await new Response(body).text(), text);
  const { url } = await agents.getArtifactUrl(run.id, 'files/a table #1.csv', 'inline', 'table.csv');
  const res = await fetch(url);
  assert.deepEqual([res.status, res.headers.get('content-type'), res.headers.get('x-content-type-options')], [200, 'text/csv', 'nosniff']);
  assert.match(res.headers.get('content-disposition'), /attachment; filename=table.csv/);
  assert.equal((await fetch(url.replace(/.$/, (c) => (c === 'A' ? 'B' : 'A')))).status, 403);
  assert.equal((await fetch(url, { method: 'PUT', body: 'x', headers: { 'content-type': 'text/csv' } })).status, 403);
  assert.deepEqual((await files.list(`agents/${run.id}/`)).files, [`agents/${run.id}/files/a table #1.csv`]);
  assert.equal(await new Response(await files.downloadFile(`agents/${run.id}/files/a table #1.csv`)).text(), text);
  const got = await agents.getArtifactContent(run.id, 'files/a table #1.csv');
  assert.equal(got.content, text);
  const next = await agents.updateArtifactContent(run.id, 'files/a table #1.csv', { content: 'new', generation: got.generation });
  assert.notEqual(next.generation, got.generation);
  await assert.rejects(agents.updateArtifactContent(run.id, 'files/a table #1.csv', { content: 'mine', generation: got.generation }), /changed meanwhile/);
  const whole = JSON.parse(await new Response(await agents.downloadArtifact(run.id, 'conversation.json')).text());
  assert.ok(whole.messages.length >= 3);
});

test('files are shown at once and reach the agent once', async () => {
  const run = await start('hello');
  const r = follow(agents, run.id);
  await agents.uploadArtifact(run.id, 'files/x.txt', 'x', 'text/plain');
  await agents.sendSignal(run.id, 'FileUploaded', { id: 'f1', name: 'x.txt', content_type: 'text/plain', reference: 'artifact:files/x.txt', artifact_path: 'files/x.txt' });
  const snapshot = (fits) => r.until((m) => m.details?.system_type === 'file_processing' && fits(m.details));
  const shown = await snapshot((d) => d.ready_count === 1);
  assert.deepEqual([shown.details.files[0].status, shown.details.files[0].size], ['ready', 1]);
  await agents.sendSignal(run.id, 'FileUploaded', { id: 'f2', name: 'y.txt', content_type: 'text/plain', reference: 'artifact:files/y.txt', artifact_path: 'files/y.txt' });
  await snapshot((d) => d.error_count === 1);
  await agents.sendSignal(run.id, 'FileRemoved', { id: 'f2' });
  await agents.sendSignal(run.id, 'UserInput', { message: 'look', client_message_id: 'l-1' });
  const consumed = await snapshot((d) => d.files.length === 1 && d.files[0].consumed_at > 0);
  assert.equal(consumed.details.error_count, 0);
  assert.deepEqual((await r.until((m) => m.details?.ack === 'l-1')).details.files, ['files/x.txt']);
  await agents.uploadArtifact(run.id, 'files/z.txt', 'zz', 'text/plain');
  await agents.sendSignal(run.id, 'FileUploaded', { id: 'f3', name: 'z.txt', content_type: 'text/plain', reference: 'artifact:files/z.txt', artifact_path: 'files/z.txt' });
  for (let i = 0; i < 2; i++) await agents.sendSignal(run.id, 'FileBatchClosed', { batch_id: 'b1', file_ids: ['f3'], failed_uploads: [{ name: 'w.txt', error: 'gone' }] });
  await r.until((m) => m.type === T.QUESTION && m.message.startsWith('[Files Ready]'));
  await agents.terminate(run.id);
  await r.ended;
  r.check();
  const told = r.texts(T.QUESTION).filter((m) => m.startsWith('[Files Ready]'));
  assert.equal(told.length, 1);
  assert.match(told[0], /z\.txt.*\n.*w\.txt was not uploaded: gone/);
});

test('settings of a run are stored and shown', async () => {
  const run = await start('hello', { tags: ['x'], tool_approval_mode: 'ask', title: 'A title' });
  await agents.sendSignal(run.id, 'ToolApprovalModeChanged', { mode: 'full_control' });
  await agents.sendSignal(run.id, 'ModelConfigChanged', { model: 'm-2', effort: null });
  await agents.sendSignal(run.id, 'McpConfigChanged', { disabled_mcp_collections: ['c'] });
  await agents.sendSignal(run.id, 'TriggerCheckpoint', { reason: 'manual' });
  await agents.updateStatus(run.id, { topic: 'Greetings', properties: { a: 1 } });
  const now = await agents.retrieve(run.id);
  assert.deepEqual([now.tool_approval_mode, now.disabled_mcp_collections, now.title, now.topic, now.tags, now.properties], ['full_control', ['c'], 'A title', 'Greetings', ['x'], { a: 1 }]);
  await assert.rejects(agents.sendSignal(run.id, 'ToolApprovalModeChanged', { mode: 'anything' }), /full_control/);
});

test('an ended run is reopened and continues', async () => {
  const run = await once('first');
  const first = follow(agents, run.id);
  await first.ended;
  assert.deepEqual([(await agents.restart(run.id)).id, (await agents.retrieve(run.id)).status], [run.id, 'running']);
  const r = follow(agents, run.id, {}, first.seen.at(-1).timestamp);
  await agents.sendSignal(run.id, 'UserInput', { message: 'second', client_message_id: 's-2' });
  await r.ended;
  r.check();
  assert.ok(r.seen.some((m) => m.type === T.RESTARTING));
  assert.deepEqual(r.texts(T.ANSWER), ['You said: second']);
});

test('a fork has the history and is independent', async () => {
  const run = await start('shared');
  await follow(agents, run.id, { closeOnIdle: true }).ended;
  const fork = await agents.fork(run.id);
  assert.notEqual(fork.id, run.id);
  assert.equal(fork.forked_from, run.id);
  await agents.sendSignal(fork.id, 'UserInput', { message: 'apart', client_message_id: 'f-1' });
  const r = follow(agents, fork.id);
  await r.until((m) => m.type === T.ANSWER && m.message === 'You said: apart');
  assert.deepEqual(r.texts(T.ANSWER), ['You said: shared', 'You said: apart']);
  assert.ok(!(await agents.retrieveMessages(run.id)).some((m) => m.message === 'apart'));
  await agents.terminate(fork.id);
  await r.ended;
});

test('runs are listed, searched and read', async () => {
  const run = await once('/tool calc {"a":2}', { title: 'A needle in the list', tags: ['needle'] });
  await follow(agents, run.id).ended;
  assert.equal((await agents.list({ id: run.id })).items[0].id, run.id);
  assert.deepEqual((await agents.search({ query: 'needle in' })).hits.map((h) => h.id), [run.id]);
  assert.deepEqual((await agents.search({ tags: ['needle'] })).hits.map((h) => h.id), [run.id]);
  assert.deepEqual((await agents.list({ status: 'failed', limit: 1 })).items.map((i) => i.status), ['failed']);
  assert.equal((await workflows.searchRuns({ search_term: 'needle' })).runs[0].run_id, run.id);
  const about = await agents.getInternals(run.id);
  assert.deepEqual([about.id, about.status], [run.id, 'completed']);
  const details = await agents.getRunDetails(run.id, { includeHistory: true });
  assert.equal(details.status, 'COMPLETED');
  assert.equal(details.history.events[0].event_type, 'session.started');
  const tasks = (await workflows.getRunDetails(run.id, run.workflow_id, { historyFormat: 'agent' })).history.agentTasks;
  assert.ok(tasks.some((t) => t.toolName === 'calc' && t.status === 'completed'));
  const events = [];
  await agents.streamRunDetails(run.id, (e) => events.push(e));
  assert.deepEqual([events[0].type, events.at(-1).data], ['history', { type: 'done' }]);
  await assert.rejects(agents.retrieve('no-such-run'), (e) => e.status === 404);
});

test('the older interface: stream, signals, cancel', async () => {
  const run = await start('hello');
  const r = new Reader();
  const ended = workflows.streamMessages(run.workflow_id, run.first_workflow_run_id, r.take);
  await r.until(isIdle);
  await workflows.sendSignal(run.workflow_id, run.first_workflow_run_id, 'UserInput', { message: 'again', client_message_id: 'o-1' });
  await r.until((m) => m.message === 'You said: again');
  assert.equal((await workflows.getRunInteraction(run.workflow_id, run.id)).interaction.interaction, 'demo');
  assert.ok((await workflows.query(run.workflow_id, run.id, 'ActiveWorkstreams')).running);
  await workflows.cancel(run.workflow_id, run.id, 'enough');
  await ended;
  r.check();
  assert.equal(r.seen.at(-1).type, T.TERMINATED);
  const [begun] = await workflows.execute('demo', { vars: { task: 'by name' } });
  const other = new Reader();
  const over = workflows.streamMessages(begun.workflow_id, begun.run_id, other.take);
  await other.until((m) => m.message === 'You said: by name');
  await workflows.terminate(begun.workflow_id, begun.run_id);
  await over;
});

test('the older WebSocket: history, live, signals', async () => {
  const run = await start('hello');
  const r = new Reader();
  const seen = [];
  const ws = await workflows.streamMessagesWS(run.workflow_id, run.id, (m) => {
    seen.push(m);
    r.take(toAgentMessage(m, run.id));
  });
  await r.until(isIdle);
  ws.sendSignal('UserInput', { message: 'over a socket', client_message_id: 'w-1' });
  await r.until((m) => m.message === 'You said: over a socket');
  assert.ok(seen.every((m) => typeof m.t === 'number' && m.ts > 0));
  ws.sendSignal('Stop', { client_message_id: 'w-2' });
  await r.until((m) => m.details?.ack === 'w-2');
  ws.cleanup();
  r.check();
});

test('an external agent posts messages of every type, and they are returned unchanged', async () => {
  const run = await agents.recordRun({ interaction: 'mine', workflow_id: 'wf-9', first_workflow_run_id: 'wr-9' });
  assert.deepEqual([run.workflow_id, run.first_workflow_run_id], ['wf-9', 'wr-9']);
  const r = follow(agents, run.id);
  const details = {
    [T.SYSTEM]: { system_type: 'toolkit_ready', n: 1 }, [T.THOUGHT]: { event_class: 'activity', tool: 'fetch', tool_event: 'started', tool_run_id: 'tr' },
    [T.PLAN]: { plan: [{ id: 1, goal: 'g', status: 'pending' }] }, [T.UPDATE]: { event_class: 'display_artifact', path: 'files/x' },
    [T.WARNING]: { attempt: 1, maxAttempts: 3 }, [T.ERROR]: { code: 7 }, [T.ANSWER]: { resources: [{ type: 'document', id: 'd', label: 'D', action: 'created' }] },
    [T.QUESTION]: { ack: 'q-1' }, [T.IDLE]: { token_usage: { prompt: 1 } },
    [T.BATCH_PROGRESS]: { batch_id: 'b', tool_name: 't', total: 2, completed: 1, succeeded: 1, failed: 0, items: [], started_at: 1 }, [T.RESTARTING]: { why: 'x' },
  };
  for (const [type, d] of Object.entries(details)) {
    assert.equal((await agents.postMessage(run.id, { type: Number(type), message: 'of type ' + type, details: d })).success, true);
  }
  await agents.postMessage(run.id, { type: T.REQUEST_INPUT, message: 'Which?', details: { request_id: 'rq', ux: { options: [{ id: 'a', label: 'A' }] } } });
  for (const piece of ['Hel', 'lo ', 'you']) await agents.postMessage(run.id, { type: T.STREAMING_CHUNK, message: piece, details: { streaming_id: 'wr:1', activity_id: 'act:1' } });
  await r.until((m) => m.type === T.STREAMING_CHUNK && m.message.endsWith('you'));
  await agents.postMessage(run.id, { type: T.ANSWER, message: 'Hello you', details: { activity_id: 'act:1' } });
  await workflows.postMessage(run.id, { timestamp: 1, workflow_run_id: run.id, type: T.UPDATE, message: 'in a line', workstream_id: 'pricing' });
  await agents.postMessage(run.id, { type: T.TERMINATED, message: 'a child ended', workstream_id: 'pricing' });
  await agents.postMessage(run.id, { type: T.COMPLETE, message: 'All done' });
  await r.ended;
  r.check();
  for (const [type, d] of Object.entries(details)) {
    const m = r.seen.find((x) => x.message === 'of type ' + type);
    assert.deepEqual([m.type, m.details], [Number(type), d]);
  }
  assert.deepEqual(r.seen.find((m) => m.type === T.REQUEST_INPUT).details.ux.options, [{ id: 'a', label: 'A' }]);
  assert.equal(r.seen.at(-1).message, 'All done');
  assert.equal((await agents.retrieve(run.id)).status, 'completed');
  assert.equal((await agents.ingestEvents(run.id, [{ eventType: 'x' }])).ingested, 1);
});

test('a history of thousands of messages is complete and can be read in pages', async () => {
  const run = await agents.recordRun({ interaction: 'mine', workflow_id: 'wf', first_workflow_run_id: 'wr' });
  for (let page = 0; page < 5; page++) {
    const drafts = Array.from({ length: 500 }, (_, i) => ({ type: 'agent.text', payload: { text: `message ${page * 500 + i + 1}` } }));
    const res = await fetch(`${server.url}/parley/v1/sessions/${run.id}/events`, { method: 'POST', headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' }, body: JSON.stringify(drafts) });
    assert.equal(res.status, 201);
  }
  const all = await agents.retrieveMessages(run.id);
  assert.equal(all.length, 2501); // with that of the beginning
  assert.equal(new Set(all.map((m) => m.timestamp)).size, all.length);
  const read = async (query) => (await fetch(`${server.url}/api/v1/agents/${run.id}/updates?${new URLSearchParams(query)}`, { headers: { authorization: `Bearer ${KEY}` } })).json();
  const forward = [];
  for (let since = 0; ; ) {
    const page = await read({ limit: 400, ...(since && { since }) });
    forward.push(...page.messages);
    since = page.messages.at(-1).ts;
    if (!page.has_more) break;
  }
  assert.deepEqual(forward.map((m) => m.ts), all.map((m) => m.timestamp));
  const backward = [];
  for (let before = all.at(-1).timestamp + 1; ; ) {
    const page = await read({ limit: 400, before });
    backward.unshift(...page.messages);
    before = page.messages[0].ts;
    if (!page.has_more) break;
  }
  assert.deepEqual(backward.map((m) => m.ts), all.map((m) => m.timestamp));
});
