// Routing: which failures are tried again, where, how often, and what the client and the log are told of it.
import test from 'node:test';
import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import OpenAI from 'openai';
import Anthropic from '@anthropic-ai/sdk';
import {
  Gateway, mock, usual, confOf, teamOf, completion, chunk, data, json, sse, sleep, until, run,
  DIALECTS, wholeStream, both, bothHouse, ask, parsed, textOf, each, KEY, PROVIDER_KEY,
} from './harness.mjs';

const chat = DIALECTS.chat;
const dialects = Object.entries(DIALECTS);
const fail = (status, over = {}, headers = {}) => (request, response) => json(response, { type: 'error', error: { message: `no ${status}`, type: 'some_error', code: `c${status}`, ...over } }, status, headers);
const outcomes = (record) => record.attempts.map((a) => `${a.target}:${a.outcome}`);

/** Backends by name, each at its own mock or url; ladder `m` as given. */
const fleet = (backends, m, over = {}) => (dir) => confOf(dir, {
  backends: Object.fromEntries(Object.entries(backends).map(([name, b]) => [name, { protocol: 'openai', api_keys: [PROVIDER_KEY], ...(b.protocol ? b : { url: `${b.url}/v1` }) }])),
  aliases: { m }, health: { samples: 100000 }, retries: { budget: '100%', backoff: ['1ms', '5ms'] }, teams: { search: teamOf() }, ...over,
});
const rungs = (...targets) => ({ ladder: targets.map((t) => ({ targets: [].concat(t) })) });
async function two(a, b, m = rungs('a/x', 'b/y'), over = {}) {
  const A = await mock(a), B = await mock(b);
  const g = await new Gateway(fleet({ a: A, b: B }, m, over)).start();
  return { A, B, g, async end() { await g.end(); await A.stop(); await B.stop(); } };
}
const call = async (g, over = {}, headers = {}) => { const c = await ask(g, chat.path, { ...chat.ask, ...over }, { headers }).done; return [c, await g.settled(c.id)]; };

test('R-01 a refusal of the call itself is not tried again, and the client gets its own words', async () => {
  const h = await two(usual(), usual(), rungs(['a/x', 'a/y'], 'b/z'));
  for (const status of [400, 409, 413, 422]) {
    h.A.answer = fail(status);
    const before = h.A.calls.length;
    const [c, record] = await call(h.g);
    assert.deepEqual([c.status, h.A.calls.length - before, h.B.calls.length], [status, 1, 0]);
    assert.deepEqual([JSON.parse(c.text).error.code, JSON.parse(c.text).error.message], [`c${status}`, `no ${status}`]);
    assert.deepEqual(outcomes(record).map((o) => o.split(':')[1]), ['client_fault']);
  }
  await h.end();
});

test('R-01 a bad credential or a missing model is not tried again on the lane that has it', async () => {
  for (const [status, told, code] of [[401, 502, 'upstream_auth_failed'], [403, 502, 'upstream_auth_failed'], [404, 502, 'upstream_failed']]) {
    const up = await mock(fail(status));
    const g = await new Gateway(fleet({ a: up }, 'a/x')).start();
    const [c] = await call(g);
    assert.deepEqual([c.status, JSON.parse(c.text).error.code, c.headers['x-should-retry'], up.calls.length], [told, code, 'false', 1]);
    await g.end();
    await up.stop();
  }
});

test('R-01 a rate limit and then a refusal: the client is told the last and most specific', async () => {
  const h = await two(fail(429), fail(400, { param: 'tools', message: 'tools[0] is wrong' }));
  const [c, record] = await call(h.g);
  assert.deepEqual([c.status, JSON.parse(c.text).error.message, JSON.parse(c.text).error.param], [400, 'tools[0] is wrong', 'tools']);
  assert.deepEqual(outcomes(record), ['a/x:rate_limited', 'b/y:client_fault']);
  await h.end();
});

