// The cache, from outside: what is one answer for two, what never is, and who goes to the provider when many ask at once.
import test from 'node:test';
import assert from 'node:assert/strict';
import {
  KEY, OTHER_KEY, PROVIDER_KEY, call, chunk, completion, confOf, data, events, gate, house, json, mock, sha256, sse, streamOf, teamOf, until,
} from './harness.mjs';

const messages = [{ role: 'user', content: 'Hello' }];
const cached = (over = {}) => ({ ladder: [{ targets: ['up/model-x'] }], cache: { enabled: true, ttl: '1h', ...over } });
const THIRD = 'sk-test-third-0123456789abcdefghijklmnop';
const keys = { keys: [{ id: 'testkey1', name: 'one', sha256: sha256(KEY) }, { id: 'testkey3', name: 'three', sha256: sha256(THIRD) }] };
const caching = (up, over = {}) => (dir) => confOf(dir, {
  backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY] }, c: { protocol: 'anthropic', url: up.url, api_keys: [PROVIDER_KEY] } },
  aliases: { m: cached(), byKey: cached({ scope: 'key' }), plain: 'up/model-x', c: { ladder: [{ targets: ['c/claude-x'] }], cache: { enabled: true } } },
  teams: { search: teamOf({ ...keys, rate_limits: { in_flight: 5000 } }), other: teamOf({}, OTHER_KEY, 'otherkey') }, health: { samples: 100000 }, ...over,
});
/** A provider that counts: each of its answers says which it is. */
const counting = () => {
  let n = 0;
  return (q, r, c) => {
    const text = `answer ${++n}`;
    if (c.url.includes('/messages')) return json(r, { id: 'msg_1', type: 'message', role: 'assistant', model: 'x', content: [{ type: 'text', text }], stop_reason: 'end_turn', stop_sequence: null, usage: { input_tokens: 4, output_tokens: 3 } });
    if (c.url.includes('/responses')) return json(r, { id: 'resp_1', object: 'response', created_at: 1, status: 'completed', model: 'x', output: [{ id: 'm1', type: 'message', status: 'completed', role: 'assistant', content: [{ type: 'output_text', text, annotations: [] }] }], usage: { input_tokens: 4, output_tokens: 3, total_tokens: 7 } });
    return c.body.stream ? sse(r, streamOf([text])) : json(r, completion(text));
  };
};
const det = { temperature: 0 };
const how = (c) => c.headers['x-tollgate-cache'];

// ---- C-01 ----

