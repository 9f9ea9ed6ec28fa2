// Keys at run time, as operators, owners and callers see them, and alerts as a webhook does.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Webhook } from 'standardwebhooks';
import { Gateway, KEY, OTHER_KEY, confOf, mock, run, sha256, teamOf, until } from './harness.mjs';

const HOOK_SECRET = 'whsec_' + Buffer.from('canary-of-the-webhook-0123456789').toString('base64');
const plain = (response) => {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ id: 'x', object: 'chat.completion', created: 1, model: 'model-x', choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }], usage: { prompt_tokens: 1000, completion_tokens: 1000, total_tokens: 2000 } }));
};
let up, hook, shared, one, two;

const conf = (node) => (dir) => ({
  ...confOf(dir),
  node,
  state: { directory: join(shared, 'state') },
  backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: ['sk-upstream-canary-0123456789'], tags: ['eu'] }, us: { protocol: 'openai', url: `${up.url}/v1`, api_keys: ['sk-upstream-canary-0123456789'] } },
  aliases: { abroad: 'us/model-x', m: 'up/model-x', other: 'up/model-y' },
  alerts: [{ url: `${hook.url}/hook`, secret: HOOK_SECRET, events: ['key_expiring'] }],
  teams: {
    search: teamOf({ self_service: { max_keys: 2, max_expiry: '30d', key_budget: '5 USD' }, keys: [
      { id: 'testkey1', name: 'test', sha256: sha256(KEY), owner: 'tester', budgets: [{ limit: '1 USD', period: 'month' }] },
      { id: 'owner001', name: 'owner', sha256: sha256(OTHER_KEY), owner: 'anna', role: 'owner', require: ['eu'] }] }),
    legal: { allow: ['*'] },
  },
});
const post = (g, path, body, method = 'POST') => g.admin(path, method, body);
const ask = (g, key, over = {}) => g.chat(over, { authorization: `Bearer ${key}` });
const status = async (g, key, over) => { const r = await ask(g, key, over); await r.arrayBuffer(); return r.status; };

before(async () => {
  up = await mock((request, response) => plain(response));
  hook = await mock((request, response) => { response.writeHead(204); response.end(); });
  shared = mkdtempSync(join(tmpdir(), 'tollgate-shared-'));
  one = await new Gateway(conf('one')).start();
  two = await new Gateway(conf('two')).start();
});
after(async () => {
  await one.end();
  await two.end();
  await up.stop();
  await hook.stop();
  rmSync(shared, { recursive: true, force: true });
});

test('a key made on one process works on the other, and a revocation reaches it within two seconds', async () => {
  const made = await (await post(one, '/admin/keys', { team: 'search', name: 'ci', allow: ['m'] })).json();
  assert.match(made.key, /^sk-tg-[0-9A-Za-z]{8}-[0-9A-Za-z]{43}-[0-9A-Za-z]{6}$/);
  assert.equal(made.in_force, true);
  assert.equal(await status(one, made.key), 200);
  assert.equal(await status(one, made.key, { model: 'other' }), 404, 'its allow narrows');
  await until(async () => await status(two, made.key) === 200, 'the other process to know the key', 2000);
  const mistyped = made.key.slice(0, -8) + (made.key.at(-8) === 'a' ? 'b' : 'a') + made.key.slice(-7);
  const wrong = await ask(one, mistyped);
  assert.equal(wrong.status, 401);
  assert.match((await wrong.json()).error.message, /mistyped/);
  assert.equal((await post(one, `/admin/keys/${made.id}`, { reason: 'left the company' }, 'DELETE')).status, 200);
  assert.equal(await status(one, made.key), 401);
  await until(async () => await status(two, made.key) === 401, 'the other process to refuse the key', 2000);
  const said = await (await ask(two, made.key)).json();
  assert.match(said.error.message, /revoked/);
  const act = await until(() => one.records().find((r) => r.kind === 'admin' && r.what === 'key revoked'), 'the admin record');
  assert.equal(act.reason, 'left the company');
});

