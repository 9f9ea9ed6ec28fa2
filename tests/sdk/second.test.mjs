// A second try beside a slow one, and copies of calls for another target, as the official SDK sees (or does not see) them.
import test from 'node:test';
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { Gateway, mock, usual, confOf, teamOf, sleep, until, sse, data, chunk, KEY, PROVIDER_KEY } from './harness.mjs';

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