test('R-01 a prompt that is too long goes down the ladder once, not round the same rung', async () => {
  const long = fail(400, { code: 'context_length_exceeded', message: 'This model\'s maximum context length is 8 tokens' });
  const h = await two(long, usual(), rungs(['a/x', 'a/y'], 'b/z'));
  const [c] = await call(h.g);
  assert.deepEqual([c.status, h.A.calls.length, h.B.calls.length, c.headers['x-tollgate-degraded']], [200, 1, 1, 'context_window']);
  h.B.answer = long;
  const [none] = await call(h.g);
  assert.deepEqual([none.status, JSON.parse(none.text).error.code], [400, 'context_length_exceeded']);
  await h.end();
});

test('R-02 a provider\'s wait is kept for its lane and passed on to the client', async () => {
  const date = (s) => new Date(Math.ceil(Date.now() / 1000 + s) * 1000).toUTCString();
  const rows = [['seconds', { 'retry-after': '7' }, 6, 7], ['a date', { 'retry-after': date(9) }, 4, 10], ['an hour', { 'retry-after': '3600' }, 3590, 3600], ['milliseconds', { 'retry-after-ms': '2500', 'retry-after': '9' }, 2, 3]];
  for (const [name, headers, least, most] of rows)
    for (const status of [429, 503]) {
      const up = await mock(fail(status, {}, headers));
      const g = await new Gateway(fleet({ a: up }, 'a/x')).start();
      const [c] = await call(g);
      const wait = Number(c.headers['retry-after']);
      assert.equal(c.status, status === 429 ? 429 : 502, name);
      assert.ok(wait >= least && wait <= most, `${name}: ${wait}`);
      if (wait > 60) assert.equal(c.headers['x-should-retry'], 'false', name);
      else if (status === 429) assert.equal(c.headers['x-should-retry'], undefined, name);
      const [next] = await call(g);
      assert.equal(up.calls.length, 1, `${name}: the lane is left alone`);
      assert.deepEqual([next.status, JSON.parse(next.text).error.code], [503, 'no_healthy_target'], name);
      assert.ok(Number(next.headers['retry-after']) >= least - 5, `${name}: ${next.headers['retry-after']}`);
      await g.end();
      await up.stop();
    }
});

test('R-02 garbage in Retry-After is no wait; a lane that is limited is passed over without a pause', async () => {
  const h = await two(fail(429, {}, { 'retry-after': 'soon, \u00e9h' }), usual());
  const [c, record] = await call(h.g);
  assert.equal(c.status, 200);
  assert.deepEqual(outcomes(record), ['a/x:rate_limited', 'b/y:ok']);
  assert.equal(c.headers['x-tollgate-degraded'], 'rate_limited');
  await call(h.g);
  assert.deepEqual([h.A.calls.length, h.B.calls.length], [1, 2], 'the limited lane rests');
  await h.end();
});

test('R-02 further tries in one rung back off', async () => {
  const at = [];
  const up = await mock((request, response) => { at.push(Date.now()); json(response, { error: { message: 'down' } }, 500); });
  const g = await new Gateway(fleet({ a: up }, rungs(['a/x', 'a/y', 'a/z']), { retries: { backoff: ['200ms', '2s'] } })).start();
  await call(g);
  assert.equal(at.length, 3);
  assert.ok(at[1] - at[0] >= 95 && at[2] - at[1] >= 190, `${at[1] - at[0]} ms, ${at[2] - at[1]} ms`);
  await g.end();
  await up.stop();
});

