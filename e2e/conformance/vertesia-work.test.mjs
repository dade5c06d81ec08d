// Workstreams with the unmodified npm @vertesia/client.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { connect, follow, KEY, Reader, T } from './vertesia.client.mjs';
import { Server } from './server.mjs';

for (const level of ['log', 'warn', 'error', 'debug']) console[level] = () => {}; // the client is talkative

let server, agents, workflows;
before(async () => {
  server = await Server.start('--token', KEY);
  ({ agents, workflows } = connect(server.url));
});
after(() => server.stop());

const start = (task, more = {}) => agents.start({ interaction: 'demo', data: { task }, interactive: true, ...more });
const once = (task, more = {}) => start(task, { interactive: false, ...more });

test('workstreams run beside the main line, and their end does not end the run', async () => {
  const run = await once('/work 3 2');
  const r = follow(agents, run.id);
  const launched = await r.until((m) => m.details?.workstream_event === 'launched' && m.details.workstream_id === 'w3');
  assert.equal(launched.workstream_id, 'main');
  const active = await agents.getActiveWorkstreams(run.id);
  assert.ok(active.running.every((w) => w.launch_id && w.child_workflow_id && w.deadline_ms > 0 && w.status === 'running'));
  // A child can be followed as a run of its own.
  const child = new Reader();
  await workflows.streamMessages(launched.details.child_workflow_id, launched.details.child_workflow_run_id, child.take);
  assert.equal(child.seen.at(-1).type, T.COMPLETE);
  assert.ok(child.seen.every((m) => m.workstream_id === 'main'));
  await r.ended;
  r.check();
  const phases = new Set(r.seen.filter((m) => m.workstream_id === 'w1').map((m) => m.details?.phase).filter(Boolean));
  for (const phase of ['planning', 'executing_tool', 'synthesizing']) assert.ok(phases.has(phase), `${phase} in ${[...phases]}`);
  for (const w of ['w1', 'w2', 'w3']) {
    const end = r.seen.find((m) => m.workstream_id === w && m.type === T.COMPLETE);
    assert.equal(end.details.status, 'completed');
    assert.ok(end.message);
  }
  assert.equal(r.seen.at(-1).workstream_id, 'main');
  const done = await agents.getActiveWorkstreams(run.id);
  assert.deepEqual([done.running, done.completed.map((w) => w.status)], [[], ['completed', 'completed', 'completed']]);
  const children = (await agents.listChildren(run.id)).runs;
  assert.deepEqual(children.map((c) => c.status), ['COMPLETED', 'COMPLETED', 'COMPLETED']);
  assert.equal((await agents.getChildDetails(run.id, children[0].workflow_id)).topic, children[0].topic);
});

test('one workstream can be ended while the others continue', async () => {
  const run = await once('/work 2 4');
  const r = follow(agents, run.id);
  const launched = await r.until((m) => m.details?.workstream_event === 'launched' && m.details.workstream_id === 'w2');
  await r.until((m) => m.workstream_id === 'w2' && m.details?.phase);
  await workflows.terminate(launched.details.child_workflow_id, launched.details.child_workflow_run_id, 'not needed');
  await r.ended;
  r.check();
  const ends = r.seen.filter((m) => m.workstream_id === 'w2' && ['canceled', 'completed', 'failed'].includes(m.details?.status)).map((m) => m.details.status);
  assert.deepEqual(ends, ['canceled']);
  assert.ok(r.seen.some((m) => m.workstream_id === 'w1' && m.type === T.COMPLETE));
});

test('a child is stopped, messaged and read under its own id', async () => {
  const run = await start('hello');
  const r = follow(agents, run.id);
  await agents.sendSignal(run.id, 'launch_workstream', { id: 'aside', name: 'Aside', instruction: '/stream 100000 50', allowed_tools: [], interactive: true });
  const id = `${run.id}~aside`;
  const child = follow(agents, id);
  await child.until((m) => m.type === T.STREAMING_CHUNK);
  await agents.sendSignal(id, 'Stop', { client_message_id: 'stop-aside' });
  const stopped = await child.until((m) => m.details?.ack === 'stop-aside');
  assert.deepEqual([stopped.type, stopped.details.status_reason], [T.IDLE, 'user_stopped']);
  assert.equal((await r.until((m) => m.details?.ack === 'stop-aside')).workstream_id, 'aside');
  const rests = await agents.retrieve(id);
  assert.deepEqual([rests.id, rests.status, rests.activity_state], [id, 'running', 'idle']);
  await agents.sendSignal(id, 'UserInput', { message: 'hi', client_message_id: 'hi-aside' });
  await child.until((m) => m.type === T.IDLE && m.message === 'You said: hi');
  await agents.terminate(id, 'enough');
  await child.ended;
  child.check();
  assert.equal(child.seen.at(-1).type, T.TERMINATED);
  assert.equal((await agents.retrieve(id)).status, 'cancelled');
  assert.equal((await agents.retrieve(run.id)).status, 'running');
  assert.ok(!r.seen.some((m) => m.workstream_id === 'aside' && m.type === T.IDLE), 'an idle child would be taken for one that has ended');
  await agents.terminate(run.id);
  await r.ended;
  r.check();
});

test('children are launched, steered and ended by signals', async () => {
  const run = await start('hello');
  const r = follow(agents, run.id);
  const launch = (id, more) => agents.sendSignal(run.id, 'launch_workstream', { id, name: id, instruction: '/stream 100000 40', allowed_tools: [], client_message_id: `launch-${id}`, ...more });
  await launch('one', { deadline_seconds: 60 });
  await launch('one', { deadline_seconds: 60 }); // a retry
  await assert.rejects(launch('one', { client_message_id: 'another' }), (e) => e.status === 409);
  for (const bad of [{ deadline_seconds: 29 }, { deadline_seconds: 1801 }, { instruction: '' }]) await assert.rejects(launch('two', bad), (e) => e.status === 400);
  for (const id of ['all', 'main', 'a b', '']) await assert.rejects(launch(id), (e) => e.status === 400);
  const chunks = () => r.seen.filter((m) => m.type === T.STREAMING_CHUNK && m.workstream_id === 'one').length;
  await r.until(() => chunks() > 2, 'it writes');
  const steer = async (command, payload) => {
    await agents.sendSignal(run.id, 'steer_workstream', { launch_id: 'one', command, payload, client_message_id: command });
    return r.until((m) => m.details?.ack === command);
  };
  assert.equal((await steer('add_instruction', 'be brief')).message, 'be brief');
  assert.equal((await steer('set_priority', 'high')).message, 'Priority: high');
  assert.equal((await steer('add_constraint', 'no tea')).message, 'Constraint: no tea');
  assert.equal((await steer('pause_requested')).message, 'It was paused.');
  await assert.rejects(agents.sendSignal(run.id, 'steer_workstream', { launch_id: 'one', command: 'explode' }), (e) => e.status === 400);
  assert.equal((await steer('resume_requested')).message, 'It goes on.');
  const before = chunks();
  await r.until(() => chunks() > before, 'it goes on');
  await agents.uploadArtifact(`${run.id}~one`, 'out/r.txt', new Blob(['r']), 'text/plain');
  await agents.sendSignal(run.id, 'terminate_workstream', { launch_id: 'one', reason: 'enough' });
  const end = await r.until((m) => m.workstream_id === 'one' && m.details?.status === 'canceled');
  assert.deepEqual([end.message, end.details.outputFiles], ['enough', ['files/one/r.txt']]);
  assert.deepEqual(await agents.listArtifacts(run.id), ['files/one/r.txt']);
  await agents.terminate(run.id);
  await r.ended;
  r.check();
});
