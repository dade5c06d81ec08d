// The settings of a run and the other requests of the unmodified npm @vertesia/client: every setting has an effect, and every
// request is answered.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { after, before, test } from 'node:test';
import { StreamSource } from '@vertesia/client';
import { connect, follow, Proxy, T } from './vertesia.client.mjs';
import { Server } from './server.mjs';

for (const level of ['log', 'warn', 'error', 'debug']) console[level] = () => {}; // the client is talkative

// A model behind Chat Completions that records its requests.
const asked = [];
const model = http.createServer((req, res) => {
  let body = '';
  req.on('data', (b) => (body += b));
  req.on('end', () => {
    if (req.method !== 'POST') return res.writeHead(200, { 'content-type': 'application/json' }).end('{"data":[]}');
    const r = JSON.parse(body);
    asked.push(r);
    const memory = r.messages[0]?.content?.includes?.('memory of a conversation');
    const chunk = (delta, finish = null) => res.write(`data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: r.model, choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`);
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    chunk({ role: 'assistant', content: memory ? 'They greeted each other.' : `Answer ${asked.length}.` });
    chunk({}, 'stop');
    res.end('data: [DONE]\n\n');
  });
});

// A real MCP server, whose tools the helper has.
const shelf = new URL('./node_modules/@modelcontextprotocol/server-filesystem/dist/index.js', import.meta.url);

let server, dir, client, agents, workflows, files;
before(async () => {
  await new Promise((ready) => model.listen(0, '127.0.0.1', ready));
  dir = await mkdtemp(path.join(tmpdir(), 'parley-settings-'));
  const config = path.join(dir, 'parley.yaml');
  await writeFile(config, `agents:
  - name: demo
    kind: demo
  - name: helper
    kind: model
    provider: openai
    endpoint: http://127.0.0.1:${model.address().port}/v1
    model: small
    models: [large]
    mcp:
      - name: shelf
        command: [${JSON.stringify(process.execPath)}, ${JSON.stringify(fileURLToPath(shelf))}, ${JSON.stringify(dir)}]
`);
  server = await Server.start('--config', config);
  ({ client, agents, workflows, files } = connect(server.url));
});
after(async () => {
  await server.stop();
  await new Promise((done) => model.close(done));
  await rm(dir, { recursive: true, force: true });
});

const idle = (m) => m.type === T.IDLE;
const text = (r, type) => r.texts(type).at(-1);

test('the approval mode decides who approves, at the start and after a change', async () => {
  const run = await agents.start({ interaction: 'demo', data: { task: '/approve deploy {}' }, interactive: true, tool_approval_mode: 'full_control' });
  assert.equal(run.tool_approval_mode, 'full_control');
  const r = follow(agents, run.id);
  await r.until(idle);
  assert.ok(!r.seen.some((m) => m.type === T.REQUEST_INPUT), 'nobody is asked');
  assert.equal(r.seen.filter((m) => m.details?.approval_decision === 'auto_approved').length, 1);
  await agents.sendSignal(run.id, 'ToolApprovalModeChanged', { mode: 'ask' });
  await agents.sendSignal(run.id, 'UserInput', { message: '/approve again {}', client_message_id: 'a' });
  const again = await r.until((m) => m.type === T.REQUEST_INPUT && m.details.tool_approval.tool_name === 'again');
  assert.equal((await agents.retrieve(run.id)).tool_approval_mode, 'ask');
  await agents.sendSignal(run.id, 'UserInput', { message: 'deny', metadata: { tool_approval_response: { decision: 'deny', approval_key: again.details.tool_approval.approval_key } } });
  await r.until((m) => m.type === T.ANSWER && m.message.startsWith('Denied'));
  await agents.terminate(run.id);
  await r.ended;
  r.check();
});