test('R-04 every target fails: each lane once, the whole bounded by attempts, deadline and a few lines of log', async () => {
  const up = await mock(fail(500));
  const names = Array.from({ length: 12 }, (_, i) => `a/m${i}`);
  const g = await new Gateway(fleet({ a: up }, { ladder: [{ targets: names.slice(0, 6) }, { targets: names.slice(6) }], attempts: 30 }, { aliases: {
    m: { ladder: [{ targets: names.slice(0, 6) }, { targets: names.slice(6) }], attempts: 30 }, few: { ladder: [{ targets: names }], attempts: 4 } } })).start();
  await call(g);
  assert.equal(up.calls.length, 12);
  assert.equal(new Set(up.calls.map((c) => c.body.model)).size, 12, 'each lane at most once');
  const log = g.log.length;
  const [c] = await call(g, { model: 'few' });
  assert.equal(up.calls.length, 16);
  assert.equal(c.headers['x-tollgate-attempts'], '4');
  assert.ok(g.log.length - log < 8192, `${g.log.length - log} bytes of log`);
  await g.end();
  await up.stop();
});

test('R-04 the deadline ends all tries together', async () => {
  const up = await mock(() => {});
  const g = await new Gateway(fleet({ a: { protocol: 'openai', url: `${up.url}/v1`, timeouts: { first_token: '300ms' } } }, { ladder: [{ targets: Array.from({ length: 8 }, (_, i) => `a/m${i}`) }], attempts: 8, deadline: '1s' })).start();
  const [c, record] = await call(g);
  assert.deepEqual([c.status, JSON.parse(c.text).error.code], [504, 'deadline_exceeded']);
  assert.ok(record.attempts.length >= 2 && record.attempts.length <= 4, `${record.attempts.length} tries`);
  await until(() => up.open === 0, 'the last try to be let go');
  await g.end();
  await up.stop();
});

test('R-04 aliases in a circle are refused at load', async () => {
  const rows = { self: { m: 'm' }, pair: { m: 'b', b: 'm' }, ladder: { m: rungs('b'), b: rungs('m') } };
  for (const [name, aliases] of Object.entries(rows)) {
    const g = new Gateway((dir) => confOf(dir, { backends: { up: { protocol: 'openai', url: 'http://127.0.0.1:9/v1', api_keys: [PROVIDER_KEY] } }, aliases, teams: { search: teamOf() } }));
    const verdict = await run(['check', '-c', g.file]);
    assert.equal(verdict.code, 1, name);
    assert.match(verdict.out + verdict.err, /tollgate\.yaml:\d+:\d+: error: /, name);
  }
});

test('R-04 a call that the gateway itself refuses loops nowhere', async () => {
  const h = await two(usual(), usual());
  const log = h.g.log.length;
  const [c] = await call(h.g, { temperature: 'warm' });
  assert.equal(c.status, 400);
  assert.deepEqual([h.A.calls.length, h.B.calls.length], [0, 0]);
  assert.ok(h.g.log.length - log < 4096);
  await h.end();
});

test('R-05 after visible output nothing is begun anew; before it a fallback leaves no trace in the stream', { timeout: 60000 }, async () => {
  const calls = [];
  let first;
  const answer = (request, response, c) => {
    calls.push(c.body.model);
    const d = dialects.find(([, x]) => c.url.includes(x.path.slice(3)))[1];
    if (c.body.model === 'well') return sse(response, wholeStream(d));
    sse(response);
    return first(response, d);
  };
  for (const [name, d] of dialects)
    for (const kind of ['text', 'tool', 'thinking']) {
      const h = await bothHouse(answer, both, { aliases: { m: ['up/ill', 'up/well'], c: ['claude/ill', 'claude/well'] } });
      calls.length = 0;
      let seen;
      const shown = new Promise((resolve) => { seen = resolve; });
      first = async (response) => { response.write([...d.head, ...d.parts[kind]].join('')); await shown; response.socket.resetAndDestroy(); };
      const c = ask(h.g, d.path, { ...d.ask, stream: true });
      c.until((t) => /Zür|Ich|Grü/.test(t), 'content').then(seen, seen);
      await c.done;
      assert.deepEqual(calls, ['ill'], `${name} ${kind}`);
      assert.ok(d.failed.test(c.text) && !d.ends.test(c.text), `${name} ${kind}: ${c.text}`);
      calls.length = 0;
      first = async (response) => { response.write(d.head.join('')); response.socket.resetAndDestroy(); };
      const quiet = await ask(h.g, d.path, { ...d.ask, stream: true }).done;
      const got = parsed(quiet.text);
      assert.deepEqual(calls, ['ill', 'well'], `${name} ${kind}`);
      assert.equal(textOf(got), 'Grüße \u{1F600} 漢字');
      assert.equal(got.filter(([, v]) => v.type === 'message_start' || v.type === 'response.created' || v.choices?.[0]?.delta?.role).length, 1, `${name}: one start`);
      assert.ok(!d.failed.test(quiet.text));
      await h.end();
    }
});

