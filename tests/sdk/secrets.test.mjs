// Where a secret may stand and where it may not, files that hold one and change, and that each request leaves one row.
import test from 'node:test';
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  ADMIN, Gateway, KEY, OTHER_KEY, Redis, call, chunk, completion, confOf, data, endless, gate, house, json, mock, run, sha256, simple, sleep, sse, teamOf, until, usual, wire,
} from './harness.mjs';

// ---- files that change ----

test('a ${file:PATH} was read again only when somebody reloaded', { timeout: 60000 }, async () => {
  const up = await mock(usual());
  const g = new Gateway((dir) => confOf(dir, {
    admin: { address: '127.0.0.1:0', token: '${file:admin.txt}' },
    backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: ['${file:provider.key}'] } }, aliases: { m: 'up/x' }, teams: { search: teamOf() },
  }));
  const put = (name, text) => writeFileSync(join(g.dir, name), text);
  put('admin.txt', ADMIN);
  put('provider.key', 'sk-first-key-0123456789\n');
  await g.start();
  assert.equal((await call(g, {}).done).status, 200);
  put('provider.key', 'sk-second-key-0123456789\n');
  writeFileSync(g.file, 'nonsense: ['); // somebody edits it: that is no business of a key that was rotated
  await until(() => /provider\.key has changed and was read again/.test(g.log), 'the new key');
  assert.equal((await call(g, {}).done).status, 200);
  assert.deepEqual(up.calls.map((c) => c.headers.authorization), ['Bearer sk-first-key-0123456789', 'Bearer sk-second-key-0123456789']);
  assert.ok(g.records().some((r) => r.kind === 'conf'), 'it is recorded');
  const digest = (await (await g.admin('/admin/config')).text()).length;
  put('admin.txt', 'a\0b');
  await until(() => /admin\.txt has changed; conf refused, the running one stays: .*holds a NUL/.test(g.log), 'the refusal');
  put('provider.key', 'sk-third-key-0123456789\n'); // the conf is still refused, for the same reason, and says so for this change
  await until(() => g.log.match(/conf refused, the running one stays/g).length === 2, 'the second refusal');
  assert.equal((await call(g, {}).done).status, 200);
  assert.equal(up.calls[2].headers.authorization, 'Bearer sk-second-key-0123456789', 'the running one stays');
  put('admin.txt', ADMIN);
  await until(() => /admin\.txt has changed and was read again/.test(g.log), 'the good file');
  assert.equal((await call(g, {}).done).status, 200);
  assert.equal(up.calls[3].headers.authorization, 'Bearer sk-third-key-0123456789');
  assert.equal(g.log.match(/conf refused, the running one stays/g).length, 2, 'each change is said once');
  assert.equal((await (await g.admin('/admin/config')).text()).length, digest);
  await g.end();
  await up.stop();
});

// ---- canaries ----

let planted = 0;
const canary = (what) => `cnry${++planted}${what}Zq7xW3vK9pLm2`.padEnd(32, 'x');

/** All that lies below a folder, by name. */
function filesBelow(dir, found = {}) {
  for (const name of readdirSync(dir)) {
    const path = join(dir, name);
    const st = statSync(path);
    if (st.isDirectory()) filesBelow(path, found);
    else if (st.isFile()) found[path] = readFileSync(path, 'latin1');
  }
  return found;
}

/** In clear, in base64 and percent-encoded: a secret is not hidden by being written otherwise. */
const forms = (secret) => [secret, Buffer.from(secret).toString('base64').replace(/=+$/, ''), Buffer.from(secret).toString('hex')];