test('C-01 the key ignores what changes the answer', async () => {
  const h = await house(counting(), caching);
  const base = { model: 'm', messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }, { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] }], temperature: 0 };
  const ask = async (body, options) => { const c = await call(h.g, JSON.stringify(body), options).done; assert.equal(c.status, 200, c.text); return how(c); };
  const f = (name) => ({ type: 'function', function: { name, parameters: { type: 'object' } } });
  const content = (over) => ({ messages: [{ ...base.messages[0], ...over }] });
  const changes = {
    top_p: { top_p: 0.5 }, seed: { seed: 1 }, 'another seed': { seed: 2 }, max_tokens: { max_tokens: 5 }, 'another max_tokens': { max_tokens: 6 }, max_completion_tokens: { max_completion_tokens: 5 }, stop: { stop: ['x'] }, presence_penalty: { presence_penalty: 1 },
    frequency_penalty: { frequency_penalty: 1 }, logit_bias: { logit_bias: { 5: 1 } }, logprobs: { logprobs: true }, top_logprobs: { logprobs: true, top_logprobs: 2 }, response_format: { response_format: { type: 'json_object' } },
    schema: { response_format: { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'object' } } } }, 'another schema': { response_format: { type: 'json_schema', json_schema: { name: 'b', schema: { type: 'object' } } } }, tools: { tools: [f('a')] }, 'other tools': { tools: [f('b')] },
    'two tools': { tools: [f('a'), f('b')] }, 'two tools turned': { tools: [f('b'), f('a')] }, tool_choice: { tools: [f('a')], tool_choice: 'none' }, parallel_tool_calls: { tools: [f('a')], parallel_tool_calls: false }, reasoning_effort: { reasoning_effort: 'low' },
    'an unknown field': { provider_options: { a: 1 } }, 'another value of it': { provider_options: { a: 2 } }, extra_body: { extra_body: { x: 1 } }, null: { stop: null },
    name: content({ name: 'Anna' }), role: content({ role: 'system' }), 'a text': content({ content: 'Hello' }), 'a text with a space': content({ content: 'Hello ' }), 'image bytes': content({ content: [base.messages[0].content[0], { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAB' } }] }),
    'image detail': content({ content: [base.messages[0].content[0], { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: 'low' } }] }), 'another message': { messages: [...base.messages, { role: 'assistant', content: 'x' }] },
    tool_call_id: { messages: [...base.messages, { role: 'assistant', content: null, tool_calls: [{ id: 't1', type: 'function', function: { name: 'a', arguments: '{}' } }] }, { role: 'tool', tool_call_id: 't1', content: 'x' }] },
    'another tool_call_id': { messages: [...base.messages, { role: 'assistant', content: null, tool_calls: [{ id: 't2', type: 'function', function: { name: 'a', arguments: '{}' } }] }, { role: 'tool', tool_call_id: 't2', content: 'x' }] },
  };
  assert.equal(await ask(base), 'miss');
  assert.equal(await ask(base), 'hit');
  for (const [name, change] of Object.entries(changes)) {
    assert.equal(await ask({ ...base, ...change }), 'miss', name);
    assert.equal(await ask({ ...base, ...change }), 'hit', name);
  }
  assert.equal(await ask(base), 'hit');
  // What is neutral is left out of the key, and only that.
  for (const [name, neutral] of Object.entries({ user: { user: 'u' }, metadata: { metadata: { a: 'b' } }, stream: { stream: true }, stream_options: { stream: true, stream_options: { include_usage: true } }, safety_identifier: { safety_identifier: 's' }, service_tier: { service_tier: 'auto' }, 'store false': { store: false }, prompt_cache_key: { prompt_cache_key: 'k' } }))
    assert.equal(await ask({ ...base, ...neutral }), 'hit', name);
  // Forwarded headers, endpoints and dialects.
  const claude = { model: 'c', max_tokens: 9, messages, temperature: 0 };
  const beta = (value) => ({ path: '/v1/messages', headers: value ? { 'anthropic-beta': value } : {} });
  assert.deepEqual([await ask(claude, beta()), await ask(claude, beta()), await ask(claude, beta('a')), await ask(claude, beta('b')), await ask(claude, beta('a'))], ['miss', 'hit', 'miss', 'miss', 'hit']);
  assert.deepEqual([await ask(claude, { path: '/v1/messages', headers: { 'anthropic-version': '2024-01-01' } }), await ask(claude, { path: '/v1/messages?beta=true' })], ['miss', 'miss']);
  assert.equal(await ask({ ...base, model: 'byKey' }), 'miss', 'another alias');
  await h.end();
});

test('C-01 an alias that points elsewhere keeps its old answers', async () => {
  const second = await mock(counting());
  const h = await house(counting(), caching);
  const ask = async () => { const c = await call(h.g, det).done; return [how(c), c.json().choices[0].message.content]; };
  assert.deepEqual([await ask(), await ask()], [['miss', 'answer 1'], ['hit', 'answer 1']]);
  const reload = async (over) => { h.g.write({ ...h.g.conf, ...over }); assert.equal((await h.g.admin('/admin/reload', 'POST')).status, 200); };
  const before = { ...h.g.conf };
  await reload({ cache: { ttl: '2h' } });
  assert.equal((await ask())[0], 'hit', 'a reload alone loses nothing');
  await reload({ aliases: { ...before.aliases, m: { ladder: [{ targets: ['up/model-y'] }], cache: { enabled: true } } } });
  assert.deepEqual(await ask(), ['miss', 'answer 2']);
  await reload({ aliases: before.aliases, backends: { ...before.backends, up: { ...before.backends.up, url: `${second.url}/v1` } } });
  assert.deepEqual(await ask(), ['miss', 'answer 1'], 'the same name at another address');
  await reload(before);
  assert.deepEqual(await ask(), ['hit', 'answer 1']);
  await second.stop();
  await h.end();
});

