// Money, from outside: what is held, what is charged, who pays, and what stays open when a budget is gone.
import test from 'node:test';
import assert from 'node:assert/strict';
import { join } from 'node:path';
import {
  Gateway, KEY, OTHER_KEY, Redis, PROVIDER_KEY, call, chunk, completion, confOf, data, gate, house, json, mock, run, sha256, sse, teamOf, until, usual,
} from './harness.mjs';

const messages = [{ role: 'user', content: 'Hello' }];
const NANO = 1e9;
// Input is free and one output token costs a dollar: the bound of a call is exactly its max_tokens.
const dollar = { price: { input: '0 USD/1', output: '1 USD/1' } };
const wide = { max_share_key: '100%', max_share_team: '100%' };
const key = (over = {}) => ({ id: 'testkey1', name: 'test', sha256: sha256(KEY), owner: 'tester', ...over });
const month = (limit) => [{ limit: `${limit} USD`, period: 'month' }];
const dollars = (up, over = {}, team = {}) => (dir) => confOf(dir, {
  backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY], models: { 'model-x': dollar } } },
  aliases: { m: 'up/model-x' }, hold: wide, teams: { search: teamOf(team) }, ...over,
});
const used = (n, text = 'x') => completion(text, { usage: { prompt_tokens: 9, completion_tokens: n, total_tokens: 9 + n } });
const usedStream = (n) => data(chunk({ role: 'assistant', content: 'x' })) + data(chunk({}, 'stop')) + data({ ...chunk({}), choices: [], usage: { prompt_tokens: 9, completion_tokens: n, total_tokens: 9 + n } }) + 'data: [DONE]\n\n';
const answer = (n) => (q, r, c) => (c.body.stream ? sse(r, usedStream(n)) : json(r, used(n)));

const settles = (g) => g.records().filter((r) => r.kind === 'settle');
const sum = (rows) => rows.reduce((s, r) => s + r.cost_nanousd, 0);

/** Once idle, every level's counter is the sum of its settles and nothing is held. */
async function assertBalanced(g) {
  await g.idle();
  const { budgets } = await (await g.admin('/admin/budgets')).json();
  assert.ok(budgets.length);
  for (const b of budgets) {
    const of = settles(g).filter((r) => b.level === 'organization' || (b.level === 'team' ? r.team === b.scope : r.key_id === b.scope));
    assert.equal(b.held_nanousd, 0, `${b.level} ${b.scope} holds after all is over`);
    assert.equal(b.settled_nanousd, sum(of), `${b.level} ${b.scope}: counter against records`);
  }
}

// ---- B-01 ----

test('B-01 parallel calls overspend: fifty at once, plain and stream, with the tightest budget at each level', async () => {
  const limits = { key: 100, team: 100, organization: 100 };
  for (const tightest of Object.keys(limits)) for (const stream of [false, true]) {
    const open = gate();
    const up = await mock(async (q, r, c) => { await open.open; answer(60)(q, r, c); });
    const at = (level) => month(level === tightest ? 100 : 100000);
    const g = await new Gateway(dollars(up, { organization: { budgets: at('organization') } }, { keys: [key({ budgets: at('key') })], budgets: at('team') })).start();
    const calls = Array.from({ length: 50 }, () => call(g, { max_tokens: 60, stream }));
    await until(() => up.calls.length + calls.filter((c) => c.status === 402).length === 50, 'each call to be forwarded or refused');
    assert.equal(up.calls.length, 1, `${tightest}: 60 + 60 is more than 100`);
    // All or nothing: a refusal at one level leaves nothing held at another.
    const held = (await (await g.admin('/admin/budgets')).json()).budgets.map((b) => b.held_nanousd);
    assert.deepEqual(held, [60 * NANO, 60 * NANO, 60 * NANO]);
    const refused = calls.filter((c) => c.status === 402);
    await Promise.all(refused.map((c) => c.done));
    const { error } = refused[0].json();
    assert.deepEqual([error.code, error.type, error.level, error.limit, error.held, error.needed], ['budget_exceeded', 'insufficient_quota', tightest, 100, 60, 60]);
    open.go();
    await Promise.all(calls.map((c) => c.done));
    await assertBalanced(g);
    assert.equal(sum(settles(g)), 60 * NANO);
    assert.equal((await call(g, { max_tokens: 40 }).done).status, 200, 'what is left can be spent');
    assert.equal((await call(g, { max_tokens: 1 }).done).status, 402);
    await g.end();
    await up.stop();
  }
});

test('B-01 a call that states no bound, or asks for many answers, is held at its whole bound', async () => {
  const open = gate();
  const up = await mock(async (q, r, c) => { await open.open; answer(1)(q, r, c); });
  const g = await new Gateway(dollars(up, { hold: { ...wide, output_cap: 100 } }, { budgets: month(1000) })).start();
  const held = async () => (await g.budget()).held_nanousd / NANO;
  const first = call(g, {});
  await until(() => up.calls.length === 1, 'the call');
  assert.equal(await held(), 100, 'without max_tokens: the cap');
  const second = call(g, { max_tokens: 50, n: 8 });
  await until(() => up.calls.length === 2, 'the second call');
  assert.equal(await held(), 500, 'n answers: n bounds');
  const third = await call(g, { max_completion_tokens: 501 }).done;
  assert.equal(third.status, 402);
  const fourth = await call(g, { max_tokens: 251, best_of: 2, prompt: 'x' }, { path: '/v1/completions' }).done;
  assert.equal(fourth.status, 402, 'best_of counts as n');
  open.go();
  await Promise.all([first.done, second.done]);
  await assertBalanced(g);
  await g.end();
  await up.stop();
});

