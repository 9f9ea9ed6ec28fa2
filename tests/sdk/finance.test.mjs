// What finance asks: the bill by any word, from the command line and the admin port, equal to what callers were told.
import test from 'node:test';
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Gateway, mock, json, completion, confOf, teamOf, run, until, sha256, KEY, OTHER_KEY, PROVIDER_KEY, ADMIN } from './harness.mjs';

const FINANCE = 'finance-canary-token-0123456789';
const OTHER_TEAM = { keys: [{ id: 'testkey2', name: 'other', sha256: sha256(OTHER_KEY) }], allow: ['*'] };

/** Two backends at one mock: `bad` fails after it reported usage, `good` (15 % off) answers. */
const books = (up, over = {}) => (dir) => confOf(dir, {
  admin: { address: '127.0.0.1:0', token: ADMIN, tokens: [{ name: 'fin', sha256: sha256(FINANCE), role: 'finance' }] },
  backends: {
    bad: { protocol: 'openai', url: `${up.url}/bad/v1`, api_keys: [{ name: 'first', value: PROVIDER_KEY }] },
    good: { protocol: 'openai', url: `${up.url}/good/v1`, api_keys: [{ name: 'prod', value: PROVIDER_KEY }], price_factor: 0.85 },
  },
  aliases: { m: 'good/model-x', cached: { ladder: [{ targets: ['good/model-x'] }], cache: { enabled: true } }, two: ['bad/model-x', 'good/model-x'] },
  teams: { search: teamOf({ caller_labels: ['feature'], labels: { cost_center: '4711' } }), legal: OTHER_TEAM },
  ...over,
});
const answer = (request, response, call) => (call.url.startsWith('/bad/')
  ? json(response, { error: { message: 'down' } }, 503)
  : json(response, completion('Hi', { usage: { prompt_tokens: 1000, completion_tokens: 10, total_tokens: 1010, prompt_tokens_details: { cached_tokens: 200 } } })));

async function bookHouse(over) {
  const up = await mock(answer);
  const g = await new Gateway(books(up, over)).start();
  const audit = join(g.dir, 'audit');
  const self = { up, g, audit };
  self.spend = async (...words) => {
    const r = await run(['spend', audit, '--format', 'json', ...words]);
    assert.equal(r.code, 0, r.err);
    return JSON.parse(r.out);
  };
  self.end = async () => { await g.end(); await up.stop(); };
  return self;
}
const nano = (text) => Math.round(Number(text) * 1e9);
const sum = (list) => list.reduce((a, b) => a + b, 0);