for (const format of ['text', 'json']) test(`A-01 a secret stands in a sink (log: ${format})`, { timeout: 60000 }, async () => {
  const s = {};
  for (const what of ['ConfKey', 'FileKey', 'EnvKey', 'AnthropicKey', 'CallerBearer', 'CallerXApiKey', 'CallerGoog', 'CallerApiKey', 'CallerQuery', 'AdminToken', 'AnnaToken', 'AlertSecret', 'AlertPath',
    'RedisPassword', 'ContentKey', 'Cookie', 'InboundTollgate', 'Forwarded', 'WrongKey', 'Idle']) s[what] = canary(what);
  const keys = { CallerBearer: 'bearer01', CallerXApiKey: 'xapikey1', CallerGoog: 'googkey1', CallerApiKey: 'apikey01' };
  const redis = await new Redis(['--requirepass', s.RedisPassword]).start();
  const echo = (request) => ({ error: { message: `headers ${JSON.stringify(request.headers)}`, type: 'x', code: request.headers.authorization ?? request.headers['x-api-key'] } });
  const scripts = {
    good: usual(), stream: usual(),
    refused: (q, r) => json(r, echo(q), 400, { 'x-echo': JSON.stringify(q.headers) }),
    broken: (q, r) => json(r, echo(q), 500),
    midway: (q, r) => sse(r, data(chunk({ role: 'assistant', content: 'Hel' })) + data(echo(q))),
  };
  let script = 'good';
  const one = await mock((q, r, c) => scripts[script](q, r, c)), two = await mock((q, r, c) => scripts[script](q, r, c)), three = await mock((q, r) => json(r, echo(q), 400)), four = await mock((q, r) => json(r, echo(q), 401));
  const hook = await mock((q, r) => { r.writeHead(204); r.end(); });
  const g = new Gateway((dir) => confOf(dir, {
    admin: { address: '127.0.0.1:0', token: s.AdminToken, tokens: [{ name: 'anna', sha256: sha256(s.AnnaToken), role: 'viewer' }] },
    redis: { url: redis.url, password: s.RedisPassword },
    audit: { directory: join(dir, 'audit'), content: { store: 'digest', key: '${file:content.key}' }, head: { every: 5, key: '${file:head.pem}' } },
    log: { level: 'debug', format },
    alerts: [{ url: '${file:hook.url}', secret: s.AlertSecret }],
    backends: {
      one: { protocol: 'openai', url: `${one.url}/v1`, api_keys: [{ name: 'prod', value: s.ConfKey }] },
      two: { protocol: 'openai', url: `${two.url}/v1`, api_keys: ['${file:provider.key}'] },
      three: { protocol: 'openai', url: `${three.url}/v1`, api_keys: ['${CANARY_ENV_KEY}'] },
      four: { protocol: 'anthropic', url: four.url, api_keys: [s.AnthropicKey] },
      idle: { protocol: 'openai', url: 'http://127.0.0.1:1/v1', api_keys: [s.Idle] },
    },
    aliases: { m: ['one/x', 'two/x'], t: 'three/x', c: 'four/x', idle: 'idle/x', kept: { ladder: [{ targets: ['one/x'] }], cache: { enabled: true } } },
    health: { samples: 1000 },
    teams: { search: teamOf({ keys: Object.entries(keys).map(([what, id]) => ({ id, name: id, sha256: sha256(s[what]), expires: new Date(Date.now() + 12 * 3600e3).toISOString() })), budgets: [{ limit: '1000 USD', period: 'month' }] }) },
  }));
  const pem = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' });
  s.HeadKey = pem.split('\n')[1];
  writeFileSync(join(g.dir, 'provider.key'), `${s.FileKey}\n`);
  writeFileSync(join(g.dir, 'content.key'), s.ContentKey);
  writeFileSync(join(g.dir, 'hook.url'), `${hook.url}/${s.AlertPath}`);
  writeFileSync(join(g.dir, 'head.pem'), pem);
  const environment = { CANARY_ENV_KEY: s.EnvKey };
  await g.start(environment);
  const sinks = {};
  const noise = { cookie: `session=${s.Cookie}`, 'x-tollgate-secret': s.InboundTollgate, 'x-tollgate-target': s.InboundTollgate, 'x-forwarded-for': s.Forwarded, forwarded: `for=${s.Forwarded}`, 'x-real-ip': s.Forwarded };
  const said = [{ authorization: `Bearer ${s.CallerBearer}` }, { authorization: null, 'x-api-key': s.CallerXApiKey }, { authorization: null, 'x-goog-api-key': s.CallerGoog }, { authorization: null, 'api-key': s.CallerApiKey }];
  const ask = async (name, body, more = {}) => {
    const c = await call(g, body, more).done;
    sinks[`the reply to ${name}`] = `${c.status} ${JSON.stringify(c.headers)} ${c.text}`;
    return c;
  };
  await until(async () => (await call(g, {}, { headers: said[0] }).done).status === 200, 'the ledger in a Redis that is new', 10000);
  for (script of Object.keys(scripts)) for (const [i, credential] of said.entries())
    await ask(`${script} ${i}`, { stream: script === 'stream' || script === 'midway', user: 'someone' }, { headers: { ...credential, ...noise } });
  script = 'good';
  for (const model of ['t', 'idle', 'no-such-model']) await ask(model, { model }, { headers: { ...said[0], ...noise } });
  await ask('messages', { model: 'c', max_tokens: 5 }, { path: '/v1/messages', headers: { ...said[1], ...noise } });
  for (let i = 0; i < 2; i++) assert.equal((await ask(`kept ${i}`, { model: 'kept', temperature: 0 }, { headers: { ...said[0], ...noise } })).status, 200);
  await ask('a key in the query', {}, { path: `/v1/chat/completions?key=${s.CallerQuery}&api_key=${s.CallerQuery}`, headers: { ...said[0], ...noise } });
  await ask('only a key in the query', {}, { path: `/v1/chat/completions?key=${s.CallerQuery}`, headers: { authorization: null, ...noise } });
  await ask('two keys', {}, { headers: { authorization: `Bearer ${s.CallerBearer}`, 'x-api-key': s.CallerXApiKey } });
  await ask('a wrong key', {}, { headers: { authorization: `Bearer ${s.WrongKey}`, ...noise } });
  await ask('a wrong key in the path', undefined, { path: `/v1/${s.CallerQuery}`, headers: said[0] }).then((c) => assert.equal(c.status, 404));
  for (const path of ['/v1/key', '/key/info', '/v1/models', '/v1/requests/none']) await ask(path, undefined, { path, headers: { ...said[0], ...noise } });
  for (const path of ['/healthz', '/readyz', '/metrics', '/admin/requests', '/admin/spend', '/admin/budgets', '/admin/targets', '/admin/config', '/admin/config?effective=1', '/admin/audit/head', '/admin/keys', `/admin/${s.CallerQuery}`])
    for (const token of [s.AdminToken, s.AnnaToken, s.WrongKey]) {
      const r = await g.admin(path, 'GET', undefined, token);
      sinks[`admin ${path} as ${Object.keys(s).find((k) => s[k] === token)}`] = `${JSON.stringify([...r.headers])} ${await r.text()}`.replaceAll(path.slice(7), '');
    }
  await until(() => hook.calls.length >= 1, 'an alert', 8000);
  await until(async () => (await (await g.admin('/admin/requests', 'GET', undefined, s.AdminToken)).json()).requests.length === 0, 'no request in flight');

  // Redis: all keys and values, asked with its password.
  const dump = await redis.ask(`AUTH ${s.RedisPassword}\r\nEVAL "local o={} for _,k in ipairs(redis.call('KEYS','*')) do o[#o+1]=k o[#o+1]=redis.call('DUMP',k) end return o" 0`);
  sinks['the contents of Redis'] = dump;
  assert.match(dump, /tollgate:/, 'Redis was used');
  for (const args of [['check', '-c', g.file], ['config', '-c', g.file], ['config', '--effective', '-c', g.file], ['audit', 'show', join(g.dir, 'audit')], ['spend', join(g.dir, 'audit')], ['explain', '-c', g.file, '--team', 'search', '--model', 'm']]) {
    const r = await run(args, { env: { ...process.env, ...environment } });
    sinks[args.slice(0, 2).join(' ')] = r.out + r.err;
  }
  const token = { env: { ...process.env, ...environment, TOLLGATE_ADMIN_TOKEN: s.AdminToken } };
  for (const args of [['key', 'list'], ['requests']]) {
    const r = await run([...args, '-c', g.file, '--admin', new URL(g.adminUrl).host], token);
    assert.equal(r.code, 0, r.err);
    sinks[args.join(' ')] = r.out + r.err;
  }
  await g.stop();
  sinks.stdout = g.out;
  sinks.stderr = g.log;
  for (const part of ['audit', 'state']) Object.assign(sinks, filesBelow(join(g.dir, part)));
  for (const [i, c] of hook.calls.entries()) sinks[`alert ${i}`] = JSON.stringify(c.raw) + c.text;
  const own = new Map([[one, s.ConfKey], [two, s.FileKey], [three, s.EnvKey], [four, s.AnthropicKey]]);
  for (const [up, key] of own) {
    assert.ok(up.calls.length > 0 && up.calls.every((c) => JSON.stringify(c.headers).includes(key)), 'each provider gets its own key');
    for (const [i, c] of up.calls.entries()) sinks[`call ${i} of the provider whose key is ${key.slice(0, 12)}`] = (c.url + JSON.stringify(c.raw) + c.text).replaceAll(key, '');
  }
  // A digest is what may stand in a log: the digest itself is no secret, but the key of the digest is.
  assert.ok(Object.keys(sinks).length > 80);
  for (const [where, text] of Object.entries(sinks)) for (const [name, secret] of Object.entries(s)) for (const form of forms(secret)) {
    const at = text.indexOf(form);
    assert.ok(at < 0, `${name} stands in ${where}: ${text.slice(Math.max(0, at - 100), at + 60)}`);
  }
  rmSync(g.dir, { recursive: true });
  await redis.end();
  for (const m of [one, two, three, four, hook]) await m.stop();
});