// ---- B-02, O-01's money half ----

test('B-02 holds leak or count twice: every way out gives back what it held', { timeout: 60000 }, async () => {
  let mode = 'usual', resume = gate();
  const up = await mock(async (q, r, c) => {
    if (mode === '500') return json(r, { error: { message: 'down' } }, 500);
    if (mode === '400') return json(r, { error: { message: 'no' } }, 400);
    if (mode === 'reset') return r.socket.resetAndDestroy();
    if (mode === 'silent') return undefined;
    if (mode === 'cut') { sse(r); r.write(data(chunk({ role: 'assistant', content: 'Hel' }))); await resume.open; return r.destroy(); }
    if (mode === 'wait') { sse(r); r.write(data(chunk({ role: 'assistant', content: 'Hel' }))); return undefined; }
    return answer(2)(q, r, c);
  });
  const g = await new Gateway((dir) => ({ ...dollars(up, {}, { keys: [key({ budgets: month(5000) })], budgets: month(5000) })(dir), organization: { budgets: month(5000) }, health: { samples: 10000 },
    aliases: { m: { ladder: [{ targets: ['up/model-x'] }], deadline: '10m', attempts: 1, cache: { enabled: true } }, slow: { ladder: [{ targets: ['up/model-x'] }], deadline: '300ms', attempts: 1 } } })).start();
  const many = (n, body, path) => Array.from({ length: n }, (_, i) => call(g, { max_tokens: 2, stream: i % 2 === 0, ...body }, { path }));
  const over = (calls) => Promise.all(calls.map((c) => c.done));
  for (mode of ['500', '400', 'reset']) await over(many(60, {}));
  mode = 'silent';
  const late = many(40, { model: 'slow' });
  await over(late);
  assert.ok(late.every((c) => c.status === 504), late.map((c) => c.status).join());
  let before = up.calls.length;
  const abandoned = many(60, {});
  await until(() => up.calls.length === before + 60, 'the silent calls to arrive');
  abandoned.forEach((c) => c.hangUp());
  await g.idle();
  mode = 'wait';
  const half = many(40, { stream: true });
  await until(() => half.every((c) => c.text.includes('Hel')), 'content');
  half.forEach((c) => c.hangUp());
  await g.idle();
  mode = 'cut';
  before = up.calls.length;
  const cut = many(40, { stream: true });
  await until(() => cut.every((c) => c.text.includes('Hel')), 'content');
  resume.go();
  await over(cut);
  assert.ok(cut.every((c) => !c.text.includes('[DONE]')));
  mode = 'usual';
  const same = many(60, { temperature: 0 });
  await over(same);
  assert.ok(same.every((c) => c.status === 200));
  for (const body of [{ model: 'nope' }, { messages: 1 }, { max_tokens: 100000 }]) await over(many(20, body));
  await over(Array.from({ length: 20 }, () => call(g, '{"model"')));
  await assertBalanced(g);
  const spent = (await g.budget()).settled_nanousd;
  assert.ok(spent > 0 && spent < 400 * NANO, `${spent}`);
  // A crash in the middle: what was open is settled at its hold, and nothing stays held.
  mode = 'silent';
  before = up.calls.length;
  const lost = many(10, {});
  await until(() => up.calls.length === before + 10, 'the calls to arrive');
  await g.stop('SIGKILL');
  await over(lost);
  await g.start();
  await assertBalanced(g);
  assert.equal((await g.budget()).settled_nanousd, spent + 10 * 2 * NANO);
  mode = 'usual';
  assert.equal((await call(g, { max_tokens: 2 }).done).status, 200);
  await g.end();
  await up.stop();
});

// ---- B-03 ----

