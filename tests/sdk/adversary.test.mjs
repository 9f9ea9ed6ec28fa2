// The adversary: gateways that share budgets over one Redis, clients that hang up, providers that fail, processes killed,
// Redis frozen, restarted and emptied, a budget lowered, time that leaps, the end of an hour crossed, all at times that a
// seed decides; prices with bands and service tiers, streams that are held in parts, a model without a price. At every
// instant no limit is passed; when all is quiet nothing is open, and the logs and Redis agree to the nano-dollar, hour by
// hour. Providers that lie are booked in full, and nothing is granted where they have passed a limit. Gateways with a fault
// of money planted in them do not pass.
// ADVERSARY_ROUNDS, ADVERSARY_PROCESSES, ADVERSARY_SEED, ADVERSARY_CLIENTS, ADVERSARY_SLICE: the long form (make soak).
import { describe, test } from 'node:test';
import assert from 'node:assert/strict';
import http from 'node:http';
import { chmodSync, closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Gateway, Redis, ROOT, mock, confOf, teamOf, json, sse, completion, streamOf, sleep, until, KEY, OTHER_KEY, PROVIDER_KEY } from './harness.mjs';

const ROUNDS = Number(process.env.ADVERSARY_ROUNDS ?? 2);
const PROCESSES = Number(process.env.ADVERSARY_PROCESSES ?? 2);
const FIRST_SEED = Number(process.env.ADVERSARY_SEED ?? 10);
const CLIENTS = Number(process.env.ADVERSARY_CLIENTS ?? 24);
const BINARY = process.env.TOLLGATE_FALSE_CLOCK ?? join(ROOT, 'build', 'tests', 'tollgate-clock'); // the same with a false clock
const SLICE = process.env.ADVERSARY_SLICE ?? '40%';
const LOAD_MS = 4500, EDGE_MS = 1800; // the hour ends so long after the load begins
const QUIET_MS = 12000;
const HOUR_US = 3_600_000_000n;
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

/** What time it is for the gateways: a file that they map, which holds what they add. */
class Clock {
  constructor() {
    this.dir = mkdtempSync(join(tmpdir(), 'tollgate-clock-'));
    this.file = join(this.dir, 'offset');
    writeFileSync(this.file, Buffer.alloc(8));
    this.fd = openSync(this.file, 'r+');
    this.offset = 0n;
  }
  now() { return BigInt(Date.now()) * 1000n + this.offset; }
  leap(us) {
    const bytes = Buffer.alloc(8);
    this.offset += us;
    bytes.writeBigInt64LE(this.offset);
    writeSync(this.fd, bytes, 0, 8, 0);
  }
  end() { closeSync(this.fd); rmSync(this.dir, { recursive: true }); }
}
const hourOf = (us) => us - us % HOUR_US;

/** A provider. An honest one's usage never goes beyond what was asked for; one that lies tells eight times that. */
function provider(roll, lies) {
  return mock(async (request, response, call) => {
    const { max_tokens: most, stream, service_tier: tier, messages } = call.body;
    const said = 1 + Math.floor(roll() * most), tokens = lies && roll() < 0.6 ? 8 * most : said, fate = roll();
    const input = 1 + Math.floor(roll() * messages[0].content.length);
    await sleep(roll() * 120);
    if (response.destroyed) return;
    if (fate < 0.1) return json(response, { error: { message: 'the provider is ill' } }, 500);
    if (fate < 0.15) return response.destroy();
    const usage = { prompt_tokens: input, completion_tokens: tokens, total_tokens: input + tokens };
    const over = { usage, service_tier: tier && roll() < 0.7 ? tier : 'default' };
    if (!stream) return json(response, completion('x', over));
    const text = streamOf('x'.repeat(said), { usage: false, done: false }), end = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [], ...over };
    const events = [...text.split('\n\n').filter(Boolean), `data: ${JSON.stringify(end)}`, 'data: [DONE]'];
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const event of events) {
      response.write(`${event}\n\n`);
      if (roll() < 0.3) await sleep(roll() * 40);
      if (response.destroyed) return;
      if (fate > 0.95 && roll() < 0.3) return response.destroy();
    }
    response.end();
  });
}

