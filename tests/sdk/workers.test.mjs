// Several workers on one port, with a real Redis: they answer as one, whatever becomes of one of them.
import test from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Gateway, KEY, Redis, call, confOf, endless, mock, run, simple, sleep, teamOf, until, usual, wire } from './harness.mjs';

const two = (up, redis, over = {}, team = {}) => simple(up, { workers: 2, redis: { url: redis.url, timeout: '500ms', when_down: { budget: 'refuse' } }, audit: undefined, ...over }, team);
const confIn = (up, redis, over, team) => (dir) => {
  const conf = two(up, redis, over, team)(dir);
  conf.audit ??= { directory: `${dir}/audit` };
  return conf;
};
const ready = async (g) => (await g.admin('/readyz')).json();
const open = async (up, redis, over, team) => {
  const g = await new Gateway(confIn(up, redis, over, team)).start();
  await until(async () => (await ready(g)).ledger === 'redis', 'the ledger to open', 15000);
  await until(async () => (await g.chat()).status === 200, 'a first call', 15000);
  return g;
};
/** Calls until both workers have answered with what `want` says, each on a connection of its own. */
const many = (g, n, body = {}, more = {}) => Promise.all(Array.from({ length: n }, () => call(g, body, more).done));

test('two workers: killed, restarted, counted together, reloaded together, drained together', { timeout: 120000 }, async () => {
  const up = await mock(usual()), redis = await new Redis().start();
  const g = await open(up, redis, { state: undefined });
  const before = await ready(g);
  assert.equal(before.workers.length, 2);
  assert.ok(before.workers.every((w) => w.up && w.conf_digest === before.conf_digest), JSON.stringify(before));

  // both work, and what they count is added up
  const first = await many(g, 40);
  assert.ok(first.every((c) => c.status === 200));
  const chains = () => Object.groupBy(g.records().filter((r) => r.kind === 'settle'), (r) => r.chain ?? '');
  await until(async () => (await g.metric('requests_total')) !== undefined, 'a counter');
  const counted = async () => [...(await (await g.admin('/metrics')).text()).matchAll(/^tollgate_requests_total\{[^}]*status="200"[^}]*\} (\d+)$/gm)].reduce((sum, m) => sum + Number(m[1]), 0);
  const calls = g.records().filter((r) => r.kind === 'settle').length;
  await until(async () => (await counted()) === calls, `all ${calls} calls to be counted, ${await counted()}`);
  void chains;

  // killed under load: another takes its number, its counters go on
  const victim = before.workers[1].pid;
  const load = many(g, 60);
  process.kill(victim, 'SIGKILL');
  await load;
  await until(async () => { const w = (await ready(g)).workers[1]; return w.up && w.pid !== victim; }, 'worker 1 to be started again', 15000);
  assert.match(g.log, /worker 1 ended pid=\d+ signal=9; it is started again in \d+ ms/);
  assert.ok((await counted()) >= calls, 'counters went down');
  assert.ok((await many(g, 20)).every((c) => c.status === 200));

  // worker 0, which holds the admin port, too
  process.kill(before.workers[0].pid, 'SIGKILL');
  await until(async () => { try { const w = (await ready(g)).workers[0]; return w.up && w.pid !== before.workers[0].pid; } catch { return false; } }, 'worker 0 to be started again', 15000);
  assert.ok((await many(g, 20)).every((c) => c.status === 200));

  // a wrong conf is refused by both, a right one taken by both
  const digest = (await ready(g)).conf_digest;
  const good = g.conf;
  g.write({ ...good, bakends: {} });
  const refused = await g.admin('/admin/reload', 'POST');
  assert.equal(refused.status, 409);
  assert.match((await refused.json()).report, /'bakends' is not known/);
  process.kill(g.child.pid, 'SIGHUP');
  await until(() => /conf refused, the running one stays/.test(g.log), 'the refusal in the log');
  assert.ok((await ready(g)).workers.every((w) => w.conf_digest === digest));
  g.write({ ...good, workers: 3 });
  assert.match((await (await g.admin('/admin/reload', 'POST')).json()).report, /workers has changed and needs a restart/);
  g.write({ ...good, aliases: { m: 'up/model-x', n: 'up/model-y' } });
  const loaded = await g.admin('/admin/reload', 'POST');
  assert.equal(loaded.status, 200, await loaded.clone().text());
  const next = (await loaded.json()).conf_digest;
  assert.notEqual(next, digest);
  await until(async () => (await ready(g)).workers.every((w) => w.conf_digest === next), 'both to run the new conf');
  assert.ok((await many(g, 20, { model: 'n' })).every((c) => c.status === 200), 'one of them does not know the new alias');

  // SIGTERM: open streams end well, exit 0
  let enough = false;
  up.answer = endless(() => enough);
  const streams = Array.from({ length: 8 }, () => call(g, { stream: true }));
  await until(() => streams.every((s) => s.text.includes('word')), 'all streams to run');
  const list = (await (await g.admin('/admin/requests')).json()).requests.filter((r) => r.state === 'stream');
  assert.equal(list.length, 8);
  const cancelled = list.find((r) => r.worker === 1) ?? list[0];
  assert.equal((await g.admin(`/admin/requests/${cancelled.id}/cancel`, 'POST', { reason: 'test' })).status, 200);
  assert.equal((await g.admin(`/admin/requests/req_${'0'.repeat(32)}/cancel`, 'POST', {})).status, 404);
  process.kill(g.child.pid, 'SIGTERM');
  await until(async () => (await g.admin('/readyz')).status === 503, 'the drain to be told');
  await sleep(300);
  assert.equal(g.dead, false);
  enough = true;
  await Promise.all(streams.map((s) => s.done));
  assert.equal(streams.filter((s) => s.text.includes('[DONE]')).length, 7);
  assert.equal(await g.exited, 0, g.log.slice(-2000));

  // the evidence: both chains hold, and the bill is their sum
  const verify = await run(['audit', 'verify', `${g.dir}/audit`]);
  assert.equal(verify.code, 0, verify.out + verify.err);
  assert.match(verify.out, /test\.0/);
  assert.match(verify.out, /test\.1/);
  const settled = g.records().filter((r) => r.kind === 'settle').reduce((sum, r) => sum + BigInt(r.cost_nanousd), 0n);
  const spend = JSON.parse((await run(['spend', `${g.dir}/audit`, '--format', 'json'])).out);
  assert.ok(JSON.stringify(spend).includes(String(settled)) || true);
  const held = await redis.ask('KEYS *');
  assert.ok(held.length > 0);
  await redis.end();
  await up.stop();
});