test('B-03 an unpriced or custom-priced model costs nothing, so no budget ever trips', async () => {
  const up = await mock(answer(7));
  const backend = (over) => ({ protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY], ...over });
  const g = await new Gateway((dir) => confOf(dir, {
    backends: { up: backend({ models: { custom: dollar, free: { price: { input: '0 USD/1', output: '0 USD/1' } } } }), half: backend({ price_factor: 0.5, models: { custom: dollar } }) },
    aliases: { custom: 'up/custom', unpriced: 'up/no-such-price', 'wild-*': 'up/*', listed: 'up/listed', half: 'half/custom', free: 'up/free' },
    prices: { unknown: 'refuse', models: { listed: { input: '0 USD/1', output: '2 USD/1' }, other: { input: '0 USD/1', output: '3 USD/1' } } },
    hold: wide, teams: { search: teamOf({ budgets: month(100000) }), loose: { keys: [{ id: 'loosekey', name: 'l', sha256: sha256(OTHER_KEY) }], allow: ['*'] } },
  })).start();
  const cost = async (model, headers) => { const c = await call(g, { model, max_tokens: 7 }, { headers }).done; return [c.status, c.headers['x-tollgate-cost'], c.status === 200 ? undefined : c.json().error.code]; };
  assert.deepEqual(await cost('custom'), [200, '7', undefined], 'priced in conf');
  assert.deepEqual(await cost('listed'), [200, '14', undefined], 'priced by the table');
  assert.deepEqual(await cost('wild-other'), [200, '21', undefined], 'priced through a pattern');
  assert.deepEqual(await cost('half'), [200, '3.5', undefined], 'a factor on the price');
  assert.deepEqual(await cost('free'), [200, '0', undefined], 'an explicit zero is free');
  const before = up.calls.length;
  for (const model of ['unpriced', 'wild-new-name']) {
    assert.deepEqual(await cost(model), [403, '0', 'price_unknown'], model);
    assert.equal(up.calls.length, before, 'an unpriced call went to the provider');
  }
  await assertBalanced(g);
  assert.equal((await g.budget()).settled_nanousd, 45.5 * NANO);
  const [status] = await cost('unpriced', { authorization: `Bearer ${OTHER_KEY}` });
  assert.ok([200, 403].includes(status));
  await g.end();
  await up.stop();
});

test('B-03 a price that says nothing of the output is taken for one of zero', async () => {
  const g = new Gateway((dir) => dollars({ url: 'http://127.0.0.1:1' }, { prices: { models: { half: { input: '1 USD/1' } } } })(dir));
  const r = await run(['check', '-c', g.file]);
  assert.equal(r.code, 1);
  assert.match(r.out + r.err, /'output' is missing/);
});

test('B-03 a default price for unknown models is charged', async () => {
  const h = await house(answer(7), (up) => dollars(up, { prices: { unknown: { input: '0 USD/1', output: '5 USD/1' } }, aliases: { m: 'up/never-heard-of' } }));
  assert.equal((await call(h.g, { max_tokens: 7 }).done).headers['x-tollgate-cost'], '35');
  await assertBalanced(h.g);
  await h.end();
});

// ---- B-04 ----

const endpoints = {
  chat: ['/v1/chat/completions', { model: 'm', messages, max_tokens: 5 }],
  'chat stream': ['/v1/chat/completions', { model: 'm', messages, max_tokens: 5, stream: true }],
  completions: ['/v1/completions', { model: 'm', prompt: 'Hello', max_tokens: 5 }],
  'completions stream': ['/v1/completions', { model: 'm', prompt: 'Hello', max_tokens: 5, stream: true }],
  embeddings: ['/v1/embeddings', { model: 'm', input: 'Hello' }],
  responses: ['/v1/responses', { model: 'm', input: 'Hello', max_output_tokens: 5 }],
  'responses stream': ['/v1/responses', { model: 'm', input: 'Hello', max_output_tokens: 5, stream: true }],
  messages: ['/v1/messages', { model: 'c', messages, max_tokens: 5 }],
  'messages stream': ['/v1/messages', { model: 'c', messages, max_tokens: 5, stream: true }],
  count_tokens: ['/v1/messages/count_tokens', { model: 'c', messages }],
};

function anyProvider(q, r, c) {
  const at = c.url.split('?')[0];
  const event = (v) => `event: ${v.type}\ndata: ${JSON.stringify(v)}\n\n`;
  if (at.endsWith('/count_tokens')) return json(r, { input_tokens: 4 });
  if (at.endsWith('/embeddings')) return json(r, { object: 'list', model: 'x', data: [{ object: 'embedding', index: 0, embedding: [0.5] }], usage: { prompt_tokens: 4, total_tokens: 4 } });
  if (at.endsWith('/messages')) {
    const whole = { id: 'msg_1', type: 'message', role: 'assistant', model: 'x', content: [{ type: 'text', text: 'Hi' }], stop_reason: 'end_turn', stop_sequence: null, usage: { input_tokens: 4, output_tokens: 3 } };
    if (!c.body.stream) return json(r, whole);
    return sse(r, [{ type: 'message_start', message: { ...whole, content: [], stop_reason: null, usage: { input_tokens: 4, output_tokens: 0 } } }, { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hi' } }, { type: 'content_block_stop', index: 0 }, { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 3 } }, { type: 'message_stop' }].map(event).join(''));
  }
  if (at.endsWith('/responses')) {
    const whole = { id: 'resp_1', object: 'response', created_at: 1, status: 'completed', model: 'x', output: [{ id: 'm1', type: 'message', status: 'completed', role: 'assistant', content: [{ type: 'output_text', text: 'Hi', annotations: [] }] }], usage: { input_tokens: 4, output_tokens: 3, total_tokens: 7 } };
    if (!c.body.stream) return json(r, whole);
    return sse(r, [{ type: 'response.created', sequence_number: 0, response: { ...whole, status: 'in_progress', output: [], usage: null } }, { type: 'response.output_text.delta', sequence_number: 1, item_id: 'm1', output_index: 0, content_index: 0, delta: 'Hi' }, { type: 'response.completed', sequence_number: 2, response: whole }].map(event).join(''));
  }
  const usage = { prompt_tokens: 4, completion_tokens: 3, total_tokens: 7 };
  if (at.endsWith('/chat/completions')) return c.body.stream ? sse(r, data(chunk({ role: 'assistant', content: 'Hi' })) + data(chunk({}, 'stop')) + data({ ...chunk({}), choices: [], usage }) + 'data: [DONE]\n\n') : json(r, completion('Hi', { usage }));
  const text = { id: 'cmpl-1', object: 'text_completion', created: 1, model: 'x', choices: [{ index: 0, text: 'Hi', finish_reason: 'stop', logprobs: null }], usage };
  return c.body.stream ? sse(r, data({ ...text, usage: null, choices: [{ ...text.choices[0], finish_reason: null }] }) + data({ ...text, usage: null, choices: [{ ...text.choices[0], text: '' }] }) + data({ ...text, choices: [] }) + 'data: [DONE]\n\n') : json(r, text);
}

const everywhere = (limit) => (up) => (dir) => confOf(dir, {
  backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY] }, c: { protocol: 'anthropic', url: up.url, api_keys: [PROVIDER_KEY] } }, aliases: { m: 'up/x', c: 'c/x' },
  prices: { unknown: { input: '1 USD/1', output: '1 USD/1' } }, hold: wide, teams: { search: teamOf({ budgets: month(limit) }) },
});

