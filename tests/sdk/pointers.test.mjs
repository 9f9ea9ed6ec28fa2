// Acts that move calls: canaries shifted, aliases pinned, targets drained, over restarts, workers and gateways.
import test from 'node:test';
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { Gateway, Redis, call, confOf, json, completion, gate, mock, run, sha256, teamOf, until, usual, PROVIDER_KEY } from './harness.mjs';

const KEYS = Array.from({ length: 12 }, (_, i) => `sk-test-canary-${String(i).padStart(2, '0')}-0123456789abcdefghijklmnop`);
const teams = () => Object.fromEntries(KEYS.map((key, i) => [`team${i}`, teamOf({}, key, `canary${String(i).padStart(2, '0')}`)]));
const smart = (canary = {}) => ({ ladder: [{ targets: ['up/old'] }, { targets: ['up/spare'], degraded: true }], canary: { target: 'up/new', percent: 25, ...canary } });
const conf = (up, over = {}) => (dir) => confOf(dir, {
  backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY, { name: 'second', value: `${PROVIDER_KEY}2` }] } },
  aliases: { smart: smart() }, teams: teams(), ...over,
});
const ask = (g, i, body = {}) => g.chat({ model: 'smart', ...body }, { authorization: `Bearer ${KEYS[i]}` });
const target = async (g, i) => { const r = await ask(g, i); await r.text(); return r.headers.get('x-tollgate-target'); };
/** Where each team's call goes: the set of those on the canary, as text. */
const canaried = async (g) => (await Promise.all(KEYS.map((_, i) => target(g, i)))).map((t) => (t === 'up/new' ? 'n' : 'o')).join('');
const tell = (g, ...words) => run([...words, '--reason', 'because', '-c', g.file, '--admin', g.adminUrl]);
const good = async (g, ...words) => { const r = await tell(g, ...words); assert.equal(r.code, 0, r.err); return r.out; };
const admins = (g) => g.records().filter((r) => r.kind === 'admin').map((r) => [r.what, r.scope, r.before, r.after, r.reason]);

