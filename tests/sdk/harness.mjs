// What the black-box tests share: the built gateway on a free port with a conf of the test's own, mock providers whose
// bytes and times a test scripts, and raw sockets. Everything that is started here is stopped here.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, writeFileSync, readFileSync, readdirSync, readlinkSync, rmSync, mkdirSync } from 'node:fs';
import http, { createServer } from 'node:http';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join, dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
export const BINARY = process.env.TOLLGATE ?? join(ROOT, 'build', 'tollgate');
export const KEY = 'sk-test-caller-0123456789abcdefghijklmnop';
export const OTHER_KEY = 'sk-test-other-0123456789abcdefghijklmnop';
export const PROVIDER_KEY = 'sk-upstream-canary-5f3759df5f3759df';
export const ADMIN = 'admin-canary-token-0123456789';
export const sha256 = (text) => createHash('sha256').update(text).digest('hex');
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits until `check` gives something true; throws with `what` after `ms`. */
export async function until(check, what, ms = 5000) {
  const end = Date.now() + ms;
  for (;;) {
    const got = await check();
    if (got) return got;
    if (Date.now() > end) throw new Error(`waited ${ms} ms in vain: ${what}`);
    await sleep(10);
  }
}

/** A mock provider. `answer(request, response, body)` scripts it; `calls` is what it was sent. */
export async function mock(answer) {
  const calls = [];
  const sockets = new Set();
  const self = { calls, open: 0, closed: 0, answer };
  const server = createServer((request, response) => {
    const parts = [];
    response.setMaxListeners(0);
    self.open++;
    const call = { method: request.method, url: request.url, headers: request.headers, raw: request.rawHeaders, at: Date.now() };
    response.on('close', () => { self.open--; self.closed++; call.closedAt = Date.now(); call.finished = response.writableFinished; });
    request.on('data', (part) => parts.push(part));
    request.on('end', async () => {
      call.bytes = Buffer.concat(parts);
      call.text = call.bytes.toString();
      try { call.body = JSON.parse(call.text); } catch { call.body = undefined; }
      calls.push(call);
      try { await self.answer(request, response, call); } catch (e) { response.destroy(e); }
    });
  });
  server.keepAliveTimeout = 60000;
  server.on('connection', (socket) => { socket.setNoDelay(true); sockets.add(socket); socket.on('close', () => sockets.delete(socket)); });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  self.port = server.address().port;
  self.url = `http://127.0.0.1:${self.port}`;
  self.sockets = sockets;
  self.stop = () => new Promise((resolve) => { for (const s of sockets) s.destroy(); server.close(resolve); });
  return self;
}

