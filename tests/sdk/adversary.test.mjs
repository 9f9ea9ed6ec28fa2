// The adversary: gateways that share budgets over one Redis, clients that hang up, providers that fail, processes killed,
// Redis frozen, restarted and emptied, a budget lowered, all at times that a seed decides. At every instant no limit is
// passed; when all is quiet nothing is open, and the logs and Redis agree to the nano-dollar.
// ADVERSARY_ROUNDS, ADVERSARY_PROCESSES, ADVERSARY_SEED, ADVERSARY_SLICE: the long form (make soak).
import test from 'node:test';
import assert from 'node:assert/strict';
import http from 'node:http';
import { Gateway, Redis, mock, confOf, teamOf, json, sse, completion, streamOf, sleep, until, KEY, OTHER_KEY, PROVIDER_KEY } from './harness.mjs';

const ROUNDS = Number(process.env.ADVERSARY_ROUNDS ?? 2);
const PROCESSES = Number(process.env.ADVERSARY_PROCESSES ?? 2);
const FIRST_SEED = Number(process.env.ADVERSARY_SEED ?? 3);
const CLIENTS = Number(process.env.ADVERSARY_CLIENTS ?? 24);
const LOAD_MS = 4500;
const CENT = 10_000_000; // nano-dollars
const LIMITS = { 'team/search': 150 * CENT, 'key/testkey1': 90 * CENT, organization: 160 * CENT };

/** Small, fast, good enough: mulberry32. */
function dice(seed) {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6D2B79F5) >>> 0;
    let t = a;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
const pick = (roll, list) => list[Math.floor(roll() * list.length)];
const dollars = (nano) => `${nano / 1e9} USD`;

/** An honest provider: usage never goes beyond what was asked for. */
function provider(roll) {
  return mock(async (request, response, call) => {
    const most = call.body.max_tokens, tokens = 1 + Math.floor(roll() * most), fate = roll();
    await sleep(roll() * 120);
    if (response.destroyed) return;
    if (fate < 0.1) return json(response, { error: { message: 'the provider is ill' } }, 500);
    if (fate < 0.15) return response.destroy();
    const usage = { prompt_tokens: 5, completion_tokens: tokens, total_tokens: 5 + tokens };
    if (call.body.stream) return sse(response, streamOf('x'.repeat(tokens), { usage }));
    json(response, completion('x', { usage }));
  });
}

const conf = (node, up, redis, team) => (dir) => confOf(dir, {
  node,
  redis: { url: redis.url, timeout: '250ms', when_down: { budget: 'refuse' } },
  backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY], models: {
    cheap: { price: { input: '0 USD/1M', output: '0.01 USD/1' } }, dear: { price: { input: '0 USD/1M', output: '0.03 USD/1' } } } } },
  aliases: { cheap: 'up/cheap', dear: 'up/dear' }, hold: { slice: process.env.ADVERSARY_SLICE ?? '40%', max_share_key: '100%', max_share_team: '100%' },
  teams: { search: teamOf({ budgets: [{ limit: dollars(team), period: 'month' }], keys: [
    { ...teamOf().keys[0], budgets: [{ limit: dollars(LIMITS['key/testkey1']), period: 'month' }] }, teamOf({}, OTHER_KEY, 'testkey2').keys[0]] }) },
  organization: { budgets: [{ limit: dollars(LIMITS.organization), period: 'month' }] },
  log: { level: 'warn' },
});

function call(g, roll) {
  const body = { model: pick(roll, ['cheap', 'dear']), max_tokens: 1 + Math.floor(roll() * 3), stream: roll() < 0.4, messages: [{ role: 'user', content: 'Hello' }] };
  const leaves = roll() < 0.15 ? roll() * 100 : 0;
  return new Promise((resolve) => {
    const request = http.request(`${g.url}/v1/chat/completions`, { method: 'POST', agent: false, headers: { authorization: `Bearer ${pick(roll, [KEY, OTHER_KEY])}`, 'content-type': 'application/json' } }, (response) => {
      response.resume();
      response.on('error', () => resolve(0));
      response.on('close', () => resolve(response.statusCode));
    });
    request.on('error', () => resolve(0));
    request.end(JSON.stringify(body));
    if (leaves) setTimeout(() => request.destroy(), leaves);
  });
}

/** What Redis says of an owner's month: settled, held, charged for dead calls, calls. */
async function account(redis, owner) {
  const now = new Date(), from = Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1) / 1000;
  const text = await redis.ask(`HMGET tollgate:{money}:a:${owner}/month@UTC/${from} s h p k`);
  const numbers = text.split('\r\n').filter((l) => l && !l.startsWith('*') && !(l.startsWith('$') && l !== '$-1')).map((l) => (l === '$-1' ? 0n : BigInt(l)));
  return { settled: numbers[0], held: numbers[1], charged: numbers[2], calls: numbers[3] };
}