test('a canary: stable per team, shifted, over a crash, reverted, and conf wins when it changes', { timeout: 60000 }, async () => {
  const up = await mock(usual());
  const g = await new Gateway(conf(up)).start();
  const at25 = await canaried(g);
  assert.equal(await canaried(g), at25, 'the same teams');
  assert.match(at25, /n.*o|o.*n/, 'some, not all');
  assert.match(await good(g, 'alias', 'shift', 'smart', '--percent', '60'), /share: 60\.00%/);
  const at60 = await canaried(g);
  assert.ok([...at25].every((c, i) => c === 'o' || at60[i] === 'n'), 'who was on the canary stays there');
  const { overrides } = await (await g.admin('/readyz')).json();
  assert.deepEqual(overrides.map((o) => [o.name, o.value, o.until, o.reason]), [['shift/smart', '60.00%', null, 'because']]);
  await g.stop('SIGKILL');
  await g.start();
  assert.equal(await canaried(g), at60, 'the pointer stands after a crash');
  await good(g, 'alias', 'revert', 'smart');
  assert.equal(await canaried(g), at25);
  await good(g, 'alias', 'shift', 'smart', '--percent', '100');
  assert.equal(await canaried(g), 'n'.repeat(12));
  assert.deepEqual(admins(g), [['alias shifted', 'smart', '25.00%', '60.00%', 'because'], ['alias reverted', 'smart', '60.00%', 'as conf says', 'because'],
    ['alias shifted', 'smart', '25.00%', '100.00%', 'because']]);
  g.write({ ...g.conf, log: { level: 'info' } });
  assert.equal((await g.admin('/admin/reload', 'POST')).status, 200);
  assert.equal(await canaried(g), 'n'.repeat(12), 'another value of conf changes nothing');
  g.write({ ...g.conf, aliases: { smart: smart({ percent: 0 }) } });
  assert.equal((await g.admin('/admin/reload', 'POST')).status, 200);
  assert.equal(await canaried(g), 'o'.repeat(12), 'conf wins');
  assert.match(g.log, /override ended name=shift\/smart value=100\.00% by=admin why=conf's own value changed/);
  g.write({ ...g.conf, aliases: { smart: smart() } });
  assert.equal((await g.admin('/admin/reload', 'POST')).status, 200);
  assert.equal(await canaried(g), at25, 'and the pointer does not come back with the old value');
  const settles = g.records().filter((r) => r.kind === 'settle');
  assert.ok(settles.every((r) => r.arm === (r.target === 'up/new' ? 'canary' : 'stable')));
  const bill = JSON.parse((await run(['spend', join(g.dir, 'audit'), '--by', 'arm', '--format', 'json'])).out);
  assert.deepEqual(JSON.stringify(bill).match(/"(canary|stable)"/g).sort(), ['"canary"', '"stable"']);
  const compared = JSON.parse((await run(['alias', 'compare', 'smart', join(g.dir, 'audit'), '--format', 'json'])).out);
  for (const arm of ['stable', 'canary']) {
    const n = settles.filter((r) => r.arm === arm).length;
    assert.deepEqual([compared[arm].calls, compared[arm].errors, compared[arm].finish.stop], [n, 0, n], arm);
  }
  assert.match((await run(['alias', 'compare', 'smart', '-c', g.file])).out, /errors +0 \(0\.00%\).*\nfirst token p50 /);
  await g.end();
  await up.stop();
});

test('a failing canary falls to the ladder unseen, and its answers are cached apart', { timeout: 60000 }, async () => {
  const up = await mock((request, response, c) => (c.body.model === 'new' && up.ill ? json(response, { error: { message: 'no' } }, 500) : json(response, completion(`from ${c.body.model} ${up.calls.length}`))));
  const g = await new Gateway(conf(up, { aliases: { smart: { ...smart({ percent: 100 }), cache: {} } } })).start();
  const det = { temperature: 0, seed: undefined };
  up.ill = true;
  const fell = await ask(g, 0, det);
  assert.deepEqual([fell.status, fell.headers.get('x-tollgate-target'), fell.headers.get('x-tollgate-degraded')], [200, 'up/old', null]);
  up.ill = false;
  const again = await ask(g, 0, det);
  assert.equal(again.headers.get('x-tollgate-cache'), 'miss', 'what stood in for the canary was not kept as its answer');
  assert.equal((await ask(g, 0, det)).headers.get('x-tollgate-cache'), 'hit');
  await good(g, 'alias', 'shift', 'smart', '--percent', '0');
  assert.equal((await ask(g, 0, det)).headers.get('x-tollgate-cache'), 'miss', 'the other arm has answers of its own');
  await good(g, 'alias', 'pin', 'smart', 'up/new');
  assert.equal((await ask(g, 0, det)).headers.get('x-tollgate-cache'), 'miss', 'and so has a pin');
  await g.end();
  await up.stop();
});

test('a pin undoes itself, and goes no further than conf', { timeout: 60000 }, async () => {
  const up = await mock(usual());
  const g = await new Gateway(conf(up, { aliases: { smart: smart({ percent: 0 }), plain: 'up/old', 'x-*': 'up/x-*' }, admin: { address: '127.0.0.1:0', token: 'admin-canary-token-0123456789', tokens: [{ name: 'vera', sha256: sha256('viewer-token-0123456789'), role: 'viewer' }] } })).start();
  assert.match(await good(g, 'alias', 'pin', 'smart', 'up/spare', '--for', '2s'), /pinned: up\/spare/);
  assert.equal(await target(g, 0), 'up/spare');
  await until(async () => (await target(g, 0)) === 'up/old', 'the pin to be over', 8000);
  await until(() => /override ended name=pin\/smart value=up\/spare first by=admin why=its time was over/.test(g.log), 'the log to say so');
  for (const [words, what] of [[['alias', 'pin', 'smart', 'up/other'], /one that the alias has/], [['alias', 'pin', 'nobody', 'up/old'], /no such alias/], [['alias', 'shift', 'plain', '--percent', '5'], /no canary/],
    [['alias', 'shift', 'smart', '--percent', '101'], /from 0 to 100/], [['alias', 'revert', 'smart'], /Nothing/], [['alias', 'shift', 'smart'], /--percent is missing/], [['alias', 'pin', 'smart'], /takes an alias and a target/],
    [['target', 'drain', 'nobody'], /no such backend/], [['target', 'drain', 'up', '--key', 'third'], /no key of this name/], [['target', 'drian', 'up'], /drain/], [['target', 'drain', 'up', '--for', '-1h'], /for: a time/]]) {
    const r = await tell(g, ...words);
    assert.deepEqual([r.code, what.test(r.err)], [1, true], `${words.join(' ')}: ${r.err}`);
  }
  for (const path of ['/admin/aliases/smart/pin', '/admin/aliases/smart/shift', '/admin/aliases/smart/revert', '/admin/targets/up/drain', '/admin/targets/up/resume']) {
    assert.equal((await g.admin(path, 'POST', { reason: 'r', target: 'up/old', percent: 1 }, 'viewer-token-0123456789')).status, 403, path);
    assert.equal((await g.admin(path, 'POST', {})).status, 400, `${path} without a reason`);
  }
  assert.match(await good(g, 'alias', 'pin', 'x-*', 'up/x-*', '--format', 'json'), /"pinned":"up\/x-\*"/);
  assert.equal((await g.chat({ model: 'x-1' }, { authorization: `Bearer ${KEYS[0]}` })).headers.get('x-tollgate-target'), 'up/x-1');
  await g.end();
  await up.stop();
});

test('a drained target takes no new call while its running one ends, by backend, target and key', { timeout: 60000 }, async () => {
  const held = gate();
  const up = await mock(async (request, response, c) => { if (c.body.user === 'slow') await held.open; return json(response, completion()); });
  const g = await new Gateway(conf(up, { aliases: { smart: { ladder: [{ targets: ['up/old'] }, { targets: ['up/spare'] }] } } })).start();
  const slow = call(g, { model: 'smart', messages: [{ role: 'user', content: 'x' }], user: 'slow' }, { headers: { authorization: `Bearer ${KEYS[0]}` } });
  await until(() => up.calls.length === 1, 'the slow call to arrive');
  await good(g, 'target', 'drain', 'up/old');
  const next = await ask(g, 0);
  assert.deepEqual([next.headers.get('x-tollgate-target'), next.headers.get('x-tollgate-degraded')], ['up/spare', 'unavailable']);
  held.go();
  assert.equal((await slow.done).status, 200, 'what ran goes on');
  const { targets } = await (await g.admin('/admin/targets')).json();
  assert.deepEqual(targets.map((t) => [t.target, t.drained]).sort(), targets.map((t) => [t.target, t.target === 'up/old']).sort());
  await good(g, 'target', 'drain', 'up', '--for', 'ever');
  const none = await ask(g, 0);
  assert.deepEqual([none.status, (await none.json()).error.code], [503, 'no_healthy_target']);
  await g.stop('SIGKILL');
  await g.start();
  assert.equal((await ask(g, 0)).status, 503, 'a drain stands after a crash');
  await good(g, 'target', 'resume', 'up');
  await good(g, 'target', 'resume', 'up/old');
  await good(g, 'target', 'drain', 'up', '--key', 'key1');
  const before = up.calls.length;
  for (let i = 0; i < 8; i++) assert.equal((await ask(g, 0)).status, 200);
  assert.ok(up.calls.slice(before).every((c) => c.headers.authorization === `Bearer ${PROVIDER_KEY}2`), 'the other key alone');
  await g.end();
  await up.stop();
});

test('pointers reach a second gateway and its workers within two seconds, also one that was away', { timeout: 120000 }, async () => {
  const up = await mock(usual()), redis = await new Redis().start();
  const shared = { redis: { url: redis.url, timeout: '500ms' } };
  const a = await new Gateway(conf(up, { ...shared, node: 'a' })).start();
  const b = await new Gateway(conf(up, { ...shared, node: 'b', workers: 2 })).start();
  for (const g of [a, b]) await until(async () => (await (await g.admin('/readyz')).json()).ledger === 'redis', 'the ledger to open', 15000);
  await until(async () => { try { return (await canaried(b)).length === 12; } catch { return false; } }, 'first calls', 15000);
  /** Each call on a connection of its own, so that the kernel spreads them over the workers. */
  const everywhere = async (g) => new Set(await Promise.all(Array.from({ length: 24 }, async () => (await call(g, { model: 'smart', messages: [{ role: 'user', content: 'x' }] }, { headers: { authorization: `Bearer ${KEYS[0]}` } }).done).headers['x-tollgate-target'])));
  const reaches = async (g, want, what) => {
    const began = Date.now();
    await until(async () => { const seen = await everywhere(g); return seen.size === 1 && seen.has(want); }, what, 6000);
    return Date.now() - began;
  };
  await good(a, 'alias', 'shift', 'smart', '--percent', '100');
  assert.ok(await reaches(b, 'up/new', 'the shift to reach both workers') < 6000);
  await good(b, 'alias', 'pin', 'smart', 'up/spare');
  assert.ok(await reaches(a, 'up/spare', 'the pin to come back') < 6000);
  await b.stop('SIGKILL');
  await good(a, 'alias', 'revert', 'smart');
  await good(a, 'target', 'drain', 'up/old');
  await redis.kill();
  await redis.start();
  await b.start();
  for (const g of [b, a]) {
    const standing = async () => (await (await g.admin('/readyz')).json()).overrides.map((o) => o.name).join();
    await until(async () => (await standing()) === 'drain/up/old', 'a drain, and neither the pin nor the shift that ended while b was away', 6000);
  }
  for (const g of [a, b]) await g.stop('SIGINT');
  await redis.end();
  await up.stop();
});

test('x-tollgate-explain tells what the next call then does, makes none, and names nothing that is not disclosed', { timeout: 60000 }, async () => {
  const up = await mock(usual());
  const aliases = { smart: { ...smart({ percent: 100 }), cache: {} } };
  const g = await new Gateway(conf(up, { aliases, disclose: { explain: true } })).start();
  const explain = async (over = {}) => (await g.chat({ model: 'smart', max_tokens: 9, ...over }, { authorization: `Bearer ${KEYS[0]}`, 'x-tollgate-explain': '1' })).json();
  await good(g, 'target', 'drain', 'up/new');
  const said = await explain({ temperature: 0, stream: true });
  assert.deepEqual([said.decision, said.arm, said.target, said.cache.may, said.plan.excluded.map((e) => e.target)], ['served', 'canary', 'up/old', true, ['up/new', 'up/new']]);
  assert.match(said.words, /tried first: up\/old\n/);
  assert.equal(up.calls.length, 0, 'it calls nothing');
  const budgets = (await (await g.admin('/admin/budgets')).json()).budgets.filter((b) => b.scope === 'team0');
  assert.deepEqual(budgets.map((b) => [b.held_nanousd, b.settled_nanousd]), [[0, 0]], 'and holds nothing');
  const settle = await until(() => g.records().find((r) => r.kind === 'settle'), 'its record');
  assert.deepEqual([settle.explained, settle.cost_nanousd, settle.attempts], [true, 0, undefined]);
  const then = await ask(g, 0, { temperature: 0, max_tokens: 9 });
  await then.text();
  const admit = g.records().find((r) => r.kind === 'admit');
  assert.deepEqual([then.headers.get('x-tollgate-target'), then.headers.get('x-tollgate-cache'), admit.hold_nanousd], [said.target, 'miss', said.hold.nanousd]);
  await good(g, 'target', 'drain', 'up');
  const none = await explain();
  assert.deepEqual([none.decision, none.status, none.code], ['refused', 503, 'no_healthy_target']);
  const told = await run(['explain', '-c', g.file, '--team', 'team0', '--model', 'smart', '--state', g.adminUrl, '--seed', '7']);
  assert.deepEqual([told.code, /refused: 503 no_healthy_target/.test(told.out), /drained by an operator/.test(told.out)], [1, true, true], told.out + told.err);
  await good(g, 'target', 'resume', 'up');
  const after = await run(['explain', '-c', g.file, '--team', 'team0', '--model', 'smart', '--state', g.adminUrl, '--format', 'json']);
  assert.equal(JSON.parse(after.out).target, 'up/old', after.err);
  assert.notEqual(JSON.parse(after.out).budgets[0].spent, 0, 'what it has spent');
  g.write({ ...g.conf, disclose: { explain: true, target: false, cost: false, budget: 'none' } });
  assert.equal((await g.admin('/admin/reload', 'POST')).status, 200);
  const blind = JSON.stringify(await explain());
  assert.ok(!/up\/|"up"|USD|key1|second/.test(blind), blind);
  g.write({ ...g.conf, disclose: {} });
  assert.equal((await g.admin('/admin/reload', 'POST')).status, 200);
  assert.equal((await explain()).object, 'chat.completion', 'where it is not disclosed the field is dropped');
  await g.end();
  await up.stop();
});
