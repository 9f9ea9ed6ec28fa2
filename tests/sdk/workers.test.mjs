// Several workers on one port, with a real Redis: they answer as one, whatever becomes of one of them.
import test from 'node:test';
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { Gateway, KEY, Redis, call, endless, mock, run, simple, sleep, until, usual } from './harness.mjs';

const confOf = (up, redis, { writable, ...over } = {}, team) => (dir) => {
  const conf = simple(up, { workers: 2, redis: { url: redis.url, timeout: '500ms', when_down: { budget: 'refuse' } }, ...over }, team)(dir);
  if (writable) conf.state.writable = writable;
  return conf;
};
const ready = async (g) => (await g.admin('/readyz')).json();
const open = async (up, redis, over, team) => {
  const g = await new Gateway(confOf(up, redis, over, team)).start();
  await until(async () => (await ready(g)).ledger === 'redis', 'the ledger to open', 15000);
  await until(async () => (await g.chat({ max_tokens: 4 })).status === 200, 'a first call', 15000);
  return g;
};
/** Calls at once, each on a connection of its own, so that the kernel spreads them over both. */
const many = (g, n, body = {}, more = {}) => Promise.all(Array.from({ length: n }, () => call(g, body, more).done));

/** Settle records by worker. */
const settledBy = (g) => [0, 1].map((worker) => readdirSync(`${g.dir}/audit`).filter((f) => f.startsWith(`audit-test.${worker}-`))
  .reduce((n, f) => n + readFileSync(`${g.dir}/audit/${f}`, 'utf8').split('\n').filter((line) => line.includes('"kind":"settle"')).length, 0));
/** The bill is the sum of both logs, and Redis holds the same. */
const equal = async (g, redis) => {
  const settled = g.records().filter((r) => r.kind === 'settle').reduce((sum, r) => sum + BigInt(r.cost_nanousd), 0n);
  const text = (n) => `${n / 1000000000n}.${String(n % 1000000000n).padStart(9, '0')}`.replace(/0+$/, '');
  const spend = await run(['spend', `${g.dir}/audit`, '--by', 'team', '--format', 'json']);
  assert.ok(spend.out.includes(text(settled)), `${text(settled)} in ${spend.out}`);
  const account = /tollgate:\{money\}:a:team\/search\/month@UTC\/\d+/.exec(await redis.ask('KEYS *'));
  await until(async () => BigInt(/\r\n(\d+)\r\n/.exec(await redis.ask(`HMGET ${account[0]} s`))[1]) === settled, 'Redis to equal both logs');
};
const gone = (pid) => { try { process.kill(pid, 0); return false; } catch { return true; } };

test('two workers: killed, restarted, counted together, reloaded together, drained together', { timeout: 120000 }, async () => {
  const up = await mock(usual()), redis = await new Redis().start();
  const g = await open(up, redis);
  const before = await ready(g);
  assert.equal(before.workers.length, 2);
  assert.ok(before.workers.every((w) => w.up && w.conf_digest === before.conf_digest), JSON.stringify(before));

  // both work, and what they count is added up
  const first = await many(g, 40);
  assert.ok(first.every((c) => c.status === 200));
  await until(async () => (await g.metric('requests_total')) !== undefined, 'a counter');
  const counted = async () => [...(await (await g.admin('/metrics')).text()).matchAll(/^tollgate_requests_total\{[^}]*status="200"[^}]*\} (\d+)$/gm)].reduce((sum, m) => sum + Number(m[1]), 0);
  const calls = g.records().filter((r) => r.kind === 'settle').length;
  await until(async () => (await counted()) === calls, `all ${calls} calls to be counted, ${await counted()}`);
  const id = first[0].headers['x-request-id'];
  const told = [];
  for (let i = 0; i < 8; i++) told.push(await call(g, undefined, { path: `/v1/requests/${id}` }).done);
  assert.ok(told.every((c) => c.status === 200 && c.json().id === id), `a worker does not tell of the other's request: ${told.map((c) => c.status)}`);

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
  assert.match(verify.out, /in 2 chains/);
  assert.deepEqual(settledBy(g).map((n) => n > 10), [true, true], 'both have served');
  await equal(g, redis);
  await redis.end();
  await up.stop();
});

