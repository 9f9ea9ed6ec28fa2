// Running it, from outside: slots, memory, disks, bodies, codings, slow neighbours, one row for whatever happened.
import test from 'node:test';
import assert from 'node:assert/strict';
import http from 'node:http';
import zlib from 'node:zlib';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  Gateway, KEY, PROVIDER_KEY, ROOT, call, chunk, completion, confOf, data, endless, gate, house, json, mock, rawMock, run, simple, sse, streamOf, teamOf, until, usual, wire,
} from './harness.mjs';

const messages = [{ role: 'user', content: 'Hello' }];
const codeOf = (c) => c.json().error.code;

// ---- O-01 ----

test('O-01 slots leak until the key is locked out', { timeout: 60000 }, async () => {
  let mode = 'usual';
  const up = await mock((q, r, c) => {
    if (mode === '500') return json(r, { error: { message: 'down' } }, 500);
    if (mode === 'silent') return undefined;
    if (mode === 'half') { sse(r); return r.write(data(chunk({ role: 'assistant', content: 'Hel' }))); }
    return usual()(q, r, c);
  });
  const conf = simple(up, { health: { samples: 100000 }, aliases: { m: { ladder: [{ targets: ['up/model-x'] }], attempts: 1, cache: { enabled: true } }, slow: { ladder: [{ targets: ['up/model-x'] }], deadline: '200ms', attempts: 1 } } }, { rate_limits: { in_flight: 2 } });
  const g = await new Gateway(conf).start();
  /** Two calls pass at once, and a third is refused: the limit is exact. */
  const exact = async (after) => {
    const was = mode;
    mode = 'silent';
    const before = up.calls.length;
    const two = [call(g, {}), call(g, {})];
    await until(() => up.calls.length === before + 2, `two calls to pass after ${after}`);
    const third = await call(g, {}).done;
    assert.deepEqual([third.status, codeOf(third)], [429, 'rate_limit_exceeded'], after);
    assert.ok(Number(third.headers['retry-after']) >= 1, after);
    two.forEach((c) => c.hangUp());
    await g.idle();
    mode = was;
  };
  const rounds = {
    'U 500': async () => { mode = '500'; await Promise.all([call(g, {}).done, call(g, {}).done]); },
    'U silent until the deadline': async () => { mode = 'silent'; await Promise.all([call(g, { model: 'slow' }).done, call(g, { model: 'slow' }).done]); },
    'C leaves before the first byte': async () => { mode = 'silent'; const before = up.calls.length, two = [call(g, {}), call(g, { stream: true })]; await until(() => up.calls.length === before + 2, 'both'); two.forEach((c) => c.hangUp()); await g.idle(); },
    'C leaves in the stream': async () => { mode = 'half'; const two = [call(g, { stream: true }), call(g, { stream: true })]; await until(() => two.every((c) => c.text.includes('Hel')), 'content'); two.forEach((c) => c.hangUp()); await g.idle(); },
    'a model that does not exist': async () => { await Promise.all([call(g, { model: 'nope' }).done, call(g, { messages: 1 }).done, call(g, '{').done]); },
    'a cache hit': async () => { mode = 'usual'; for (let i = 0; i < 2; i++) await call(g, { temperature: 0 }).done; },
    'a full answer': async () => { mode = 'usual'; await Promise.all([call(g, {}).done, call(g, { stream: true }).done]); },
    'C leaves in its body': async () => { const w = wire(g.port).send(`POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Length: 1000\r\n\r\n{`); await until(async () => (await g.metric('in_flight')) === 1, 'the body to be awaited'); w.end(); await g.idle(); },
  };
  for (const [name, round] of Object.entries(rounds)) { for (let i = 0; i < (name.includes('deadline') ? 3 : 10); i++) await round(); await exact(name); }
  mode = 'silent';
  const lost = [call(g, {}), call(g, {})];
  await until(async () => (await g.metric('in_flight')) === 2, 'both');
  await g.stop('SIGKILL');
  await Promise.all(lost.map((c) => c.done));
  await g.start();
  await exact('kill -9 and a restart');
  await g.end();
  await up.stop();
});

// ---- O-02 ----

