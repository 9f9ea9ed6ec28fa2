// Credentials, borders and framing, from outside: what a stranger, a caller, a provider or a browser may not do.
import test from 'node:test';
import assert from 'node:assert/strict';
import net from 'node:net';
import { rmSync, writeFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  ADMIN, ADMIN_PATHS, Gateway, KEY, OTHER_KEY, PROVIDER_KEY, call, chunk, completion, confOf, data, endless, gate, house, json, mock, run, sha256, simple, sse,
  streamOf, teamOf, until, usual, wire,
} from './harness.mjs';

const messages = [{ role: 'user', content: 'Hello' }];

// ---- A-01 ----

const ALMOST = `${KEY.slice(0, -1)}X`;
const FOREIGN = 'sk-ant-api03-canary-wrong-vendor-0123456789';
const IN_QUERY = 'sk-query-canary-0123456789abcdef';
const FILE_KEY = 'sk-file-canary-0123456789abcdef';
const SECRETS = { caller: KEY, provider: PROVIDER_KEY, admin: ADMIN, almost: ALMOST, foreign: FOREIGN, query: IN_QUERY, file: FILE_KEY };

function assertNoSecret(where, text) {
  for (const [name, secret] of Object.entries(SECRETS)) assert.ok(!text.includes(secret), `the ${name} secret stands in ${where}: ${text.slice(Math.max(0, text.indexOf(secret) - 120), text.indexOf(secret) + 60)}`);
}

test('A-01 secrets in logs, errors, records, metrics or headers', async () => {
  let kind;
  const echo = (request) => ({ error: { message: `bad call, headers were ${JSON.stringify(request.headers)}`, type: 'x', code: `c-${request.headers.authorization}`, param: request.headers.authorization } });
  const kinds = {
    'a 400 that echoes': (q, r) => json(r, echo(q), 400, { 'x-echo': q.headers.authorization, 'x-request-id': q.headers.authorization }),
    'a 401 that echoes': (q, r) => json(r, echo(q), 401, { 'www-authenticate': q.headers.authorization }),
    'a 404 that echoes': (q, r) => json(r, echo(q), 404),
    'a 422 that echoes as text': (q, r) => { r.writeHead(422, { 'content-type': 'text/plain' }); r.end(JSON.stringify(q.headers)); },
    'a 429 that echoes': (q, r) => json(r, echo(q), 429, { 'retry-after': '0' }),
    'a 500 that echoes': (q, r) => json(r, echo(q), 500),
    'a redirect with the key': (q, r) => { r.writeHead(302, { location: `http://127.0.0.1:1/?key=${q.headers.authorization}` }); r.end(); },
    'a 200 with the key in its headers': (q, r) => json(r, completion(), 200, { 'x-key': q.headers.authorization, 'set-cookie': `k=${q.headers.authorization}`, 'x-request-id': q.headers.authorization.slice(7) }),
    'an error inside a 200': (q, r) => json(r, echo(q), 200),
    'an error event at once': (q, r) => sse(r, data(echo(q))),
    'an error event after content': (q, r) => sse(r, data(chunk({ role: 'assistant', content: 'Hel' })) + data(echo(q))),
    'no JSON': (q, r) => { r.writeHead(200, { 'content-type': 'application/json' }); r.end(JSON.stringify(q.headers).slice(1)); },
    'a broken head': (q, r) => { r.socket.end(`HTTP/1.1 2OO ${q.headers.authorization}\r\n\r\n`); },
  };
  const up = await mock((q, r) => kinds[kind](q, r));
  const dead = await mock(() => {});
  await dead.stop();
  const g = new Gateway((dir) => confOf(dir, {
    backends: {
      up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY] },
      refused: { protocol: 'openai', url: `${dead.url}/v1`, api_keys: [{ name: 'prod', value: PROVIDER_KEY }] },
      badtls: { protocol: 'openai', url: `https://127.0.0.1:${up.port}/v1`, api_keys: ['${file:provider.key}'] },
      nowhere: { protocol: 'openai', url: 'http://no-such-host.invalid/v1', api_keys: ['${CANARY_KEY}'] },
    },
    aliases: { m: 'up/model-x', refused: 'refused/x', badtls: 'badtls/x', nowhere: 'nowhere/x' },
    health: { samples: 1000 }, teams: { search: teamOf() },
  }));
  writeFileSync(join(g.dir, 'provider.key'), `${FILE_KEY}\n`);
  await g.start({ CANARY_KEY: PROVIDER_KEY });
  const replies = {};
  const keep = async (name, c) => { await c.done; replies[name] = `${c.status} ${JSON.stringify(c.headers)} ${c.text}`; };
  for (kind of Object.keys(kinds)) for (const stream of [false, true]) await keep(`${kind}, stream ${stream}`, call(g, { stream }));
  for (const model of ['refused', 'badtls', 'nowhere']) await keep(model, call(g, { model }));
  kind = 'a 400 that echoes';
  await keep('a key in the query', call(g, {}, { path: `/v1/chat/completions?api_key=${IN_QUERY}&key=${IN_QUERY}&access_token=${IN_QUERY}` }));
  for (const [name, key] of Object.entries({ ALMOST, FOREIGN, ADMIN, PROVIDER_KEY })) {
    await keep(`the wrong key ${name}`, call(g, {}, { headers: { authorization: `Bearer ${key}` } }));
    await keep(`the wrong x-api-key ${name}`, call(g, {}, { path: '/v1/messages', headers: { authorization: null, 'x-api-key': key } }));
    const r = await g.admin('/admin/requests', 'GET', undefined, key);
    if (key !== ADMIN) { assert.equal(r.status, 401); replies[`the wrong admin token ${name}`] = JSON.stringify([...r.headers]) + await r.text(); }
  }
  await keep('the key itself', call(g, undefined, { path: '/v1/key' }));
  await keep('the list of models', call(g, undefined, { path: '/v1/models' }));
  await g.idle();
  for (const call of up.calls) assert.ok(!call.url.includes(IN_QUERY), 'a credential of the query went upstream');
  for (const [name, text] of Object.entries(replies)) assertNoSecret(`the reply to ${name}`, text);
  for (const [name, text] of Object.entries(await g.sinks())) assertNoSecret(name, text);
  for (const args of [['check', '-c', g.file], ['config', '--effective', '-c', g.file], ['audit', 'show', join(g.dir, 'audit')], ['spend', join(g.dir, 'audit')],
    ['explain', '-c', g.file, '--team', 'search', '--model', 'm']]) {
    const r = await run(args, { env: { ...process.env, CANARY_KEY: PROVIDER_KEY } });
    assertNoSecret(args.join(' '), r.out + r.err);
  }
  await g.end();
  await up.stop();
});