test('A-01 a conf with every kind of mistake shows no secret of it', async () => {
  const s = Object.fromEntries(['Url', 'Value', 'Extra', 'Token', 'Redis', 'Alert', 'Key', 'Head', 'File'].map((what) => [what, canary(what)]));
  const g = new Gateway((dir) => confOf(dir, {
    admin: { address: 'nonsense', token: s.Token, tokken: s.Token },
    redis: { url: `redis://user:${s.Redis}@127.0.0.1:99999/0` },
    audit: { directory: join(dir, 'audit'), head: { key: s.Head, evry: 5 } },
    alerts: [{ url: 'ftp://x', secret: s.Alert, secrets: s.Alert }],
    backends: { up: { protocol: 'openai', url: `http://user:${s.Url}@127.0.0.1:1/v1`, api_keys: [{ name: 'a', value: s.Value, wieght: 3 }, { name: 'a', value: '${file:provider.key}', weight: 'x' }], api_key: s.Extra } },
    aliases: { m: 'up/x' }, teams: { search: teamOf({ keys: [{ id: 'short', sha256: s.Key }] }) },
  }));
  writeFileSync(join(g.dir, 'provider.key'), s.File);
  for (const args of [['check', '-c', g.file], ['config', '--effective', '-c', g.file], ['serve', '-c', g.file]]) {
    const r = await run(args);
    assert.equal(r.code, 1);
    for (const [name, secret] of Object.entries(s)) assert.ok(!(r.out + r.err).includes(secret), `${name} stands in what ${args[0]} says: ${r.out}${r.err}`);
  }
  rmSync(g.dir, { recursive: true });
});

