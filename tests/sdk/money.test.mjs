// Money and evidence under fire: what no number of clients, hang-ups and kills may break.
import test from 'node:test';
import assert from 'node:assert/strict';
import http from 'node:http';
import { Gateway, mock, usual, simple, confOf, teamOf, json, sse, completion, streamOf, sleep, until, run, KEY, PROVIDER_KEY } from './harness.mjs';

/** A call over a connection of its own that can be hung up. */
function call(g, body, agent = false) {
  const self = { status: undefined, text: '' };
  self.done = new Promise((resolve) => {
    self.request = http.request(`${g.url}/v1/chat/completions`, { method: 'POST', agent, headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' } }, (response) => {
      self.status = response.statusCode;
      response.on('data', (d) => { self.text += d; });
      response.on('end', () => { self.whole = response.complete; resolve(self); });
      response.on('error', () => resolve(self));
      response.on('close', () => resolve(self));
    });
    self.request.on('error', () => resolve(self));
    self.request.end(JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 1, ...body }));
  });
  return self;
}

// One output token costs a cent and input is free: the bound of a call with max_tokens 1 is exactly $0.01.
const cent = (up, over = {}) => (dir) => confOf(dir, {
  backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY], models: { 'model-x': { price: { input: '0 USD/1M', output: '0.01 USD/1' } } } } },
  aliases: { m: 'up/model-x' }, hold: { max_share_key: '100%', max_share_team: '100%' },
  teams: { search: teamOf({ budgets: [{ limit: '1.00 USD', period: 'month' }], rate_limits: { in_flight: 1000 } }) }, ...over,
});
const oneToken = (text = 'x') => completion(text, { usage: { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 } });

test('200 calls of a cent at once against a dollar: exactly 100 are forwarded, 100 get 402', async () => {
  let go;
  const gate = new Promise((resolve) => { go = resolve; });
  const up = await mock(async (request, response) => { await gate; if (!response.destroyed) json(response, oneToken()); });
  const g = await new Gateway(cent(up)).start();
  const calls = Array.from({ length: 200 }, () => call(g, {}));
  await until(() => up.calls.length + calls.filter((c) => c.status === 402).length >= 200, 'all to be forwarded or refused', 15000);
  assert.equal(up.calls.length, 100);
  assert.equal(calls.filter((c) => c.status === 402).length, 100);
  const waiting = calls.filter((c) => c.status === undefined);
  waiting.slice(0, 33).forEach((c) => c.request.destroy());
  await sleep(300);
  go();
  await Promise.all(calls.map((c) => c.done));
  await g.idle();
  assert.equal(up.calls.length, 100);
  const settles = g.records().filter((r) => r.kind === 'settle');
  const budget = await g.budget();
  assert.equal(settles.length, 100);
  assert.equal(budget.held_nanousd, 0);
  assert.equal(budget.settled_nanousd, settles.reduce((s, r) => s + r.cost_nanousd, 0));
  assert.ok(budget.settled_nanousd <= 1e9);
  assert.equal(settles.filter((r) => r.aborted).length, 33);
  await g.end();
  await up.stop();
});