// ---- A-02 ----

const UP_HEADERS = ['host', 'content-type', 'accept', 'user-agent', 'content-length', 'connection', 'authorization', 'x-api-key', 'anthropic-version', 'anthropic-beta', 'idempotency-key', 'x-stainless-timeout', 'openai-beta', 'accept-encoding'];

test("A-02 the caller's credential, cookies, forwarded-for or internal headers reach the provider", async () => {
  const other = await mock(usual());
  const h = await house(usual(), (up) => (dir) => confOf(dir, {
    backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY] }, bare: { protocol: 'openai', url: `${up.url}/v1` }, claude: { protocol: 'anthropic', url: up.url, api_keys: [PROVIDER_KEY] } },
    aliases: { m: 'up/model-x', bare: 'bare/model-x', c: 'claude/model-x' }, teams: { search: teamOf() },
  }));
  const dirty = {
    cookie: `session=${KEY}`, 'x-forwarded-for': '10.1.2.3', 'x-forwarded-host': 'inside', forwarded: 'for=10.1.2.3', 'x-real-ip': '10.1.2.3', via: '1.1 proxy', 'proxy-authorization': `Basic ${KEY}`,
    'x-internal': 'internal-canary', 'x-tollgate-user': 'internal-canary', 'x-tollgate-team': 'internal-canary', 'openai-organization': 'org-canary', 'x-custom': 'internal-canary', te: 'trailers', referer: 'http://inside/', origin: 'http://inside',
  };
  const ways = [{ authorization: `Bearer ${KEY}` }, { authorization: `bearer  ${KEY}` }, { authorization: null, 'x-api-key': KEY }, { authorization: null, 'api-key': KEY }, { authorization: null, 'x-goog-api-key': KEY },
    { authorization: `Bearer ${KEY}`, 'x-api-key': KEY, 'api-key': KEY, 'x-goog-api-key': KEY }];
  const paths = { '/v1/chat/completions': 'm', '/v1/completions': 'm', '/v1/embeddings': 'm', '/v1/responses': 'm', '/v1/messages': 'c', '/v1/messages/count_tokens': 'c' };
  h.up.answer = (q, r) => json(r, { error: { message: 'no' } }, 400);
  for (const model of ['m', 'bare']) for (const way of ways) await call(h.g, { model }, { headers: { ...dirty, ...way }, path: `/v1/chat/completions?key=${KEY}&api_key=${KEY}&access_token=${KEY}` }).done;
  for (const [path, model] of Object.entries(paths)) assert.equal((await call(h.g, { model, max_tokens: 5, input: 'x', ...(path === '/v1/completions' ? { prompt: 'x' } : {}) }, { path, headers: { ...dirty } }).done).status, 400, path);
  assert.equal(h.up.calls.length, 2 * ways.length + 6);
  for (const c of h.up.calls) {
    const names = c.raw.filter((_, i) => i % 2 === 0).map((n) => n.toLowerCase());
    assert.deepEqual(names.filter((n) => !UP_HEADERS.includes(n)), [], c.url);
    assert.ok([undefined, 'identity'].includes(c.headers['accept-encoding']));
    assert.ok(!`${JSON.stringify(c.raw)} ${c.url}`.includes(KEY), `the caller's key went upstream: ${c.url}`);
    assert.ok(!/canary-?$|internal|10\.1\.2\.3|inside/.test(JSON.stringify(c.raw)), JSON.stringify(c.raw));
  }
  const bare = h.up.calls.slice(ways.length, 2 * ways.length);
  assert.ok(bare.every((c) => !('authorization' in c.headers) && !('x-api-key' in c.headers)), 'no key configured means no credential');
  h.up.answer = (q, r) => { r.writeHead(307, { location: `${other.url}/v1/chat/completions` }); r.end(); };
  const moved = await call(h.g, {}).done;
  assert.equal(moved.status, 502);
  assert.ok(!('location' in moved.headers));
  assert.equal(other.calls.length, 0, 'a redirect was followed');
  await other.stop();
  await h.end();
});

test('A-02 two different keys in one request', async () => {
  const h = await house(usual());
  for (const headers of [{ 'x-api-key': OTHER_KEY }, { 'api-key': `${KEY}x` }, { 'x-goog-api-key': OTHER_KEY }]) {
    const c = await call(h.g, {}, { headers }).done;
    assert.equal(c.status, 401);
    assert.equal(c.json().error.code, 'invalid_api_key');
  }
  const twice = wire(h.g.port).send(`POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nAuthorization: Bearer ${OTHER_KEY}\r\nContent-Length: 2\r\n\r\n{}`);
  await twice.until(/^HTTP\/1.1 40[01] /);
  twice.end();
  assert.equal((await call(h.g, {}, { headers: { 'x-api-key': KEY } }).done).status, 200);
  assert.equal(h.up.calls.length, 1);
  await h.end();
});

// ---- A-04 ----