const conf = (node, up, redis, team) => (dir) => confOf(dir, {
  node,
  redis: { url: redis.url, timeout: '250ms', when_down: { budget: 'refuse' } },
  backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY], models: {
    cheap: { price: { input: '0 USD/1M', output: '0.005 USD/1' } },
    dear: { price: { input: '0.0001 USD/1', output: '0.015 USD/1', bands: [{ above: 20, output: '0.02 USD/1' }, { tier: 'priority', output: '0.025 USD/1' }] } },
    parts: { price: { input: '0 USD/1M', output: '0.004 USD/1', hidden_output: false } } } } },
  aliases: { cheap: 'up/cheap', dear: 'up/dear', parts: 'up/parts', odd: 'up/odd' }, prices: { unknown: 'refuse' },
  hold: { output_cap: 2, floor: 1, slice: SLICE, max_share_key: '100%', max_share_team: '100%' },
  teams: { search: teamOf({ rate_limits: { requests_per_minute: 60000, tokens_per_minute: 6000000, in_flight: 4 * CLIENTS }, budgets: [{ limit: dollars(team), period: 'hour' }], keys: [
    { ...teamOf().keys[0], budgets: [{ limit: dollars(LIMITS['key/testkey1']), period: 'hour' }] }, teamOf({}, OTHER_KEY, 'testkey2').keys[0]] }) },
  organization: { budgets: [{ limit: dollars(LIMITS.organization), period: 'hour' }] },
  log: { level: 'warn' },
});