// ---- C-02 ----

test("C-02 one tenant gets another's reply, or a hit comes before the key is checked", async () => {
  const h = await house(counting(), caching);
  const as = async (key, body = det, headers = {}) => { const c = await call(h.g, body, { headers: { authorization: key ? `Bearer ${key}` : null, ...headers } }).done; return [c.status, how(c)]; };
  assert.deepEqual(await as(KEY), [200, 'miss']);
  assert.deepEqual(await as(THIRD), [200, 'hit'], 'one team shares');
  assert.deepEqual(await as(OTHER_KEY), [200, 'miss'], 'another team does not');
  assert.deepEqual(await as(OTHER_KEY, { ...det, user: 'testkey1', metadata: { team: 'search' } }, { 'x-tollgate-team': 'search', 'x-tollgate-cache-scope': 'global' }), [200, 'hit'], 'its own');
  assert.equal(h.up.calls.length, 2);
  assert.deepEqual([await as(KEY, { ...det, model: 'byKey' }), await as(THIRD, { ...det, model: 'byKey' }), await as(THIRD, { ...det, model: 'byKey' })], [[200, 'miss'], [200, 'miss'], [200, 'hit']], 'by key');
  assert.deepEqual([(await as(null))[0], (await as('sk-nobody-knows-this-key'))[0]], [401, 401]);
  h.g.write({ ...h.g.conf, teams: { ...h.g.conf.teams, search: { ...h.g.conf.teams.search, allow: ['plain'] } } });
  assert.equal((await h.g.admin('/admin/reload', 'POST')).status, 200);
  assert.deepEqual(await as(KEY), [404, undefined], 'a model that is not allowed any more');
  assert.equal((await h.g.admin('/admin/keys/otherkey', 'DELETE')).status, 200);
  assert.equal((await as(OTHER_KEY))[0], 401, 'a revoked key');
  await h.end();
});

// ---- C-03 ----

test('C-03 errors, cut, filtered and half replies are kept', async () => {
  let kind;
  const open = gate();
  const half = data(chunk({ role: 'assistant', content: 'half' }));
  const kinds = {
    'a body shorter than its length': (q, r) => { r.writeHead(200, { 'content-type': 'application/json', 'content-length': '5000' }); r.write(JSON.stringify(completion('half'))); setImmediate(() => r.destroy()); },
    'chunks without the last': (q, r) => { r.writeHead(200, { 'content-type': 'application/json' }); r.write(JSON.stringify(completion('half')).slice(0, -1)); setImmediate(() => r.destroy()); },
    'a cut stream': (q, r) => { sse(r); r.write(half); setImmediate(() => r.destroy()); },
    'a stream without a finish': (q, r) => sse(r, half),
    'a stream with only [DONE]': (q, r) => sse(r, `${half}data: [DONE]\n\n`),
    'an error in the stream': (q, r) => sse(r, half + data({ error: { message: 'boom', type: 'server_error' } })),
    'finish length': (q, r, c) => (c.body.stream ? sse(r, half + data(chunk({}, 'length')) + 'data: [DONE]\n\n') : json(r, completion('half', { choices: [{ index: 0, message: { role: 'assistant', content: 'half' }, finish_reason: 'length' }] }))),
    'finish content_filter': (q, r, c) => (c.body.stream ? sse(r, half + data(chunk({}, 'content_filter')) + 'data: [DONE]\n\n') : json(r, completion('half', { choices: [{ index: 0, message: { role: 'assistant', content: 'half' }, finish_reason: 'content_filter' }] }))),
    'a 429': (q, r) => json(r, { error: { message: 'slow' } }, 429),
    'a 500': (q, r) => json(r, { error: { message: 'down' } }, 500),
    'a 400': (q, r) => json(r, { error: { message: 'no' } }, 400),
    'an error as a 200': (q, r) => json(r, { error: { message: 'no' } }),
    'an empty 200': (q, r) => { r.writeHead(200, { 'content-type': 'application/json' }); r.end(); },
    'no JSON': (q, r) => { r.writeHead(200, { 'content-type': 'application/json' }); r.end('<html>'); },
  };
  const healthy = counting();
  const h = await house((q, r, c) => (c.body.seed && c.healthy !== true && kinds[kind] && !done.has(c.text) ? (done.add(c.text), kinds[kind](q, r, c)) : healthy(q, r, c)), caching);
  const done = new Set();
  let seed = 0;
  for (kind of Object.keys(kinds)) for (const stream of [false, true]) {
    const body = { ...det, seed: ++seed, stream };
    await call(h.g, body).done;
    const next = await call(h.g, body).done;
    assert.equal(next.status, 200, `${kind}: ${next.text}`);
    assert.equal(how(next), 'miss', `${kind}, stream ${stream}, was kept`);
    assert.match(next.text, /answer \d/, kind);
  }
  // A client that leaves in the middle: what it had is not the answer of the next.
  h.up.answer = async (q, r) => { sse(r); r.write(half); await open.open; if (!r.destroyed) r.end(); };
  const left = call(h.g, { ...det, seed: 1000, stream: true });
  await until(() => left.text.includes('half'), 'half an answer');
  left.hangUp();
  await h.g.idle();
  h.up.answer = healthy;
  const after = await call(h.g, { ...det, seed: 1000, stream: true }).done;
  assert.equal(how(after), 'miss');
  assert.match(after.text, /answer/);
  open.go();
  await h.end();
});