test('A-04 a base URL that the caller chooses', async () => {
  const trap = await mock(usual());
  const h = await house(usual());
  const there = [`${trap.url}/v1`, trap.url, `http://2130706433:${trap.port}/`, `http://[::ffff:127.0.0.1]:${trap.port}/`, `http://0177.0.0.1:${trap.port}/`];
  for (const url of there) {
    const fields = { api_base: url, base_url: url, extra_body: { api_base: url }, api_key: 'x', custom_llm_provider: 'openai', metadata: { base_url: url } };
    const headers = { 'x-base-url': url, 'x-api-base': url, 'x-tollgate-base-url': url, 'x-openai-base-url': url, 'x-forwarded-host': new URL(url).host, 'helicone-target-url': url };
    const image = [{ role: 'user', content: [{ type: 'image_url', image_url: { url: `${url}/a.png` } }, { type: 'file', file: { file_data: `${url}/b.pdf`, filename: 'b.pdf' } }] }];
    for (const c of [call(h.g, fields), call(h.g, {}, { headers }), call(h.g, {}, { path: `/v1/chat/completions?base_url=${encodeURIComponent(url)}&api_base=${url}` }), call(h.g, { messages: image }), call(h.g, {}, { headers: { host: new URL(url).host } })])
      assert.ok([200, 400].includes((await c.done).status));
  }
  assert.equal(trap.calls.length, 0, 'the gateway went where a caller said');
  assert.ok(h.up.calls.every((c) => c.headers.host === `127.0.0.1:${h.up.port}`));
  await trap.stop();
  await h.end();
});

// ---- A-06 ----

const ROUTES = [...ADMIN_PATHS.filter((p) => p !== '/healthz').map((p) => ['GET', p]), ['POST', '/admin/reload'], ['POST', '/admin/reload?dry_run=1'], ['POST', '/admin/keys'], ['DELETE', '/admin/keys/testkey1']];
const TOKENS = { anna: 'operator', bert: 'finance', carl: 'auditor', dora: 'viewer', emil: 'metrics' };
const tokenOf = (who) => `token-of-${who}-0123456789`;
const askAdmin = (g, method, path, headers = {}) => call({ url: g.adminUrl }, undefined, { method: method === 'POST' ? 'post' : method, path, headers: { authorization: null, ...headers } }).done;

test('A-06 the admin port is open without the right token, or by a trick of path or method', async () => {
  const h = await house(usual(), simple, { admin: { address: '127.0.0.1:0', token: ADMIN, tokens: Object.entries(TOKENS).map(([name, role]) => ({ name, sha256: sha256(tokenOf(name)), role })) } });
  const { g } = h;
  const wrong = { none: {}, empty: { authorization: '' }, blank: { authorization: 'Bearer ' }, spaces: { authorization: 'Bearer    ' }, caller: { authorization: `Bearer ${KEY}` }, provider: { authorization: `Bearer ${PROVIDER_KEY}` },
    longer: { authorization: `Bearer ${ADMIN}x` }, shorter: { authorization: `Bearer ${ADMIN.slice(0, -1)}` }, upper: { authorization: `Bearer ${ADMIN.toUpperCase()}` }, basic: { authorization: `Basic ${Buffer.from(`admin:${ADMIN}`).toString('base64')}` },
    bare: { authorization: ADMIN }, 'x-api-key': { 'x-api-key': ADMIN }, cookie: { cookie: `token=${ADMIN}` }, hash: { authorization: `Bearer ${sha256(tokenOf('anna'))}` } };
  for (const [method, path] of ROUTES) for (const [name, headers] of Object.entries(wrong)) assert.equal((await askAdmin(g, method, path, headers)).status, 401, `${method} ${path} with ${name}`);
  assert.equal((await askAdmin(g, 'GET', `/admin/requests?token=${ADMIN}&access_token=${ADMIN}`)).status, 401);
  for (const path of ['/', '/admin', '/admin/', '/debug', '/debug/pprof', '/v1/models', '/healthz/../admin/requests', '/healthz/%2e%2e/admin/requests', '//admin/requests', '/ADMIN/requests', '/admin%2frequests', '/healthz;/admin/requests', '/healthz/', '/admin/./requests'])
    for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE', 'PATCH']) {
      const w = wire(new URL(g.adminUrl).port).send(`${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
      await w.closed();
      assert.match(w.text, /^HTTP\/1\.1 40[0135] /, `${method} ${path}`);
      assert.ok(!w.text.includes('"requests"'));
    }
  // What each role may do, and nothing else.
  const may = { operator: () => true, viewer: (m, p) => m === 'GET' && !/config|audit/.test(p), finance: (m, p) => /readyz|metrics|spend|budgets/.test(p), auditor: (m, p) => /readyz|metrics|config|audit/.test(p) && m === 'GET', metrics: (m, p) => p === '/metrics' };
  for (const [who, role] of Object.entries(TOKENS)) {
    if (role === 'operator') continue;
    for (const [method, path] of ROUTES) {
      const { status } = await askAdmin(g, method, path, { authorization: `Bearer ${tokenOf(who)}` });
      assert.equal(status, may[role](method, path) ? 200 : 403, `${role}: ${method} ${path}`);
    }
  }
  // A page in a browser: its Host or Origin is another.
  const right = { authorization: `Bearer ${ADMIN}` };
  const port = new URL(g.adminUrl).port;
  for (const headers of [{ host: 'evil.example' }, { host: `evil.example:${port}` }, { host: 'localhost.evil.example' }, { host: '127.0.0.1.evil.example' }, { origin: 'http://evil.example' }, { origin: 'null' }, { origin: `http://127.0.0.1:1` }, { origin: `http://127.0.0.1:${port}.evil.example` }]) {
    assert.equal((await askAdmin(g, 'GET', '/admin/requests', { ...right, ...headers })).status, 403, JSON.stringify(headers));
    assert.equal((await askAdmin(g, 'DELETE', '/admin/keys/testkey1', { ...right, ...headers })).status, 403, JSON.stringify(headers));
  }
  assert.equal((await askAdmin(g, 'GET', '/admin/requests', { ...right, origin: g.adminUrl })).status, 200);
  assert.equal((await askAdmin(g, 'GET', '/admin/requests', { ...right, host: `localhost:${port}` })).status, 200);
  assert.equal((await askAdmin(g, 'GET', '/admin/nothing', right)).status, 404);
  assert.equal((await askAdmin(g, 'DELETE', '/admin/requests', right)).status, 405);
  // Nothing of the admin port stands on the port of the clients.
  for (const key of [KEY, ADMIN]) for (const path of ['/admin/requests', '/metrics', '/admin/config', '/v1/admin/keys', '/debug'])
    assert.equal((await call(g, undefined, { path, headers: { authorization: `Bearer ${key}` } }).done).status, key === KEY ? 404 : 401, path);
  assert.equal((await call(g, {}).done).status, 200, 'the key was not revoked by any of it');
  await h.end();
});