test('the model, its effort and the tools of a run are the selected ones', async () => {
  const run = await agents.start({ interaction: 'helper', data: { task: 'hello' }, interactive: true, tool_names: ['+extra'], excluded_tools: ['update_plan'] });
  const r = follow(agents, run.id);
  await r.until(idle);
  assert.equal(asked.at(-1).model, 'small');
  const { tools } = await agents.query(run.id, 'AvailableTools');
  assert.ok(tools.length > 0 && tools.every((t) => t.name && t.description));
  assert.ok(!tools.some((t) => t.name === 'update_plan'));
  assert.deepEqual(asked.at(-1).tools.map((t) => t.function.name).sort(), tools.map((t) => t.name).sort());
  const say = async (message) => {
    const before = r.seen.filter(idle).length;
    await agents.sendSignal(run.id, 'UserInput', { message, client_message_id: message });
    await r.until(() => r.seen.filter(idle).length > before, `the answer to ${message}`);
    return asked.at(-1);
  };
  await agents.sendSignal(run.id, 'ModelConfigChanged', { model: 'large', effort: 'high' });
  const large = await say('and now');
  assert.deepEqual([large.model, large.reasoning_effort], ['large', 'high']);
  await agents.sendSignal(run.id, 'ModelConfigChanged', { model: 'enormous', effort: null });
  assert.equal((await say('too much')).model, 'small');
  assert.ok(r.seen.some((m) => m.type === T.UPDATE && m.message.includes('enormous is not offered')));
  // The conversation is summarised before the next answer.
  await agents.sendSignal(run.id, 'TriggerCheckpoint', { reason: 'manual' });
  const short = JSON.stringify((await say('go on')).messages);
  assert.match(short, /They greeted each other\./);
  assert.ok(!short.includes('and now'), short);
  await agents.terminate(run.id);
  await r.ended;
  r.check();
});

test('MCP servers are disabled and enabled again for a run', async () => {
  const run = await agents.start({ interaction: 'helper', data: { task: 'hello' }, interactive: true, disabled_mcp_collections: ['shelf'] });
  const r = follow(agents, run.id);
  await r.until(idle);
  const shelved = (list) => list.filter((name) => name.startsWith('shelf')).length;
  const offered = async (message) => {
    const before = r.seen.filter(idle).length;
    await agents.sendSignal(run.id, 'UserInput', { message, client_message_id: message });
    await r.until(() => r.seen.filter(idle).length > before, `the answer to ${message}`);
    const { tools } = await agents.query(run.id, 'AvailableTools');
    assert.deepEqual(asked.at(-1).tools.map((t) => t.function.name).sort(), tools.map((t) => t.name).sort());
    return tools.map((t) => t.name);
  };
  assert.equal(shelved(await offered('without')), 0);
  await agents.sendSignal(run.id, 'McpConfigChanged', { disabled_mcp_collections: [] });
  const all = await offered('with');
  assert.ok(shelved(all) > 3, `${all}`);
  await agents.sendSignal(run.id, 'McpConfigChanged', {}); // absent keeps
  assert.deepEqual(await offered('still with'), all);
  await agents.sendSignal(run.id, 'McpConfigChanged', { disabled_mcp_collections: ['shelf', 'another'] });
  assert.equal(shelved(await offered('without again')), 0);
  assert.deepEqual((await agents.retrieve(run.id)).disabled_mcp_collections, ['shelf', 'another']);
  await agents.terminate(run.id);
  await r.ended;
  r.check();
});

test('a stop is one message', async () => {
  const run = await agents.start({ interaction: 'demo', data: { task: '/sleep 600' }, interactive: true });
  const r = follow(agents, run.id);
  await r.until((m) => m.type === T.QUESTION);
  await agents.sendSignal(run.id, 'Stop', { client_message_id: 'stop-1' });
  await r.until(idle);
  await agents.terminate(run.id);
  await r.ended;
  assert.deepEqual(r.seen.filter(idle).map((m) => m.details.ack), ['stop-1']);
});

test('no character is split when the stream is cut at any byte', async () => {
  const words = Array.from({ length: 120 }, (_, i) => `日本${i}🍵é `);
  const proxy = await Proxy.start(new URL(server.url), (cuts) => (cuts < 3 ? 401 + 150 * cuts : Infinity)); // somewhere, also in a character
  try {
    const run = await agents.createRecord({ interaction: 'mine' });
    const r = follow(connect(proxy.url).agents, run.id);
    const shown = () => r.seen.filter((m) => m.type === T.STREAMING_CHUNK).map((m) => m.message).join('');
    for (const [i, word] of words.entries()) {
      await agents.postMessage(run.id, { type: T.STREAMING_CHUNK, message: word, details: { activity_id: 'a' } });
      if (i % 20 === 19) await r.until(() => shown() === words.slice(0, i + 1).join(''), `the first ${i + 1} words`);
    }
    await agents.postMessage(run.id, { type: T.ANSWER, message: words.join(''), details: { activity_id: 'a' } });
    await agents.postMessage(run.id, { type: T.COMPLETE, message: 'done' });
    await r.ended;
    r.check();
    assert.equal(text(r, T.ANSWER), words.join(''));
    assert.ok(proxy.cuts > 0);
  } finally {
    await proxy.stop();
  }
});