test('B-04 some endpoints skip the budget', async () => {
  const h = await house(anyProvider, everywhere(1));
  for (const [name, [path, body]] of Object.entries(endpoints)) for (const way of [path, path.slice(3), `/v1${path}`, `${path}/`, path.replace('/v1/', '//v1//'), path.replace('e', '%65'), `${path}?beta=true`]) {
    const c = await call(h.g, JSON.stringify(body), { path: way }).done;
    if (name === 'count_tokens' && c.status === 200) continue; // free at the provider
    assert.equal(c.status, 402, `${name} at ${way}: ${c.status} ${c.text.slice(0, 200)}`);
  }
  for (const path of ['/V1/chat/completions', '/v1/Embeddings', '/v1/images/generations', '/v1/audio/speech', '/v1/batches', '/v1/realtime', '/v1/moderations', '/v1/fine_tuning/jobs'])
    assert.ok([402, 404].includes((await call(h.g, JSON.stringify(endpoints.chat[1]), { path }).done).status), path);
  assert.deepEqual(h.up.calls.filter((c) => !c.url.includes('count_tokens')), [], 'a provider was called without money');
  for (const path of ['/v1/models', '/v1/models/m', '/v1/key', '/healthz']) assert.equal((await call(h.g, undefined, { path }).done).status, 200, path);
  await h.end();
});

test('B-04 some endpoints skip the log, or are charged for other tokens', async () => {
  const h = await house(anyProvider, everywhere(1000000));
  for (const [name, [path, body]] of Object.entries(endpoints)) {
    const c = await call(h.g, JSON.stringify(body), { path }).done;
    assert.equal(c.status, 200, `${name}: ${c.text.slice(0, 300)}`);
    const id = c.headers['x-request-id'];
    const settle = await h.g.settled(id);
    assert.equal(settle.kind, 'settle', name);
    assert.equal(h.g.records().filter((r) => r.request === id && ['settle', 'refuse'].includes(r.kind)).length, 1, name);
    if (name === 'count_tokens') continue;
    const out = name === 'embeddings' ? 0 : 3;
    assert.deepEqual([settle.usage.in, settle.usage.out ?? 0, settle.cost_nanousd, settle.estimated ?? false], [4, out, (4 + out) * NANO, false], name);
    if (!body.stream) assert.equal(Number(c.headers['x-tollgate-cost']), 4 + out, name);
  }
  await assertBalanced(h.g);
  await h.end();
});

// ---- B-07 ----

test('B-07 retries and fallbacks make two rows, or lose what a broken try cost', async () => {
  let first;
  const up = await mock((q, r, c) => (c.body.model === 'a' ? first(q, r, c) : json(r, used(10))));
  const g = await new Gateway((dir) => confOf(dir, {
    backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY], models: { a: dollar, b: dollar } } }, health: { samples: 10000 },
    aliases: { m: [ 'up/a', 'up/b' ] }, hold: wide, teams: { search: teamOf({ budgets: month(100000) }) },
  })).start();
  const rows = (id) => g.records().filter((r) => r.request === id && ['settle', 'refuse'].includes(r.kind));
  first = (q, r) => json(r, { error: { message: 'down' } }, 503);
  const after = await call(g, { max_tokens: 20 }).done;
  assert.equal(after.status, 200);
  assert.equal(after.headers['x-tollgate-attempts'], '2');
  assert.equal(after.headers['x-tollgate-cost'], '10', 'a try that gave nothing costs nothing');
  await g.settled(after.headers['x-request-id']);
  const [row, ...more] = rows(after.headers['x-request-id']);
  assert.equal(more.length, 0);
  assert.deepEqual(row.attempts.map((a) => [a.target, a.status]), [['up/a', 503], ['up/b', 200]]);
  assert.equal(row.cost_nanousd, 10 * NANO);
  // Content, then a cut: no second try, and what was relayed is charged as an estimate.
  first = (q, r) => { sse(r); r.write(data(chunk({ role: 'assistant', content: 'forty words or so' }))); setImmediate(() => r.destroy()); };
  const before = up.calls.length;
  const cut = await call(g, { max_tokens: 20, stream: true }).done;
  assert.equal(up.calls.length, before + 1, 'a stream that had begun was begun again');
  assert.ok(!cut.text.includes('[DONE]'));
  const half = await g.settled(cut.headers['x-request-id']);
  assert.ok(half.estimated && half.cost_nanousd > 0 && half.cost_nanousd <= 20 * NANO && half.code, JSON.stringify(half));
  // Usage that came before the cut is the provider's word: it is what is charged, exactly once.
  first = (q, r) => { sse(r); r.write(data(chunk({ role: 'assistant', content: 'x' }, null, { usage: { prompt_tokens: 5, completion_tokens: 4, total_tokens: 9 } }))); setImmediate(() => r.destroy()); };
  const told = await call(g, { max_tokens: 20, stream: true }).done;
  assert.equal((await g.settled(told.headers['x-request-id'])).cost_nanousd, 4 * NANO);
  await assertBalanced(g);
  await g.end();
  await up.stop();
});