test('R-06 every failure before content reaches the same decision, by any name of the model', { timeout: 60000 }, async () => {
  const closed = await new Promise((resolve) => { const s = net.createServer().listen(0, '127.0.0.1', () => { const { port } = s.address(); s.close(() => resolve(port)); }); });
  const slow = await mock(() => {});
  const opened = await mock((request, response) => sse(response, data({ error: { type: 'overloaded_error', message: 'overloaded' } })));
  const hangs = await mock((request, response) => response.socket.resetAndDestroy());
  const garbage = await mock((request, response) => response.socket.end('SSH-2.0-OpenSSH_9.2\r\n'));
  const cut = await mock((request, response) => { response.writeHead(200, { 'content-type': 'application/json', 'content-length': 999 }); response.write(JSON.stringify(completion()).slice(0, 40)); response.socket.end(); });
  const nojson = await mock((request, response) => { response.writeHead(200, { 'content-type': 'application/json' }); response.end('{"choices":[{"message":{"content":"Hi'); });
  const well = await mock(usual());
  const ill = {
    refused: { url: `http://127.0.0.1:${closed}/v1` }, notls: { url: `https://127.0.0.1:${well.port}/v1` }, late: { url: `${slow.url}/v1`, timeouts: { first_token: '300ms' } },
    opened: { url: `${opened.url}/v1` }, hangs: { url: `${hangs.url}/v1` }, garbage: { url: `${garbage.url}/v1` }, cut: { url: `${cut.url}/v1` }, nojson: { url: `${nojson.url}/v1` }, unknown: { url: 'http://no-such-host.invalid/v1' },
  };
  const backends = Object.fromEntries(Object.entries({ ...ill, well: { url: `${well.url}/v1` } }).map(([n, b]) => [n, { protocol: 'openai', api_keys: [PROVIDER_KEY], ...b }]));
  const forms = {
    alias: (n) => ({ [n]: [`${n}/x`, 'well/y'] }),
    pattern: (n) => ({ [`${n}-*`]: [`${n}/*`, 'well/*'] }),
    'one rung': (n) => ({ [n]: { ladder: [{ targets: [{ target: `${n}/x`, weight: 1000 }, { target: 'well/y', weight: 1 }] }] } }),
  };
  for (const [form, make] of Object.entries(forms)) {
    const aliases = Object.assign({}, ...Object.keys(ill).map(make));
    const g = await new Gateway((dir) => confOf(dir, { backends, aliases, health: { samples: 100000 }, retries: { budget: '100%', backoff: ['1ms', '5ms'] }, teams: { search: teamOf() } })).start();
    const jobs = Object.keys(ill).flatMap((n) => [true, false].map((stream) => ({ n, stream })));
    await each(jobs, 6, async ({ n, stream }) => {
      const [c, record] = await call(g, { model: form === 'pattern' ? `${n}-large` : n, stream });
      assert.equal(c.status, 200, `${form} ${n} ${stream}: ${c.text}`);
      assert.ok(c.text.includes('Hi'), n);
      assert.equal(record.attempts.at(-1).outcome, 'ok');
      if (form !== 'one rung') assert.deepEqual([record.attempts.length, record.attempts[0].target.split('/')[0]], [2, n], form);
    });
    await g.end();
  }
  for (const m of [slow, opened, hangs, garbage, cut, nojson, well]) await m.stop();
});