test('C-03 an answer of a lower rung is kept as the first one\'s', async () => {
  const h = await house((q, r, c) => (c.body.model === 'a' && down ? json(r, { error: { message: 'down' } }, 503) : json(r, completion(c.body.model))), (up) => caching(up, { aliases: { m: { ladder: [{ targets: ['up/a'] }, { targets: ['up/b'] }], cache: { enabled: true } } } }));
  let down = true;
  const ask = async () => { const c = await call(h.g, det).done; return [how(c), c.json().choices[0].message.content]; };
  assert.deepEqual(await ask(), ['miss', 'b']);
  down = false;
  assert.deepEqual([await ask(), await ask()], [['miss', 'a'], ['hit', 'a']]);
  await h.end();
});

// ---- C-04 ----

const toolStream = [chunk({ role: 'assistant', content: null }), chunk({ tool_calls: [{ index: 0, id: 't0', type: 'function', function: { name: 'weather', arguments: '' } }] }), chunk({ tool_calls: [{ index: 0, function: { arguments: '{"city":"Zürich"}' } }] }),
  chunk({ tool_calls: [{ index: 1, id: 't1', type: 'function', function: { name: 'time', arguments: '{}' } }] }), chunk({}, 'tool_calls')].map(data).join('') + data({ ...chunk({}), choices: [], usage: { prompt_tokens: 9, completion_tokens: 7, total_tokens: 16 } }) + 'data: [DONE]\n\n';
const toolCalls = [{ id: 't0', type: 'function', function: { name: 'weather', arguments: '{"city":"Zürich"}' } }, { id: 't1', type: 'function', function: { name: 'time', arguments: '{}' } }];
const toolPlain = completion(null, { choices: [{ index: 0, message: { role: 'assistant', content: null, tool_calls: toolCalls }, finish_reason: 'tool_calls' }], usage: { prompt_tokens: 9, completion_tokens: 7, total_tokens: 16 } });