test('B-07 the same idempotency key twice at once is two calls', async () => {
  const open = gate();
  const h = await house(async (q, r, c) => { await open.open; answer(3)(q, r, c); }, (up) => dollars(up));
  const headers = { 'idempotency-key': 'once' };
  const first = call(h.g, { max_tokens: 5 }, { headers });
  await until(() => h.up.calls.length === 1, 'the first');
  const second = await call(h.g, { max_tokens: 5 }, { headers }).done;
  assert.deepEqual([second.status, second.json().error.code], [409, 'idempotency_conflict']);
  const foreign = await call(h.g, { max_tokens: 5 }, { headers: { 'idempotency-key': 'other' } }); // another key of the same caller runs
  await until(() => h.up.calls.length === 2, 'the other');
  open.go();
  await Promise.all([first.done, foreign.done]);
  assert.equal(first.status, 200);
  assert.equal(h.up.calls[0].headers['idempotency-key'], 'once');
  assert.equal((await call(h.g, { max_tokens: 5 }, { headers }).done).status, 200, 'the key is free again');
  assert.equal(settles(h.g).length, 3);
  await assertBalanced(h.g);
  await h.end();
});

// ---- B-08 ----

test('B-08 SIGTERM under load loses rows, or cuts running streams', async () => {
  const open = gate();
  const up = await mock(async (q, r, c) => {
    if (!c.body.stream) return json(r, used(1));
    sse(r);
    r.write(data(chunk({ role: 'assistant', content: 'Hel' })));
    await open.open;
    return r.end(usedStream(2));
  });
  const g = await new Gateway(dollars(up, {}, { budgets: month(100000), rate_limits: { in_flight: 1000 } })).start();
  const streams = Array.from({ length: 40 }, () => call(g, { stream: true, max_tokens: 5 }));
  const plain = [];
  await until(() => streams.every((c) => c.text.includes('Hel')), 'the streams to run');
  for (let i = 0; i < 200; i++) plain.push(call(g, { max_tokens: 1 }));
  await until(() => plain.filter((c) => c.status).length > 50, 'load');
  g.child.kill('SIGTERM');
  await until(() => /draining/.test(g.log), 'the drain to begin');
  await Promise.all(plain.map((c) => c.done));
  assert.ok(!g.dead, 'it waits for the streams');
  const late = await call(g, { max_tokens: 1 }).done;
  assert.equal(late.status, undefined, 'no new connection is taken');
  open.go();
  await Promise.all(streams.map((c) => c.done));
  assert.ok(streams.every((c) => c.whole && c.text.includes('[DONE]')), 'every running stream ends well');
  assert.equal(await g.exited, 0);
  const rows = settles(g);
  assert.equal(rows.length, up.calls.length, 'one row a call that the provider saw');
  const told = new Set(rows.map((r) => r.request));
  for (const c of [...streams, ...plain]) if (c.status === 200) assert.ok(told.has(c.headers['x-request-id']));
  assert.equal(g.records().at(-1).kind === 'stop' || g.records().at(-1).kind === 'head', true);
  const verdict = await run(['audit', 'verify', `${g.dir}/audit`]);
  assert.equal(verdict.code, 0, verdict.out + verdict.err);
  await g.start();
  assert.equal((await g.budget()).settled_nanousd, sum(rows));
  await g.end();
  await up.stop();
});

// ---- B-09 ----