const acts = {
  async kill({ gateways, roll }) {
    const g = pick(roll, gateways);
    g.child.kill('SIGKILL');
    await g.exited;
    await g.start();
  },
  async freeze({ redis, roll }) {
    redis.signal('SIGSTOP');
    await sleep(100 + roll() * 600);
    redis.signal('SIGCONT');
  },
  async restart({ redis }) {
    await redis.kill();
    await sleep(50);
    await redis.start();
  },
  async flush({ redis }) { await redis.ask('FLUSHALL'); },
  async lower({ gateways, up, redis, round }) {
    round.team = Math.max(60 * CENT, round.team - 20 * CENT);
    for (const g of gateways) {
      g.write(conf(g.node, up, redis, round.team)(g.dir));
      if (!g.dead) g.child.kill('SIGHUP');
    }
  },
};

/** Sums of the logs' settles, by owner. */
function logged(gateways) {
  const sums = { 'team/search': 0n, 'key/testkey1': 0n, organization: 0n };
  let overruns = 0;
  for (const g of gateways)
    for (const r of g.records().filter((x) => x.kind === 'settle')) {
      const cost = BigInt(r.cost_nanousd);
      overruns += r.overrun ? 1 : 0;
      sums['team/search'] += cost;
      sums.organization += cost;
      if (r.key_id === 'testkey1') sums['key/testkey1'] += cost;
    }
  return { sums, overruns };
}

async function play(seed, names, report) {
  const roll = dice(seed), round = { team: LIMITS['team/search'], seen: [], most: 0n };
  const redis = await new Redis().start(), up = await provider(roll), gateways = [];
  for (let i = 0; i < PROCESSES; i++) {
    const g = new Gateway(conf(`node${i}`, up, redis, round.team));
    g.node = `node${i}`;
    gateways.push(await g.start());
  }
  await until(async () => (await call(gateways[0], roll)) === 200, 'the ledger to open', 15000);
  let on = true;
  const watch = (async () => {
    for (; on; await sleep(40))
      for (const owner of Object.keys(LIMITS)) {
        const a = await account(redis, owner).catch(() => undefined);
        if (a?.settled === undefined) continue;
        const all = a.settled + a.held + a.charged;
        if (all > round.most) round.most = all;
        if (all > BigInt(LIMITS[owner])) round.seen.push(`${owner}: ${JSON.stringify(a, (k, v) => String(v?.constructor === Object ? k : v))} ${all}`);
      }
  })();
  const counts = {};
  const clients = Array.from({ length: CLIENTS }, async () => {
    while (on) {
      const status = await call(pick(roll, gateways), roll);
      counts[status] = (counts[status] ?? 0) + 1;
      await sleep(status === 200 ? roll() * 60 : 60 + roll() * 60);
    }
  });
  const stop = Date.now() + LOAD_MS;
  for (const name of names) {
    await sleep(150 + roll() * 500);
    await acts[name]({ gateways, redis, up, roll, round });
  }
  await sleep(Math.max(0, stop - Date.now()));
  on = false;
  await Promise.all([watch, ...clients]);
  for (const g of gateways) await until(async () => (await (await g.admin('/admin/requests')).json()).requests.length === 0, 'nothing in flight', 10000);
  const where = `seed ${seed} (${names.join(', ')}) ${JSON.stringify(counts)}`;
  const { sums, overruns } = logged(gateways);
  for (const owner of Object.keys(LIMITS)) {
    const quiet = await until(async () => {
      const a = await account(redis, owner);
      return a.held === 0n && a.charged === 0n && a.calls === 0n && a.settled === sums[owner] && a;
    }, `${where}: ${owner} to be quiet at ${sums[owner]}`, 12000).catch(async (e) => { throw new Error(`${e.message}; Redis has ${JSON.stringify(await account(redis, owner), (k, v) => (typeof v === 'bigint' ? String(v) : v))}`); });
    assert.ok(quiet.settled <= BigInt(LIMITS[owner]), `${where}: ${owner} spent ${quiet.settled}`);
  }
  assert.equal(overruns, 0, `${where}: honest providers`);
  assert.deepEqual(round.seen, [], `${where}: a limit was passed`);
  assert.ok(counts[200] > 10 && round.most > 0n, `${where}: too little happened`);
  report(`${where} most ${round.most} at once, ${sums.organization} settled`);
  for (const g of gateways) {
    const shows = async () => BigInt((await g.budget('team')).settled_nanousd) === sums['team/search'];
    await until(shows, `${where}: ${g.node} to show what all have settled`);
    await g.end();
  }
  await redis.end();
  await up.stop();
}

for (let i = 0; i < ROUNDS; i++) {
  const seed = FIRST_SEED + i, roll = dice(seed * 7919);
  const names = Array.from({ length: 3 }, () => pick(roll, Object.keys(acts)));
  test(`the adversary, seed ${seed}, ${PROCESSES} processes: ${names.join(', ')}`, { timeout: 90000 }, (t) => play(seed, names, (line) => t.diagnostic(line)));
}