// ---- what became of a request ----

test('a request was forgotten by a restart, though the log knew it, and only its own key may ask', { timeout: 60000 }, async () => {
  const h = await house(usual(), simple, {}, { keys: [{ id: 'testkey1', name: 'test', sha256: sha256(KEY) }, { id: 'otherkey', name: 'other', sha256: sha256(OTHER_KEY) }] });
  const { g } = h;
  const ids = [];
  for (const more of [{}, { stream: true }, { model: 'none' }]) ids.push((await call(g, more).done).headers['x-request-id']);
  const ask = async (id, key = KEY) => call(g, undefined, { path: `/v1/requests/${id}`, headers: { authorization: `Bearer ${key}` } }).done;
  const before = await Promise.all(ids.map(async (id) => (await ask(id)).json()));
  await g.stop();
  await g.start();
  for (const [i, id] of ids.entries()) {
    const c = await ask(id);
    assert.equal(c.status, 200, c.text);
    const { received, ...told } = c.json(), { received: was, ...known } = before[i];
    assert.deepEqual(told, known);
    assert.ok(Math.abs(Date.parse(received) - Date.parse(was)) < 200);
    assert.equal((await ask(id, OTHER_KEY)).status, 404, "another key's");
  }
  assert.equal((await ask(`req_${'0'.repeat(32)}`)).status, 404);
  const many = await Promise.all(Array.from({ length: 20 }, () => ask(ids[0])));
  assert.ok(many.every((c) => c.status === 200 || (c.status === 503 && c.headers['retry-after'])), 'who comes too many is told to come again');
  assert.ok(many.some((c) => c.status === 200));
  const left = call(g, undefined, { path: `/v1/requests/${ids[0]}` });
  left.hangUp();
  await g.idle();
  await h.end();
});