test('A-06 no admin secret, an empty one or a blank one opens the admin port', async () => {
  for (const token of [undefined, '', '   ', '${EMPTY_TOKEN:-}']) {
    const g = new Gateway((dir) => confOf(dir, { admin: { address: '127.0.0.1:0', ...(token === undefined ? {} : { token }) } }));
    let started = true;
    try { await g.start(); } catch { started = false; }
    if (!started) { rmSync(g.dir, { recursive: true }); assert.notEqual(token, undefined); continue; }
    for (const authorization of ['', 'Bearer', 'Bearer ', 'Bearer    ', 'Bearer ""'])
      assert.equal((await askAdmin(g, 'GET', '/admin/requests', { authorization })).status, 401, `${JSON.stringify(token)} with ${JSON.stringify(authorization)}`);
    const made = readFileSync(join(g.dir, 'admin.token'), 'utf8').trim();
    assert.ok(made.length > 40);
    assert.equal((await g.admin('/admin/requests', 'GET', undefined, made)).status, 200);
    await g.end();
  }
});

test('A-06 the metrics port serves more than /metrics', async () => {
  const spare = net.createServer();
  await new Promise((resolve) => spare.listen(0, '127.0.0.1', resolve));
  const { port } = spare.address();
  await new Promise((resolve) => spare.close(resolve));
  const h = await house(usual(), simple, { admin: { address: '127.0.0.1:0', token: ADMIN, metrics: { address: `127.0.0.1:${port}` } } });
  const there = { adminUrl: `http://127.0.0.1:${port}` };
  const seen = await askAdmin(there, 'GET', '/metrics');
  assert.equal(seen.status, 200);
  assert.match(seen.text, /^tollgate_in_flight 0$/m);
  for (const [method, path] of ROUTES.filter(([, p]) => p !== '/metrics')) for (const headers of [{}, { authorization: `Bearer ${ADMIN}` }])
    assert.equal((await askAdmin(there, method, path, headers)).status, 404, `${method} ${path}`);
  assert.ok([404, 405].includes((await askAdmin(there, 'POST', '/metrics')).status));
  assert.equal((await call(h.g, {}).done).status, 200);
  await h.end();
});

// ---- A-07 ----

test('A-07 a revoked key keeps working, or comes back with the conf or a restart', async () => {
  const open = gate();
  let stop = false;
  const h = await house((q, r, c) => (c.body.stream ? endless(() => stop)(q, r, c) : usual()(q, r, c)), simple, {}, { keys: [{ id: 'testkey1', name: 'one', sha256: sha256(KEY) }, { id: 'otherkey', name: 'other', sha256: sha256(OTHER_KEY) }] });
  const { g } = h;
  const running = call(g, { stream: true });
  await until(() => running.text.includes('word'), 'the stream to run');
  const made = await (await g.admin('/admin/keys', 'POST', { team: 'search', name: 'fresh' })).json();
  assert.match(made.key, /^sk-tg-/);
  const with_ = async (key) => (await call(g, {}, { headers: { authorization: `Bearer ${key}` } }).done);
  assert.equal((await with_(made.key)).status, 200);
  assert.equal((await g.admin('/admin/keys/testkey1', 'DELETE')).status, 200);
  assert.equal((await g.admin(`/admin/keys/${made.id}`, 'DELETE')).status, 200);
  const gone = async () => {
    for (const key of [KEY, made.key]) {
      const c = await with_(key);
      assert.equal(c.status, 401);
      assert.match(c.json().error.message, /revoked/);
    }
    assert.equal((await call(g, undefined, { path: '/v1/models' }).done).status, 401);
    assert.equal((await with_(OTHER_KEY)).status, 200, 'nobody else is touched');
  };
  await gone();
  assert.ok(!running.whole, 'a running stream goes on');
  stop = true;
  open.go();
  await running.done;
  assert.match(running.text, /\[DONE\]/);
  assert.equal((await g.admin('/admin/reload', 'POST')).status, 200);
  await gone();
  await g.stop();
  await g.start();
  await gone();
  const acts = g.records().filter((r) => r.kind === 'admin').map((r) => r.what);
  assert.deepEqual(acts.filter((w) => /key/.test(w)), ['key added', 'key revoked', 'key revoked']);
  await h.end();
});

test('A-07 expired, mistyped and unknown keys: 401, and only a known one learns why', async () => {
  const h = await house(usual(), simple, {}, { keys: [{ id: 'testkey1', name: 'old', sha256: sha256(KEY), expires: '2020-01-01' }] });
  const say = async (key) => { const c = await call(h.g, {}, { headers: { authorization: key && `Bearer ${key}` } }).done; assert.equal(c.status, 401); assert.equal(c.json().error.code, 'invalid_api_key'); return c.json().error.message; };
  assert.match(await say(KEY), /expired/);
  for (const key of [ALMOST, OTHER_KEY, FOREIGN]) assert.doesNotMatch(await say(key), /expired|revoked/);
  assert.match(await say(null), /No API key/);
  const claude = await call(h.g, {}, { path: '/v1/messages', headers: { authorization: null, 'x-api-key': ALMOST } }).done;
  assert.equal(claude.json().error.type, 'authentication_error');
  assert.equal(h.up.calls.length, 0);
  await h.end();
});

