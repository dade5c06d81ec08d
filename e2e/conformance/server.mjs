// A Parley server on a loopback port with a temporary data folder.
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import path from 'node:path';

const binary = process.env.PARLEY_BIN;
if (!binary) throw new Error('PARLEY_BIN must name the program under test');

export class Server {
  static async start(...flags) {
    const s = new Server();
    s.flags = flags;
    s.dir = await mkdtemp(path.join(tmpdir(), 'parley-conformance-'));
    await s.run('127.0.0.1:0');
    return s;
  }

  async run(addr) {
    this.process = spawn(
      binary,
      ['serve', '--addr', addr, '--data', this.dir, '--min-free=-1', '--min-free-percent=-1', '--grace', '100ms', ...this.flags],
      { stdio: ['ignore', 'pipe', 'pipe'], env: { PATH: process.env.PATH, PARLEY_NATS: 'off' } },
    );
    this.log = '';
    this.process.stderr.on('data', (d) => (this.log += d));
    let out = '';
    this.url = await new Promise((ready, failed) => {
      this.process.stdout.on('data', (d) => {
        out += d;
        const url = out.match(/ready at (http:\/\/\S+)/);
        if (url && (!this.flags.includes('--nats') || out.includes('find NATS at '))) ready(url[1]);
      });
      this.process.once('exit', () => failed(new Error(`the server did not start: ${out}${this.log}`)));
    });
  }

  get ws() {
    return this.url.replace('http', 'ws') + '/websocket';
  }

  // kill kills the process and starts another on the same port.
  async restart(signal) {
    await this.end(signal);
    await this.run(new URL(this.url).host);
  }

  async end(signal = 'SIGTERM') {
    const gone = once(this.process, 'exit');
    this.process.kill(signal);
    await gone;
  }

  async stop() {
    await this.end('SIGKILL');
    await rm(this.dir, { recursive: true, force: true });
  }
}