test('O-02 descriptors, sockets and bytes grow with what was served', { timeout: 60000 }, async () => {
  const big = 'x'.repeat(300000);
  const h = await house((q, r, c) => {
    if (c.text.includes('"fail"')) return json(r, { error: { message: 'down' } }, 500);
    if (c.text.includes('"reset"')) return r.socket.resetAndDestroy();
    if (c.text.includes('"half"')) { sse(r); return r.write(data(chunk({ role: 'assistant', content: 'Hel' }))); }
    if (c.text.includes('"silent"')) return undefined;
    return usual()(q, r, c);
  }, simple, { health: { samples: 100000 }, aliases: { m: { ladder: [{ targets: ['up/model-x'] }], attempts: 1 }, 'any-*': 'up/*' } }, { rate_limits: { in_flight: 10000 } });
  const { g, up } = h;
  const agent = new http.Agent({ keepAlive: true, maxSockets: 20 });
  const kinds = [
    () => call(g, {}, { agent }), () => call(g, { stream: true }, { agent }), () => call(g, { stop: 'fail' }, { agent }), () => call(g, { stop: 'reset' }, { agent }), () => call(g, { model: `any-${Math.random()}` }, { agent }), () => call(g, { model: `nope-${Math.random()}` }, { agent }),
    () => call(g, { user: big }, { agent }), () => call(g, '{"broken', { agent }), () => call(g, {}, { headers: { authorization: `Bearer sk-${Math.random()}` } }), () => call(g, {}, { path: `/v1/${Math.random()}` }),
    () => { const c = call(g, { stop: 'silent' }); setTimeout(c.hangUp, 30); return c; }, () => { const c = call(g, { stop: 'half', stream: true }); setTimeout(c.hangUp, 30); return c; }, () => { const c = call(g, { user: big }); setImmediate(c.hangUp); return c; },
    () => call(g, { user: `u-${Math.random()}`, metadata: { k: `${Math.random()}` } }, { headers: { 'idempotency-key': `${Math.random()}` } }), () => call(g, undefined, { path: '/v1/models', agent }),
  ];
  const storm = async (n) => {
    for (let i = 0; i < n; i += 50) await Promise.all(Array.from({ length: 50 }, (_, k) => kinds[(i + k) % kinds.length]().done));
    await g.idle();
  };
  const rss = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${g.child.pid}/status`, 'utf8'))[1]);
  const settled = async () => {
    agent.destroy();
    up.sockets.forEach((s) => s.destroy());
    await until(async () => (await g.metric('connections')) === 0, 'connections to close');
  };
  await storm(100);
  await settled();
  const base = { fds: g.descriptors(), threads: readdirSync(`/proc/${g.child.pid}/task`).length, rss: rss(), series: (await (await g.admin('/metrics')).text()).split('\n').length };
  await storm(500);
  await settled();
  await until(() => g.descriptors() <= base.fds, `descriptors to be ${base.fds} again, there are ${g.descriptors()}`);
  assert.equal(await g.metric('in_flight'), 0);
  assert.equal(await g.metric('buffered_bytes'), 0);
  assert.equal(await g.metric('cache_bytes'), 0);
  assert.equal((await g.budget()).held_nanousd, 0);
  assert.ok(readdirSync(`/proc/${g.child.pid}/task`).length <= base.threads, 'threads');
  assert.ok((await (await g.admin('/metrics')).text()).split('\n').length <= base.series + 10, 'made-up names make series of metrics');
  if (!process.env.TOLLGATE?.includes('address')) assert.ok(rss() - base.rss < 20000, `${rss() - base.rss} KiB more after 500 calls`);
  for (let i = 0; i < 20; i++) { assert.equal((await g.admin('/admin/reload', 'POST')).status, 200); await call(g, {}).done; }
  await settled();
  await until(() => g.descriptors() <= base.fds, 'a reload to leave no descriptor');
  await h.end();
});

// ---- O-04, B-08 ----

/** A directory of its own small disk; undefined where mounting is not permitted. */
function smallDisk(kib) {
  const dir = mkdtempSync(join(tmpdir(), 'tollgate-disk-'));
  try { execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${kib}k`, 'none', dir], { stdio: 'ignore' }); } catch { rmSync(dir, { recursive: true }); return undefined; }
  return { dir, free() { execFileSync('umount', ['-l', dir]); rmSync(dir, { recursive: true }); } };
}