test('kill -9 under load, 20 times: the chain verifies, no call without its admit, ledger equals log', { timeout: 110000 }, async () => {
  let g, early = 0;
  const up = await mock(async (request, response, c) => {
    // The admit of this call is in the file when the call arrives: there are at least as many admits as calls.
    const admits = g.records().filter((r) => r.kind === 'admit').length;
    if (admits < up.calls.length) early++;
    await sleep(Math.random() * 30);
    if (!response.destroyed) c.body.stream ? sse(response, streamOf(['a', 'b'])) : json(response, completion());
  });
  g = new Gateway(simple(up, { audit: undefined }, { rate_limits: { in_flight: 1000 } }));
  g.write({ ...g.conf, audit: { directory: `${g.dir}/audit` } });
  const whole = [];
  for (let round = 0; round < 20; round++) {
    await g.start();
    let on = true;
    const client = async (i) => {
      while (on) {
        const c = await call(g, { stream: i % 2 === 0 }).done;
        if (c.whole && c.status === 200) whole.push(i % 2 ? JSON.parse(c.text).id : c.text.includes('[DONE]'));
        if (!c.status) await sleep(5);
      }
    };
    const clients = Array.from({ length: 8 }, (_, i) => client(i));
    await sleep(60 + Math.random() * 150);
    await g.stop('SIGKILL');
    on = false;
    await Promise.all(clients);
  }
  await g.start();
  assert.equal(early, 0);
  const verdict = await run(['audit', 'verify', `${g.dir}/audit`]);
  assert.equal(verdict.code, 0, verdict.out + verdict.err);
  const records = g.records();
  const settles = records.filter((r) => r.kind === 'settle');
  assert.equal(new Set(settles.map((r) => r.request)).size, settles.length, 'one settle a request');
  const admits = new Set(records.filter((r) => r.kind === 'admit').map((r) => r.request));
  assert.equal([...admits].filter((id) => !settles.some((s) => s.request === id)).length, 0, 'nothing stays open');
  assert.ok(settles.filter((r) => !r.recovered && r.status === 200).length >= whole.length, 'every whole answer has its settle');
  const budget = await g.budget();
  assert.equal(budget.settled_nanousd, settles.reduce((s, r) => s + r.cost_nanousd, 0));
  assert.equal(budget.held_nanousd, 0);
  const bill = await run(['spend', `${g.dir}/audit`, '--by', 'team', '--format', 'json']);
  assert.equal(bill.code, 0, bill.err);
  await g.end();
  await up.stop();
});

test('a restart gives the ledger back what the log says', async () => {
  const up = await mock(usual());
  const g = await new Gateway(simple(up)).start();
  for (let i = 0; i < 5; i++) assert.equal((await g.chat()).status, 200);
  await g.idle();
  const before = (await g.budget()).settled_nanousd;
  await g.stop();
  assert.equal(g.code, 0);
  await g.start();
  assert.equal((await g.budget()).settled_nanousd, before);
  assert.equal(before, 5 * 15000);
  await g.end();
  await up.stop();
});

test('1,000 slow streams: bounded memory, and every counter returns to its start', { timeout: 100000 }, async () => {
  const line = `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'model-x', choices: [{ index: 0, delta: { content: 'y'.repeat(1000) }, finish_reason: null }] })}\n\n`;
  const flood = Buffer.from(line.repeat(500));
  const up = await mock((request, response) => {
    sse(response);
    response.write(flood); // more than any window: what the gateway does not read stays with the provider
  });
  const g = await new Gateway(simple(up, {}, { rate_limits: { in_flight: 5000 } })).start();
  const rss = async () => Number(/VmRSS:\s+(\d+)/.exec((await import('node:fs')).readFileSync(`/proc/${g.child.pid}/status`, 'utf8'))[1]);
  const metric = async (name) => Number(new RegExp(`^tollgate_${name} (\\d+)`, 'm').exec(await (await g.admin('/metrics')).text())?.[1]);
  const before = await rss();
  const N = 1000;
  const calls = [];
  for (let i = 0; i < N; i++) {
    const request = http.request(`${g.url}/v1/chat/completions`, { method: 'POST', agent: false, headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' } });
    request.on('response', (response) => { response.pause(); calls.push({ request, response }); });
    request.on('error', () => {});
    request.end(JSON.stringify({ model: 'm', stream: true, messages: [{ role: 'user', content: 'Hello' }] }));
    if (i % 50 === 49) await until(() => calls.length > i - 25, 'streams to open', 20000);
  }
  await until(() => calls.length === N, 'all streams to be open', 20000);
  await sleep(1500);
  const kib = ((await rss()) - before) / N;
  console.log(`# ${kib.toFixed(1)} KiB a slow stream`);
  assert.ok(kib < 400, `${kib} KiB a stream`);
  calls.forEach((c) => c.request.destroy());
  await g.idle();
  assert.equal(await metric('in_flight'), 0);
  assert.equal(await metric('buffered_bytes'), 0);
  await until(async () => (await metric('connections')) === 0, 'connections to close', 10000);
  assert.equal((await g.budget()).held_nanousd, 0);
  await g.end();
  await up.stop();
});
