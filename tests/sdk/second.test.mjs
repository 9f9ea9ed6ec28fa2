// A second try beside a slow one, and copies of calls for another target, as the official SDK sees (or does not see) them.
import test from 'node:test';
import assert from 'node:assert/strict';
import { join } from 'node:path';
import OpenAI from 'openai';
import { Gateway, mock, usual, confOf, teamOf, run, sleep, until, sse, data, chunk, KEY, PROVIDER_KEY } from './harness.mjs';

const openai = (g) => new OpenAI({ baseURL: `${g.url}/v1`, apiKey: KEY, maxRetries: 0 });
const messages = [{ role: 'user', content: 'Hello' }];
const textOf = async (stream) => { let text = ''; for await (const c of stream) text += c.choices[0]?.delta?.content ?? ''; return text; };
async function pair(a, b, m, over = {}) {
  const A = await mock(a), B = await mock(b);
  const backend = (up) => ({ protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY] });
  const g = await new Gateway((dir) => confOf(dir, { backends: { a: backend(A), b: backend(B) }, aliases: { m }, health: { samples: 100000 }, teams: { search: teamOf() }, ...over })).start();
  return { A, B, g, async end() { await g.end(); await A.stop(); await B.stop(); } };
}

test('a stream that is slow to begin is answered by the next target, and the slow one is hung up on', async () => {
  const h = await pair((request, response) => { sse(response); response.write(data(chunk({ role: 'assistant', content: '' }))); }, usual(['Hi', ' there']),
    { ladder: [{ targets: ['a/x'] }, { targets: ['b/y'] }], hedge: { after: '200ms' } });
  const stream = await openai(h.g).chat.completions.create({ model: 'm', messages, stream: true }).withResponse();
  assert.equal(await textOf(stream.data), 'Hi there');
  const headers = stream.response.headers;
  assert.deepEqual(['target', 'attempts', 'hedged', 'degraded'].map((n) => headers.get(`x-tollgate-${n}`)), ['b/y', '2', 'won', 'timeout']);
  await until(() => h.A.calls[0].closedAt, 'the slow one to be hung up on');
  const record = await h.g.settled(headers.get('x-request-id'));
  assert.deepEqual(record.attempts.map((a) => [a.target, a.outcome, !!a.hedged, !!a.won, a.usage.estimated]), [['a/x', 'cancelled', false, false, true], ['b/y', 'ok', true, true, false]]);
  assert.ok(record.attempts.every((a) => BigInt(a.pico) > 0n), 'both prompts are paid');
  assert.equal(await h.g.metric('hedges_total'), 1);
  await h.end();
});

test('a stream that has begun is never joined, however slow it is', async () => {
  const h = await pair(async (request, response) => { sse(response); response.write(data(chunk({ role: 'assistant', content: 'Hi' }))); await sleep(700); response.end(data(chunk({ content: ' there' })) + data(chunk({}, 'stop')) + 'data: [DONE]\n\n'); }, usual(),
    { ladder: [{ targets: ['a/x', 'a/z'] }, { targets: ['b/y'] }], hedge: { after: '200ms' } });
  assert.equal(await textOf(await openai(h.g).chat.completions.create({ model: 'm', messages, stream: true })), 'Hi there');
  assert.deepEqual([h.A.calls.length, h.B.calls.length], [1, 0]);
  await h.end();
});

const shadowed = (budget) => ({ ladder: [{ targets: ['a/x'] }], shadow: { target: 'b/y', percent: 100, budget } });
const copies = (g) => g.records().filter((r) => r.kind === 'settle' && r.team === '_gateway');

test('a call is copied to another target once its client has all of it, and the bill shows who paid', async () => {
  let whole = 0;
  const early = [];
  const h = await pair(usual(['Hi', ' there']), (request, response, call) => { if (!whole) early.push(call.body); return usual(['Hi', ' you'])(request, response, call); }, shadowed('1 USD/month'));
  const stream = await openai(h.g).chat.completions.create({ model: 'm', messages, stream: true, temperature: 0 });
  assert.equal(await textOf(stream), 'Hi there');
  whole++;
  const own = await until(() => copies(h.g)[0], 'the copy to be settled');
  assert.equal(h.B.calls.length, 1);
  assert.equal(h.B.calls[0].body.model, 'y');
  assert.deepEqual(h.B.calls[0].body.messages, messages);
  const client = h.g.records().find((r) => r.kind === 'settle' && r.request === own.shadow_of);
  assert.deepEqual([client.team, own.key_id, own.target, own.pair.client.target, own.pair.shadow.finish], ['search', 'shadow:m', 'b/y', 'a/x', 'stop']);
  assert.ok(own.pair.likeness_ppm > 0 && own.pair.likeness_ppm < 1000000, `${own.pair.likeness_ppm}`);
  assert.equal(own.pair.shadow.cost_nanousd, own.cost_nanousd);
  const bill = await run(['spend', join(h.g.dir, 'audit'), '--by', 'team', '--format', 'json', '-c', h.g.file]);
  assert.equal(bill.code, 0, bill.err);
  assert.match(bill.out, /"_gateway"/);
  assert.match(bill.out, /"search"/);
  const budget = await h.g.budget('key', 'shadow:m');
  assert.ok(Number(budget.settled ?? budget.settled_usd ?? budget.settled_nanousd) > 0, JSON.stringify(budget));
  await h.end();
});

test('what shadows may spend is remembered over a restart, and never in a client\'s way', async () => {
  const h = await pair(usual(), usual(), shadowed('0.0005 USD/month'));
  let n = 0;
  await until(async () => { n++; await openai(h.g).chat.completions.create({ model: 'm', messages, max_tokens: 100 }); await h.g.idle(); return (await h.g.metric('shadows_total')) && /result="over_budget"/.test(await (await h.g.admin('/metrics')).text()); }, 'the budget of copies to be gone', 20000);
  const spent = copies(h.g).length;
  assert.ok(spent > 0 && spent < n, `${spent} of ${n}`);
  await h.g.stop();
  await h.g.start();
  await openai(h.g).chat.completions.create({ model: 'm', messages, max_tokens: 100 });
  await h.g.idle();
  assert.equal(copies(h.g).length, spent, 'no copy more');
  assert.equal((await run(['audit', 'verify', join(h.g.dir, 'audit')])).code, 0);
  await h.end();
});