/** What an SDK would read out of a chat reply of either form. */
function read(c, stream) {
  if (!stream) {
    const v = c.json(), [choice] = v.choices;
    return { content: choice.message.content ?? '', tools: choice.message.tool_calls?.map(({ id, type, function: f }) => ({ id, type, function: f })) ?? [], finish: choice.finish_reason, usage: v.usage?.completion_tokens };
  }
  const seen = events(c.text);
  assert.equal(seen.at(-1), '[DONE]');
  const parts = seen.slice(0, -1).map((e) => JSON.parse(e));
  assert.equal(new Set(parts.map((p) => p.id)).size, 1, 'one id');
  assert.ok(parts.every((p) => p.object === 'chat.completion.chunk' && p.model === 'm'));
  const out = { content: '', tools: [], finish: undefined, usage: undefined };
  for (const p of parts) {
    if (p.usage) { out.usage = p.usage.completion_tokens; assert.deepEqual(p.choices, []); }
    for (const { delta, finish_reason } of p.choices) {
      out.content += delta.content ?? '';
      if (finish_reason) { assert.equal(out.finish, undefined, 'one finish'); out.finish = finish_reason; }
      for (const t of delta.tool_calls ?? []) {
        out.tools[t.index] ??= { id: t.id, type: t.type, function: { name: '', arguments: '' } };
        out.tools[t.index].function.name += t.function?.name ?? '';
        out.tools[t.index].function.arguments += t.function?.arguments ?? '';
      }
    }
  }
  assert.equal(parts[0].choices[0].delta.role, 'assistant');
  return out;
}

test('C-04 a streamed hit is one lump, or lacks tools, usage or its end', async () => {
  const h = await house((q, r, c) => {
    if (c.body.user?.startsWith('tool') || c.text.includes('tools')) return c.body.stream ? sse(r, toolStream) : json(r, toolPlain);
    return c.body.stream ? sse(r, streamOf(['Grüße', ' ', '\u{1F600}'])) : json(r, completion('Grüße \u{1F600}'));
  }, caching);
  let seed = 0;
  for (const kind of ['text', 'tools']) for (const fill of [true, false]) for (const ask of [true, false]) for (const usage of [true, false]) {
    const body = (stream) => ({ ...det, seed: 100 + seed, stream, ...(kind === 'tools' ? { tools: [{ type: 'function', function: { name: 'weather' } }] } : {}), ...(stream && usage ? { stream_options: { include_usage: true } } : {}) });
    const name = `${kind}: filled ${fill ? 'by stream' : 'plain'}, asked ${ask ? 'as stream' : 'plain'}, usage ${usage}`;
    seed++;
    const first = await call(h.g, body(fill)).done, second = await call(h.g, body(ask)).done;
    assert.deepEqual([how(first), how(second)], ['miss', 'hit'], name);
    const want = kind === 'text' ? { content: 'Grüße \u{1F600}', tools: [], finish: 'stop' } : { content: '', tools: toolCalls, finish: 'tool_calls' };
    for (const [c, stream] of [[first, fill], [second, ask]]) {
      const { usage: counted, ...got } = read(c, stream);
      assert.deepEqual(got, want, name);
      const told = !stream || usage;
      assert.equal(counted !== undefined, told, name);
    }
    if (ask) assert.equal(second.headers['content-type'], 'text/event-stream', name);
    else assert.equal(second.headers['content-type'], 'application/json', name);
    const id = (c, stream) => (stream ? JSON.parse(events(c.text)[0]).id : c.json().id);
    assert.notEqual(id(first, fill), id(second, ask), 'an id of its own');
  }
  await h.end();
});