test('R-07 after an uncertain failure each try is on another lane, with the caller\'s idempotency key, and logged', async () => {
  const late = (request, response, c) => { c.counted = true; };
  const A = await mock(late), B = await mock(usual());
  const g = await new Gateway(fleet({ a: { url: `${A.url}/v1`, protocol: 'openai', timeouts: { first_token: '300ms' } }, b: B }, rungs('a/x', 'b/y'))).start();
  const [c, record] = await call(g, {}, { 'idempotency-key': 'only-once-7' });
  assert.equal(c.status, 200);
  assert.deepEqual([A.calls.length, B.calls.length], [1, 1], 'never twice to the one that may have taken it');
  assert.deepEqual([A.calls[0].headers['idempotency-key'], B.calls[0].headers['idempotency-key']], ['only-once-7', 'only-once-7']);
  assert.deepEqual(outcomes(record), ['a/x:timeout', 'b/y:ok']);
  const [none] = await call(g, { }, { 'x-tollgate-fallback': 'none' });
  assert.deepEqual([none.status, A.calls.length, B.calls.length], [504, 2, 1], 'a caller can forbid it');
  await g.end();
  await A.stop();
  await B.stop();
});

test('R-08 health is learned from traffic: no probe costs anything, and liveness does not hang on a provider', async () => {
  const up = await mock(fail(500));
  const g = await new Gateway(fleet({ a: up }, 'a/x', { health: { samples: 2, window: '10s', cool_down: ['500ms', '1s'] } })).start();
  assert.equal(up.sockets.size, 0, 'nothing is asked at start');
  for (let i = 0; i < 4; i++) await call(g);
  const asked = up.calls.length;
  assert.ok(asked < 4, 'the breaker opened');
  assert.equal((await fetch(`${g.url}/healthz`)).status, 200);
  await until(async () => (await (await g.admin('/admin/targets')).text()).includes('half-open') || !(await (await g.admin('/admin/targets')).text()).includes('"open"'), 'the cool-down to end');
  assert.equal(up.calls.length, asked, 'no call that no client made');
  up.answer = usual();
  const [c] = await call(g);
  assert.equal(c.status, 200, 'the next call is the probe');
  assert.equal(up.calls.length, asked + 1);
  assert.ok(up.calls.every((x) => x.method === 'POST' && x.body.messages.length === 1));
  await g.end();
  await up.stop();
});

test('R-08 refusals of bad calls do not make a target ill', async () => {
  const up = await mock(fail(400));
  const g = await new Gateway(fleet({ a: up }, 'a/x', { health: { samples: 2, window: '10s', cool_down: ['5s', '5s'] } })).start();
  for (let i = 0; i < 10; i++) await call(g);
  up.answer = usual();
  assert.equal((await call(g))[0].status, 200);
  await g.end();
  await up.stop();
});

test('R-10 weights are kept, also after a target rested and came back', { timeout: 60000 }, async () => {
  const A = await mock(usual()), B = await mock(usual());
  const g = await new Gateway(fleet({ a: A, b: B }, { ladder: [{ targets: [{ target: 'a/x', weight: 1 }, { target: 'b/y', weight: 9 }] }] }, { health: { samples: 3, window: '1s', cool_down: ['300ms', '300ms'] } })).start();
  const agent = new http.Agent({ keepAlive: true, maxSockets: 16 });
  const many = async (n) => { const a = A.calls.length, b = B.calls.length; await each(Array.from({ length: n }), 16, () => ask(g, chat.path, chat.ask, { agent }).done); return (A.calls.length - a) / (A.calls.length - a + B.calls.length - b); };
  const N = 1000, tolerance = 4.5 * Math.sqrt(0.09 / N); // four and a half standard deviations of the draw
  const before = await many(N);
  assert.ok(Math.abs(before - 0.1) < tolerance, `${before} of the calls went to the light one`);
  B.answer = fail(500);
  await many(60);
  assert.ok(await many(20) === 1, 'the ill one rests');
  B.answer = usual();
  await until(async () => { const b = B.calls.length; await many(4); return B.calls.length > b; }, 'it to come back', 10000);
  const after = await many(N);
  assert.ok(Math.abs(after - 0.1) < tolerance, `${after} of the calls went to the light one`);
  agent.destroy();
  await g.end();
  await A.stop();
  await B.stop();
});