test('O-04 a full disk loses records, or lets calls through that no record tells of', { timeout: 60000 }, async (t) => {
  const disk = smallDisk(512);
  if (!disk) return t.skip('mounting a small disk is not permitted here');
  const open = gate();
  const up = await mock(async (q, r, c) => {
    if (!c.body.stream) return json(r, completion());
    sse(r);
    r.write(data(chunk({ role: 'assistant', content: 'Hel' })));
    await open.open;
    return r.end(data(chunk({ content: 'lo' })) + data(chunk({}, 'stop')) + 'data: [DONE]\n\n');
  });
  const g = new Gateway(simple(up, {}, { rate_limits: { in_flight: 1000 } }));
  g.write({ ...g.conf, audit: { directory: join(disk.dir, 'audit') } });
  const records = () => readdirSync(join(disk.dir, 'audit')).filter((f) => f.endsWith('.jsonl')).sort().flatMap((f) => readFileSync(join(disk.dir, 'audit', f), 'utf8').split('\n').filter((l) => l.endsWith('}')).map((l) => JSON.parse(l)));
  try {
    await g.start();
    assert.equal((await call(g, {}).done).status, 200);
    const running = Array.from({ length: 5 }, () => call(g, { stream: true }));
    await until(() => running.every((c) => c.text.includes('Hel')), 'streams to run');
    // Somebody else fills the disk to the last byte.
    const filler = join(disk.dir, 'filler');
    try { for (;;) writeFileSync(filler, Buffer.alloc(4096), { flag: 'a' }); } catch (e) { assert.equal(e.code, 'ENOSPC'); }
    let refused;
    await until(async () => { refused = await call(g, {}).done; return refused.status === 503; }, 'a call to be refused', 20000);
    const seen = up.calls.length;
    for (let i = 0; i < 20; i++) {
      const c = await call(g, { stream: i % 2 === 0 }).done;
      assert.deepEqual([c.status, codeOf(c)], [503, 'audit_unavailable']);
      assert.ok(Number(c.headers['retry-after']) >= 1, 'says when to come again');
    }
    const claude = await call(g, { max_tokens: 5 }, { path: '/v1/messages' }).done;
    assert.ok([529, 404, 503].includes(claude.status), `${claude.status}`);
    assert.equal(up.calls.length, seen, 'a call that no record tells of went to the provider');
    assert.equal((await call({ url: g.adminUrl }, undefined, { path: '/readyz', headers: { authorization: 'Bearer admin-canary-token-0123456789' } }).done).status, 503);
    assert.equal((await call(g, undefined, { path: '/healthz' }).done).status, 200);
    assert.match(g.log, /audit log cannot be written/);
    open.go();
    await Promise.all(running.map((c) => c.done));
    // There is room again: it recovers by itself, and tells of everything.
    rmSync(filler);
    let after;
    await until(async () => { after = await call(g, {}).done; return after.status === 200; }, 'a call to be served again', 20000);
    await g.idle();
    await until(async () => (await g.metric('audit_lag_records')) === 0, 'the queue to be written');
    const rows = records();
    const admits = rows.filter((r) => r.kind === 'admit'), settles = rows.filter((r) => r.kind === 'settle');
    for (const a of admits) assert.equal(settles.filter((s) => s.request === a.request).length, 1, 'each admit has its one settle');
    assert.ok(up.calls.length <= admits.length);
    assert.equal(settles.filter((s) => s.stream && s.usage.out > 0).length, 5, 'the streams of the meantime are there');
    assert.ok(settles.some((s) => s.request === after.headers['x-request-id']));
    const budget = await g.budget();
    assert.equal(budget.held_nanousd, 0);
    assert.equal(budget.settled_nanousd, settles.reduce((s, r) => s + r.cost_nanousd, 0));
    const verdict = await run(['audit', 'verify', join(disk.dir, 'audit')]);
    assert.equal(verdict.code, 0, verdict.out + verdict.err);
    assert.match(g.log, /can be written again/);
    await g.end();
  } finally {
    await g.stop('SIGKILL');
    disk.free();
    await up.stop();
  }
});

test('O-04 a small call leaves a large record', async () => {
  const h = await house((q, r, c) => (c.url.endsWith('/embeddings') ? json(r, { object: 'list', model: 'x', data: Array.from({ length: 50 }, (_, index) => ({ object: 'embedding', index, embedding: Array.from({ length: 1536 }, () => 0.123456) })), usage: { prompt_tokens: 1, total_tokens: 1 } }) : usual()(q, r, c)));
  const size = () => { const dir = join(h.g.dir, 'audit'); return readdirSync(dir).reduce((s, f) => s + statSync(join(dir, f)).size, 0); };
  await call(h.g, {}).done;
  await h.g.idle();
  const before = size();
  for (let i = 0; i < 50; i++) await call(h.g, { user: 'u'.repeat(5000), messages: [{ role: 'user', content: 'x'.repeat(5000) }] }).done;
  for (let i = 0; i < 5; i++) await call(h.g, { input: `${i}`.repeat(5000) }, { path: '/v1/embeddings' }).done;
  for (let i = 0; i < 5; i++) await call(h.g, { model: 'n'.repeat(5000) }).done;
  await h.g.idle();
  await until(async () => (await h.g.metric('audit_lag_records')) === 0, 'the records');
  const each = (size() - before) / 60;
  assert.ok(each < 3000, `${each} bytes a call`);
  await h.end();
});

// ---- O-05 ----

const LIMIT = 256 * 1024;
const routes = { '/v1/chat/completions': { model: 'm', messages }, '/v1/completions': { model: 'm', prompt: 'x' }, '/v1/embeddings': { model: 'm', input: 'x' }, '/v1/responses': { model: 'm', input: 'x' }, '/v1/messages': { model: 'c', max_tokens: 5, messages }, '/v1/messages/count_tokens': { model: 'c', messages } };
const limited = (up) => (dir) => confOf(dir, { http: { max_body: '256KiB' }, backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY] }, c: { protocol: 'anthropic', url: up.url, api_keys: [PROVIDER_KEY] } }, aliases: { m: 'up/x', c: 'c/x' }, teams: { search: teamOf() }, health: { samples: 100000 } });
const padded = (body, size) => { const text = JSON.stringify({ ...body, pad: '' }); return text.replace('"pad":""', `"pad":"${'p'.repeat(size - text.length)}"`); };

