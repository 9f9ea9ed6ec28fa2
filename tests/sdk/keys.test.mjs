// Keys at run time, as operators, owners and callers see them, and alerts as a webhook does.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Webhook } from 'standardwebhooks';
import { ADMIN, Gateway, KEY, OTHER_KEY, confOf, mock, sha256, sleep, teamOf, until } from './harness.mjs';

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
  backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: ['sk-upstream-canary-0123456789'] } },
  aliases: { m: 'up/model-x', other: 'up/model-y' },
  alerts: [{ url: `${hook.url}/hook`, secret: HOOK_SECRET, events: ['key_expiring'] }],
  teams: {
    search: teamOf({ self_service: { max_keys: 2, max_expiry: '30d', key_budget: '5 USD' }, keys: [
      { id: 'testkey1', name: 'test', sha256: sha256(KEY), owner: 'tester', budgets: [{ limit: '1 USD', period: 'month' }] },
      { id: 'owner001', name: 'owner', sha256: sha256(OTHER_KEY), owner: 'anna', role: 'owner' }] }),
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