test('C-04 hits of the other endpoints are whole, in both forms', async () => {
  const event = (v) => `event: ${v.type}\ndata: ${JSON.stringify(v)}\n\n`;
  const msg = { id: 'msg_1', type: 'message', role: 'assistant', model: 'x', content: [{ type: 'text', text: 'Hi there' }], stop_reason: 'end_turn', stop_sequence: null, usage: { input_tokens: 4, output_tokens: 3 } };
  const resp = { id: 'resp_1', object: 'response', created_at: 1, status: 'completed', model: 'x', output: [{ id: 'm1', type: 'message', status: 'completed', role: 'assistant', content: [{ type: 'output_text', text: 'Hi there', annotations: [] }] }], usage: { input_tokens: 4, output_tokens: 3, total_tokens: 7 } };
  const stream = {
    messages: [{ type: 'message_start', message: { ...msg, content: [], stop_reason: null, usage: { input_tokens: 4, output_tokens: 0 } } }, { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }, { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hi there' } }, { type: 'content_block_stop', index: 0 }, { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 3 } }, { type: 'message_stop' }].map(event).join(''),
    responses: [{ type: 'response.created', response: { ...resp, status: 'in_progress', output: [], usage: null } }, { type: 'response.output_item.added', output_index: 0, item: { ...resp.output[0], status: 'in_progress', content: [] } }, { type: 'response.content_part.added', item_id: 'm1', output_index: 0, content_index: 0, part: { type: 'output_text', text: '', annotations: [] } }, { type: 'response.output_text.delta', item_id: 'm1', output_index: 0, content_index: 0, delta: 'Hi there' },
      { type: 'response.output_text.done', item_id: 'm1', output_index: 0, content_index: 0, text: 'Hi there' }, { type: 'response.content_part.done', item_id: 'm1', output_index: 0, content_index: 0, part: resp.output[0].content[0] }, { type: 'response.output_item.done', output_index: 0, item: resp.output[0] }, { type: 'response.completed', response: resp }].map((v, i) => event({ ...v, sequence_number: i })).join(''),
  };
  const h = await house((q, r, c) => {
    if (c.url.includes('/messages')) return c.body.stream ? sse(r, stream.messages) : json(r, msg);
    if (c.url.includes('/responses')) return c.body.stream ? sse(r, stream.responses) : json(r, resp);
    return json(r, { object: 'list', model: 'x', data: [{ object: 'embedding', index: 0, embedding: c.body.encoding_format === 'base64' ? 'AAAAPw==' : [0.5] }], usage: { prompt_tokens: 4, total_tokens: 4 } });
  }, caching);
  const paths = { messages: ['/v1/messages', { model: 'c', max_tokens: 9, messages, temperature: 0 }, /event: message_stop/], responses: ['/v1/responses', { model: 'm', input: 'Hello', temperature: 0, store: false }, /event: response\.completed/] };
  let seed = 0;
  for (const [name, [path, body, end]] of Object.entries(paths)) for (const fill of [true, false]) for (const ask of [true, false]) {
    const make = (s) => JSON.stringify({ ...body, seed: ++seed % 2 ? seed : seed - 1, ...(s ? { stream: true } : {}) });
    const first = await call(h.g, make(fill), { path }).done, second = await call(h.g, make(ask), { path }).done;
    const label = `${name}: filled ${fill ? 'by stream' : 'plain'}, asked ${ask ? 'as stream' : 'plain'}`;
    assert.equal(how(first), 'miss', `${label}: ${first.text}`);
    assert.equal(how(second), 'hit', label);
    assert.match(second.text, /Hi there/, label);
    if (ask) { assert.match(second.text, end, label); assert.equal(second.text.match(end).length, 1); } else assert.equal(JSON.parse(second.text).usage.output_tokens, 3, label);
  }
  for (const form of ['float', 'base64']) {
    const ask = JSON.stringify({ model: 'm', input: 'Hello', encoding_format: form });
    const [a, b] = [await call(h.g, ask, { path: '/v1/embeddings' }).done, await call(h.g, ask, { path: '/v1/embeddings' }).done];
    assert.deepEqual([how(a), how(b)], ['miss', 'hit'], form);
    assert.deepEqual(b.json().data, a.json().data, form);
  }
  await h.end();
});

// ---- C-06 ----

test('C-06 sampling calls are answered twice with one text, or a caller cannot say no', async () => {
  const h = await house(counting(), caching);
  const ask = async (body, headers) => { const c = await call(h.g, body, { headers }).done; return how(c); };
  for (const body of [{}, { temperature: 1 }, { temperature: 0.0001 }, { temperature: null }, { temperature: 0, n: 2 }, { seed: 1 }, { model: 'plain', temperature: 0 }, { temperature: 0, messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }] }] }]) {
    const [a, b] = [await ask(body), await ask(body)];
    assert.ok(/^bypass; reason=\w+/.test(a) && /^bypass/.test(b), `${JSON.stringify(body)}: ${a}, ${b}`);
  }
  assert.deepEqual([await ask(det, { 'cache-control': 'no-store' }), await ask(det)], ['miss', 'miss'], 'no-store keeps nothing');
  assert.equal(await ask(det), 'hit');
  assert.equal(await ask(det, { 'cache-control': 'no-cache' }), 'miss', 'no-cache finds nothing');
  assert.equal(await ask(det, { 'cache-control': 'max-age=0' }), 'miss');
  assert.match(await ask(det, { 'cache-control': 'no-cache, no-store' }), /^bypass/);
  assert.equal(await ask(det, { 'cache-control': 'max-age=3600' }), 'hit');
  assert.equal(await ask(det, { 'cache-control': 'only-if-cached, public, max-stale=99' }), 'hit');
  await h.end();
});