test('O-05 large bodies: cut, of the wrong status, or the limit is not the same everywhere', { timeout: 60000 }, async () => {
  const h = await house((q, r) => json(r, { error: { message: 'taken' } }, 400), limited);
  const { g, up } = h;
  const head = (path, lines) => `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\n${lines}\r\n\r\n`;
  const chunked = (text) => { let out = ''; for (let i = 0; i < text.length; i += 50000) { const part = text.slice(i, i + 50000); out += `${part.length.toString(16)}\r\n${part}\r\n`; } return `${out}0\r\n\r\n`; };
  for (const [path, body] of Object.entries(routes)) {
    for (const over of [-1, 0, 1]) for (const form of ['length', 'chunked', 'expect']) {
      const text = padded(body, LIMIT + over), name = `${path}, limit ${over >= 0 ? '+' : ''}${over}, ${form}`;
      const before = up.calls.length;
      const w = wire(g.port);
      if (form === 'chunked') w.send(head(path, 'Transfer-Encoding: chunked') + chunked(text));
      else if (form === 'length') w.send(head(path, `Content-Length: ${text.length}`) + text);
      else {
        w.send(head(path, `Content-Length: ${text.length}\r\nExpect: 100-continue`));
        await w.until(/^HTTP\/1\.1 \d+/, 5000);
        if (over <= 0) { assert.match(w.text, /^HTTP\/1\.1 100 /, name); w.text = ''; w.send(text); } else assert.match(w.text, /^HTTP\/1\.1 413 /, `${name}: refused before it is sent`);
      }
      await w.until(/^HTTP\/1\.1 \d+[\s\S]*\}$/, 5000);
      if (over > 0) {
        assert.match(w.text, /^HTTP\/1\.1 413 /, name);
        assert.match(w.text, /request_too_large/, name);
        assert.match(w.text, new RegExp(`${LIMIT} bytes`), name);
        assert.equal(up.calls.length, before, name);
      } else {
        assert.match(w.text, /^HTTP\/1\.1 400 /, name);
        assert.match(w.text, /taken/, name);
        assert.equal(up.calls.at(-1).bytes.length - text.length, up.calls.at(-1).body.model.length - body.model.length, `${name}: byte-exact at the provider`);
        assert.equal(up.calls.at(-1).body.pad.length, JSON.parse(text).pad.length, name);
      }
      w.end();
    }
    // What cannot be read is said by name, before it is read.
    const zip = zlib.gzipSync(Buffer.alloc(50 << 20));
    for (const coding of ['gzip', 'br', 'zstd', 'deflate', 'gzip, gzip', 'unknown']) {
      const c = await call(g, zip, { path, headers: { 'content-encoding': coding } }).done;
      assert.equal(c.status, 415, `${path} ${coding}`);
      assert.match(c.text, /unsupported_encoding|coding/i, `${path} ${coding}: ${c.text}`);
    }
    assert.equal((await call(g, JSON.stringify(body), { path, headers: { 'content-encoding': 'identity' } }).done).status, 400, 'identity is no coding');
    for (const type of ['text/plain', 'multipart/form-data; boundary=x', 'application/x-www-form-urlencoded']) assert.equal((await call(g, JSON.stringify(body), { path, headers: { 'content-type': type } }).done).status, 415, `${path} ${type}`);
    for (const method of ['GET', 'PUT', 'DELETE', 'PATCH']) { const c = await call(g, undefined, { path, method: method === 'GET' ? 'POST' : method }).done; assert.equal(c.status, 405, `${path} ${method}`); assert.equal(c.headers.allow, 'POST'); }
    assert.equal((await call(g, JSON.stringify(body), { path, headers: { expect: 'the-moon' } }).done).status, 417, path);
  }
  await g.idle();
  assert.equal(await g.metric('buffered_bytes'), 0);
  await h.end();
});

test('O-05 all bodies together are without a bound', async () => {
  const h = await house(usual(), simple, { http: { max_body: '1MiB', max_buffered: '2MiB' } }, { rate_limits: { in_flight: 100 } });
  const body = padded({ model: 'm', messages }, 1 << 20);
  const slow = Array.from({ length: 6 }, () => wire(h.g.port).send(`POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, -10)}`));
  await until(() => slow.filter((w) => /^HTTP\/1\.1 503 /.test(w.text)).length >= 4, 'those that do not fit to be refused');
  assert.ok(await h.g.metric('buffered_bytes') <= 2 << 20);
  for (const w of slow.filter((x) => x.text)) assert.doesNotMatch(w.text, /x-ratelimit-limit-requests: 0/, 'a limit that was not looked at');
  for (const w of slow.filter((x) => x.text)) assert.match(w.text, /retry-after: 1[\s\S]*overloaded/i);
  const held = slow.filter((w) => !w.text);
  assert.ok(held.length >= 1);
  held.forEach((w) => w.send(body.slice(-10)));
  // Where no room is left for its answer either, the gateway is busy: that is no fault of the provider.
  await until(() => held.every((w) => /^HTTP\/1\.1 (200 |503 [\s\S]*overloaded)/.test(w.text)), 'those that fitted to be served');
  assert.ok(held.some((w) => /^HTTP\/1\.1 200 /.test(w.text)));
  slow.forEach((w) => w.end());
  await h.g.idle();
  assert.equal(await h.g.metric('buffered_bytes'), 0);
  assert.equal((await call(h.g, {}).done).status, 200);
  await h.end();
});

// ---- O-06 ----