test('A-07 SIGHUP swaps the whole conf or refuses it whole; running requests keep the old one', async () => {
  let stop = false;
  const h = await house((q, r, c) => (c.body.stream ? endless(() => stop)(q, r, c) : usual()(q, r, c)));
  const { g } = h;
  const second = await mock(usual(['from', ' second']));
  const hup = async (pattern) => { const from = g.log.length; g.child.kill('SIGHUP'); await until(() => pattern.test(g.log.slice(from)), `${pattern} in the log`); };
  const running = call(g, { stream: true });
  await until(() => running.text.includes('word'), 'the stream to run');
  const before = g.conf;
  const ready = async () => (await (await g.admin('/readyz')).json()).conf_digest;
  const digest = await ready();
  // One wrong word anywhere refuses all of it: the new key is not admitted either.
  const next = (over) => ({ ...before, backends: { up: { protocol: 'openai', url: `${second.url}/v1`, api_keys: ['sk-rotated-key-0123456789'] } }, teams: { search: teamOf({}, OTHER_KEY, 'otherkey') }, ...over });
  for (const wrong of [next({ aliases: { m: 'nowhere/x' } }), next({ cahce: {} }), next({ listen: [{ address: '127.0.0.1:1' }] }), '{"listen": [', '']) {
    g.write(wrong);
    await hup(/conf refused/);
    assert.equal(await ready(), digest);
    assert.equal((await call(g, {}).done).status, 200);
    assert.equal((await call(g, {}, { headers: { authorization: `Bearer ${OTHER_KEY}` } }).done).status, 401);
  }
  assert.equal(second.calls.length, 0);
  g.write(next({}));
  const dry = await (await g.admin('/admin/reload?dry_run=1', 'POST')).json();
  assert.deepEqual([dry.good, dry.loaded, await ready()], [true, false, digest]);
  await hup(/conf reloaded/);
  assert.notEqual(await ready(), digest);
  assert.equal((await call(g, {}).done).status, 401, 'a key that conf does not name any more');
  const c = await call(g, {}, { headers: { authorization: `Bearer ${OTHER_KEY}` } }).done;
  assert.match(c.text, /from second/);
  assert.equal(second.calls[0].headers.authorization, 'Bearer sk-rotated-key-0123456789', 'a rotated provider key');
  stop = true;
  await running.done;
  assert.match(running.text, /\[DONE\]/);
  await g.idle();
  const settle = g.records().find((r) => r.kind === 'settle' && r.stream);
  assert.equal(settle.key_id, 'testkey1');
  assert.equal(settle.status, 200);
  assert.notEqual(settle.conf_digest, await ready(), 'the stream was settled on the conf it began with');
  await second.stop();
  await h.end();
});

// ---- A-08 ----

const MARKED = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'MARKER' }] });
const marker = `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\nContent-Length: ${MARKED.length}\r\n\r\n${MARKED}`;