function call(g, roll) {
  const body = { model: roll() < 0.03 ? 'odd' : pick(roll, ['cheap', 'dear', 'parts']), max_tokens: 1 + Math.floor(roll() * 8), stream: roll() < 0.5,
    messages: [{ role: 'user', content: 'Hello'.repeat(1 + Math.floor(roll() * 8)) }], ...(roll() < 0.2 ? { service_tier: 'priority' } : {}) };
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

/** What Redis says of an owner's hour: settled, held, charged for dead calls, calls, overruns. */
async function account(redis, owner, hour) {
  const text = await redis.ask(`HMGET tollgate:{money}:a:${owner}/hour@UTC/${hour / 1_000_000n} s h p k v`);
  const numbers = text.split('\r\n').filter((l) => l && !l.startsWith('*') && !(l.startsWith('$') && l !== '$-1')).map((l) => (l === '$-1' ? 0n : BigInt(l)));
  return { settled: numbers[0], held: numbers[1], charged: numbers[2], calls: numbers[3], over: numbers[4] };
}
const show = (value) => JSON.stringify(value, (k, v) => (typeof v === 'bigint' ? String(v) : v));

/** What slices decided in all rounds: near a limit no slice is given, so a round of many clients may have none of money. */
const decided = { hold: 0, rate: 0 };
/** How many holds, and how many rate limits, a life of a gateway decided from slices. */
async function countSlices(g, round) {
  const text = await g.admin('/metrics').then((r) => r.text(), () => '');
  for (const what of Object.keys(round.slices))
    round.slices[what] += Number(new RegExp(`ledger_steps_total\\{what="${what}",way="slice"\\} (\\d+)`).exec(text)?.[1] ?? 0);
}

const acts = {
  async kill({ gateways, roll, start, round }) {
    const g = pick(roll, gateways);
    await countSlices(g, round);
    g.child.kill('SIGKILL');
    await g.exited;
    await sleep(roll() * 500);
    await start(g);
  },
  async freeze({ redis, roll }) {
    redis.signal('SIGSTOP');
    await sleep(100 + roll() * 600);
    redis.signal('SIGCONT');
  },
  async restart({ redis, roll }) {
    await redis.kill();
    await sleep(50 + (roll() < 0.5 ? 0 : roll() * 1200));
    await redis.start();
  },
  async leap({ clock }) { clock.leap(4_000_000n); }, // every lease expires at once
  async flush({ redis }) { await redis.ask('FLUSHALL'); },
  async lower({ gateways, up, redis, round }) {
    round.team = Math.max(60 * CENT, round.team - 20 * CENT);
    for (const g of gateways) {
      g.write(conf(g.node, up, redis, round.team)(g.dir));
      if (!g.dead) g.child.kill('SIGHUP');
    }
  },
};

/** An instant of a record, exact. */
const instant = (text) => BigInt(Date.parse(text.slice(0, 19) + 'Z')) * 1000n + BigInt(text.slice(20, 26));
const ownersOf = (r) => ['team/search', 'organization', ...(r.key_id === 'testkey1' ? ['key/testkey1'] : [])];

/** What the logs settled, by owner and hour. */
function logged(gateways, hours) {
  const sums = {};
  let overruns = 0, parts = 0;
  for (const owner of Object.keys(LIMITS)) for (const hour of hours) sums[`${owner} ${hour}`] = { cost: 0n, over: 0n };
  const held = new Map();
  for (const r of gateways.flatMap((g) => g.records())) {
    parts += r.kind === 'hold' ? 1 : 0;
    if (r.kind === 'admit' || r.kind === 'hold') held.set(r.request, BigInt(r.hold_nanousd));
    if (r.kind !== 'settle') continue;
    const cost = BigInt(r.cost_nanousd), over = cost - (held.get(r.request) ?? 0n);
    overruns += r.overrun ? 1 : 0;
    assert.equal(Boolean(r.overrun), over > 0n, `what is above its hold is an overrun: ${show(r)}`);
    for (const owner of ownersOf(r)) {
      const sum = sums[`${owner} ${hourOf(instant(r.admitted ?? r.time))}`];
      sum.cost += cost;
      if (r.overrun) sum.over += over;
    }
  }
  return { sums, overruns, parts };
}

/** Nothing is granted to whom an overrun has brought above a limit; what was asked before may be answered later. */
function nothingAfter(gateways, closed, where) {
  for (const r of gateways.flatMap((g) => g.records()).filter((x) => x.kind === 'admit' && x.hold_nanousd > 0))
    for (const owner of ownersOf(r)) {
      const at = instant(r.admitted ?? r.time), since = closed[`${owner} ${hourOf(at)}`];
      assert.ok(since === undefined || at < since + 300_000n, `${where}: ${owner} was closed at ${since}, and granted: ${show(r)}`);
    }
}

/** A round. `binary`: the gateway; `lies`: of providers; `acts` happen one after the other. Throws when money is wrong. */
async function play({ seed, names, report = () => {}, binary = BINARY, lies = false, loadMs = LOAD_MS, quietMs = QUIET_MS, processes = PROCESSES }) {
  const roll = dice(seed), round = { team: LIMITS['team/search'], seen: [], most: 0n, closed: {}, slices: { hold: 0, rate: 0 } };
  const clock = new Clock(), redis = await new Redis().start(), up = await provider(roll, lies), gateways = [];
  const start = (g) => g.start({ TOLLGATE_CLOCK: clock.file }, { binary });
  const hours = [hourOf(clock.now()) + HOUR_US];
  hours.push(hours[0] + HOUR_US);
  clock.leap(hours[1] - 60_000_000n - clock.now());
  try {
    for (let i = 0; i < processes; i++) {
      const g = new Gateway(conf(`node${i}`, up, redis, round.team));
      g.node = `node${i}`;
      gateways.push(await start(g));
    }
    await sleep(300);
    clock.leap(3_200_000n); // the ledger of a new Redis is closed for so long
    const ask = () => call(gateways[0], () => 0.5);
    await until(async () => (await ask()) === 200, 'the ledger to open', 15000);
    clock.leap(hours[1] - BigInt(Math.min(EDGE_MS, loadMs / 2)) * 1000n - clock.now());
    await rounds({ seed, names, report, lies, loadMs, quietMs, roll, round, clock, redis, up, gateways, start, hours });
    for (const g of gateways) await g.end();
  } catch (e) {
    const dir = join(tmpdir(), `tollgate-adversary-${seed}`);
    mkdirSync(dir, { recursive: true });
    for (const g of gateways) {
      writeFileSync(join(dir, `${g.node}.log`), g.log);
      await g.stop('SIGKILL');
    }
    e.message += ` (logs of the gateways: ${dir})`;
    throw e;
  } finally {
    await redis.end();
    await up.stop();
    clock.end();
  }
}

/** Looks all the time whether a limit is passed. */
async function watch(w) {
  for (; w.on; await sleep(40))
    for (const owner of Object.keys(LIMITS))
      for (const hour of w.hours) {
        const at = w.clock.now(), a = await account(w.redis, owner, hour).catch(() => undefined);
        if (a?.settled === undefined) continue;
        const all = a.settled + a.held + a.charged;
        if (all > w.round.most) w.round.most = all;
        if (a.settled > BigInt(LIMITS[owner])) w.round.closed[`${owner} ${hour}`] ??= w.clock.now();
        if (all > BigInt(LIMITS[owner]) && !w.lies) w.round.seen.push(`${owner} of ${hour} at ${at}: ${show(a)} ${all}`);
      }
}

async function rounds(w) {
  const { seed, names, roll, round, clock, redis, gateways, hours, lies } = w, counts = {};
  w.on = true;
  const watching = watch(w), stop = Date.now() + w.loadMs;
  const clients = Array.from({ length: CLIENTS }, async () => {
    while (w.on) {
      const status = await call(pick(roll, gateways), roll);
      counts[status] = (counts[status] ?? 0) + 1;
      await sleep(status === 200 ? roll() * 60 : 60 + roll() * 60);
    }
  });
  for (const name of names) {
    await sleep(150 + roll() * 500);
    await acts[name](w);
  }
  while (Date.now() < stop && round.seen.length === 0) await sleep(50);
  w.on = false;
  await Promise.all([watching, ...clients]);
  const where = `seed ${seed} (${names.join(', ')}) ${show(counts)}`;
  assert.deepEqual(round.seen, [], `${where}: a limit was passed`);
  for (const g of gateways) await until(async () => (await (await g.admin('/admin/requests')).json()).requests.length === 0, 'nothing in flight', 10000);
  const { sums, overruns, parts } = logged(gateways, hours);
  const killed = names.includes('kill'); // a successor tells all that was settled, and not how much of it was beyond its hold
  for (const owner of Object.keys(LIMITS))
    for (const hour of hours) {
      const want = sums[`${owner} ${hour}`], what = `${where}: ${owner} of ${hour} to be quiet at ${show(want)}`;
      const look = async () => { const a = await account(redis, owner, hour); return a.held === 0n && a.charged === 0n && a.calls === 0n && a.settled === want.cost && (a.over === want.over || (killed && a.over < want.over)) && a; };
      const quiet = await until(look, what, w.quietMs).catch(async (e) => { throw new Error(`${e.message}; Redis has ${show(await account(redis, owner, hour))}`); });
      assert.ok(lies || quiet.settled <= BigInt(LIMITS[owner]), `${where}: ${owner} spent ${quiet.settled}`);
    }
  if (lies) assert.ok(overruns > 0, `${where}: nobody lied`);
  else assert.equal(overruns, 0, `${where}: honest providers`);
  nothingAfter(gateways, round.closed, where);
  for (const g of gateways) await countSlices(g, round);
  for (const what of Object.keys(decided)) decided[what] += round.slices[what];
  assert.ok(counts[200] > (lies ? 2 : 10) && round.most > 0n && (parts > 0 || lies || counts[200] < 100), `${where}: too little happened: ${parts} raises`);
  const both = hours.map((hour) => sums[`organization ${hour}`].cost);
  const lost = names.includes('restart') || names.includes('flush'); // an hour's part of the load may have met a closed ledger
  assert.ok(w.loadMs < LOAD_MS || lost || both.every((n) => n > 0n), `${where}: the edge of the hour was not crossed: ${both}`);
  w.report(`${where} most ${round.most} at once, closed ${Object.keys(round.closed)}, ${both} settled, ${parts} raises, ${overruns} overruns, from slices: ${show(round.slices)}`);
  const hour = hourOf(clock.now());
  for (const g of gateways) {
    const shows = async () => BigInt((await g.budget('team')).settled_nanousd) === sums[`team/search ${hour}`].cost;
    await until(shows, `${where}: ${g.node} to show what all have settled`);
  }
}

/** The gateway with one piece of a script of the ledger taken out: the same bytes but for those. */
function planted(dir, from, to) {
  const bytes = readFileSync(BINARY), file = join(dir, 'tollgate');
  assert.ok(bytes.indexOf(from) > 0, `the scripts have "${from}"`);
  for (let at; (at = bytes.indexOf(from)) >= 0;) bytes.write(to.padEnd(from.length), at, 'latin1');
  writeFileSync(file, bytes);
  chmodSync(file, 0o755);
  return file;
}
const faults = [
  ['a hold that compares with no limit', "return free or scope.limit == '' or not above(high, low, scope.limit), false", 'return true, false', /a limit was passed/],
  ['a slice whose unused part stays held', "stand(lease, difference(left, lease[1]), 0)", '', /a limit was passed|to be quiet at/],
  ['a settle that adds nothing', "call('HINCRBY', key, into, back and negated(more) or more)", '', /to be quiet at/],
];

describe('the adversary', { concurrency: 2 }, () => {
  for (let i = 0; i < ROUNDS; i++) {
    const seed = FIRST_SEED + i, roll = dice(seed * 7919), lies = i % 2 === 1;
    const all = lies ? ['kill', 'leap', 'lower', 'freeze'] : Object.keys(acts); // a limit that lies have passed is known from Redis, which keeps its data
    const names = Array.from({ length: 3 }, () => pick(roll, all));
    test(`seed ${seed}, ${PROCESSES} processes, providers that ${lies ? 'lie' : 'are honest'}: ${names.join(', ')}`, { timeout: 90000 }, (t) => play({ seed, names, lies, report: (line) => t.diagnostic(line) }));
  }
  for (const [what, from, to, seen] of faults)
    test(`sees ${what}`, { timeout: 60000 }, async () => {
      const dir = mkdtempSync(join(tmpdir(), 'tollgate-planted-'));
      await assert.rejects(play({ seed: 1, names: [], binary: planted(dir, from, to), loadMs: 2000, quietMs: 1500, processes: 2 }), seen);
      rmSync(dir, { recursive: true });
      rmSync(join(tmpdir(), 'tollgate-adversary-1'), { recursive: true, force: true });
    });
});

test('holds and rate limits were decided from slices in these rounds', { skip: SLICE === '0%' }, () => {
  assert.ok(decided.hold > 0 && decided.rate > 0, show(decided));
});