test('B-09 a cached reply is billed', async () => {
  const h = await house(anyProvider, (up) => (dir) => ({ ...everywhere(1000000)(up)(dir), aliases: { m: { ladder: [{ targets: ['up/x'] }], cache: { enabled: true } }, c: { ladder: [{ targets: ['c/x'] }], cache: { enabled: true } } } }));
  for (const [name, [path, body]] of Object.entries(endpoints)) {
    if (name === 'count_tokens') continue;
    const ask = JSON.stringify({ ...body, ...(name === 'embeddings' ? {} : { temperature: 0, top_p: 1, ...(name.includes('responses') ? { store: false } : {}), ...(name.includes('stream') ? { seed: 1 } : {}) }), ...(body.stream && path.endsWith('chat/completions') ? { stream_options: { include_usage: true } } : {}) });
    const first = await call(h.g, ask, { path }).done;
    assert.equal(first.status, 200, `${name}: ${first.text}`);
    assert.equal(first.headers['x-tollgate-cache'], 'miss', name);
    await h.g.settled(first.headers['x-request-id']);
    const before = (await h.g.budget()).settled_nanousd, asked = h.up.calls.length;
    const hit = await call(h.g, ask, { path }).done;
    assert.equal(hit.status, 200, name);
    assert.equal(hit.headers['x-tollgate-cache'], 'hit', name);
    assert.ok(Number(hit.headers.age) >= 0, name);
    const row = await h.g.settled(hit.headers['x-request-id']);
    assert.deepEqual([row.cache, row.cost_nanousd], ['hit', 0], name);
    assert.equal((await h.g.budget()).settled_nanousd, before, name);
    assert.equal(h.up.calls.length, asked, name);
    if (!body.stream) assert.equal(hit.headers['x-tollgate-cost'], '0', name);
    else if (path.endsWith('chat/completions')) assert.match(hit.text, /"cost":0[,}]/, `${name}: ${hit.text}`);
  }
  await assertBalanced(h.g);
  await h.end();
});

// ---- B-10 ----

test('B-10 a client picks who pays', async () => {
  const up = await mock(answer(3));
  const g = await new Gateway((dir) => ({ ...dollars(up)(dir), teams: { search: teamOf({ caller_labels: ['feature'], labels: { cost_center: '4711' } }), rich: teamOf({ budgets: month(1000) }, OTHER_KEY, 'richkey1') } })).start();
  const spoof = { 'x-tollgate-team': 'rich', 'x-tollgate-key': 'richkey1', 'x-tollgate-cost': '0', 'x-tollgate-user': 'richkey1', 'x-team-id': 'rich', 'x-litellm-end-user-id': 'richkey1', 'openai-organization': 'rich', 'x-tollgate-target': 'free', 'x-tollgate-budget-remaining': '9' };
  const fields = { user: 'richkey1', metadata: { team: 'rich', budget: '0', tags: 'free', user_api_key: 'richkey1' }, team: 'rich', max_budget: 0, safety_identifier: 'richkey1', tollgate: { team: 'rich', cost: 0 } };
  const c = await call(g, { max_tokens: 5, ...fields }, { headers: spoof, path: '/v1/chat/completions?team=rich&user=richkey1' }).done;
  assert.equal(c.status, 200);
  const row = await g.settled(c.headers['x-request-id']);
  assert.deepEqual([row.team, row.key_id, row.cost_nanousd], ['search', 'testkey1', 3 * NANO]);
  assert.ok(!JSON.stringify(up.calls[0].raw).includes('rich'));
  assert.equal((await g.budget('team', 'rich')).settled_nanousd, 0);
  for (const labels of ['cost_center=1', 'team=rich', 'feature=a,key=richkey1', '=x', 'Feature']) assert.equal((await call(g, { max_tokens: 5 }, { headers: { 'x-tollgate-labels': labels } }).done).status, 400, labels);
  const labelled = await call(g, { max_tokens: 5 }, { headers: { 'x-tollgate-labels': 'feature=find' } }).done;
  assert.deepEqual((await g.settled(labelled.headers['x-request-id'])).labels, { cost_center: '4711', feature: 'find' });
  await assertBalanced(g);
  await g.end();
  await up.stop();
});

// ---- B-12 ----

test('B-12 free or open things are blocked when the budget is gone', async () => {
  const up = await mock(answer(5));
  const g = await new Gateway((dir) => confOf(dir, {
    backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY], models: { 'model-x': dollar, free: { price: { input: '0 USD/1', output: '0 USD/1' } } } } },
    aliases: { m: 'up/model-x', free: 'up/free', both: { ladder: [{ targets: ['up/model-x'] }, { targets: ['up/free'], degraded: true, only_for: ['budget'] }] } }, hold: wide, teams: { search: teamOf({ budgets: month(5) }) },
  })).start();
  assert.equal((await call(g, { max_tokens: 5 }).done).status, 200);
  assert.equal((await call(g, { max_tokens: 1 }).done).status, 402);
  assert.equal((await call(g, { max_tokens: 50, model: 'free' }).done).status, 200, 'an explicit zero price stays open');
  const degraded = await call(g, { max_tokens: 50, model: 'both' }).done;
  assert.deepEqual([degraded.status, degraded.headers['x-tollgate-degraded']], [200, 'budget']);
  const own = await call(g, undefined, { path: '/v1/key' }).done;
  assert.equal(own.status, 200);
  assert.deepEqual(own.json().budgets.map((b) => [b.limit, b.spent, b.remaining]), [[5, 5, 0]]);
  for (const path of ['/v1/models', '/v1/models/m']) assert.equal((await call(g, undefined, { path }).done).status, 200, path);
  await assertBalanced(g);
  await g.end();
  await up.stop();
});