test('O-06 label, length and bytes disagree when the provider codes its answers', async () => {
  const coders = { gzip: zlib.gzipSync, deflate: zlib.deflateSync, br: zlib.brotliCompressSync, identity: (b) => b };
  let kind = {};
  const up = await mock((q, r, c) => {
    const text = kind.status >= 400 ? JSON.stringify({ error: { message: 'plain words', code: 'x' } }) : c.body.stream ? streamOf(['Hi', ' there']) : JSON.stringify(completion('Hi there'));
    const bytes = coders[kind.coding](Buffer.from(text));
    const headers = { 'content-type': c.body.stream && kind.status < 400 ? 'text/event-stream' : 'application/json', ...(kind.label ? { 'content-encoding': kind.coding } : {}), ...(kind.length ? { 'content-length': bytes.length } : {}) };
    r.writeHead(kind.status, headers);
    r.end(bytes);
  });
  const g = await new Gateway(simple(up, { health: { samples: 100000 }, aliases: { m: { ladder: [{ targets: ['up/model-x'] }], attempts: 1 } } })).start();
  for (const coding of Object.keys(coders)) for (const status of [200, 400, 500]) for (const stream of [false, true]) for (const label of [true, false]) for (const length of [true, false]) for (const accept of [undefined, 'gzip', 'gzip, br, zstd, deflate']) {
    if (coding === 'identity' && label) continue;
    kind = { coding, status, label, length };
    const name = JSON.stringify({ ...kind, stream, accept });
    const c = await call(g, { stream }, { headers: accept ? { 'accept-encoding': accept } : {} }).done;
    assert.ok(c.whole, `${name}: cut`);
    assert.ok(!('content-encoding' in c.headers), name);
    if (c.headers['content-length'] !== undefined) assert.equal(Number(c.headers['content-length']), Buffer.byteLength(c.text), name);
    if (coding === 'identity') assert.equal(c.status, { 200: 200, 400: 400, 500: 502 }[status], name);
    if (c.status === 200) assert.match(c.text, stream ? /"content":" there"[\s\S]*\[DONE\]/ : /Hi there/, `${name}: ${JSON.stringify(c.text.slice(0, 200))}`);
    else assert.ok(typeof codeOf(c) === 'string' && (!label || !/[^\x20-\x7e]/.test(c.json().error.message)), `${name}: ${c.text.slice(0, 200)}`);
  }
  assert.ok(up.calls.every((c) => c.headers['accept-encoding'] === undefined || c.headers['accept-encoding'] === 'identity'), 'no coding is asked for');
  await g.end();
  await up.stop();
});

test('O-06 HEAD, and answers without a body', async () => {
  const h = await house((q, r) => { r.writeHead(204); r.end(); });
  for (const path of ['/', '/healthz', '/readyz', '/v1/models', '/v1/key']) {
    const w = wire(h.g.port).send(`HEAD ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    await w.closed();
    const [first, second] = w.text.split(/(?=^HTTP\/1\.1 )/m);
    assert.match(first, /^HTTP\/1\.1 200 [\s\S]*\r\n\r\n$/, `${path}: ${w.text}`);
    assert.match(second, /^HTTP\/1\.1 200 [\s\S]*ok\n$/, path);
  }
  const c = await call(h.g, {}).done;
  assert.equal(c.status, 502, 'a 204 is no answer');
  assert.ok(codeOf(c));
  await h.end();
});

// ---- O-08 ----

test('O-08 a rate limit is not exact', async () => {
  const h = await house(usual(), simple, {}, { rate_limits: { requests_per_minute: 60 } });
  const calls = Array.from({ length: 150 }, () => call(h.g, {}));
  await Promise.all(calls.map((c) => c.done));
  const passed = calls.filter((c) => c.status === 200), refused = calls.filter((c) => c.status === 429);
  assert.ok(passed.length >= 60 && passed.length <= 63, `${passed.length} of 150 passed a limit of 60`); // refills one a second
  assert.equal(passed.length + refused.length, 150);
  assert.equal(h.up.calls.length, passed.length);
  for (const c of refused) { assert.ok(Number(c.headers['retry-after']) >= 1); assert.equal(codeOf(c), 'rate_limit_exceeded'); }
  assert.equal(passed[0].headers['x-ratelimit-limit-requests'], '60');
  assert.ok(refused.every((c) => c.headers['x-ratelimit-remaining-requests'] === '0'));
  await h.end();
});

// ---- O-10 ----

test('O-10 one slow thing stalls all: calls that hang, a name that does not resolve, a log that nobody reads', { timeout: 60000 }, async () => {
  const up = await mock((q, r, c) => (c.text.includes('"hang"') ? undefined : usual()(q, r, c)));
  const silent = await rawMock(() => {});
  const g = await new Gateway((dir) => confOf(dir, {
    backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY] }, tls: { protocol: 'openai', url: `https://127.0.0.1:${silent.port}/v1`, api_keys: [PROVIDER_KEY] }, dns: { protocol: 'openai', url: 'http://does-not-resolve.invalid/v1', api_keys: [PROVIDER_KEY] } },
    aliases: { m: 'up/x', tls: 'tls/x', dns: 'dns/x' }, teams: { search: teamOf({ rate_limits: { in_flight: 1000 } }) }, health: { samples: 100000 },
  })).start();
  g.child.stderr.pause(); // and 64 KiB of pipe are soon full
  const stuck = [...Array.from({ length: 20 }, () => call(g, { stop: 'hang' })), ...Array.from({ length: 5 }, () => call(g, { model: 'tls' })), ...Array.from({ length: 5 }, () => call(g, { model: 'dns' }))];
  await until(() => up.calls.length === 20, 'the hanging calls');
  for (let i = 0; i < 600; i += 30) await Promise.all(Array.from({ length: 30 }, () => call(g, { model: i % 60 ? 'm' : 'dns' }).done)); // each failure is a line of the log
  for (let i = 0; i < 20; i++) assert.equal((await call(g, { stream: i % 2 === 0 }).done).status, 200);
  stuck.forEach((c) => c.hangUp());
  g.child.stderr.resume();
  await g.idle();
  await g.end();
  await silent.stop();
  await up.stop();
});