/** A provider of raw bytes: `script(socket, head)` is called once a request head and body have come. */
export async function rawMock(script) {
  const sockets = new Set();
  const self = { count: 0 };
  const server = net.createServer((socket) => {
    let text = '';
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', (data) => {
      text += data.toString('latin1');
      const head = text.indexOf('\r\n\r\n');
      if (head < 0) return;
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
      if (text.length < head + 4 + length) return;
      const whole = text.slice(0, head + 4 + length);
      text = text.slice(head + 4 + length);
      self.count++;
      script(socket, whole);
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  self.port = server.address().port;
  self.url = `http://127.0.0.1:${self.port}`;
  self.stop = () => new Promise((resolve) => { for (const s of sockets) s.destroy(); server.close(resolve); });
  return self;
}

/** A conf as a value; JSON is YAML. `over` replaces top-level directives. */
export function confOf(dir, over = {}) {
  return {
    listen: [{ address: '127.0.0.1:0' }],
    admin: { address: '127.0.0.1:0', token: ADMIN },
    node: 'test',
    state: { directory: join(dir, 'state') },
    audit: { directory: join(dir, 'audit') },
    prices: { unknown: { input: '1 USD/1M', output: '2 USD/1M' } },
    log: { level: 'debug' },
    ...over,
  };
}

export const teamOf = (over = {}, key = KEY, id = 'testkey1') => ({
  keys: [{ id, name: 'test', sha256: sha256(key), owner: 'tester' }], allow: ['*'], budgets: [{ limit: '1000 USD', period: 'month' }], ...over,
});

export const ADMIN_PATHS = ['/healthz', '/readyz', '/metrics', '/admin/requests', '/admin/spend', '/admin/budgets', '/admin/targets', '/admin/config', '/admin/config?effective=1', '/admin/audit/head'];

// A test that fails may leave its gateway behind: the end of the process ends it.
const children = new Set();
process.on('exit', () => { for (const c of children) c.kill('SIGKILL'); });

/** A real Redis on a unix socket in a folder of its own; the program comes with redis-tools, so no service is installed. */
export class Redis {
  constructor(words = []) {
    this.dir = mkdtempSync(join(tmpdir(), 'tollgate-redis-'));
    this.socket = join(this.dir, 'redis');
    this.url = `unix:${this.socket}`;
    this.words = words;
  }
  async start() {
    rmSync(this.socket, { force: true });
    const words = ['--port', '0', '--unixsocket', this.socket, '--save', '', '--appendonly', 'no', '--dir', this.dir, ...this.words];
    this.child = spawn('/usr/bin/redis-check-rdb', words, { argv0: 'redis-server', stdio: 'ignore' });
    children.add(this.child);
    this.exited = new Promise((resolve) => this.child.on('exit', () => { children.delete(this.child); resolve(); }));
    await until(async () => (await this.ask('PING').catch(() => '')).match(/^\+PONG|^-NOAUTH/), 'Redis to answer');
    return this;
  }
  /** One inline command; what comes back until the answer is there, as Redis wrote it. */
  ask(command) {
    return new Promise((resolve, reject) => {
      const socket = net.connect(this.socket, () => socket.write(`${command}\r\nQUIT\r\n`));
      let text = '';
      socket.on('data', (d) => { text += d; });
      socket.on('error', reject);
      socket.on('close', () => resolve(text.replace(/\+OK\r\n$/, '')));
    });
  }
  signal(name) { this.child.kill(name); }
  async kill() { this.child.kill('SIGKILL'); await this.exited; }
  async end() { await this.kill(); rmSync(this.dir, { recursive: true, force: true }); }
}

export class Gateway {
  constructor(conf, dir) {
    this.dir = dir ?? mkdtempSync(join(tmpdir(), 'tollgate-test-'));
    this.file = join(this.dir, 'tollgate.yaml');
    this.conf = typeof conf === 'function' ? conf(this.dir) : conf;
    this.log = '';
    this.write();
  }
  write(conf = this.conf) {
    this.conf = conf;
    writeFileSync(this.file, typeof conf === 'string' ? conf : JSON.stringify(conf, null, 1));
  }
  /** `files`: how many descriptors the process may have. */
  async start(environment = {}, { files, words = [], binary = BINARY } = {}) {
    this.out = '';
    const command = files ? ['sh', '-c', `ulimit -n ${files} && exec "$0" "$@"`, binary] : [binary];
    this.child = spawn(command[0], [...command.slice(1), 'serve', '-c', this.file, ...words], { env: { ...process.env, ...environment }, stdio: ['ignore', 'pipe', 'pipe'] });
    children.add(this.child);
    this.exited = new Promise((resolve) => this.child.on('exit', (code, signal) => { children.delete(this.child); this.code = code; this.signal = signal; this.dead = true; resolve(code); }));
    this.child.stdout.on('data', (d) => { this.out += d; });
    this.child.stderr.on('data', (d) => { this.log += d; });
    this.dead = false;
    await until(() => this.dead || this.out.includes('is ready on'), `the gateway to be ready: ${this.log}`, 15000);
    if (this.dead) throw new Error(`the gateway ended: ${this.log}`);
    const [, url, admin] = /is ready on (https?:\/\/\S+), admin on (http:\/\/\S+)/.exec(this.out);
    this.url = url;
    this.adminUrl = admin;
    this.port = Number(new URL(url).port);
    return this;
  }
  async stop(signal = 'SIGTERM') {
    if (this.child && !this.dead) { this.child.kill(signal); await this.exited; }
    return this.code;
  }
  async end() {
    await this.stop();
    if (this.code !== 0 && this.signal !== 'SIGKILL') throw new Error(`the gateway ended with ${this.code} ${this.signal}: ${this.log.slice(-4000)}`);
    rmSync(this.dir, { recursive: true, force: true });
  }
  async fetch(path, body, headers = {}, more = {}) {
    const init = { method: body === undefined ? 'GET' : 'POST', headers: { authorization: `Bearer ${KEY}`, ...headers }, ...more };
    if (body !== undefined) { init.body = typeof body === 'string' ? body : JSON.stringify(body); init.headers['content-type'] ??= 'application/json'; }
    for (const k of Object.keys(init.headers)) if (init.headers[k] === null) delete init.headers[k];
    return fetch(this.url + path, init);
  }
  async chat(over = {}, headers = {}, more = {}) {
    return this.fetch('/v1/chat/completions', { model: 'm', messages: [{ role: 'user', content: 'Hello' }], ...over }, headers, more);
  }
  async admin(path, method = 'GET', body, token = ADMIN) {
    return fetch(this.adminUrl + path, { method, headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' }, body: body && JSON.stringify(body) });
  }
  /** All audit records, as values with their line. */
  records() {
    const dir = join(this.dir, 'audit');
    let files = [];
    try { files = readdirSync(dir).filter((f) => f.endsWith('.jsonl')).sort(); } catch { return []; }
    return files.flatMap((f) => readFileSync(join(dir, f), 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line)));
  }
  /** The one settle or refuse record of a request; waits for it. */
  async settled(id) {
    return until(() => this.records().find((r) => r.request === id && (r.kind === 'settle' || r.kind === 'refuse')), `a settle record of ${id}`);
  }
  async budget(level = 'team', scope) {
    const { budgets } = await (await this.admin('/admin/budgets')).json();
    return budgets.find((b) => b.level === level && (scope === undefined || b.scope === scope));
  }
  /** One number of /metrics; undefined when the series is not there. */
  async metric(name) {
    const found = new RegExp(`^tollgate_${name}(?:\\{[^}]*\\})? ([0-9.]+)$`, 'm').exec(await (await this.admin('/metrics')).text());
    return found ? Number(found[1]) : undefined;
  }
  /** Everything that anybody but a caller or a provider can read: output, files, metrics, the admin port. */
  async sinks() {
    const found = { stdout: this.out, stderr: this.log };
    for (const part of ['audit', 'state']) {
      let files = [];
      try { files = readdirSync(join(this.dir, part)); } catch { /* none was made */ }
      for (const f of files) found[`${part}/${f}`] = readFileSync(join(this.dir, part, f), 'latin1');
    }
    for (const path of ADMIN_PATHS) {
      const r = await this.admin(path);
      found[path] = JSON.stringify([...r.headers]) + await r.text();
    }
    return found;
  }
  descriptors() {
    return readdirSync(`/proc/${this.child.pid}/fd`).length;
  }
  /** The TCP ports that this process listens on, addresses as the kernel prints them. */
  listeners() {
    const proc = `/proc/${this.child.pid}`;
    const mine = new Set(readdirSync(`${proc}/fd`).map((fd) => { try { return /^socket:\[(\d+)\]$/.exec(readlinkSync(`${proc}/fd/${fd}`))?.[1]; } catch { return undefined; } }));
    return readFileSync(`${proc}/net/tcp`, 'utf8').split('\n').map((line) => line.trim().split(/\s+/))
      .filter((f) => f[3] === '0A' && mine.has(f[9])).map((f) => ({ address: f[1].slice(0, 8), port: parseInt(f[1].slice(9), 16) }));
  }
  async idle() {
    await until(async () => (await (await this.admin('/admin/requests')).json()).requests.length === 0, 'no request in flight');
  }
}

/** A gateway before a mock provider. */
export async function house(answer, conf = simple, over = {}, team = {}) {
  const up = await mock(answer);
  const g = await new Gateway(conf(up, over, team)).start();
  return { up, g, async end() { await g.end(); await up.stop(); } };
}

/** A call over a connection of its own that can be hung up: `done` resolves when it is over, whichever way. */
export function call(g, body, { path = '/v1/chat/completions', headers = {}, method = 'POST', agent = false } = {}) {
  const self = { status: undefined, text: '', whole: false };
  const sent = { authorization: `Bearer ${KEY}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers };
  for (const k of Object.keys(sent)) if (sent[k] === null) delete sent[k];
  self.done = new Promise((resolve) => {
    self.request = http.request(`${g.url}${path}`, { method: body === undefined && method === 'POST' ? 'GET' : method, agent, headers: sent }, (response) => {
      self.status = response.statusCode;
      self.headers = response.headers;
      response.on('data', (d) => { self.text += d; });
      response.on('end', () => { self.whole = response.complete; resolve(self); });
      response.on('error', () => resolve(self));
      response.on('close', () => resolve(self));
    });
    self.request.on('error', () => resolve(self));
    self.request.end(body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hello' }], ...body }));
  });
  self.hangUp = () => self.request.destroy();
  self.json = () => JSON.parse(self.text);
  return self;
}

/** A raw connection: `text` is what came; `until` waits for it; `ended` is true when the other side has closed. */
export function wire(port, host = '127.0.0.1') {
  const socket = net.connect(port, host);
  const self = { socket, text: '', ended: false };
  socket.setNoDelay(true);
  socket.on('data', (d) => { self.text += d.toString('latin1'); });
  socket.on('end', () => { self.ended = true; });
  socket.on('close', () => { self.ended = true; });
  socket.on('error', () => { self.ended = true; });
  self.opened = new Promise((resolve) => { socket.once('connect', resolve); socket.once('error', resolve); });
  self.send = (bytes) => { socket.write(bytes, 'latin1'); return self; };
  self.until = (pattern, ms) => until(() => pattern.test(self.text), `${pattern} on the wire, got ${JSON.stringify(self.text.slice(0, 200))}`, ms);
  self.closed = (ms) => until(() => self.ended, `the connection to close, got ${JSON.stringify(self.text.slice(0, 200))}`, ms);
  self.end = () => socket.destroy();
  return self;
}

/** A stream that gives `word ` after `word ` until its reader leaves or `enough` says so. */
export const endless = (enough = () => false) => async (request, response) => {
  sse(response);
  response.write(data(chunk({ role: 'assistant', content: '' })));
  while (!response.destroyed && !enough()) { response.write(data(chunk({ content: 'word ' }))); await sleep(10); }
  if (!response.destroyed) response.end(data(chunk({}, 'stop')) + data({ ...chunk({}), choices: [], usage: { prompt_tokens: 9, completion_tokens: 5, total_tokens: 14 } }) + 'data: [DONE]\n\n');
};

/** A gate: what waits for `open` goes on when `go` is called. */
export function gate() {
  const self = {};
  self.open = new Promise((resolve) => { self.go = resolve; });
  return self;
}

/** Runs the binary with arguments. */
export function run(args, options = {}) {
  return new Promise((resolve) => {
    const child = spawn(BINARY, args, { cwd: ROOT, ...options, stdio: ['ignore', 'pipe', 'pipe'] });
    let out = '', err = '';
    child.stdout.on('data', (d) => { out += d; });
    child.stderr.on('data', (d) => { err += d; });
    child.on('exit', (code) => resolve({ code, out, err }));
  });
}

/** A gateway with one openai backend `up` at the mock, alias `m`, team `search`. */
export const simple = (up, over = {}, team = {}) => (dir) => confOf(dir, {
  backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY] } },
  aliases: { m: 'up/model-x' },
  teams: { search: teamOf(team) },
  ...over,
});

// ---- answers of an OpenAI provider ----
export const completion = (text = 'Hi there', over = {}) => ({
  id: 'chatcmpl-up1', object: 'chat.completion', created: 1700000000, model: 'model-x',
  choices: [{ index: 0, message: { role: 'assistant', content: text, refusal: null }, finish_reason: 'stop', logprobs: null }],
  usage: { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 }, ...over,
});
export function json(response, value, status = 200, headers = {}) {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  response.writeHead(status, { 'content-type': 'application/json', 'x-request-id': 'up-req-1', ...headers });
  response.end(text);
}
export const chunk = (delta, finish = null, over = {}) => ({
  id: 'chatcmpl-up1', object: 'chat.completion.chunk', created: 1700000000, model: 'model-x',
  choices: [{ index: 0, delta, finish_reason: finish }], ...over,
});
export const data = (value) => `data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`;
export function streamOf(words, { usage = true, done = true, role = true } = {}) {
  let text = role ? data(chunk({ role: 'assistant', content: '' })) : '';
  for (const word of words) text += data(chunk({ content: word }));
  text += data(chunk({}, 'stop'));
  if (usage) text += data({ ...chunk({}), choices: [], usage: { prompt_tokens: 9, completion_tokens: words.length, total_tokens: 9 + words.length } });
  return text + (done ? 'data: [DONE]\n\n' : '');
}
export function sse(response, text) {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  if (text !== undefined) response.end(text);
}
/** The usual provider: plain or stream as asked. */
export const usual = (words = ['Hi', ' there']) => (request, response, call) =>
  call.body?.stream ? sse(response, streamOf(words)) : json(response, completion(words.join('')));

/** The events of an SSE body as data strings. */
export const events = (text) => text.split('\n\n').filter((e) => e.startsWith('data: ') || e.startsWith('event: '))
  .map((e) => e.split('\n').filter((l) => l.startsWith('data: ')).map((l) => l.slice(6)).join('\n'));

/** Sends raw bytes (or pieces with pauses) to a port and gives everything that comes back until the end or `ms`. */
export function raw(port, pieces, { ms = 2000, end = false } = {}) {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1');
    let text = '';
    const done = () => { clearTimeout(timer); socket.destroy(); resolve(text); };
    const timer = setTimeout(done, ms);
    socket.on('data', (d) => { text += d.toString('latin1'); });
    socket.on('end', done);
    socket.on('error', done);
    socket.on('connect', async () => {
      for (const piece of [].concat(pieces)) {
        socket.write(piece, 'latin1');
        if (Array.isArray(pieces)) await sleep(20);
      }
      if (end) socket.end();
    });
  });
}

// ---- the three dialects, same on both ends ----
export const frame = (v) => `event: ${v.type}\ndata: ${JSON.stringify(v)}\n\n`;
const anthropicMessage = { id: 'msg_up1', type: 'message', role: 'assistant', model: 'claude-x', content: [], stop_reason: null, stop_sequence: null };
const responseOf = (over = {}) => ({ id: 'resp_up', object: 'response', created_at: 1, status: 'in_progress', error: null, incomplete_details: null, model: 'model-x', instructions: null, metadata: {},
  temperature: 1, top_p: 1, tools: [], tool_choice: 'auto', parallel_tool_calls: true, output: [], ...over });
const tool = (index, over, args) => chunk({ tool_calls: [{ index, ...over, function: { ...(over.id ? { name: 'look' } : {}), arguments: args } }] });

/** A row a dialect: where it is asked, what it is asked, and its streams as lists of events: `head` (before content), `parts`
 * by kind (some content, unfinished), `tail` (finish, usage, terminator), `errors` (in-stream), `ends` (success terminators),
 * `failed` (what a client must see when it broke off). */
export const DIALECTS = {
  chat: {
    path: '/v1/chat/completions', ask: { model: 'm', messages: [{ role: 'user', content: 'Hello' }] }, usage: { in: 9, out: 5 },
    head: [data(chunk({ role: 'assistant', content: '' }))],
    parts: {
      text: ['Grüße ', '\u{1F600}', ' 漢字'].map((content) => data(chunk({ content }))),
      tool: [data(tool(0, { id: 't0', type: 'function' }, '')), data(tool(0, {}, '{"city":"Zür')), data(tool(0, {}, 'ich \u{1F600}'))],
      thinking: ['Ich ', 'über', 'lege'].map((reasoning_content) => data(chunk({ reasoning_content }))),
    },
    tail: [data(chunk({}, 'stop')), data({ ...chunk({}), choices: [], usage: { prompt_tokens: 9, completion_tokens: 5, total_tokens: 14 } }), 'data: [DONE]\n\n'],
    errors: [data({ error: { message: 'the engine died', type: 'server_error', code: 'boom' } })],
    ends: /\[DONE\]|"finish_reason":"/, failed: /data: \{"error":\{/,
  },
  messages: {
    path: '/v1/messages', ask: { model: 'c', max_tokens: 100, messages: [{ role: 'user', content: 'Hello' }] }, usage: { in: 25, out: 5 },
    head: [frame({ type: 'message_start', message: { ...anthropicMessage, usage: { input_tokens: 25, output_tokens: 1 } } })],
    parts: {
      text: [frame({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }), frame({ type: 'ping' }),
        ...['Grüße ', '\u{1F600}', ' 漢字'].map((text) => frame({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } }))],
      tool: [frame({ type: 'content_block_start', index: 0, content_block: { type: 'tool_use', id: 't0', name: 'look', input: {} } }),
        ...['{"city":"Zür', 'ich \u{1F600}'].map((partial_json) => frame({ type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json } }))],
      thinking: [frame({ type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '', signature: '' } }),
        ...['Ich ', 'überlege'].map((thinking) => frame({ type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking } }))],
    },
    tail: [frame({ type: 'content_block_stop', index: 0 }), frame({ type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 5 } }), frame({ type: 'message_stop' })],
    errors: [frame({ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } })],
    ends: /message_stop|message_delta/, failed: /event: error\ndata: \{"type":"error"/,
  },
  responses: {
    path: '/v1/responses', ask: { model: 'm', input: 'Hello' }, usage: { in: 5, out: 7 },
    head: [frame({ type: 'response.created', response: responseOf(), sequence_number: 0 }), frame({ type: 'response.in_progress', response: responseOf(), sequence_number: 1 })],
    parts: {
      text: [frame({ type: 'response.output_item.added', output_index: 0, item: { id: 'msg_1', type: 'message', status: 'in_progress', role: 'assistant', content: [] }, sequence_number: 2 }),
        frame({ type: 'response.content_part.added', item_id: 'msg_1', output_index: 0, content_index: 0, part: { type: 'output_text', text: '', annotations: [], logprobs: [] }, sequence_number: 3 }),
        ...['Grüße ', '\u{1F600}', ' 漢字'].map((delta, i) => frame({ type: 'response.output_text.delta', item_id: 'msg_1', output_index: 0, content_index: 0, delta, logprobs: [], sequence_number: 4 + i }))],
      tool: [frame({ type: 'response.output_item.added', output_index: 0, item: { id: 'fc_1', type: 'function_call', status: 'in_progress', call_id: 't0', name: 'look', arguments: '' }, sequence_number: 2 }),
        ...['{"city":"Zür', 'ich \u{1F600}'].map((delta, i) => frame({ type: 'response.function_call_arguments.delta', item_id: 'fc_1', output_index: 0, delta, sequence_number: 3 + i }))],
      thinking: [frame({ type: 'response.output_item.added', output_index: 0, item: { id: 'rs_1', type: 'reasoning', summary: [] }, sequence_number: 2 }),
        frame({ type: 'response.reasoning_summary_part.added', item_id: 'rs_1', output_index: 0, summary_index: 0, part: { type: 'summary_text', text: '' }, sequence_number: 3 }),
        ...['Ich ', 'überlege'].map((delta, i) => frame({ type: 'response.reasoning_summary_text.delta', item_id: 'rs_1', output_index: 0, summary_index: 0, delta, sequence_number: 4 + i }))],
    },
    tail: [frame({ type: 'response.completed', response: responseOf({ status: 'completed', output: [{ id: 'msg_1', type: 'message', status: 'completed', role: 'assistant', content: [{ type: 'output_text', text: 'Grüße \u{1F600} 漢字', annotations: [], logprobs: [] }] }],
      usage: { input_tokens: 5, input_tokens_details: { cached_tokens: 0 }, output_tokens: 7, output_tokens_details: { reasoning_tokens: 0 }, total_tokens: 12 } }), sequence_number: 9 })],
    errors: [frame({ type: 'error', code: 'server_error', message: 'the engine died', param: null, sequence_number: 9 })],
    ends: /response\.completed|response\.incomplete/, failed: /event: response\.failed\ndata: \{"type":"response\.failed"/,
  },
};
export const wholeStream = (d, kind = 'text') => [...d.head, ...d.parts[kind], ...d.tail].join('');

/** A gateway with an openai backend `up` (alias m) and an anthropic one `claude` (alias c), both at the same mock. */
export const both = (up, over = {}, team = {}) => (dir) => confOf(dir, {
  backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY] }, claude: { protocol: 'anthropic', url: up.url, api_keys: [PROVIDER_KEY] } },
  aliases: { m: 'up/model-x', c: 'claude/claude-x' },
  health: { samples: 100000 }, // what a test breaks on purpose stays in the plan
  teams: { search: teamOf(team) },
  ...over,
});

/** A mock, a gateway in front of it, and their common end. */
export async function bothHouse(answer, conf = both, over = {}, team = {}) {
  const up = await (answer.raw ? rawMock(answer.raw) : mock(answer));
  const g = await new Gateway(conf(up, over, team)).start();
  return { up, g, async end() { await g.end(); await up.stop(); } };
}

/** A call whose connection a test holds in its hands: `head` and `done` are promises, `text` grows, `whole` says that the
 * answer's own framing ended it, `request.destroy()` hangs up. */
export function ask(g, path, body, { agent = false, headers = {} } = {}) {
  const self = { status: undefined, text: '', whole: false };
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  self.head = new Promise((resolve) => { self.gotHead = resolve; });
  self.done = new Promise((resolve) => {
    self.request = http.request(g.url + path, { method: 'POST', agent, headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', 'content-length': bytes.length, ...headers } }, (response) => {
      self.status = response.statusCode;
      self.headers = response.headers;
      self.id = response.headers['x-request-id'];
      self.gotHead(self);
      response.setEncoding('utf8');
      response.on('data', (d) => { self.text += d; self.onText?.(); });
      response.on('error', () => {});
      response.on('close', () => { self.whole = response.complete; resolve(self); });
    });
    self.request.on('error', () => { self.gotHead(self); resolve(self); });
    self.request.end(bytes);
  });
  /** Waits until `check(text)` is true, without polling. */
  self.until = (check, what, ms = 10000) => new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`waited ${ms} ms in vain: ${what}; got ${self.text.slice(-500)}`)), ms);
    const look = () => { if (check(self.text)) { clearTimeout(timer); resolve(self); } };
    self.onText = look;
    self.done.then(look);
    look();
  });
  return self;
}

/** An SSE body as [event name, value] pairs; comments are left out, [DONE] stays a string. */
export const parsed = (text) => text.split('\n\n').filter((e) => /^(data|event): /m.test(e)).map((e) => {
  const lines = e.split('\n');
  const value = lines.filter((l) => l.startsWith('data: ')).map((l) => l.slice(6)).join('\n');
  return [lines.find((l) => l.startsWith('event: '))?.slice(7) ?? '', value === '[DONE]' ? value : JSON.parse(value)];
});
/** The generated text of a parsed stream, whatever the dialect. */
export const textOf = (list) => list.map(([, v]) => v.choices?.[0]?.delta?.content ?? v.delta?.text ?? (v.type === 'response.output_text.delta' ? v.delta : '')).join('');

/** The bytes of an HTTP/1.1 answer that streams: one transfer chunk for each piece. */
export const SSE_HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n';
export const chunked = (pieces, end = true) => Buffer.concat([...pieces.map(Buffer.from).flatMap((b) => [Buffer.from(`${b.length.toString(16)}\r\n`), b, Buffer.from('\r\n')]), Buffer.from(end ? '0\r\n\r\n' : '')]);
export const turn = () => new Promise(setImmediate);
/** Runs `task` for each item, `width` at a time. */
export async function each(items, width, task) {
  const rest = [...items.entries()];
  await Promise.all(Array.from({ length: width }, async () => { for (let next; (next = rest.shift());) await task(next[1], next[0]); }));
}