test('the bill is what callers were told and what the ledger has, by any word and over both ways', async () => {
  const h = await bookHouse();
  const costs = [];
  const ask = async (body, headers = {}) => {
    const r = await h.g.chat(body, headers);
    assert.equal(r.status, 200, await r.clone().text());
    costs.push(nano(r.headers.get('x-tollgate-cost')));
    await r.text();
    return r;
  };
  for (let i = 0; i < 3; i++) await ask({ user: 'alice@example.com' }, { 'x-tollgate-labels': 'feature=chat' });
  await ask({ model: 'two' });
  await ask({}, { authorization: `Bearer ${OTHER_KEY}` });
  for (let i = 0; i < 2; i++) await ask({ model: 'cached', temperature: 0 });
  await h.g.idle();
  const all = await h.spend();
  assert.equal(all.total.cost_nanousd, sum(costs));
  assert.equal(all.total.requests, 7);
  assert.equal(all.logs[0].verified, true);
  // By hand: 1000 in and 10 out at 1 and 2 USD/1M are 1,020 micro-dollars at list, 867 with the factor.
  assert.equal(all.total.list_nanousd, 6 * 1020000);
  assert.equal(all.total.cost_nanousd, 6 * 867000);
  assert.equal(all.total.cache_read, 6 * 200);
  assert.equal(all.total.cached_requests, 1);
  assert.equal(all.total.saved_nanousd, 867000, 'what the hit would have cost');
  const words = ['team', 'key', 'owner', 'client', 'end_user', 'alias', 'target', 'model', 'adapter', 'upstream_key', 'label:feature', 'label:cost_center', 'hour', 'day', 'month', 'backend', 'labels'];
  for (const by of words) {
    const { rows, total } = await h.spend('--by', by);
    assert.deepEqual(total, all.total, by);
    for (const column of ['requests', 'tries', 'in_tok', 'cost_nanousd', 'list_nanousd']) assert.equal(sum(rows.map((r) => r[column])), total[column], `${by} ${column}`);
    const over = await (await h.g.admin(`/admin/spend?by=${encodeURIComponent(by)}&timezone=Europe%2FBerlin`, 'GET', undefined, FINANCE)).json();
    assert.equal(over.total.cost_nanousd, total.cost_nanousd, by);
  }
  const row = (report, word, text) => report.rows.find((r) => r[word] === text);
  assert.equal(row(await h.spend('--by', 'label:feature'), 'label:feature', 'chat').requests, 3);
  assert.equal(row(await h.spend('--by', 'label:cost_center'), 'label:cost_center', '(none)').requests, 1);
  const tries = await h.spend('--by', 'target,upstream_key');
  assert.equal(row(tries, 'target', 'bad/model-x').tries, 1);
  assert.equal(row(tries, 'target', 'bad/model-x').requests, 0);
  assert.equal(row(tries, 'upstream_key', 'prod').tries, 6);
  assert.equal(row(tries, 'upstream_key', '(none)').cached_requests, 1, 'a hit used no key');
  const { alias, ...amounts } = row(await h.spend('--by', 'alias'), 'alias', 'two'), two = { degraded: 'unavailable', ...amounts };
  assert.equal(two.degraded_nanousd, 867000, alias);
  assert.deepEqual(row(await h.spend('--by', 'degraded'), 'degraded', 'unavailable'), two);
  // The end user's name lies nowhere; whoever has the installation's secret can find its digest.
  const key = readFileSync(join(h.g.dir, 'state', 'end_user.key'), 'utf8').trim();
  const digest = createHmac('sha256', key).update('alice@example.com').digest('hex').slice(0, 32);
  assert.equal(row(await h.spend('--by', 'end_user'), 'end_user', digest).requests, 3);
  assert.ok(!JSON.stringify(await h.g.sinks()).includes('alice@example.com'));
  // The ledger agrees.
  assert.equal((await h.g.budget('team', 'search')).settled_nanousd, row(await h.spend(), 'team', 'search').cost_nanousd);
  await h.end();
});

test('/admin/spend takes the words of the command line and refuses others by name', async () => {
  const h = await bookHouse();
  await (await h.g.chat()).text();
  await h.g.idle();
  const get = (query, token = FINANCE) => h.g.admin(`/admin/spend${query}`, 'GET', undefined, token);
  const csv = await get('?by=team&format=csv&verify=1');
  assert.match(csv.headers.get('content-type'), /text\/csv/);
  assert.match(await csv.text(), /^"team",requests,/);
  assert.match(await (await get('?format=table&verify=1')).text(), /verified {3}yes/);
  assert.match(await (await get('?format=focus')).text(), /^BilledCost,/);
  assert.equal((await (await get('')).json()).logs[0].verified, null, 'not asked for');
  for (const query of ['?by=tema', '?monht=2026-11', '?month=2026-13', '?timezone=Mars', '?by=%zz', '?by=%00', '?format=xml', `?by=${'x'.repeat(5000)}`]) {
    const r = await get(query);
    assert.equal(r.status, 400, query);
    assert.ok((await r.json()).error.message.length > 10, query);
  }
  assert.equal((await get('', 'wrong')).status, 401);
  // Many at once: two are made at a time, the others are told to come again; nobody waits for ever.
  const statuses = await Promise.all(Array.from({ length: 12 }, async () => { const r = await get('?verify=1'); await r.text(); return r.status; }));
  assert.ok(statuses.includes(200) && statuses.every((s) => s === 200 || s === 503), String(statuses));
  await h.end();
});