test('a revocation reaches a process whose conf on disk is broken, and an act takes in no half-written conf', async () => {
  const made = await (await post(one, '/admin/keys', { team: 'search' })).json();
  await until(async () => await status(two, made.key) === 200, 'the key', 2000);
  const good = two.conf;
  two.write('half an edit: [');
  await post(one, `/admin/keys/${made.id}`, undefined, 'DELETE');
  await until(async () => await status(two, made.key) === 401, 'the revocation', 2000);
  assert.equal(await status(two, KEY), 200, 'the running conf stays');
  two.write(good);
});

test('rotation overlaps, keeps what the key may, and does not give it its budget anew', async () => {
  const made = await (await post(one, '/admin/keys', { team: 'search', name: 'rot', owner: 'bob', allow: ['m'], budgets: [{ limit: '0.05 USD', period: 'month' }] })).json();
  assert.equal(await status(one, made.key, { max_tokens: 2000 }), 200); // 0.003 USD
  const before = await (await one.fetch('/v1/key', undefined, { authorization: `Bearer ${made.key}` })).json();
  const next = await (await post(one, `/admin/keys/${made.id}/rotate`, { overlap: '1s', reason: 'yearly' })).json();
  assert.equal(await status(one, made.key), 200, 'the old one lives on for its overlap');
  assert.equal(await status(one, next.key), 200);
  const seen = await (await one.fetch('/v1/key', undefined, { authorization: `Bearer ${next.key}` })).json();
  assert.equal(seen.name, 'rot');
  const key = seen.budgets.find((b) => b.level === 'key');
  assert.equal(key.limit, 0.05);
  assert.ok(key.spent > before.budgets.find((b) => b.level === 'key').spent, 'spend goes on');
  assert.equal(key.spent, 0.009);
  const old = await until(async () => { const r = await ask(one, made.key); const j = await r.json(); return r.status === 401 && j; }, 'the old one to end', 4000);
  assert.match(old.error.message, /expired/);
  const list = (await (await one.admin('/admin/keys')).json()).keys;
  assert.deepEqual(list.filter((k) => k.name === 'rot').map((k) => [k.state, k.account]).sort(), [['active', made.id], ['expired', made.id]].sort());
  assert.equal((await post(one, `/admin/keys/${made.id}/rotate`, {})).status, 409, 'an ended key is not rotated');
  assert.equal((await post(one, '/admin/keys/nobody00/rotate', {})).status, 404);
  const text = JSON.stringify(list);
  assert.ok(!text.includes(made.key) && !text.includes(sha256(made.key)) && !text.includes(sha256(KEY)));
});

test('a wrong wish for a key is told which member is wrong', async () => {
  for (const [body, said] of [
    [{ name: 'x' }, /^team: /], [{ team: 'search', budgets: [{ limit: 'much', period: 'day' }] }, /^budgets: /],
    [{ team: 'search', expires: 'soon' }, /^expires: /], [{ team: 'search', sha256: '00' }, /^sha256: /], [{ team: 'search', strct: true }, /did you mean 'strict'/]]) {
    const r = await post(one, '/admin/keys', body);
    assert.equal(r.status, 400);
    assert.match((await r.json()).error.message, said);
  }
});

test('a key that ends soon is told to a webhook, which verifies the signature with its field\'s own library', async () => {
  const soon = new Date(Date.now() + 3 * 86400e3).toISOString();
  const made = await (await post(one, '/admin/keys', { team: 'search', name: 'short', expires: soon })).json();
  const call = await until(() => hook.calls.find((c) => c.body?.scope === made.id), 'the alert', 5000);
  const event = new Webhook(HOOK_SECRET).verify(call.text, call.headers);
  assert.equal(event.event, 'key_expiring');
  assert.equal(event.mark, '7d');
  assert.equal(event.figures.team, 'search');
  assert.equal(event.id, call.headers['webhook-id']);
  assert.throws(() => new Webhook(HOOK_SECRET).verify(call.text.replace('search', 'others'), call.headers));
  await until(async () => await one.metric('alerts_total') >= 1, 'the metric');
});

