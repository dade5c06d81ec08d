// The unmodified Vertesia client, and a reader that records messages as the stock UI does.
import assert from 'node:assert/strict';
import net from 'node:net';
import { VertesiaClient } from '@vertesia/client';
import { AgentMessageType as T } from '@vertesia/common';

export { T };

export const KEY = 'sk-conformance-0123456789';

export function connect(url, apikey = KEY) {
  const client = new VertesiaClient({ serverUrl: url, storeUrl: url, tokenServerUrl: url, apikey });
  return { client, agents: client.store.agents, workflows: client.store.workflows, files: client.store.files, asks: client.store.pendingAsks };
}

// Reader follows a run and folds it like the UI: messages by timestamp, chunks
// by activity until their final message arrives.
export class Reader {
  constructor() {
    this.seen = [];
    this.buffers = new Map();
    this.waiting = [];
    this.take = this.take.bind(this);
  }

  take(m) {
    this.seen.push(m);
    if (m.type === T.STREAMING_CHUNK) {
      const d = m.details;
      const key = d.streaming_id_scope === 'workflow_run' ? d.streaming_id : (d.activity_id ?? d.streaming_id);
      this.buffers.set(key, (this.buffers.get(key) ?? '') + m.message);
    }
    if (m.type === T.ANSWER || m.type === T.THOUGHT) this.buffers.delete(m.details?.activity_id);
    this.waiting = this.waiting.filter((w) => !w(m));
  }

  // until resolves with the first message that matches, received or later.
  until(fits, what = fits.toString()) {
    const found = this.seen.find(fits);
    if (found) return Promise.resolve(found);
    return new Promise((done, fail) => {
      const timer = setTimeout(() => fail(new Error(`nothing came in time for ${what}; seen: ${JSON.stringify(this.seen)}`)), 60000);
      this.waiting.push((m) => {
        if (!fits(m)) return false;
        clearTimeout(timer);
        done(m);
        return true;
      });
    });
  }

  // stored are the messages that are not chunks.
  get stored() {
    return this.seen.filter((m) => m.type !== T.STREAMING_CHUNK);
  }

  texts(type, line = 'main') {
    return this.seen.filter((m) => m.type === type && m.workstream_id === line).map((m) => m.message);
  }

  // check checks the rules of every run.
  check() {
    let last = 0;
    for (const m of this.seen) {
      assert.ok(m.timestamp > last, `timestamps rise strictly: ${m.timestamp} after ${last}`);
      last = m.timestamp;
      const shown = [T.COMPLETE, T.IDLE, T.TERMINATED, T.REQUEST_INPUT].includes(m.type) || m.type === T.SYSTEM || (m.type === T.UPDATE && m.details?.event_class);
      assert.ok(m.message || shown, `the UI would drop ${JSON.stringify(m)}`);
      if (m.type === T.TERMINATED) assert.equal(m.workstream_id, 'main', 'a child never terminates the run');
    }
    assert.deepEqual([...this.buffers], [], 'no chunk is left without its final message');
  }
}

// follow streams a run to its end and returns the reader.
export function follow(agents, id, options = {}, since) {
  const reader = new Reader();
  reader.ended = agents.streamMessages(id, reader.take, since, options.signal, options);
  return reader;
}

export const tokens = (n) => Array.from({ length: n }, (_, i) => `tok${i + 1}`).join(' ');

// Proxy forwards requests and cuts event streams in the middle.
export class Proxy {
  static async start(target, cut) {
    const p = new Proxy();
    p.cuts = 0;
    p.sockets = new Set();
    p.server = net.createServer((down) => {
      const up = net.connect(Number(target.port), target.hostname);
      for (const s of [down, up]) {
        p.sockets.add(s);
        s.on('error', () => {});
        s.on('close', () => p.sockets.delete(s));
      }
      let stream = false;
      let passed = 0;
      down.on('data', (b) => {
        stream ||= /\/(stream|ws)\?/.test(b.toString('latin1').split('\r\n', 1)[0]);
        up.write(b);
      });
      down.on('end', () => up.end());
      up.on('data', (b) => {
        const limit = stream ? cut(p.cuts) : Infinity;
        if (passed + b.length > limit) {
          p.cuts++;
          down.write(b.subarray(0, Math.max(0, limit - passed)), () => {
            down.destroy();
            up.destroy();
          });
          return;
        }
        passed += b.length;
        down.write(b);
      });
      up.on('end', () => down.end());
      up.on('close', () => down.destroy());
      down.on('close', () => up.destroy());
    });
    await new Promise((ready) => p.server.listen(0, '127.0.0.1', ready));
    p.url = `http://127.0.0.1:${p.server.address().port}`;
    return p;
  }

  async stop() {
    for (const s of this.sockets) s.destroy();
    await new Promise((done) => this.server.close(done));
  }
}