// ---- one row ----

test('a request leaves no row, or two, whatever became of it', { timeout: 60000 }, async () => {
  const open = gate();
  let hold = gate();
  const scripts = {
    good: usual(),
    bad: (q, r) => json(r, { error: { message: 'no', type: 'invalid_request_error' } }, 400),
    broken: (q, r) => json(r, { error: { message: 'no' } }, 500),
    reset: (q, r) => r.destroy(),
    midway: (q, r) => { sse(r); r.write(data(chunk({ role: 'assistant', content: 'Hel' }))); setTimeout(() => r.destroy(), 20); },
    slow: async (q, r) => { await hold.open; json(r, completion()); },
    endless: endless(),
  };
  let script = 'good';
  const h = await house((q, r, c) => scripts[script](q, r, c), simple, {
    http: { max_body: '64KiB' }, health: { samples: 1000 },
    aliases: { m: 'up/model-x', kept: { ladder: [{ targets: ['up/model-x'] }], cache: { enabled: true } } },
    retries: { budget: '100%', backoff: ['1ms', '2ms'] },
  }, {
    keys: [{ id: 'testkey1', name: 'test', sha256: sha256(KEY) }, { id: 'poorkey1', name: 'poor', sha256: sha256(OTHER_KEY), max_cost_per_call: '0.000001 USD' },
      { id: 'ratekey1', name: 'rate', sha256: sha256('rate-key'), rate_limits: { requests_per_minute: 1 } }, { id: 'overkey1', name: 'over', sha256: sha256('over-key'), expires: '2020-01-01' }],
    allow: ['m', 'kept'],
  });
  const { g, up } = h;
  const rows = [];
  const as = (key) => ({ headers: { authorization: `Bearer ${key}` } });
  const take = (name, status, c) => {
    assert.equal(c.status, status, `${name}: ${c.text}`);
    assert.ok(c.headers['x-request-id'] ?? c.headers['request-id'], name);
    rows.push([name, c.headers['x-request-id'] ?? c.headers['request-id']]);
    return c;
  };
  const send = async (name, status, body, more) => take(name, status, await call(g, body, more).done);

  await send('served', 200, {});
  await send('streamed', 200, { stream: true });
  await send('missed', 200, { model: 'kept', temperature: 0 });
  assert.equal((await send('cached', 200, { model: 'kept', temperature: 0 })).headers['x-tollgate-cache'], 'hit');
  for (const path of ['/v1/models', '/v1/key', '/key/info']) await send(path, 200, undefined, { path });
  await send('a foreign request', 404, undefined, { path: '/v1/requests/none' });
  await send('no such path', 404, undefined, { path: '/v1/nothing' });
  await send('a wrong method', 405, undefined, { path: '/v1/chat/completions' });
  await send('an unknown key', 401, {}, as('sk-nobody'));
  await send('an expired key', 401, {}, as('over-key'));
  await send('no key', 401, {}, { headers: { authorization: null } });
  await send('no JSON', 400, '{"model":');
  await send('a wrong media type', 415, 'x', { headers: { 'content-type': 'text/plain' } });
  await send('too large', 413, { pad: 'x'.repeat(70000) });
  await send('no such model', 404, { model: 'none' });
  await send('a stored id', 400, { model: 'm', input: 'x', previous_response_id: 'resp_1' }, { path: '/v1/responses' });
  await send('no permitted target', 403, {}, { headers: { 'x-tollgate-require': 'mars' } });
  await send('too dear', 402, {}, as(OTHER_KEY));
  await send('within its rate', 200, {}, as('rate-key'));
  await send('beyond its rate', 429, {}, as('rate-key'));
  for (const [name, status] of [['bad', 400], ['broken', 502], ['reset', 502]]) { script = name; await send(`a provider that is ${name}`, status, {}); }
  script = 'midway';
  await send('a provider that dies in the stream', 200, { stream: true });

  // Shared, cancelled, and left in each state.
  script = 'slow';
  const leader = call(g, { model: 'kept', temperature: 0, seed: 1 });
  await until(() => up.calls.at(-1).body.seed === 1, 'the leader');
  const follower = call(g, { model: 'kept', temperature: 0, seed: 1 });
  const running = async () => (await (await g.admin('/admin/requests')).json()).requests;
  await until(async () => (await running()).length === 2, 'the follower');
  hold.go();
  take('a leader', 200, await leader.done);
  assert.equal(take('a follower', 200, await follower.done).headers['x-tollgate-cache'], 'shared');
  hold = gate();
  const cancelled = call(g, {});
  const [victim] = await until(async () => { const all = await running(); return all.length === 1 && all; }, 'the one to cancel');
  await until(() => up.open === 1, 'it is under way');
  assert.equal((await g.admin(`/admin/requests/${victim.id}/cancel`, 'POST', { reason: 'a test' })).status, 200);
  await cancelled.done;
  rows.push(['cancelled', victim.id]);
  const left = async (name, ready, start) => {
    const c = start();
    const [one] = await until(async () => { const all = await running(); return all.length === 1 && ready() && all; }, name);
    c.hangUp();
    rows.push([name, one.id]);
    await g.idle();
  };
  await left('left while its provider was silent', () => up.open === 1, () => call(g, {}));
  script = 'endless';
  await left('left in the stream', () => up.open === 1, () => call(g, { stream: true }));
  script = 'good';
  await left('left in its body', () => true, () => {
    const w = wire(g.port);
    w.send(`POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${KEY}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"model"`);
    return { hangUp: () => w.end() };
  });
  // Framing that goes wrong behind a good head.
  await left('a bad chunk in its body', () => true, () => {
    const w = wire(g.port);
    w.send(`POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${KEY}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{"mod\r\n`);
    return { hangUp: () => { w.send('zz\r\n\r\n'); setTimeout(() => w.end(), 200); } };
  });
  const bad = wire(g.port);
  bad.send('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n');
  await bad.closed();
  rows.push(['a bad head', /x-request-id: (\S+)/i.exec(bad.text)?.[1] ?? /"request_id":"([^"]+)"/.exec(bad.text)?.[1]]);
  await g.idle();

  const ended = () => g.records().filter((r) => r.kind === 'settle' || r.kind === 'refuse');
  await until(() => rows.every(([, id]) => ended().some((r) => r.request === id)), 'a row of each').catch((e) => {
    throw new Error(`${e.message}: ${rows.filter(([, id]) => !ended().some((r) => r.request === id)).map(([name, id]) => `${name} (${id})`)}`);
  });
  for (const [name, id] of rows) assert.equal(ended().filter((r) => r.request === id).length, 1, name);
  assert.equal(new Set(rows.map(([, id]) => id)).size, rows.length);
  for (const r of g.records().filter((x) => x.kind === 'admit')) assert.equal(ended().filter((x) => x.request === r.request && x.kind === 'settle').length, 1, 'an admit without its settle');
  assert.equal(ended().filter((r) => !rows.some(([, id]) => id === r.request)).length, 0, `rows of nobody: ${JSON.stringify(ended().filter((r) => !rows.some(([, id]) => id === r.request)))}`);

  // Strangers beyond the rate are counted, none is lost.
  await sleep(1100);
  const before = ended().length;
  const flood = 200;
  await Promise.all(Array.from({ length: flood }, () => call(g, {}, as('sk-nobody')).done));
  await until(() => ended().slice(before).reduce((n, r) => n + (r.count ?? 1), 0) === flood, 'all strangers told or counted');
  assert.ok(ended().slice(before).length < flood, 'some of them are one record');
  open.go();
  await h.end();
});