test('R-13 connections to a provider are used again', { timeout: 60000 }, async () => {
  const connections = new Set();
  const up = await mock((request, response, c) => { connections.add(request.socket); usual()(request, response, c); });
  const g = await new Gateway(fleet({ a: up }, 'a/x')).start();
  const agent = new http.Agent({ keepAlive: true, maxSockets: 20 });
  await each(Array.from({ length: 1000 }), 20, (_, i) => ask(g, chat.path, { ...chat.ask, stream: i % 2 === 0 }, { agent }).done);
  assert.equal(up.calls.length, 1000);
  assert.ok(connections.size <= 40, `${connections.size} connections for 1000 calls`);
  agent.destroy();
  await g.end();
  await up.stop();
});

test('R-13 what this machine lacks is not blamed on the provider', { timeout: 60000 }, async () => {
  const up = await mock((request, response, c) => (c.body.metadata?.hold ? undefined : usual()(request, response, c)));
  const g = await new Gateway(fleet({ a: up }, 'a/x', { health: { samples: 1, cool_down: ['1m', '1m'] } })).start({}, { files: 64 });
  const held = [];
  let refused;
  for (let i = 0; i < 64 && !refused; i++) {
    const c = ask(g, chat.path, { ...chat.ask, metadata: { hold: '1' } });
    const arrived = up.calls.length;
    await until(() => up.calls.length > arrived || c.status, `call ${i} to arrive or to be refused`);
    if (c.status) refused = c;
    else held.push(c);
  }
  assert.ok(refused && held.length > 10, `${held.length} held`);
  await refused.done;
  assert.deepEqual([refused.status, JSON.parse(refused.text).error.code], [503, 'overloaded'], refused.text);
  assert.ok(Number(refused.headers['retry-after']) > 0);
  held.forEach((c) => c.request.destroy());
  await g.idle();
  const [c] = await call(g);
  assert.equal(c.status, 200, `the provider is not thought ill: ${c.text}`);
  await g.end();
  await up.stop();
});

test('R-14 tries of the gateway and of the SDK do not multiply', async () => {
  const up = await mock(fail(503));
  const g = await new Gateway(fleet({ a: up }, { ladder: [{ targets: ['a/x', 'a/y'] }, { targets: ['a/z'] }], attempts: 3 }, {
    backends: { a: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY] }, claude: { protocol: 'anthropic', url: up.url, api_keys: [PROVIDER_KEY] } },
    aliases: { m: { ladder: [{ targets: ['a/x', 'a/y'] }, { targets: ['a/z'] }], attempts: 3 }, c: { ladder: [{ targets: ['claude/x', 'claude/y'] }, { targets: ['claude/z'] }], attempts: 3 } } })).start();
  await assert.rejects(new OpenAI({ baseURL: `${g.url}/v1`, apiKey: KEY, maxRetries: 2 }).chat.completions.create({ model: 'm', messages: chat.ask.messages }), (e) => e.status === 502);
  assert.equal(up.calls.length, 3);
  await assert.rejects(new Anthropic({ baseURL: g.url, apiKey: KEY, maxRetries: 2 }).messages.create({ model: 'c', max_tokens: 9, messages: chat.ask.messages }), (e) => e.status === 502);
  assert.equal(up.calls.length, 6);
  up.answer = fail(413);
  await assert.rejects(new OpenAI({ baseURL: `${g.url}/v1`, apiKey: KEY, maxRetries: 2 }).chat.completions.create({ model: 'm', messages: chat.ask.messages }), (e) => e.status === 413);
  assert.equal(up.calls.length, 7, 'a body that is too large is sent once');
  await g.end();
  await up.stop();
});