// ---- C-09 ----

test('C-09 the key depends on the noise of the bytes', async () => {
  const h = await house(counting(), caching);
  const ask = async (text) => { const c = await call(h.g, text).done; assert.equal(c.status, 200, c.text); return how(c); };
  const base = '{"model":"m","messages":[{"role":"user","content":"Gr\u00fc\u00dfe A"}],"temperature":0,"max_tokens":10,"x":{"a":1.5,"b":[1,2]}}';
  assert.equal(await ask(base), 'miss');
  const noise = [
    '{"x":{"b":[1,2],"a":1.5},"max_tokens":10,"temperature":0,"messages":[{"content":"Gr\u00fc\u00dfe A","role":"user"}],"model":"m"}', `\n ${base.replaceAll(',', ' ,\n ').replaceAll(':', ' : ')}\n`.replace('"m" ,', '"m",'),
    base.replace('\u00fc', '\\u00fc').replace('\u00df', '\\u00DF').replace('"A"', '"\\u0041"'), base.replace('1.5', '15e-1').replace('"temperature":0', '"temperature":0.0').replace(':10,', ':1.0e1,'), base.replace('"max_tokens"', '"max_\\u0074okens"'), base.replace('"temperature":0', '"temperature":-0'),
  ];
  for (const text of noise) assert.equal(await ask(text), 'hit', text);
  assert.equal(h.up.calls.length, 1);
  assert.equal(h.up.calls[0].text, base.replace('"model":"m"', '"model":"model-x"'), 'the provider gets the bytes as they were');
  // The order of a list, another text, a duplicate key are not noise.
  assert.equal(await ask(base.replace('[1,2]', '[2,1]')), 'miss');
  assert.equal(await ask(base.replace('1.5', '"1.5"')), 'miss');
  assert.match(await ask(base.replace('"x":', '"x":1,"x":')), /^bypass; reason=duplicate_key/);
  await h.end();
});

test('C-09 a hundred equal calls at once all reach the provider', async () => {
  const open = gate();
  const h = await house(async (q, r, c) => { await open.open; return c.body.stream ? sse(r, streamOf(['one', ' answer'])) : json(r, completion('one answer')); }, caching);
  const calls = Array.from({ length: 100 }, (_, i) => call(h.g, { ...det, stream: i % 2 === 0 }, { headers: { authorization: `Bearer ${i % 4 < 2 ? KEY : THIRD}` } }));
  await until(async () => (await h.g.metric('in_flight')) === 100, 'all to wait');
  const strangers = call(h.g, det, { headers: { authorization: `Bearer ${OTHER_KEY}` } });
  await until(() => h.up.calls.length === 2, 'one call a team');
  open.go();
  await Promise.all([...calls, strangers].map((c) => c.done));
  assert.equal(h.up.calls.length, 2);
  const words = calls.map(how);
  assert.equal(words.filter((w) => w === 'miss').length, 1);
  assert.equal(words.filter((w) => w === 'shared').length, 99);
  for (const [i, c] of calls.entries()) assert.deepEqual([c.status, read(c, i % 2 === 0).content], [200, 'one answer']);
  assert.equal(how(strangers), 'miss', 'another team does not share');
  await h.g.idle();
  const rows = h.g.records().filter((r) => r.kind === 'settle' && r.team === 'search');
  assert.equal(rows.length, 100);
  assert.equal(rows.filter((r) => r.cost_nanousd > 0).length, 1, 'only the leader pays');
  assert.equal(how(await call(h.g, det).done), 'hit');
  await h.end();
});