// ---- self-service ----

const owner = { authorization: `Bearer ${OTHER_KEY}` };

test('an owner makes and ends keys of its team within self_service, and nobody else does', async () => {
  assert.equal((await one.fetch('/v1/keys')).status, 403, 'a member makes none');
  for (const [body, said] of [
    [{ team: 'legal' }, /^team: /], [{ role: 'owner' }, /^role: /], [{ expires: '2099-01-01' }, /^expires: /],
    [{ budgets: [{ limit: '6 USD', period: 'day' }] }, /^budgets: /], [{ budgets: 1 }, /^budgets: /], [{ require: ['us'] }, /^require: .*'eu'/]]) {
    const r = await one.fetch('/v1/keys', body, owner);
    assert.equal(r.status, 400, JSON.stringify(body));
    assert.match((await r.json()).error.message, said);
  }
  const made = [];
  for (const name of ['a', 'b']) {
    const r = await one.fetch('/v1/keys', { name }, owner);
    assert.equal(r.status, 201);
    made.push(await r.json());
  }
  assert.equal((await one.fetch('/v1/keys', {}, owner)).status, 409, 'max_keys');
  assert.equal(await status(one, made[0].key), 200);
  assert.equal(await status(one, made[0].key, { model: 'abroad' }), 403, 'the owner\'s tags are its keys\' too');
  const seen = await (await one.fetch('/v1/key', undefined, { authorization: `Bearer ${made[0].key}` })).json();
  assert.equal(seen.budgets.find((b) => b.level === 'key').limit, 5, 'key_budget');
  const life = Date.parse(seen.expires) - Date.now();
  assert.ok(life > 29 * 86400e3 && life <= 30 * 86400e3, 'max_expiry');
  const list = (await (await one.fetch('/v1/keys', undefined, owner)).json()).keys;
  assert.deepEqual(list.map((k) => k.name).sort(), ['a', 'b']);
  const gone = (id) => one.fetch(`/v1/keys/${id}`, undefined, owner, { method: 'DELETE' });
  assert.equal((await gone('testkey1')).status, 404, 'a key of conf is not an owner\'s to end');
  assert.equal((await gone(made[0].id)).status, 200);
  assert.equal(await status(one, made[0].key), 401);
  assert.equal((await one.fetch('/v1/keys', { name: 'c' }, owner)).status, 201, 'there is room again');
  assert.ok(one.records().some((r) => r.kind === 'admin' && r.who === 'key owner001' && r.role === 'owner' && r.after === made[0].id));
});

// ---- own endpoints ----

test('a caller sees its key whole, also in LiteLLM\'s shape, and what became of its own requests', async () => {
  const r = await one.chat({ max_tokens: 2000 });
  await r.arrayBuffer();
  const id = r.headers.get('x-request-id');
  const key = await (await one.fetch('/v1/key')).json();
  assert.deepEqual(key.models, ['abroad', 'm', 'other']);
  assert.equal(key.limit, 1);
  assert.equal(key.owner, 'tester');
  assert.ok(key.remaining < 1 && key.remaining > 0.9);
  for (const period of ['day', 'week', 'month']) assert.equal(typeof key.usage[period], 'number');
  const info = await (await one.fetch('/key/info')).json();
  assert.equal(info.key, 'testkey1');
  assert.equal(info.info.max_budget, 1);
  assert.equal(info.info.key_alias, 'test');
  assert.equal(info.info.team_id, 'search');
  assert.equal(info.info.spend, Number((1 - key.remaining).toFixed(9)));
  assert.ok(!JSON.stringify(info).includes(KEY));
  assert.equal((await one.fetch(`/key/info?key=${KEY}`)).status, 200);
  assert.equal((await one.fetch(`/key/info?key=${OTHER_KEY}`)).status, 404);
  const told = await (await one.fetch(`/v1/requests/${id}`)).json();
  assert.equal(told.id, id);
  assert.equal(told.state, 'settled');
  assert.equal(told.target, 'up/model-x');
  assert.equal(told.cost, 0.003);
  assert.deepEqual(told.usage, { input_tokens: 1000, output_tokens: 1000, cached_input_tokens: 0, reasoning_tokens: 0 });
  assert.equal(told.attempts.length, 1);
  assert.equal((await one.fetch(`/v1/requests/${id}`, undefined, owner)).status, 404, 'another key\'s');
  assert.equal((await one.fetch('/v1/requests/req_0')).status, 404);
});