test('O-10 a log that nobody reads stops the gateway', async () => {
  const up = await mock((q, r) => json(r, { error: { message: `down ${'x'.repeat(400)}` } }, 500));
  const g = await new Gateway(simple(up, { health: { samples: 100000 }, aliases: { m: { ladder: [{ targets: ['up/model-x'] }], attempts: 1 } } })).start();
  g.child.stderr.pause();
  for (let i = 0; i < 1500; i += 50) {
    const calls = Array.from({ length: 50 }, () => call(g, {}));
    await Promise.race([Promise.all(calls.map((c) => c.done)), new Promise((_, reject) => setTimeout(() => reject(new Error(`nothing is answered after ${i} calls`)), 8000).unref())]);
    assert.ok(calls.every((c) => c.status === 502));
  }
  g.child.stderr.resume();
  await g.end();
  await up.stop();
});

// ---- O-11 ----

test('O-11 failures are missing in the log, or are called something else', async () => {
  let mode;
  const up = await mock((q, r, c) => {
    if (mode === '500') return json(r, { error: { message: 'down' } }, 500, { 'x-request-id': 'up-500' });
    if (mode === '401') return json(r, { error: { message: 'who' } }, 401, { 'x-request-id': 'up-401' });
    if (mode === '400') return json(r, { error: { message: 'no' } }, 400, { 'x-request-id': 'up-400' });
    if (mode === 'silent') return undefined;
    return usual()(q, r, c);
  });
  const g = await new Gateway(simple(up, { health: { samples: 100000 }, hold: { max_share_key: '100%', max_share_team: '100%' }, aliases: { m: { ladder: [{ targets: ['up/model-x'] }], attempts: 2 }, slow: { ladder: [{ targets: ['up/model-x'] }], attempts: 1, deadline: '200ms' } } }, { rate_limits: { in_flight: 3 } })).start();
  const kinds = {
    'bad JSON': [() => call(g, '{"'), 400, 'invalid_request'],
    'no such model': [() => call(g, { model: 'nope' }), 404, 'model_not_found'],
    'no such path': [() => call(g, {}, { path: '/v1/nothing' }), 404, 'not_found'],
    'wrong method': [() => call(g, undefined, { path: '/v1/chat/completions' }), 405, 'method_not_allowed'],
    'over budget': [() => call(g, { max_tokens: 2000000000 }), 402, 'budget_exceeded'],
    'a coded body': [() => call(g, 'x', { headers: { 'content-encoding': 'gzip' } }), 415, 'unsupported_encoding'],
    'a stored id': [() => call(g, { input: 'x', previous_response_id: 'r' }, { path: '/v1/responses' }), 400, 'unsupported_parameter'],
    'U 500': [() => { mode = '500'; return call(g, {}); }, 502, 'upstream_failed', 'up-500'],
    'U 401': [() => { mode = '401'; return call(g, {}); }, 502, 'upstream_auth_failed', 'up-401'],
    'U 400': [() => { mode = '400'; return call(g, {}); }, 400, undefined, 'up-400'],
    timeout: [() => { mode = 'silent'; return call(g, { model: 'slow' }); }, 504, 'deadline_exceeded'],
    success: [() => { mode = 'usual'; return call(g, {}); }, 200, undefined, 'up-req-1'],
  };
  for (const [name, [make, status, code, upstream]] of Object.entries(kinds)) {
    const c = await make().done;
    assert.equal(c.status, status, `${name}: ${c.text.slice(0, 200)}`);
    if (code) assert.equal(codeOf(c), code, name);
    const id = c.headers['x-request-id'];
    const row = await g.settled(id);
    assert.deepEqual([row.status, row.key_id, row.team], [status, 'testkey1', 'search'], name);
    if (code) assert.equal(row.code, code, name);
    assert.equal(g.records().filter((r) => r.request === id && ['settle', 'refuse'].includes(r.kind)).length, 1, name);
    if (upstream) { assert.equal(row.upstream_id, upstream, name); assert.equal(c.headers['x-tollgate-upstream-id'], upstream, name); assert.ok(row.attempts.length >= 1 && row.attempts.every((a) => a.target === 'up/model-x' && a.outcome), name); }
    if (!c.status || c.status >= 400) assert.equal(c.json().request_id ?? c.json().error.request_id, id, name);
  }
  // The ones whose client is told nothing.
  mode = 'silent';
  const rows = () => g.records().filter((r) => ['settle', 'refuse'].includes(r.kind)).length;
  let before = rows();
  const gone = call(g, {});
  await until(async () => (await g.metric('in_flight')) === 1, 'the call');
  gone.hangUp();
  await g.idle();
  await until(() => rows() === before + 1, 'its record');
  const last = g.records().filter((r) => r.kind === 'settle').at(-1);
  assert.deepEqual([last.status, last.aborted, last.code], [499, true, 'client_closed_request']);
  before = rows();
  const stranger = await call(g, {}, { headers: { authorization: 'Bearer nobody' } }).done;
  const row = await g.settled(stranger.headers['x-request-id']);
  assert.deepEqual([row.kind, row.status, row.code, row.key_id], ['refuse', 401, 'invalid_api_key', undefined]);
  const broken = wire(g.port).send('GARBAGE\r\n\r\n');
  await broken.closed();
  await until(() => rows() === before + 2, 'a record of what was no request');
  // A flood of strangers is counted, not written a thousand times, and none is lost.
  const codes = () => g.records().filter((r) => r.kind === 'refuse' && r.code === 'invalid_api_key').reduce((s, r) => s + (r.count ?? 1), 0);
  const known = codes();
  for (let i = 0; i < 300; i += 100) await Promise.all(Array.from({ length: 100 }, () => call(g, undefined, { path: '/v1/models', headers: { authorization: 'Bearer nobody' } }).done));
  await until(() => codes() === known + 300, 'all strangers to be counted');
  assert.ok(rows() - before < 290);
  await g.end();
  await up.stop();
});