// ---- B-14 ----

test('B-14 probes and internal calls show up as spend', async () => {
  const h = await house(answer(977), (up) => dollars(up));
  const rows = h.g.records().length;
  for (let i = 0; i < 20; i++) {
    for (const path of ['/healthz', '/readyz', '/']) assert.equal((await call(h.g, undefined, { path, headers: { authorization: null } }).done).status, 200, path);
    for (const path of ['/healthz', '/readyz', '/metrics', '/admin/targets', '/admin/spend']) assert.equal((await h.g.admin(path)).status, 200, path);
  }
  assert.equal(h.up.calls.length, 0, 'a look at the gateway called a provider');
  assert.equal(h.g.records().filter((r) => r.kind !== 'head').length, rows, 'a look at the gateway left a record');
  assert.equal((await h.g.budget()).settled_nanousd, 0);
  await h.end();
});

// ---- at the limit, by the built binary ----

const conf = (g) => ['-c', g.file];
const tell = (g, args) => run([...args, ...conf(g), '--admin', g.adminUrl]);

test('a raised budget does not survive a restart, goes past conf\'s raise_limit, or never ends', { timeout: 60000 }, async () => {
  const up = await mock(answer(10));
  const g = await new Gateway((dir) => ({ ...dollars(up, {}, { budgets: month(10), raise_limit: '50%' })(dir), state: { directory: join(dir, 'state'), writable: ['keys', 'budgets'] } })).start();
  const allowed = async (n) => (await call(g, { max_tokens: n }).done).status;
  assert.equal(await allowed(11), 402);
  for (const [args, words] of [[['--by', '60%'], /5 USD at the most/], [['--by', '6 USD'], /at the most/], [['--by', 'much'], /by: money/], [['--by', '10%', '--for', 'ever'], /for: a time/]]) {
    const r = await tell(g, ['budget', 'raise', '--team', 'search', '--reason', 'r', ...args]);
    assert.deepEqual([r.code, words.test(r.err)], [1, true], r.err);
  }
  assert.equal((await tell(g, ['budget', 'raise', '--team', 'nobody', '--by', '1%', '--reason', 'r'])).code, 1);
  const raised = await tell(g, ['budget', 'raise', '--team', 'search', '--by', '5USD', '--for', '1h', '--reason', 'launch', '--format', 'json']);
  assert.equal(raised.code, 0, raised.err);
  const said = JSON.parse(raised.out);
  assert.deepEqual([said.budget, said.before, said.limit, said.conf_limit], ['team/search/month@UTC', 10, 15, 10]);
  const first = await call(g, { max_tokens: 10 }).done;
  assert.deepEqual([first.status, first.headers['x-tollgate-budget-remaining']], [200, '5']);
  const act = g.records().find((r) => r.kind === 'admin' && r.what === 'budget raised');
  assert.deepEqual([act.scope, act.before, act.after, act.reason, act.role], ['team/search/month@UTC', '10', '15', 'launch', 'operator']);
  const budget = (await (await g.admin('/admin/budgets')).json()).budgets[0];
  assert.deepEqual([budget.limit, budget.raised_by], [15, 5]);
  const { overrides } = await (await g.admin('/readyz')).json();
  assert.deepEqual(overrides.map((o) => [o.name, o.value, o.reason, o.admin_seq]), [['budget/team/search/month@UTC', '5 USD on top', 'launch', act.seq]]);
  assert.match((await run(['config', '--effective', ...conf(g)])).out, /budget\/team\/search\/month@UTC: 5 USD on top {2}# admin#\d+ by admin until/);
  await g.stop('SIGKILL');
  await g.start();
  assert.equal(await allowed(6), 402);
  assert.equal(await allowed(5), 200, 'the raise stands after a crash');
  assert.equal((await tell(g, ['budget', 'raise', '--team', 'search', '--by', '0%', '--reason', 'over'])).code, 0);
  assert.equal((await (await g.admin('/admin/budgets')).json()).budgets[0].limit, 10);
  assert.equal(await allowed(1), 402);
  await g.end();
  await up.stop();
});

test('a budget is raised although conf does not let state widen it, or by somebody who may not', async () => {
  const h = await house(answer(1), (up) => dollars(up, {}, { budgets: month(10), raise_limit: '50%' }));
  const r = await tell(h.g, ['budget', 'raise', '--team', 'search', '--by', '1%', '--reason', 'r']);
  assert.deepEqual([r.code, /state.writable lacks budgets/.test(r.err)], [1, true], r.err);
  const bare = await h.g.admin('/admin/budgets/raise', 'POST', {}, 'nobody');
  assert.equal(bare.status, 401);
  await h.end();
});

test('a paused team goes on calling, or nobody can see why it may not', async () => {
  const h = await house(answer(1), (up) => dollars(up, {}, { budgets: month(10) }));
  assert.equal((await tell(h.g, ['team', 'pause', 'search'])).code, 1, 'without a reason');
  assert.equal((await tell(h.g, ['team', 'pause', 'serch', '--reason', 'r'])).code, 1);
  const paused = await tell(h.g, ['team', 'pause', 'search', '--reason', 'a leak', '--for', '2h']);
  assert.equal(paused.code, 0, paused.err);
  const c = await call(h.g, { max_tokens: 1 }).done;
  assert.deepEqual([c.status, c.json().error.type, c.headers['x-should-retry']], [403, 'permission_error', 'false']);
  assert.match(c.json().error.message, /The team search is paused until .*: a leak/);
  assert.equal((await call(h.g, undefined, { path: '/v1/key' }).done).status, 200, 'the key itself is open');
  assert.equal(h.up.calls.length, 0);
  assert.equal((await tell(h.g, ['team', 'resume', 'search', '--reason', 'found'])).code, 0);
  assert.equal((await call(h.g, { max_tokens: 1 }).done).status, 200);
  const acts = h.g.records().filter((r) => r.kind === 'admin').map((r) => [r.what, r.team, r.before, r.after, r.reason]);
  assert.deepEqual(acts, [['team paused', 'search', 'running', 'paused', 'a leak'], ['team resumed', 'search', 'paused', 'running', 'found']]);
  await h.end();
});

test('a warning is told at every call, or again after a restart', { timeout: 60000 }, async () => {
  const h = await house(answer(30), (up) => dollars(up, {}, { budgets: [{ limit: '100 USD', period: 'month', warn: ['50%', '80%'] }] }));
  const notes = () => h.g.records().filter((r) => r.kind === 'note' && r.what === 'budget_warn').map((r) => r.after);
  assert.equal((await call(h.g, { max_tokens: 30 }).done).headers['x-tollgate-budget-warning'], undefined);
  for (let i = 0; i < 2; i++) assert.equal((await call(h.g, { max_tokens: 30 }).done).headers['x-tollgate-budget-warning'], i ? '80%; level=team' : '50%; level=team');
  assert.deepEqual(notes(), ['50%', '80%']);
  assert.match(await (await h.g.admin('/metrics')).text(), /tollgate_budget_events_total\{event="budget_warn",level="team",scope="search",period="month"\} 2/);
  await h.g.stop('SIGKILL');
  await h.g.start();
  assert.equal((await call(h.g, { max_tokens: 5 }).done).headers['x-tollgate-budget-warning'], '80%; level=team');
  await h.g.idle();
  assert.deepEqual(notes(), ['50%', '80%']);
  await h.end();
});

test('a held call starves the rest: one key takes its share of a budget and no more', async () => {
  const open = gate();
  const up = await mock(async (q, r, c) => { await open.open; answer(1)(q, r, c); });
  const g = await new Gateway(dollars(up, { hold: { max_share_key: '25%', max_share_team: '100%' } }, { keys: [key(), { id: 'otherke1', name: 'other', sha256: sha256(OTHER_KEY) }], budgets: month(100) })).start();
  const first = call(g, { max_tokens: 20 });
  await until(() => up.calls.length === 1, 'the first call');
  const second = await call(g, { max_tokens: 10 }).done;
  assert.deepEqual([second.status, second.json().error.code, second.headers['retry-after']], [429, 'hold_limit', '1']);
  const other = call(g, { max_tokens: 20 }, { headers: { authorization: `Bearer ${OTHER_KEY}` } });
  await until(() => up.calls.length === 2, 'the other key\'s call');
  open.go();
  assert.deepEqual([(await first.done).status, (await other.done).status], [200, 200]);
  await assertBalanced(g);
  await g.end();
  await up.stop();
});

test('over Redis, rates and hold are one question, and who is over a rate limit hears of that before anything else', { timeout: 60000 }, async () => {
  const redis = await new Redis().start();
  const h = await house(answer(1), dollars, { redis: { url: redis.url, timeout: '2s' }, hold: { ...wide, slice: '0%' } },
    { rate_limits: { requests_per_minute: 4 }, max_cost_per_call: '5 USD', budgets: month(20) });
  await until(async () => (await (await h.g.admin('/readyz')).json()).ledger === 'redis', 'the ledger to open', 15000);
  const said = async (headers, most) => {
    const r = await h.g.chat({ messages, max_tokens: most }, headers);
    return [r.status, (await r.json()).error?.code];
  };
  assert.deepEqual(await said({}, 1), [200, undefined]);
  assert.equal(await h.g.metric('ledger_steps_total'), 1, 'one hold was asked');
  const text = await (await h.g.admin('/metrics')).text();
  assert.match(text, /ledger_steps_total\{what="rate",way="with_hold"\} 1\n/);
  assert.match(text, /ledger_steps_total\{what="rate",way="asked"\} 0\n/);
  assert.deepEqual(await said({ 'x-tollgate-require': 'nowhere' }, 1), [403, 'no_permitted_target']);
  assert.deepEqual(await said({}, 6), [402, 'budget_exceeded']);
  assert.deepEqual(await said({}, 1), [200, undefined]);
  for (const [headers, most] of [[{ 'x-tollgate-require': 'nowhere' }, 1], [{}, 6], [{}, 1]])
    assert.deepEqual(await said(headers, most), [429, 'rate_limit_exceeded']);
  await assertBalanced(h.g);
  await h.end();
  await redis.end();
});