test('C-09 a leader that fails before content takes its followers down, or each of them goes by itself', async () => {
  const open = gate(), again = gate();
  let n = 0;
  const h = await house(async (q, r) => {
    if (++n === 1) { await open.open; return r.socket.resetAndDestroy(); }
    await again.open;
    return json(r, completion('second try'));
  }, (up) => caching(up, { aliases: { m: { ...cached(), attempts: 1 } } }));
  const calls = Array.from({ length: 50 }, () => call(h.g, det));
  await until(async () => h.up.calls.length === 1 && (await h.g.metric('in_flight')) === 50, 'all to wait');
  open.go();
  await until(() => calls.some((c) => c.status), 'the leader to fail');
  await until(() => h.up.calls.length >= 2, 'one follower to take over');
  again.go();
  await Promise.all(calls.map((c) => c.done));
  const failed = calls.filter((c) => c.status !== 200);
  assert.equal(failed.length, 1, 'only the leader fails');
  assert.equal(failed[0].status, 502);
  assert.equal(h.up.calls.length, 2, 'one follower took over for all');
  assert.ok(calls.filter((c) => c.status === 200).every((c) => c.json().choices[0].message.content === 'second try'));
  await h.g.idle();
  assert.equal((await h.g.budget()).held_nanousd, 0);
  await h.end();
});

test('C-09 a leader whose client leaves takes the answer of the others with it', async () => {
  for (const stream of [true, false]) for (const before of [true, false]) {
    const open = gate();
    const h = await house(async (q, r, c) => {
      if (!c.body.stream) { await open.open; return json(r, completion('whole answer')); }
      sse(r);
      if (!before) r.write(data(chunk({ role: 'assistant', content: 'whole' })));
      await open.open;
      return r.end((before ? data(chunk({ role: 'assistant', content: 'whole' })) : '') + data(chunk({ content: ' answer' })) + data(chunk({}, 'stop')) + data({ ...chunk({}), choices: [], usage: { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 } }) + 'data: [DONE]\n\n');
    }, caching);
    const leader = call(h.g, { ...det, stream });
    await until(() => h.up.calls.length === 1, 'the leader to ask');
    const followers = Array.from({ length: 5 }, () => call(h.g, { ...det, stream }));
    await until(async () => (await h.g.metric('in_flight')) === 6, 'the followers to wait');
    if (stream && !before) await until(() => [leader, ...followers].every((c) => c.text.includes('whole')), 'content for all');
    leader.hangUp();
    await leader.done;
    await until(async () => (await (await h.g.admin('/admin/requests')).json()).requests.some((r) => !r.client), 'the gateway to see it');
    assert.equal(h.up.closed, 0, 'the call goes on while somebody reads');
    open.go();
    await Promise.all(followers.map((c) => c.done));
    for (const c of followers) assert.deepEqual([c.status, read(c, stream).content, how(c)], [200, 'whole answer', 'shared']);
    assert.equal(h.up.calls.length, 1);
    await h.g.idle();
    const rows = h.g.records().filter((r) => r.kind === 'settle');
    assert.equal(rows.length, 6);
    assert.equal(rows.filter((r) => r.cost_nanousd > 0).length, 1);
    assert.ok(rows.find((r) => r.cost_nanousd > 0).aborted, 'the one who left pays');
    await h.end();
  }
});

test('C-09 a call goes on for nobody: leader and followers have all left', async () => {
  for (const content of [false, true]) {
    const h = await house((q, r) => { sse(r); if (content) r.write(data(chunk({ role: 'assistant', content: 'x' }))); }, caching);
    const calls = [call(h.g, { ...det, stream: true })];
    await until(() => h.up.calls.length === 1, 'the leader to ask');
    for (let i = 0; i < 3; i++) calls.push(call(h.g, { ...det, stream: true }));
    await until(async () => (await h.g.metric('in_flight')) === 4, 'the followers to wait');
    if (content) await until(() => calls.every((c) => c.text.includes('"x"')), 'content');
    const left = Date.now();
    calls.forEach((c) => c.hangUp());
    await until(() => h.up.closed === 1, 'the provider to be told', 3000);
    assert.ok(Date.now() - left < 3000);
    await h.g.idle();
    assert.equal((await h.g.budget()).held_nanousd, 0);
    await h.end();
  }
});