// ---- O-12 ----

test('O-12 odd parameters crash something, or give a 500', { timeout: 60000 }, async () => {
  const h = await house(usual(), simple, { health: { samples: 100000 } }, { budgets: [] });
  const values = ['0', '-1', '1e308', '-1e308', '1e999', '"x"', 'null', '0.01', '9223372036854775807', '9223372036854775808', '-9223372036854775808', 'true', '[]', '{}', '[[[[1]]]]', '1e-400', '123456789012345678901234567890'];
  const fields = ['max_tokens', 'max_completion_tokens', 'temperature', 'top_p', 'n', 'seed', 'presence_penalty', 'frequency_penalty', 'logit_bias', 'top_logprobs', 'logprobs', 'stop', 'response_format', 'tools', 'tool_choice', 'stream', 'stream_options', 'user', 'metadata', 'best_of', 'dimensions', 'store', 'service_tier', 'top_k', 'thinking', 'reasoning_effort'];
  let odd = 0;
  for (const [path, base] of Object.entries(routes)) {
    if (path.includes('messages')) continue;
    for (let i = 0; i < fields.length; i++) await Promise.all(values.map(async (value) => {
      const text = `${JSON.stringify(base).slice(0, -1)},"${fields[i]}":${value}}`;
      const c = await call(h.g, text, { path }).done;
      const name = `${path} ${fields[i]}: ${value}`;
      assert.ok([200, 400, 402, 403, 502].includes(c.status), `${name}: ${c.status} ${c.text.slice(0, 200)}`);
      if (c.status === 400) { odd++; assert.ok(c.json().error.message.includes(fields[i]) || c.json().error.param?.includes(fields[i]), `${name}: ${c.text.slice(0, 200)}`); }
    }));
  }
  assert.ok(odd > 50, `${odd} were refused by name`);
  const bombs = [
    { response_format: { type: 'json_schema', json_schema: { name: 'a', schema: JSON.parse(`${'{"anyOf":['.repeat(60)}{}${']}'.repeat(60)}`) } } }, { tools: Array.from({ length: 2000 }, (_, i) => ({ type: 'function', function: { name: `f${i}`, parameters: {} } })) }, { stop: Array.from({ length: 10000 }, () => 'x') }, { guided_regex: '(a+)+$'.repeat(1000) }, { logit_bias: Object.fromEntries(Array.from({ length: 20000 }, (_, i) => [i, 1])) },
  ];
  for (const bomb of bombs) assert.ok([200, 400, 413].includes((await call(h.g, bomb).done).status));
  assert.equal((await call(h.g, {}).done).status, 200);
  await h.end();
});