test('two workers: no budget is passed, a raise, a pause and a revocation reach both within two seconds', { timeout: 120000 }, async () => {
  const up = await mock(usual()), redis = await new Redis().start();
  const hook = await mock((request, response) => response.writeHead(204).end());
  const alerts = [{ url: `${hook.url}/hook`, secret: 'secret-of-the-webhook', events: ['budget_limit', 'key_expiring'] }];
  const g = await open(up, redis, { writable: ['keys', 'budgets'], alerts }, { budgets: [{ limit: '0.001 USD', period: 'month' }], raise_limit: '100%' });
  const small = { max_tokens: 4 };
  const spent = () => g.records().filter((r) => r.kind === 'settle').reduce((sum, r) => sum + BigInt(r.cost_nanousd), 0n);
  const drainDry = async () => {
    for (let i = 0; i < 80; i++) {
      const got = await many(g, 12, small);
      assert.ok(got.every((c) => [200, 402, 429].includes(c.status)), got.map((c) => c.status).join());
      assert.ok(spent() <= limit, `${spent()} is above ${limit}`);
      if (got.every((c) => c.status === 402)) return;
    }
    assert.fail('the budget was never used up');
  };
  let limit = 1000000n;
  await drainDry();
  const soon = await g.admin('/admin/keys', 'POST', { team: 'search', name: 'short', expires: new Date(Date.now() + 3 * 86400e3).toISOString() });
  assert.equal(soon.status, 201, await soon.text());
  const elsewhere = async () => [...(await (await g.admin('/metrics')).text()).matchAll(/^tollgate_alerts_total\{[^}]*result="elsewhere"[^}]*\} (\d+)$/gm)].reduce((sum, m) => sum + Number(m[1]), 0);
  await until(async () => await elsewhere() >= 1, 'a worker to leave the alert of a key that expires to the other', 10000);
  const raised = await g.admin('/admin/budgets/raise', 'POST', { team: 'search', by: '100%', reason: 'more' });
  assert.equal(raised.status, 200, await raised.text());
  limit = 2000000n;
  const since = settledBy(g);
  await sleep(2000);
  await until(async () => { await many(g, 12, small); return settledBy(g).every((n, i) => n > since[i]); }, 'both to allow more after a raise');
  await drainDry();
  await until(async () => (await g.budget('team')).settled_nanousd === Number(spent()), 'the admin port to tell the spending of both');

  assert.equal((await g.admin('/admin/teams/search/pause', 'POST', { reason: 'stop' })).status, 200);
  await sleep(2000);
  assert.ok((await many(g, 20, small)).every((c) => ![200, 402].includes(c.status)), 'one of them does not know the pause');
  assert.equal((await g.admin('/admin/teams/search/resume', 'POST', { reason: 'go' })).status, 200);
  await sleep(2000);
  assert.ok((await many(g, 20, small)).every((c) => c.status !== 200 && [402, 429].includes(c.status)), 'one of them still pauses');
  assert.equal((await g.admin('/admin/keys/testkey1', 'DELETE', { reason: 'gone' })).status, 200);
  await sleep(2000);
  assert.ok((await many(g, 20, small)).every((c) => c.status === 401), 'one of them takes a revoked key');
  await equal(g, redis);
  const told = hook.calls.map((c) => `${c.body.event} ${c.body.scope} ${c.body.mark}`);
  for (const event of ['budget_limit', 'key_expiring']) assert.ok(told.some((t) => t.startsWith(`${event} `)), `nobody was told of ${event}: ${told}`);
  assert.deepEqual(told, [...new Set(told)], 'an alert was told by both workers');
  await hook.stop();
  assert.equal(await g.stop('SIGINT'), 0, g.log.slice(-2000));
  await redis.end();
  await up.stop();
});

test('a parent that dies takes its workers with it, and its successor finds all in order', { timeout: 60000 }, async () => {
  const up = await mock(usual()), redis = await new Redis().start();
  const g = await open(up, redis);
  const pids = (await ready(g)).workers.map((w) => w.pid);
  g.child.kill('SIGKILL');
  await until(() => pids.every(gone), 'the workers to end', 10000);
  await g.start();
  await until(async () => (await g.chat()).status === 200, 'a call', 15000);
  const other = await new Gateway(confOf(up, redis, { listen: [{ address: `127.0.0.1:${g.port}` }] })).start().catch((e) => e.message);
  assert.match(String(other), /the address is in use/);
  assert.equal(await g.stop(), 0, g.log.slice(-2000));
  assert.equal((await run(['audit', 'verify', `${g.dir}/audit`])).code, 0);
  const alone = await new Gateway((dir) => ({ ...confOf(up, redis)(dir), redis: undefined })).start().catch((e) => e.message);
  assert.match(String(alone), /workers above 1 needs redis/);
  await redis.end();
  await up.stop();
});
