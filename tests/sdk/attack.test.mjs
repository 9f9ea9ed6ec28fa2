// Attacks that once went through: each case is named after what was wrong.
import test from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  Gateway, mock, rawMock, house, simple, confOf, teamOf, completion, chunk, data, json, sse, sleep, until, usual, wire, gate, call,
  streamOf, chunked, SSE_HEAD, both, sha256, ADMIN, KEY, PROVIDER_KEY,
} from './harness.mjs';

const post = (body, more = '') => { const text = JSON.stringify(body); return `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${KEY}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n${more}\r\n${text}`; };
const hello = (over = {}) => ({ model: 'm', messages: [{ role: 'user', content: 'Hello' }], ...over });

test('a drain cuts the last bytes of an answer that a slow client is still reading', { timeout: 60000 }, async () => {
  const long = 'x'.repeat(6 << 20);
  const h = await house((request, response) => json(response, completion(long)), simple, { http: { drain: '30s' } });
  const c = wire(h.g.port);
  await c.opened;
  c.send(post(hello()));
  await c.until(/^HTTP\/1\.1 200/, 30000);
  c.socket.pause();
  await until(() => h.g.records().some((r) => r.kind === 'settle'), 'the settle record');
  h.g.child.kill('SIGTERM');
  await until(() => /draining/.test(h.g.log), 'the drain');
  await sleep(300);
  c.socket.resume();
  await c.closed(20000);
  assert.equal(await h.g.exited, 0);
  assert.ok(c.text.length > long.length, `the whole answer, got ${c.text.length} bytes`);
  await h.up.stop();
  rmSync(h.g.dir, { recursive: true });
});

test('followers of a call that went down a rung were not told so', async () => {
  const open = gate();
  const A = await mock((request, response) => json(response, { error: { message: 'no' } }, 503));
  const B = await mock(async (request, response) => { await open.open; json(response, completion()); });
  const g = await new Gateway((dir) => confOf(dir, {
    backends: { a: { protocol: 'openai', url: `${A.url}/v1`, api_keys: [PROVIDER_KEY] }, b: { protocol: 'openai', url: `${B.url}/v1`, api_keys: [PROVIDER_KEY] } },
    aliases: { m: { ladder: [{ targets: ['a/x'] }, { targets: ['b/y'], degraded: true }], cache: { enabled: true } } },
    teams: { search: teamOf() },
  })).start();
  const leader = call(g, { temperature: 0 });
  await until(() => B.calls.length === 1, 'the leader at its second rung');
  const follower = call(g, { temperature: 0 }), strict = call(g, { temperature: 0 }, { headers: { 'x-tollgate-fallback': 'none' } });
  await until(async () => (await (await g.admin('/admin/requests')).json()).requests.length >= 3 || strict.status, 'followers');
  open.go();
  await Promise.all([leader.done, follower.done, strict.done]);
  assert.deepEqual([leader.headers['x-tollgate-cache'], leader.headers['x-tollgate-degraded']], ['miss', 'unavailable']);
  assert.deepEqual([follower.headers['x-tollgate-cache'], follower.headers['x-tollgate-degraded']], ['shared', 'unavailable']);
  assert.deepEqual(follower.json().tollgate, { degraded: 'unavailable' });
  assert.notEqual(strict.headers['x-tollgate-target'], 'b/y', 'who wants no fallback shares none');
  assert.notEqual(strict.status, 200);
  await g.end();
  await A.stop(); await B.stop();
});