test("O-12 one client's odd parameter takes the engine down for all", { timeout: 60000 }, async () => {
  const g = await new Gateway((dir) => confOf(dir, {
    backends: { local: { protocol: 'decode', model: join(ROOT, 'conf', 'tiny', 'base'), name: 'tiny', device: 'cpu', max_context: 256, max_sequences: 8, price: { input: '0 USD/1M', output: '0 USD/1M' } } },
    aliases: { m: 'local/tiny' }, teams: { search: teamOf({ rate_limits: { in_flight: 100 } }) },
  })).start();
  const good = async () => { const c = await call(g, { max_tokens: 8, temperature: 0 }).done; assert.equal(c.status, 200, c.text); return c.json(); };
  const before = await good();
  const values = ['0', '-1', '1e308', '-1e308', '1e999', '"x"', 'null', '0.01', '9223372036854775807', '9223372036854775808', 'true', '[]', '{}'];
  const text = (field, value) => `{"model":"m","messages":[{"role":"user","content":"Hello"}],${/^max/.test(field) ? '' : '"max_tokens":4,'}"${field}":${value}}`;
  for (const field of ['max_tokens', 'max_completion_tokens', 'temperature', 'top_p', 'n', 'seed', 'stop', 'logit_bias', 'logprobs', 'top_logprobs', 'presence_penalty', 'frequency_penalty', 'response_format', 'tools', 'top_k'])
    await Promise.all(values.map(async (value) => {
      const c = await call(g, text(field, value)).done;
      assert.ok([200, 400].includes(c.status), `${field}: ${value}: ${c.status} ${c.text.slice(0, 200)}`);
      if (c.status === 400) assert.ok(`${c.json().error.param} ${c.json().error.message}`.includes(field), `${field}: ${value}: ${c.text.slice(0, 200)}`);
    }));
  const long = await call(g, { messages: [{ role: 'user', content: 'word '.repeat(5000) }] }).done;
  assert.deepEqual([long.status, codeOf(long)], [400, 'context_length_exceeded']);
  for (const content of ['', '\u0000', '\ud800', '<|im_end|>'.repeat(20), '\u{1F600}'.repeat(30)]) assert.ok([200, 400].includes((await call(g, { messages: [{ role: 'user', content }], max_tokens: 4 }).done).status), JSON.stringify(content));
  // Those who leave give their place back at once.
  const many = Array.from({ length: 30 }, () => call(g, { stream: true, max_tokens: 200 }));
  await until(() => many.filter((c) => c.text.includes('"content"')).length >= 4, 'some to run');
  many.forEach((c) => c.hangUp());
  await g.idle();
  await until(async () => (await g.metric('decode_running')) === 0, 'the engine to run nothing'); // it hears of it between two steps
  assert.equal((await good()).choices[0].message.content, before.choices[0].message.content, 'and the same call has the same answer');
  await g.end();
});

test('O-10 more connections than are taken: the rest waits in a queue that grows, or nobody is served again', async () => {
  const h = await house(usual(), simple, { http: { max_connections: 10 } });
  const held = Array.from({ length: 10 }, () => wire(h.g.port));
  await Promise.all(held.map((w) => w.opened));
  await until(async () => (await h.g.metric('connections')) === 10, 'ten connections');
  const over = Array.from({ length: 5 }, () => wire(h.g.port).send('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n'));
  await Promise.all(over.map((w) => w.closed()));
  for (const w of over) assert.match(w.text, /^HTTP\/1\.1 503 [\s\S]*retry-after: 1[\s\S]*overloaded/i);
  assert.equal((await h.g.admin('/healthz')).status, 200, 'the admin port has places of its own');
  held[0].end();
  await until(async () => (await h.g.metric('connections')) < 10, 'one to leave');
  assert.equal((await call(h.g, {}).done).status, 200);
  held.forEach((w) => w.end());
  await h.end();
});

// ---- the drain ----

test('O-11 a drain cuts what runs, or takes what is new; a second signal ends at once', async () => {
  let stop = false;
  const h = await house(endless(() => stop), simple, { http: { drain: '20s' } });
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const running = Array.from({ length: 3 }, () => call(h.g, { stream: true }));
  await until(() => running.every((c) => c.text.includes('word')), 'streams');
  h.g.child.kill('SIGTERM');
  await until(() => /draining/.test(h.g.log), 'the drain');
  assert.equal((await h.g.admin('/readyz')).status, 503, 'not ready from the start of the drain');
  assert.equal((await h.g.admin('/healthz')).status, 200);
  assert.equal((await call(h.g, {}, { agent }).done).status, undefined, 'no new connection');
  const length = running[0].text.length;
  await until(() => running[0].text.length > length, 'the streams to go on');
  stop = true;
  await Promise.all(running.map((c) => c.done));
  assert.ok(running.every((c) => c.whole && /\[DONE\]/.test(c.text)));
  assert.equal(await h.g.exited, 0);
  agent.destroy();
  // A drain that takes too long is cut, recorded and billed.
  stop = false;
  h.g.write({ ...h.g.conf, http: { drain: '300ms' } });
  await h.g.start();
  const cut = call(h.g, { stream: true });
  await until(() => cut.text.includes('word'), 'a stream');
  h.g.child.kill('SIGTERM');
  assert.equal(await h.g.exited, 0);
  await cut.done;
  assert.ok(!cut.text.includes('[DONE]'));
  const rows = h.g.records().filter((r) => r.kind === 'settle');
  assert.equal(rows.length, 4);
  assert.ok(rows.at(-1).estimated && rows.at(-1).cost_nanousd > 0);
  assert.equal((await run(['audit', 'verify', `${h.g.dir}/audit`])).code, 0);
  stop = true;
  await h.up.stop();
  rmSync(h.g.dir, { recursive: true });
});