test('A-08 request smuggling: what is framed in two ways is refused, and nothing behind it is a request', async () => {
  const h = await house(usual());
  const { g } = h;
  const body = JSON.stringify({ model: 'm', messages });
  const hex = body.length.toString(16);
  const post = (lines, content, line = 'POST /v1/chat/completions HTTP/1.1') => `${line}\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\n${lines}\r\n\r\n${content}`;
  const chunked = `${hex}\r\n${body}\r\n0\r\n\r\n`;
  const cases = {
    'length and chunked': post(`Content-Length: ${body.length}\r\nTransfer-Encoding: chunked`, chunked),
    'chunked and length': post('Transfer-Encoding: chunked\r\nContent-Length: 3', chunked),
    'length 0 and chunked': post('Content-Length: 0\r\nTransfer-Encoding: chunked', chunked),
    'two lengths': post(`Content-Length: ${body.length}\r\nContent-Length: 5`, body),
    'two lengths in one': post(`Content-Length: ${body.length}, 5`, body),
    'length with a plus': post(`Content-Length: +${body.length}`, body),
    'length in hex': post(`Content-Length: 0x${hex}`, body),
    'negative length': post('Content-Length: -1', body),
    'huge length': post('Content-Length: 99999999999999999999999', body),
    'length with a space inside': post('Content-Length: 1 2', body),
    'empty length': post('Content-Length: ', body),
    'space before the colon': post('Transfer-Encoding : chunked', chunked),
    'space before the colon of the length': post(`Content-Length : ${body.length}`, body),
    'xchunked': post('Transfer-Encoding: xchunked', chunked),
    'chunked, identity': post('Transfer-Encoding: chunked, identity', chunked),
    'identity, chunked': post('Transfer-Encoding: identity, chunked', chunked),
    'chunked twice': post('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked', chunked),
    'quoted chunked': post('Transfer-Encoding: "chunked"', chunked),
    'chunked with a control byte': post('Transfer-Encoding: \x0bchunked', chunked),
    'obs-fold': post(`Content-Length:\r\n ${body.length}`, body),
    'folded chunked': post('Transfer-Encoding:\r\n chunked', chunked),
    'bare LF': post(`X-A: b\nContent-Length: ${body.length}`, body),
    'bare CR': post(`X-A: b\rContent-Length: 3`, body),
    'NUL in a value': post(`X-A: \0b\r\nContent-Length: ${body.length}`, body),
    'NUL in a name': post(`X\0A: b\r\nContent-Length: ${body.length}`, body),
    'a line without a colon': post(`garbage\r\nContent-Length: ${body.length}`, body),
    'a space first': post(` X-A: b\r\nContent-Length: ${body.length}`, body),
    'chunk size that overflows': post('Transfer-Encoding: chunked', `fffffffffffffffff\r\n${body}\r\n0\r\n\r\n`),
    'chunk size with 0x': post('Transfer-Encoding: chunked', `0x${hex}\r\n${body}\r\n0\r\n\r\n`),
    'chunk size with a sign': post('Transfer-Encoding: chunked', `+${hex}\r\n${body}\r\n0\r\n\r\n`),
    'chunk without its CRLF': post('Transfer-Encoding: chunked', `${hex}\r\n${body}0\r\n\r\n`),
    'chunk with bare LF': post('Transfer-Encoding: chunked', `${hex}\n${body}\n0\n\n`),
    'chunk extension with a line end': post('Transfer-Encoding: chunked', `${hex};a\nb\r\n${body}\r\n0\r\n\r\n`),
    'trailer with a length': post('Transfer-Encoding: chunked', `${hex}\r\n${body}\r\n0\r\nContent Length: 5\r\n\r\n`),
    'no host': `POST /v1/chat/completions HTTP/1.1\r\nAuthorization: Bearer ${KEY}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    'two hosts': post(`Host: y\r\nContent-Length: ${body.length}`, body),
    'a line of three spaces': post(`Content-Length: ${body.length}`, body, 'POST  /v1/chat/completions  HTTP/1.1'),
    'HTTP/1.1 in lower case': post(`Content-Length: ${body.length}`, body, 'POST /v1/chat/completions http/1.1'),
    'HTTP/1.0 with chunked': post('Transfer-Encoding: chunked', chunked, 'POST /v1/chat/completions HTTP/1.0'),
    'a method of odd bytes': post(`Content-Length: ${body.length}`, body, 'PO(ST /v1/chat/completions HTTP/1.1'),
  };
  for (const [name, bytes] of Object.entries(cases)) {
    const w = wire(g.port).send(bytes + marker);
    await w.closed(4000);
    const statuses = w.text.match(/^HTTP\/1\.1 \d+/gm) ?? [];
    assert.equal(statuses.length, 1, `${name}: ${JSON.stringify(w.text.slice(0, 300))}`);
    assert.match(statuses[0], / (400|411|413|501|505)$/, name);
    assert.ok(!w.text.includes('Hi there'), name);
  }
  assert.ok(h.up.calls.every((c) => !c.text.includes('MARKER')), 'a smuggled request reached the provider');
  assert.equal(h.up.calls.length, 0, 'what is framed wrongly reached the provider');
  // The lawful forms beside them pass, and the request behind is answered as its own.
  const lawful = {
    'the same length twice': null, 'a chunk extension': post('Transfer-Encoding: chunked', `${hex};ext=1\r\n${body}\r\n0\r\n\r\n`), 'a trailer': post('Transfer-Encoding: chunked', `${hex}\r\n${body}\r\n0\r\nX-T: 1\r\n\r\n`),
    'Chunked in capitals': post('Transfer-Encoding: Chunked', chunked), 'leading zeros': post('Transfer-Encoding: chunked', `000${hex}\r\n${body}\r\n000\r\n\r\n`), 'a body cut in two chunks': post('Transfer-Encoding: chunked', `5\r\n${body.slice(0, 5)}\r\n${(body.length - 5).toString(16)}\r\n${body.slice(5)}\r\n0\r\n\r\n`),
  };
  for (const [name, bytes] of Object.entries(lawful)) {
    if (!bytes) continue;
    const w = wire(g.port).send(bytes + marker);
    await until(() => (w.text.match(/Hi there/g) ?? []).length === 2, `two answers for ${name}, got ${w.text.slice(0, 300)}`);
    w.end();
  }
  assert.ok(h.up.calls.every((c) => !('transfer-encoding' in c.headers) && Number(c.headers['content-length']) === c.bytes.length), 'the gateway frames bodies itself');
  await h.end();
});

test('A-08 a stranger smuggles a request behind a body that is not read', async () => {
  const h = await house(usual());
  for (const head of [`Content-Length: ${marker.length}`, 'Transfer-Encoding: chunked', `Content-Length: ${marker.length}\r\nExpect: 100-continue`]) {
    const bytes = head.startsWith('T') ? `${marker.length.toString(16)}\r\n${marker}\r\n0\r\n\r\n` : marker;
    const w = wire(h.g.port).send(`POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${OTHER_KEY}\r\n${head}\r\n\r\n${bytes}`);
    await w.until(/^HTTP\/1\.1 401 /);
    w.send('GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    await w.closed();
    assert.ok((w.text.match(/^HTTP\/1\.1 /gm) ?? []).length <= 2);
  }
  assert.equal(h.up.calls.length, 0);
  await h.end();
});

// ---- A-09 ----

test('A-09 trouble of the state directory is answered as 401, or lets anybody in', async () => {
  const h = await house(usual());
  const { g } = h;
  const made = await (await g.admin('/admin/keys', 'POST', { team: 'search' })).json();
  const status = async (key) => (await call(g, {}, { headers: { authorization: `Bearer ${key}` } }).done).status;
  rmSync(join(g.dir, 'state'), { recursive: true });
  writeFileSync(join(g.dir, 'state'), 'not a directory');
  const refused = await g.admin('/admin/keys', 'POST', { team: 'search' });
  assert.ok(refused.status >= 500, `a key was promised that no file holds: ${refused.status}`);
  assert.ok(!(await refused.text()).includes('sk-tg-'));
  assert.ok((await g.admin('/admin/keys/testkey1', 'DELETE')).status >= 500);
  assert.deepEqual([await status(KEY), await status(made.key), await status(OTHER_KEY)], [200, 200, 401], 'known keys are served, strangers are not');
  const reload = await g.admin('/admin/reload', 'POST');
  if (reload.status !== 200) assert.deepEqual([await status(KEY), await status(made.key)], [200, 200], 'a refused reload changes nothing');
  rmSync(join(g.dir, 'state'));
  await h.end();
});

// ---- A-10 ----

test('A-10 content is logged though nothing is to be stored', async () => {
  const words = { prompt: 'PROMPTCANARY', tool: 'TOOLCANARY', reply: 'REPLYCANARY', error: 'ERRORCANARY', vector: '0.987654321', user: 'USERCANARY', meta: 'METACANARY', system: 'SYSTEMCANARY' };
  const waits = gate();
  const up = await mock(async (q, r, c) => {
    if (c.text.includes('"fail"')) return json(r, { error: { message: `${words.error} about ${words.prompt}` } }, 400);
    if (c.text.includes('"wait"')) { await waits.open; }
    if (c.url.endsWith('/embeddings')) return json(r, { object: 'list', model: 'x', data: [{ object: 'embedding', index: 0, embedding: [0.987654321] }], usage: { prompt_tokens: 1, total_tokens: 1 } });
    if (c.url.endsWith('/messages')) return json(r, { id: 'msg_1', type: 'message', role: 'assistant', model: 'x', content: [{ type: 'text', text: words.reply }], stop_reason: 'end_turn', stop_sequence: null, usage: { input_tokens: 3, output_tokens: 2 } });
    return c.body.stream ? sse(r, streamOf([words.reply, ' more'])) : json(r, completion(words.reply));
  });
  const g = await new Gateway((dir) => confOf(dir, { backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY] }, c: { protocol: 'anthropic', url: up.url, api_keys: [PROVIDER_KEY] } }, aliases: { m: 'up/x', c: 'c/x' }, teams: { search: teamOf() } })).start();
  const ask = { user: words.user, metadata: { k: words.meta }, messages: [{ role: 'system', content: words.system }, { role: 'user', content: words.prompt }, { role: 'assistant', content: null, tool_calls: [{ id: 't1', type: 'function', function: { name: 'f', arguments: `{"a":"${words.tool}"}` } }] }, { role: 'tool', tool_call_id: 't1', content: words.tool }] };
  const calls = [];
  for (const value of [undefined, 'true', 'false', '']) {
    const headers = value === undefined ? {} : { 'x-log-content': value, 'x-tollgate-content': value, 'x-tollgate-store': value, 'litellm-enable-message-redaction': value };
    calls.push(call(g, ask, { headers }), call(g, { ...ask, stream: true }, { headers }), call(g, { ...ask, stop: 'fail' }, { headers }), call(g, { input: `${words.prompt} ${value}`, messages: undefined, user: words.user }, { path: '/v1/embeddings', headers }),
      call(g, { model: 'c', max_tokens: 9, system: words.system, messages: [{ role: 'user', content: words.prompt }] }, { path: '/v1/messages', headers }), call(g, { ...ask, messages: words.prompt }, { headers }), call(g, `{"model":"m","messages":[{"content":"${words.prompt}`, { headers }));
  }
  const waiting = call(g, { ...ask, stop: 'wait' });
  await until(() => up.calls.length >= 21, 'every call to arrive', 8000);
  await Promise.all(calls.map((c) => c.done));
  const during = await g.sinks();
  waits.go();
  await waiting.done;
  assert.equal(calls[0].json().choices[0].message.content, words.reply);
  await g.idle();
  for (const sinks of [during, await g.sinks()]) for (const [name, text] of Object.entries(sinks)) for (const [kind, word] of Object.entries(words)) assert.ok(!text.includes(word), `${kind} stands in ${name}`);
  await g.end();
  await up.stop();
});

// ---- A-12 ----

test('A-12 oversized, over-deep or broken input ends the process or reaches the provider', { timeout: 60000 }, async () => {
  const h = await house(usual());
  const { g } = h;
  const head = `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\n`;
  const rawCases = {
    'a header of a megabyte': [`${head}X-Big: ${'a'.repeat(1 << 20)}\r\n\r\n`, 431],
    'ten thousand headers': [head + Array.from({ length: 10000 }, (_, i) => `X-${i}: ${i}`).join('\r\n') + '\r\n\r\n', 431],
    'a name of a megabyte': [`${head}${'a'.repeat(1 << 20)}: x\r\n\r\n`, 431],
    'a URL of 64 KiB': [`GET /${'a'.repeat(65536)} HTTP/1.1\r\nHost: x\r\n\r\n`, 414],
    'a query of 64 KiB': [`GET /v1/models?${'a'.repeat(65536)} HTTP/1.1\r\nHost: x\r\n\r\n`, 414],
    'TLS on the plain port': [Buffer.from('16030100a5010000a10303', 'hex').toString('latin1') + '\x01'.repeat(200), 400],
    'bytes without a line end': ['\xff'.repeat(200000), 400],
  };
  for (const [name, [bytes, status]] of Object.entries(rawCases)) {
    const w = wire(g.port).send(bytes);
    await w.closed(5000);
    assert.match(w.text, /^HTTP\/1\.1 4\d\d /, name);
    assert.ok(w.text.startsWith(`HTTP/1.1 ${status} `) || (status === 400 && /^HTTP\/1\.1 (400|414|431) /.test(w.text)), `${name}: ${w.text.slice(0, 60)}`);
  }
  const wrap = (inner) => `{"model":"m","messages":[{"role":"user","content":"x"}],"x":${inner}}`;
  const bad = {
    'depth 100,000 of arrays': wrap('['.repeat(100000) + ']'.repeat(100000)), 'depth 100,000 of objects': wrap('{"a":'.repeat(100000) + '1' + '}'.repeat(100000)), 'depth 100,000, unclosed': '['.repeat(100000),
    NaN: wrap('NaN'), Infinity: wrap('-Infinity'), 'a hex number': wrap('0x10'), 'a leading zero': wrap('01'), 'single quotes': wrap("'a'"), 'a comment': wrap('1/*x*/'), 'a trailing comma': wrap('[1,]'), 'a raw control byte': wrap('"a\u0001"'),
    'invalid UTF-8': Buffer.concat([Buffer.from('{"model":"m","messages":[{"role":"user","content":"'), Buffer.from([0xc3, 0x28, 0xff]), Buffer.from('"}]}')]), 'an overlong NUL': Buffer.concat([Buffer.from('{"model":"m","messages":[{"role":"user","content":"'), Buffer.from([0xc0, 0x80]), Buffer.from('"}]}')]),
    'an array': '[]', 'a string': '"x"', null: 'null', nothing: '', 'two values': '{}{}', 'a cut value': '{"model":"m"', 'a BOM': '\ufeff{"model":"m"}',
  };
  for (const [name, body] of Object.entries(bad)) {
    const c = await call(g, body).done;
    assert.equal(c.status, 400, `${name}: ${c.status} ${c.text.slice(0, 200)}`);
    assert.equal(c.json().error.code, 'invalid_request', name);
  }
  assert.equal(h.up.calls.length, 0);
  // Wrong types: 400 that names the field, before anything is sent.
  const types = { model: [1, null, {}, [], ''], messages: ['x', 1, {}, null, [1], [{ role: 1, content: 'x' }], [{ content: 'x' }]], stream: ['yes', 1], max_tokens: ['9', -1, 0.5, {}], n: ['1', 0, -1, 0.5], temperature: ['0', {}], tools: [{}, 'x', [1]] };
  for (const [field, values] of Object.entries(types)) for (const value of values) {
    const before = h.up.calls.length;
    const c = await call(g, { [field]: value }).done;
    assert.equal(c.status, 400, `${field}: ${JSON.stringify(value)} gave ${c.status}`);
    assert.match(`${c.json().error.param} ${c.json().error.message}`, new RegExp(field), `${field}: ${JSON.stringify(value)}: ${c.text}`);
    assert.equal(h.up.calls.length, before);
  }
  // Lawful oddities pass unchanged.
  const odd = '{"model":"m","messages":[{"role":"user","content":"\\ud800 lone \\udc00 \\u0000"}],"big":123456789012345678901234567890,"e":1e400}';
  assert.equal((await call(g, odd).done).status, 200);
  assert.equal(h.up.calls.at(-1).text, odd.replace('"model":"m"', '"model":"model-x"'));
  const many = `{"model":"m","messages":[${'{"role":"user","content":"x"},'.repeat(200000)}{"role":"user","content":"x"}]}`;
  assert.ok([200, 400, 402, 413].includes((await call(g, many).done).status));
  assert.equal((await call(g, {}).done).status, 200);
  await h.end();
});

test('A-12 slow heads and bodies hold others up', async () => {
  const h = await house(usual());
  const slow = Array.from({ length: 150 }, (_, i) => wire(h.g.port).send(i % 2 ? 'POST /v1/chat/compl' : `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Length: 1000\r\n\r\n{"model`));
  await Promise.all(slow.map((w) => w.opened));
  await until(async () => (await h.g.metric('in_flight')) === 75, 'the slow bodies to be in');
  for (let i = 0; i < 5; i++) assert.equal((await call(h.g, {}).done).status, 200);
  assert.equal(await h.g.metric('buffered_bytes'), 75 * 7);
  slow.forEach((w) => w.end());
  await until(async () => (await h.g.metric('in_flight')) === 0 && (await h.g.metric('buffered_bytes')) === 0, 'what the slow ones held to come back');
  await h.end();
});

// ---- A-13 ----

test("A-13 path tricks reach other paths or hosts of the provider with the gateway's key", async () => {
  const h = await house(usual());
  const { g } = h;
  const body = JSON.stringify({ model: 'm', messages });
  const targets = ['/v1/chat/completions/../files', '/v1/../v1/files', '/v1/files', '/v1/organization/costs', '/v1/chat/completions/%2e%2e/files', '/v1/chat/completions/..%2ffiles', '/v1/chat%2f..%2ffiles', '/v1/chat/completions%00', '/v1/chat/completions%zz', '/v1/chat/completions;x=/files',
    '/v1/chat/completions/x', '/passthrough/v1/files', '/openai/../files', '/v1/./chat/completions', '/v1\\files', '/v1/v1/v1/chat/completions', '/V1/CHAT/COMPLETIONS', '/v1/chat/completions/%252e%252e/files', 'http://evil.example/v1/files', `http://127.0.0.1:${h.up.port}/v1/files`, 'evil.example:443', '*'];
  for (const target of targets) for (const method of ['POST', 'GET', 'CONNECT', 'OPTIONS']) {
    const w = wire(g.port).send(`${method} ${target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`);
    await w.closed();
    assert.match(w.text, /^HTTP\/1\.1 4\d\d /, `${method} ${target}: ${w.text.slice(0, 80)}`);
  }
  assert.equal(h.up.calls.length, 0);
  // What is taken goes to one path of one host, whatever the caller calls it.
  const good = ['/v1/chat/completions', '/chat/completions', '/v1/v1/chat/completions', '//v1//chat///completions', '/v1/chat/completions/', '/v1/chat/completions?x=1&key=other', '/openai/v1/chat/completions', '/v1/ch%61t/completions', `http://evil.example/v1/chat/completions`];
  for (const target of good) for (const host of ['x', `user:pass@127.0.0.1:${h.up.port}`, 'evil.example']) {
    const w = wire(g.port).send(`POST ${target} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`);
    await w.closed();
    assert.match(w.text, /^HTTP\/1\.1 (200|400|404) /, `${target} ${host}: ${w.text.slice(0, 80)}`);
  }
  assert.ok(h.up.calls.length >= 8);
  for (const c of h.up.calls) {
    assert.match(c.url, /^\/v1\/chat\/completions(\?x=1)?$/);
    assert.equal(c.headers.host, `127.0.0.1:${h.up.port}`);
  }
  await h.end();
});

// ---- the demonstration key ----

test('the demonstration key is admitted on a listener that is not loopback', async () => {
  const up = await mock(usual());
  const g = new Gateway((dir) => confOf(dir, { listen: [{ address: '127.0.0.1:0' }, { address: '0.0.0.0:0' }, { address: `unix:${dir}/sock` }], backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY] } }, aliases: { m: 'up/x' }, teams: { search: teamOf(), demo: { allow: ['m'], budgets: [{ limit: '1 USD', period: 'day' }] } } }));
  await g.start({}, { words: ['--demo'] });
  const [demo] = await until(() => /sk-tg-[A-Za-z0-9-]+/.exec(g.out), 'the call with the demonstration key');
  const [port] = g.listeners().filter((l) => l.address === '00000000').map((l) => l.port);
  const ask = async (open, key) => {
    const body = JSON.stringify({ model: 'm', messages });
    const w = open();
    w.send(`POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`);
    await w.closed();
    return w.text;
  };
  assert.match(await ask(() => wire(g.port), demo), /^HTTP\/1\.1 200 /);
  assert.match(await ask(() => wire(port), KEY), /^HTTP\/1\.1 200 /, 'the open listener serves an ordinary key');
  const refused = await ask(() => wire(port), demo);
  assert.match(refused, /^HTTP\/1\.1 401 /);
  assert.match(refused, /loopback/);
  const unix = await new Promise((resolve) => {
    const socket = net.connect(join(g.dir, 'sock'));
    const body = JSON.stringify({ model: 'm', messages });
    let text = '';
    socket.on('data', (d) => { text += d; });
    socket.on('close', () => resolve(text));
    socket.write(`POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${demo}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`);
  });
  assert.match(unix, /^HTTP\/1\.1 200 /, 'a unix socket does not leave the machine');
  await g.end();
  await up.stop();
});