test('reprice corrects the bill to new prices once, tells the ledger, and outlives a restart', async () => {
  const price = (input) => ({ good: { protocol: 'openai', url: '', api_keys: [{ name: 'prod', value: PROVIDER_KEY }], models: { 'model-x': { price: { input, cache_read: input, output: '0 USD/1M' } } } } });
  const up = await mock(answer);
  const conf = (input) => (dir) => { const backends = price(input); backends.good.url = `${up.url}/good/v1`; return books(up, { backends, aliases: { m: 'good/model-x' } })(dir); };
  const g = await new Gateway(conf('1 USD/1M')).start();
  for (let i = 0; i < 4; i++) await (await g.chat()).text();
  await g.idle();
  assert.equal((await g.budget('team', 'search')).settled_nanousd, 4 * 1000000);
  g.write(conf('3 USD/1M')(g.dir));
  assert.equal((await g.admin('/admin/reload', 'POST')).status, 200);
  const month = new Date().toISOString().slice(0, 7);
  const admin = ['-c', g.file, '--admin', g.adminUrl];
  const reprice = async (...words) => { const r = await run(['reprice', '--month', month, ...words, ...admin]); assert.equal(r.code, 0, r.err); return JSON.parse(r.out); };
  const dry = await reprice('--dry-run');
  assert.deepEqual([dry.adjusts, dry.difference_nanousd, dry.dry_run], [4, 4 * 2000000, true]);
  assert.equal(g.records().filter((r) => r.kind === 'adjust').length, 0, 'a dry run writes nothing');
  assert.equal((await reprice('--reason', 'new list')).adjusts, 4);
  assert.equal((await reprice('--reason', 'new list')).adjusts, 0, 'twice writes nothing new');
  const adjusts = g.records().filter((r) => r.kind === 'adjust');
  assert.deepEqual(adjusts.map((r) => [r.cost_nanousd, r.reason, r.who, r.team, r.alias]), Array(4).fill([2000000, 'new list', 'admin', 'search', 'm']));
  const bill = async () => JSON.parse((await run(['spend', join(g.dir, 'audit'), '--format', 'json'])).out).total.cost_nanousd;
  assert.equal(await bill(), 4 * 3000000);
  assert.equal((await g.budget('team', 'search')).settled_nanousd, 4 * 3000000, 'the ledger was told');
  const check = () => run(['spend', '--check', '-c', g.file, '--admin', g.adminUrl]);
  assert.match((await check()).out, /^log and ledger agree: 1 budgets/);
  await g.stop();
  await g.start();
  assert.equal((await g.budget('team', 'search')).settled_nanousd, 4 * 3000000, 'and is told again at a start');
  assert.equal((await check()).code, 0);
  let closed; // a start looks for months that nobody closed, and says so to whoever comes meanwhile
  await until(async () => {
    closed = await run(['close', '--month', month, '--reason', 'books', '-c', g.file, '--admin', g.adminUrl]);
    return !/come again/.test(closed.err);
  }, 'a look that is over');
  assert.equal(closed.code, 1);
  assert.match(closed.err, /is not over yet/);
  for (const [path, body] of [['/admin/reprice', { month }], ['/admin/reprice', { reason: 'x' }], ['/admin/close', { month: '2020-01' }], ['/admin/close', { month: '2020-01', reason: 'x', timezone: 'Mars' }]])
    assert.equal((await g.admin(path, 'POST', body)).status, 400, JSON.stringify(body));
  assert.equal((await g.admin('/admin/close', 'POST', { month: '2020-01', reason: 'x' }, FINANCE)).status, 403, 'only an operator changes');
  // An empty month of long ago is closed over the port; its bytes stay.
  assert.equal((await g.admin('/admin/close', 'POST', { month: '2020-01', reason: 'books' })).status, 200);
  const old = () => run(['spend', join(g.dir, 'audit'), '--month', '2020-01']);
  const before = (await old()).out;
  assert.match(before, /closed {5}.* by admin: books/);
  await (await g.chat()).text();
  await g.stop();
  await g.start();
  assert.equal((await old()).out, before);
  assert.equal((await run(['audit', 'verify', join(g.dir, 'audit')])).code, 0);
  await g.end();
  await up.stop();
});