test('an operator cancels a stream: its client is told, the provider is left, and it is recorded', async () => {
  let left = false;
  const was = up.answer;
  up.answer = (request, response) => {
    response.on('close', () => { left = true; });
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"model-x","choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"}}]}\n\n');
  };
  const r = await one.chat({ stream: true });
  const reader = r.body.getReader();
  const text = new TextDecoder();
  let got = text.decode((await reader.read()).value);
  assert.match(got, /Hel/);
  const id = r.headers.get('x-request-id');
  const running = await (await one.fetch(`/v1/requests/${id}`)).json();
  assert.equal(running.state, 'running');
  assert.equal((await one.fetch(`/v1/requests/${id}`, undefined, owner)).status, 404);
  assert.equal((await post(one, `/admin/requests/${id}/cancel`, { reason: 'runaway' })).status, 200);
  for (let part; !(part = await reader.read()).done;) got += text.decode(part.value);
  assert.match(got, /"code":"cancelled"/);
  assert.ok(!got.includes('[DONE]'));
  await until(() => left, 'the provider to be left');
  const record = await one.settled(id);
  assert.equal(record.code, 'cancelled');
  assert.equal(record.attempts[0].outcome, 'cancelled');
  assert.ok(one.records().some((x) => x.kind === 'admin' && x.what === 'request cancelled' && x.reason === 'runaway' && x.after === id));
  assert.equal((await post(one, `/admin/requests/${id}/cancel`)).status, 404, 'it is over');
  up.answer = () => {};
  const silent = one.chat();
  const waiting = await until(async () => (await (await one.admin('/admin/requests')).json()).requests.find((x) => x.state === 'send'), 'a call that waits');
  assert.equal((await post(one, `/admin/requests/${waiting.id}/cancel`)).status, 200);
  const answer = await silent;
  assert.equal(answer.status, 503);
  assert.equal(answer.headers.get('x-should-retry'), 'false');
  assert.equal((await answer.json()).error.code, 'cancelled');
  up.answer = was;
});

test('the command line lists, rotates and revokes on a running gateway', async () => {
  const admin = new URL(one.adminUrl).host;
  const tell = (...words) => run([...words, '--admin', admin, '-c', one.file]);
  const made = await (await post(one, '/admin/keys', { team: 'search', name: 'cli' })).json();
  const list = await tell('key', 'list');
  assert.equal(list.code, 0, list.err);
  assert.match(list.out, /^ID +TEAM +NAME/);
  assert.match(list.out, new RegExp(`${made.id} +search +cli`));
  const rotated = await tell('key', 'rotate', made.id, '--overlap', '0s', '--reason', 'leak');
  assert.match(rotated.out, /^sk-tg-/);
  assert.equal(await status(one, rotated.out.trim()), 200);
  const id = rotated.out.slice(6, 14);
  assert.equal((await tell('key', 'revoke', id, '--reason', 'gone')).code, 0);
  assert.equal(await status(one, rotated.out.trim()), 401);
  const twice = await tell('key', 'revoke', 'nobody00');
  assert.equal(twice.code, 1);
  assert.match(twice.err, /404/);
  const requests = await tell('requests');
  assert.equal(requests.code, 0);
  assert.match(requests.out, /^ID +STATE/);
  assert.equal((await tell('requests', 'cancel', 'req_0')).code, 1);
  assert.equal((await tell('requests', 'cancle', 'req_0')).code, 1);
});