test('files of a run with the files API: upload, list, metadata, copy, download, delete', async () => {
  const run = await agents.start({ interaction: 'demo', data: { task: 'hello' }, interactive: true });
  await files.uploadArtifact(run.id, 'files/note.txt', new File(['a note'], 'note.txt', { type: 'text/plain' }));
  const full = `agents/${run.id}/files/note.txt`;
  assert.deepEqual(await files.listArtifacts(run.id), [full]);
  const about = await files.getMetadata(full);
  assert.deepEqual([about.name, about.size, about.contentType], [full, 6, 'text/plain']);
  assert.equal(await files.copyFile(full, `agents/${run.id}/files/copy.txt`), `agents/${run.id}/files/copy.txt`);
  assert.equal(await new Response(await files.downloadArtifact(run.id, 'files/copy.txt')).text(), 'a note');
  assert.equal((await files.deleteFile(full)).count, 1);
  assert.deepEqual(await files.listArtifacts(run.id), [`agents/${run.id}/files/copy.txt`]);
  await assert.rejects(files.getMetadata(full), (e) => e.status === 404);
  await assert.rejects(files.uploadFile(new File(['x'], 'x.txt')), /belong to runs/);
});

test('many files are uploaded at once', async () => {
  const run = await agents.start({ interaction: 'demo', data: { task: 'hello' }, interactive: true });
  const named = (i) => `agents/${run.id}/files/many/f${i}.txt`;
  const sources = Array.from({ length: 25 }, (_, i) => (i % 2 ? new File([`text ${i}`], named(i), { type: 'text/plain' }) : new StreamSource(new Blob([`text ${i}`]).stream(), `f${i}.txt`, 'text/plain', named(i))));
  const put = await files.bulkUpload(sources);
  assert.deepEqual(put.map((p) => p.source), sources.map((_, i) => named(i)));
  assert.ok(put.every((p) => /^[0-9a-f]{64}$/.test(p.etag)));
  assert.deepEqual((await files.list(`agents/${run.id}/files/many/`)).files.sort(), sources.map((_, i) => named(i)).sort());
  assert.equal(await new Response(await files.downloadFile(named(7))).text(), 'text 7');
  assert.equal((await files.getMetadata(named(7))).etag, put[7].etag);
  await assert.rejects(files.bulkUpload([new File(['x'], 'x.txt')]), /files belong to runs here: give a path such as agents\/RUN/);
  await agents.terminate(run.id);
});

test('a search finds the input and the messages of a run', async () => {
  const run = await agents.start({ interaction: 'demo', data: { task: 'the albatross is a bird' }, interactive: true });
  await follow(agents, run.id, { closeOnIdle: true }).ended;
  await agents.sendSignal(run.id, 'UserInput', { message: 'it crosses the equator', client_message_id: 'c' });
  for (const query of ['albatross bird', 'crosses the equator']) {
    assert.deepEqual((await agents.search({ query })).hits.map((h) => h.id), [run.id], query);
  }
  assert.deepEqual((await agents.search({ query: 'penguin' })).hits, []);
});

test('every method is answered, or refused with a reason', async () => {
  const run = await agents.start({ interaction: 'demo', data: { task: 'hello' }, interactive: true });
  assert.ok((await client.interactions.list()).some((i) => i.name === 'helper'));
  assert.deepEqual(await client.apps.getInstalledApps('tools'), []);
  const refused = [
    () => agents.getContext(run.id), () => agents.getHistory(run.id), () => agents.advance(run.id), () => agents.retryNode(run.id), () => agents.answerTask(run.id, 't', {}),
    ...Object.getOwnPropertyNames(Object.getPrototypeOf(agents)).filter((m) => /Analytics/.test(m)).map((m) => () => agents[m]({})),
    ...Object.getOwnPropertyNames(Object.getPrototypeOf(workflows)).filter((m) => /Analytics/.test(m)).map((m) => () => workflows[m]({})),
    () => workflows.getActivityCatalog(), () => workflows.rules.list(), () => workflows.definitions.list(),
    () => client.store.processes.list(), () => client.store.tasks.list(), () => client.store.schedules.list(), () => client.store.objects.list(),
    () => client.environments.list(), () => client.projects.list(), () => client.account.info(), () => client.apikeys.get('/'), () => client.users.get('/'),
    () => client.interactions.execute('demo'), () => client.interactions.retrieve('demo'), () => client.prompts.get('/p/x'), () => client.store.collections.del('/c'), () => client.store.objects.put('/o', { payload: {} }),
    () => client.store.data.get('/'), () => client.iam.get('/groups'), () => files.setFileMetadata('agents/x/y', {}), () => files.getOrCreateBucket(),
  ];
  assert.ok(refused.length > 30);
  for (const call of refused) await assert.rejects(call(), (e) => e.status === 404 && /Parley has no /.test(e.message), call.toString());
});