test('long header values that reach the provider were not in the key of the cache', async () => {
  const up = await rawMock((socket) => {
    const body = JSON.stringify({ id: 'msg_1', type: 'message', role: 'assistant', model: 'claude-x', content: [{ type: 'text', text: 'Hi' }], stop_reason: 'end_turn', stop_sequence: null, usage: { input_tokens: 3, output_tokens: 2 } });
    socket.write(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
  });
  const g = await new Gateway(both(up, { aliases: { c: { ladder: [{ targets: ['claude/claude-x'] }], cache: { enabled: true } } } })).start();
  const ask = (beta) => call(g, { model: 'c', max_tokens: 16, temperature: 0 }, { path: '/v1/messages', headers: { 'anthropic-version': '2023-06-01', 'anthropic-beta': beta } }).done;
  const first = await ask(`${'a'.repeat(20000)}1`), second = await ask(`${'a'.repeat(20000)}2`), third = await ask(`${'a'.repeat(20000)}2`);
  assert.deepEqual([first.status, second.status, third.status], [200, 200, 200]);
  assert.deepEqual([first, second, third].map((c) => c.headers['x-tollgate-cache']), ['miss', 'miss', 'hit']);
  await g.end();
  await up.stop();
});

test('a call that requires a tag was answered by a kept answer of a target without it', async () => {
  const A = await mock(usual(['from the US'])), B = await mock(usual(['from the EU']));
  const up = (m, tags) => ({ protocol: 'openai', url: `${m.url}/v1`, api_keys: [PROVIDER_KEY], tags });
  const g = await new Gateway((dir) => confOf(dir, {
    backends: { a: up(A, ['us']), b: up(B, ['eu']) },
    aliases: { m: { ladder: [{ targets: ['a/x'] }, { targets: ['b/y'] }], cache: { enabled: true } } }, teams: { search: teamOf() },
  })).start();
  const first = await call(g, { temperature: 0 }).done, strict = await call(g, { temperature: 0 }, { headers: { 'x-tollgate-require': 'eu' } }).done, again = await call(g, { temperature: 0 }).done;
  assert.deepEqual([first, strict, again].map((c) => [c.headers['x-tollgate-cache'], c.headers['x-tollgate-target']]), [['miss', 'a/x'], ['miss', 'b/y'], ['hit', 'a/x']]);
  await g.end();
  await A.stop(); await B.stop();
});

test('a hit told of whichever target the plan of the moment began with', async () => {
  const A = await mock(usual()), B = await mock(usual());
  const up = (m) => ({ protocol: 'openai', url: `${m.url}/v1`, api_keys: [PROVIDER_KEY] });
  const g = await new Gateway((dir) => confOf(dir, {
    backends: { a: up(A), b: up(B) }, aliases: { m: { ladder: [{ targets: ['a/x', 'b/y'] }], cache: { enabled: true } } }, teams: { search: teamOf() },
  })).start();
  const first = await call(g, { temperature: 0 }).done;
  for (let i = 0; i < 20; i++) {
    const c = await call(g, { temperature: 0 }).done;
    assert.deepEqual([c.headers['x-tollgate-cache'], c.headers['x-tollgate-target']], ['hit', first.headers['x-tollgate-target']]);
  }
  await g.end();
  await A.stop(); await B.stop();
});

test('a key was said to be revoked and went on working while no conf could be made', async () => {
  const up = await mock(usual());
  const g = new Gateway(simple(up, { admin: { address: '127.0.0.1:0', token: '${file:admin.txt}' } }));
  writeFileSync(join(g.dir, 'admin.txt'), ADMIN);
  await g.start();
  rmSync(join(g.dir, 'admin.txt'));
  const added = await g.admin('/admin/keys', 'POST', { team: 'search' });
  assert.deepEqual([added.status, (await added.json()).in_force], [201, false]);
  const r = await g.admin('/admin/keys/testkey1', 'DELETE');
  assert.deepEqual([r.status, await r.json()], [200, { revoked: true }]);
  const c = await call(g, {}).done;
  assert.deepEqual([c.status, /revoked/.test(c.text)], [401, true]);
  await g.end();
  await up.stop();
});

test('a reload over the admin port was recorded with a name out of the conf that it had freed', async () => {
  const token = 'anna-token-0123456789abcdef';
  const h = await house(usual(), simple, { admin: { address: '127.0.0.1:0', token: ADMIN, tokens: [{ name: 'anna', sha256: sha256(token), role: 'operator' }] } });
  h.g.write({ ...h.g.conf, cache: { size: '1MiB' } });
  assert.equal((await h.g.admin('/admin/reload', 'POST', undefined, token)).status, 200);
  await until(() => h.g.records().some((r) => r.kind === 'admin' && r.who === 'anna'), 'the record of it');
  await h.end();
});

test('a call beyond the share of its key was not told when to come again', async () => {
  const open = gate();
  const h = await house(async (request, response) => { await open.open; json(response, completion()); }, simple, {}, {
    keys: [{ id: 'testkey1', name: 'test', sha256: sha256(KEY) }, { id: 'otherkey', name: 'other', sha256: sha256('other') }], budgets: [{ limit: '1 USD', period: 'month' }],
  });
  const first = call(h.g, { max_tokens: 100000 });
  await until(() => h.up.calls.length === 1, 'the first call');
  const second = await call(h.g, { max_tokens: 100000 }).done;
  assert.deepEqual([second.status, second.json().error.code, second.headers['retry-after']], [429, 'hold_limit', '1']);
  open.go();
  await first.done;
  await h.end();
});

test('whether a whole stream without a last chunk was good depended on how fast its client read', { timeout: 60000 }, async () => {
  const words = Array.from({ length: 300 }, () => 'w'.repeat(1000));
  const up = await rawMock((socket) => socket.end(Buffer.concat([Buffer.from(SSE_HEAD), chunked([streamOf(words)], false)])));
  const g = await new Gateway(simple(up)).start();
  const c = wire(g.port);
  await c.opened;
  c.socket.pause();
  c.send(post(hello({ stream: true })));
  await sleep(1500);
  c.socket.resume();
  await c.until(/0\r\n\r\n$/, 10000);
  assert.ok(/\[DONE\]/.test(c.text) && !/"error"/.test(c.text), c.text.slice(-300));
  c.end();
  await g.end();
  await up.stop();
});

test('with the budget of retries used up a ladder ended at the first rung that did not fit', { timeout: 60000 }, async () => {
  const A = await mock((request, response) => json(response, { error: { message: 'no' } }, 500)), B = await mock(usual()), C = await mock(usual());
  const up = (m) => ({ protocol: 'openai', url: `${m.url}/v1`, api_keys: [PROVIDER_KEY] });
  const g = await new Gateway((dir) => confOf(dir, {
    backends: { a: up(A), b: up(B), c: up(C) },
    aliases: { m: { ladder: [{ targets: ['a/x', 'a/x2'] }, { targets: ['b/y'], only_for: ['rate_limited'] }, { targets: ['c/z'], only_for: ['unavailable'] }] } },
    health: { samples: 100000 }, retries: { backoff: ['1ms', '1ms'] }, teams: { search: teamOf() },
  })).start();
  const calls = await Promise.all(Array.from({ length: 160 }, () => call(g, {}).done));
  assert.deepEqual([...new Set(calls.map((c) => c.status))], [200]);
  assert.ok(A.calls.length < 320, 'the budget of retries was used up');
  assert.equal(B.calls.length, 0);
  await g.end();
  await A.stop(); await B.stop(); await C.stop();
});

test('each connection above the limit of a TLS listener left its session behind', async () => {
  const up = await mock(usual());
  const g = await new Gateway((dir) => {
    execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '1', '-subj', '/CN=localhost', '-keyout', `${dir}/key.pem`, '-out', `${dir}/cert.pem`], { stdio: 'ignore' });
    return { ...simple(up)(dir), listen: [{ address: '127.0.0.1:0', tls: { certificate: `${dir}/cert.pem`, private_key: `${dir}/key.pem` } }], http: { max_connections: 1 } };
  }).start();
  const connections = Array.from({ length: 100 }, () => wire(g.port));
  await Promise.all(connections.map((c) => c.opened));
  await until(() => connections.filter((c) => c.ended).length >= 35, 'the others to be closed');
  for (const c of connections) c.end();
  await g.end(); // a leak is told by the sanitizer's exit status
  await up.stop();
});

test('odd names of models', async () => {
  const h = await house(usual(), simple, { aliases: { 'p-*': 'up/q-*' } });
  for (const model of ['p-\u0000x', 'p-\r\nx-evil: 1', 'p-"}\\', `p-${'y'.repeat(250)}`, 'p-\u007f\u0085\u2028', 'p-']) {
    const c = await call(h.g, { model }).done;
    assert.ok(c.status === 200 || c.status === 404 || c.status === 400, `${JSON.stringify(model)} ${c.status} ${c.text}`);
    assert.ok(!c.headers['x-evil']);
  }
  await h.end();
});
