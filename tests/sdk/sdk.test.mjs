// The official SDKs against the built binary: what they send is taken, what they expect is given.
import test from 'node:test';
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import Anthropic from '@anthropic-ai/sdk';
import Anthropic0 from 'anthropic-0';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import {
  Gateway, mock, rawMock, usual, simple, confOf, teamOf, completion, chunk, data, json, sse, streamOf, sleep, until, events,
  KEY, OTHER_KEY, PROVIDER_KEY, sha256,
} from './harness.mjs';

const openai = (g, over = {}) => new OpenAI({ baseURL: `${g.url}/v1`, apiKey: KEY, maxRetries: 0, ...over });
const anthropic = (g, over = {}) => new Anthropic({ baseURL: g.url, apiKey: KEY, maxRetries: 0, ...over });
const messages = [{ role: 'user', content: 'Hello' }];

async function house(answer, conf = simple, over = {}) {
  const up = await mock(answer);
  const g = await new Gateway(conf(up, over)).start();
  return { up, g, client: openai(g), async end() { await g.end(); await up.stop(); } };
}

test('C1 a plain chat call', async () => {
  const h = await house(usual());
  const r = await h.client.chat.completions.create({ model: 'm', messages });
  assert.equal(r.choices[0].message.content, 'Hi there');
  assert.equal(r.choices[0].finish_reason, 'stop');
  assert.equal(r.usage.total_tokens, 12);
  assert.match(r._request_id, /^req_[0-9a-f]{32}$/);
  assert.equal(r.model, 'm');
  const call = h.up.calls[0];
  assert.equal(call.headers.authorization, `Bearer ${PROVIDER_KEY}`);
  assert.ok(!JSON.stringify(call.raw).includes(KEY));
  assert.deepEqual(call.body, { model: 'model-x', messages });
  await h.end();
});

test('C2 a stream, without usage when it was not asked for', async () => {
  const h = await house(usual(['Hi', ' the', 're']));
  const seen = [];
  for await (const c of await h.client.chat.completions.create({ model: 'm', messages, stream: true })) seen.push(c);
  assert.equal(seen[0].choices[0].delta.role, 'assistant');
  assert.equal(seen.map((c) => c.choices[0].delta.content ?? '').join(''), 'Hi there');
  assert.equal(seen.filter((c) => c.choices[0].finish_reason).length, 1);
  assert.equal(new Set(seen.map((c) => c.id)).size, 1);
  assert.ok(seen.every((c) => !('usage' in c)));
  assert.equal(h.up.calls[0].body.stream_options.include_usage, true);
  await h.end();
});

test('C3 a stream with usage: last chunk without choices, null before', async () => {
  const h = await house(usual(['Hi', ' there']));
  const seen = [];
  for await (const c of await h.client.chat.completions.create({ model: 'm', messages, stream: true, stream_options: { include_usage: true } })) seen.push(c);
  const last = seen.pop();
  assert.deepEqual(last.choices, []);
  assert.equal(last.usage.prompt_tokens, 9);
  assert.equal(last.usage.cost, 0.000013);
  assert.ok(seen.every((c) => c.usage === null));
  await h.end();
});

test('C4 the stream helper with two parallel tools, cut at every byte', async () => {
  const call = (index, id, name, args) => chunk({ tool_calls: [{ index, ...(id ? { id, type: 'function' } : {}), function: { ...(name ? { name } : {}), arguments: args } }] });
  const text = [chunk({ role: 'assistant', content: null }), call(0, 't0', 'weather', ''), call(0, null, null, '{"city":"Zür'), call(0, null, null, 'ich"}'),
    call(1, 't1', 'time', ''), call(1, null, null, '{}'), chunk({}, 'tool_calls')].map(data).join('') + 'data: [DONE]\n\n';
  const h = await house(async (request, response) => {
    sse(response);
    for (const byte of Buffer.from(text)) { response.write(Buffer.from([byte])); await new Promise(setImmediate); }
    response.end();
  });
  const final = await h.client.chat.completions.stream({ model: 'm', messages }).finalChatCompletion();
  const calls = final.choices[0].message.tool_calls;
  assert.deepEqual(calls.map((c) => [c.id, c.function.name, c.function.arguments]), [['t0', 'weather', '{"city":"Zürich"}'], ['t1', 'time', '{}']]);
  assert.equal(final.choices[0].finish_reason, 'tool_calls');
  await h.end();
});

test('C8 heartbeats while the provider is silent', async () => {
  const h = await house(async (request, response) => { await sleep(2500); sse(response, ': ping\n\n: ping\n\n' + streamOf(['Hi'])); }, simple, { http: { heartbeat: '1s' } });
  const began = Date.now();
  const r = await h.g.chat({ stream: true });
  assert.equal(r.status, 200);
  assert.ok(Date.now() - began < 2400, 'the head came before the first content');
  const text = await r.text();
  assert.match(text, /^: /);
  assert.match(text, /"content":"Hi"/);
  for await (const c of await h.client.chat.completions.create({ model: 'm', messages, stream: true })) assert.ok(c.choices);
  await h.end();
});

test('C9 an upstream that fails after content: an APIError with a code, never a clean end', async () => {
  const part = data(chunk({ role: 'assistant', content: 'Hel' }));
  const endings = {
    error: (s) => s.write(data({ error: { message: 'the engine died', type: 'server_error', code: 'boom' } })),
    eof: (s) => s.end(),
    reset: (s) => s.socket.resetAndDestroy(),
  };
  for (const [name, end] of Object.entries(endings)) {
    const h = await house(async (request, response) => { sse(response); response.write(part); await sleep(50); end(response); });
    let text = '';
    await assert.rejects(async () => {
      for await (const c of await h.client.chat.completions.create({ model: 'm', messages, stream: true })) text += c.choices[0]?.delta?.content ?? '';
    }, (e) => e instanceof OpenAI.APIError && typeof e.code === 'string' && e.message.length > 0, name);
    assert.equal(text, 'Hel');
    const r = await h.g.chat({ stream: true });
    assert.ok(!(await r.text()).includes('[DONE]'));
    const record = await h.g.settled(r.headers.get('x-request-id'));
    assert.ok(record.code, 'recorded as failed');
    assert.ok(record.usage.out >= 1 && record.estimated);
    await h.end();
  }
});

test('C10 provider errors: class, code, type, request id, no secret', async () => {
  const rows = [[400, 400], [401, 502], [402, 502], [403, 502], [404, 502], [409, 409], [413, 413], [422, 422], [429, 429], [500, 502], [502, 502], [503, 502], [529, 502]];
  let status = 400;
  const h = await house((request, response) => json(response, { error: { message: `no: ${PROVIDER_KEY} at ${status}`, type: 'some_type', param: 'messages', code: 'some_code' } }, status));
  for (const [from, to] of rows) {
    status = from;
    const fresh = await new Gateway(simple(h.up)).start();
    await assert.rejects(openai(fresh).chat.completions.create({ model: 'm', messages }), (e) => {
      assert.equal(e.status, to, `${from}: ${e.message}`);
      assert.match(e.requestID, /^req_/);
      assert.ok(e.code && e.type, `${from}: code ${e.code} type ${e.type}`);
      assert.ok(!JSON.stringify(e.error).includes('canary'), 'no secret');
      if (from === 400) { assert.equal(e.code, 'some_code'); assert.equal(e.param, 'messages'); }
      if (to === 502) assert.match(e.code, /^upstream_/);
      return true;
    });
    await fresh.end();
  }
  await h.end();
});

test('C11 retry-after is obeyed by the SDK, x-should-retry: false stops it', async () => {
  let n = 0;
  const h = await house((request, response, call) => (n++ === 0 ? json(response, { error: { message: 'slow down' } }, 429, { 'retry-after': '1' }) : usual()(request, response, call)));
  const began = Date.now();
  const r = await openai(h.g, { maxRetries: 1 }).chat.completions.create({ model: 'm', messages });
  assert.equal(r.choices[0].message.content, 'Hi there');
  const took = Date.now() - began;
  assert.ok(took > 700 && took < 3900, `${took} ms`);
  h.up.answer = (request, response) => json(response, { error: { message: 'down' } }, 500);
  const before = h.up.calls.length;
  await assert.rejects(openai(h.g, { maxRetries: 2 }).chat.completions.create({ model: 'm', messages }));
  assert.equal(h.up.calls.length - before, 1, 'the gateway has tried: the SDK does not multiply');
  await h.end();
});

test('C12 a client that breaks off closes the upstream within a second, and is billed', async () => {
  const h = await house(async (request, response, call) => {
    if (!call.body.stream) return; // a plain call that never answers
    sse(response);
    response.write(data(chunk({ role: 'assistant', content: '' })));
    while (!response.destroyed) { response.write(data(chunk({ content: 'word ' }))); await sleep(20); }
  });
  let n = 0, left;
  for await (const c of await h.client.chat.completions.create({ model: 'm', messages, stream: true })) if (c && ++n === 4) { left = Date.now(); break; }
  await until(() => h.up.closed === 1, 'the stream upstream closes', 3000);
  assert.ok(h.up.calls[0].closedAt - left < 1000);
  const abort = new AbortController();
  const plain = h.client.chat.completions.create({ model: 'm', messages }, { signal: abort.signal });
  await until(() => h.up.calls.length === 2, 'the plain call arrives');
  left = Date.now();
  abort.abort();
  await assert.rejects(plain);
  await until(() => h.up.closed === 2, 'the plain upstream closes', 3000);
  assert.ok(h.up.calls[1].closedAt - left < 1000);
  await h.g.idle();
  const settles = h.g.records().filter((r) => r.kind === 'settle');
  assert.equal(settles.length, 2);
  assert.ok(settles.every((s) => s.aborted && s.estimated && s.status === 499 && s.usage.in > 0));
  assert.ok(settles[0].usage.out >= 3);
  const budget = await h.g.budget();
  assert.equal(budget.held_nanousd, 0);
  assert.equal(budget.settled_nanousd, settles.reduce((sum, s) => sum + s.cost_nanousd, 0));
  await h.end();
});

test('C13 embeddings: base64 by default, floats when asked, arrays, order', async () => {
  const vector = (i) => Float32Array.from({ length: 8 }, (_, k) => i + k / 8);
  const base64 = (v) => Buffer.from(v.buffer).toString('base64');
  const h = await house((request, response, call) => {
    const inputs = Array.isArray(call.body.input) && typeof call.body.input[0] !== 'number' ? call.body.input : [call.body.input];
    const form = call.body.encoding_format === 'base64' ? base64 : (v) => Array.from(v);
    json(response, { object: 'list', model: 'model-x', usage: { prompt_tokens: inputs.length, total_tokens: inputs.length },
      data: inputs.map((_, index) => ({ object: 'embedding', index, embedding: form(vector(index)) })) });
  });
  const one = await h.client.embeddings.create({ model: 'm', input: 'a' });
  assert.equal(h.up.calls[0].body.encoding_format, 'base64');
  assert.deepEqual(one.data[0].embedding, Array.from(vector(0)));
  const many = await h.client.embeddings.create({ model: 'm', encoding_format: 'float', input: Array.from({ length: 300 }, (_, i) => `text ${i}`) });
  assert.equal(many.data.length, 300);
  assert.deepEqual(many.data[299].embedding, Array.from(vector(299)));
  assert.deepEqual((await h.client.embeddings.create({ model: 'm', input: [1, 2, 3] })).data[0].embedding, Array.from(vector(0)));
  const lc = new OpenAIEmbeddings({ model: 'm', apiKey: KEY, configuration: { baseURL: `${h.g.url}/v1` } });
  assert.deepEqual((await lc.embedDocuments(['x', 'y']))[1], Array.from(vector(1)));
  await h.end();
});

test('C14 models: one shape for both SDKs, only what the key may call, patterns expanded', async () => {
  const up = await mock(usual());
  const g = await new Gateway((dir) => confOf(dir, {
    backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY] } },
    aliases: { m: 'up/x', 'a/b': 'up/x', hidden: 'up/x', 'gpt-*': 'up/gpt-*' },
    prices: { models: { 'gpt-one': { input: '1 USD/1M', output: '1 USD/1M' }, 'gpt-pro': { input: '1 USD/1M', output: '1 USD/1M' } } },
    teams: { search: teamOf({ allow: ['m', 'a/b', 'gpt-*', '!*-pro'] }) },
  })).start();
  const names = [];
  for await (const m of openai(g).models.list()) names.push(m.id);
  assert.deepEqual(names, ['a/b', 'gpt-one', 'm']);
  assert.equal((await openai(g).models.retrieve('a/b')).id, 'a/b');
  await assert.rejects(openai(g).models.retrieve('hidden'), (e) => e.status === 404 && e.code === 'model_not_found');
  const theirs = [];
  for await (const m of anthropic(g).models.list()) theirs.push([m.id, m.type]);
  assert.deepEqual(theirs, names.map((n) => [n, 'model']));
  await g.end();
  await up.stop();
});

// ---- Anthropic, same dialect ----
const message = { id: 'msg_up1', type: 'message', role: 'assistant', model: 'claude-x', content: [{ type: 'text', text: 'Hi there' }],
  stop_reason: 'end_turn', stop_sequence: null, usage: { input_tokens: 6, cache_read_input_tokens: 4, cache_creation_input_tokens: 0, output_tokens: 5 } };
const frame = (v) => `event: ${v.type}\ndata: ${JSON.stringify(v)}\n\n`;
const messageStream = [
  { type: 'message_start', message: { ...message, content: [], stop_reason: null, usage: { ...message.usage, output_tokens: 0 } } },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }, { type: 'ping' },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hi' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: ' there' } },
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 5 } },
  { type: 'message_stop' }].map(frame).join('');
const claude = (request, response, call) => {
  if (call.url.includes('count_tokens')) return json(response, { input_tokens: 42 });
  return call.body.stream ? sse(response, messageStream) : json(response, message, 200, { 'request-id': 'req_up' });
};
const claudeConf = (up, over = {}) => (dir) => confOf(dir, {
  backends: { claude: { protocol: 'anthropic', url: up.url, api_keys: [PROVIDER_KEY] } },
  aliases: { m: 'claude/claude-x' }, teams: { search: teamOf() }, ...over,
});

test('C20 Anthropic messages by both generations of the SDK and both versions', async () => {
  const h = await house(claude, claudeConf);
  const ask = { model: 'm', max_tokens: 100, messages };
  const r = await anthropic(h.g).messages.create(ask);
  assert.equal(r.content[0].text, 'Hi there');
  assert.equal(r.model, 'm');
  assert.equal(r.usage.input_tokens, 6);
  assert.equal(r.usage.cache_read_input_tokens, 4);
  assert.match(r._request_id, /^req_/);
  assert.equal(h.up.calls[0].headers['anthropic-version'], '2026-10-21');
  assert.equal(h.up.calls[0].headers['x-api-key'] ?? h.up.calls[0].headers.authorization.slice(7), PROVIDER_KEY);
  const old = await new Anthropic0({ baseURL: h.g.url, apiKey: KEY, maxRetries: 0 }).messages.create(ask);
  assert.equal(old.content[0].text, 'Hi there');
  assert.equal(h.up.calls[1].headers['anthropic-version'], '2023-06-01');
  assert.ok(!JSON.stringify(h.up.calls.map((c) => c.raw)).includes(KEY));
  const final = await anthropic(h.g).messages.stream(ask).finalMessage();
  assert.equal(final.content[0].text, 'Hi there');
  assert.equal(final.usage.output_tokens, 5);
  assert.equal((await anthropic(h.g).messages.countTokens({ model: 'm', messages })).input_tokens, 42);
  await assert.rejects(anthropic(h.g).messages.create({ ...ask, model: 'nope' }), (e) => e.status === 404 && e.type === 'not_found_error' && /^req_/.test(e.requestID));
  await h.end();
});

test('C28 the shape of Claude Code: query, betas and bytes pass unchanged', async () => {
  const h = await house(claude, claudeConf);
  const tools = Array.from({ length: 20 }, (_, i) => ({ name: `tool${i}`, description: 'x', input_schema: { type: 'object', properties: { a: { type: 'string' } } } }));
  const body = { model: 'm', max_tokens: 64, stream: true, system: [{ type: 'text', text: 'You are', cache_control: { type: 'ephemeral' } }], context_management: { edits: [] }, tools,
    messages: [{ role: 'user', content: [{ type: 'text', text: 'Grüße \u{1F600}', cache_control: { type: 'ephemeral' } }] }], metadata: { user_id: 'u' }, big: 9007199254740993n.toString() };
  const text = JSON.stringify(body, null, 1).replace('"9007199254740993"', '9007199254740993');
  const r = await h.g.fetch('/v1/messages?beta=true', text, { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'a-2025,b-2026', authorization: null, 'x-api-key': KEY });
  assert.equal(r.status, 200);
  const got = await r.text();
  assert.equal(got.match(/event: message_stop/g).length, 1);
  const call = h.up.calls[0];
  assert.equal(call.url, '/v1/messages?beta=true');
  assert.equal(call.headers['anthropic-beta'], 'a-2025,b-2026');
  assert.equal(call.text, text.replace('"model": "m"', '"model": "claude-x"'));
  assert.equal((await h.g.fetch('/', undefined, { authorization: null }, { method: 'HEAD' })).status, 200);
  await h.end();
});

test('C29 odd but legal SSE gives the stream of the plain form', async () => {
  const emoji = streamOf(['Grüße ', '\u{1F600}', ' 漢字']);
  const azure = data({ id: '', object: '', created: 0, model: '', choices: [], prompt_filter_results: [{ prompt_index: 0 }] });
  const variants = {
    crlf: emoji.replaceAll('\n', '\r\n'), cr: emoji.replaceAll('\n', '\r'), nospace: emoji.replaceAll('data: ', 'data:'),
    bom: `\ufeff${emoji}`, comments: emoji.replaceAll('data: ', ': x\n\ndata: ').replace('data: [DONE]', ': y\n\ndata: [DONE]'),
    noblank: emoji.replace(/\n\n$/, '\n'), azure: azure + emoji,
  };
  const content = async (text) => {
    const h = await house(async (request, response) => {
      sse(response);
      const bytes = Buffer.from(text);
      for (let i = 0; i < bytes.length; i += 7) { response.write(bytes.subarray(i, i + 7)); await new Promise(setImmediate); }
      response.end();
    });
    let out = '', usage;
    for await (const c of await h.client.chat.completions.create({ model: 'm', messages, stream: true, stream_options: { include_usage: true } })) {
      out += c.choices[0]?.delta?.content ?? '';
      usage = c.usage ?? usage;
    }
    await h.g.idle();
    const settle = h.g.records().find((r) => r.kind === 'settle');
    await h.end();
    return [out, usage?.completion_tokens, settle.usage.out, settle.estimated ?? false];
  };
  const plain = await content(emoji);
  assert.deepEqual(plain, ['Grüße \u{1F600} 漢字', 3, 3, false]);
  for (const [name, text] of Object.entries(variants)) assert.deepEqual(await content(text), plain, name);
});

test('C32 budget, model list: every SDK sends exactly one request', async () => {
  const up = await mock(usual());
  const g = await new Gateway(simple(up, {}, { budgets: [{ limit: '0.000001 USD', period: 'month' }] })).start();
  const count = async () => g.records().filter((r) => r.kind === 'refuse' || r.kind === 'settle').length;
  const clients = {
    openai: () => new OpenAI({ baseURL: `${g.url}/v1`, apiKey: KEY }).chat.completions.create({ model: 'm', messages }),
    langchain: () => new ChatOpenAI({ model: 'm', apiKey: KEY, configuration: { baseURL: `${g.url}/v1` } }).invoke('Hello'),
    anthropic: () => new Anthropic({ baseURL: g.url, apiKey: KEY }).messages.create({ model: 'nope', max_tokens: 9, messages }),
  };
  for (const [name, call] of Object.entries(clients)) {
    const before = await count();
    await assert.rejects(call(), (e) => { if (name !== 'anthropic') assert.equal(e.status, 402, name); return true; });
    await sleep(1200);
    assert.equal((await count()) - before, 1, name);
  }
  assert.equal(up.calls.length, 0);
  const e = await openai(g).chat.completions.create({ model: 'm', messages }).catch((x) => x);
  assert.equal(e.code, 'budget_exceeded');
  assert.equal(e.type, 'insufficient_quota');
  assert.equal(e.headers.get('x-should-retry'), 'false');
  assert.ok(e.error.level && e.error.needed > 0 && e.error.resets);
  await g.end();
  await up.stop();
});

test('C33 the cache: stream and plain share an entry, what changes the answer misses', async () => {
  const h = await house(usual(['Hi', ' there']), simple, { aliases: { m: { ladder: [{ targets: ['up/model-x'] }], cache: { enabled: true, ttl: '1h' } } } });
  const ask = { model: 'm', messages, temperature: 0 };
  const call = async (over) => { const r = await h.g.chat({ ...ask, ...over }); return [r.headers.get('x-tollgate-cache'), await r.text(), r]; };
  assert.equal((await call({}))[0], 'miss');
  const [hit, text, r] = await call({ user: 'u1', metadata: { a: '1' } });
  assert.equal(hit, 'hit');
  assert.equal(JSON.parse(text).choices[0].message.content, 'Hi there');
  assert.notEqual(JSON.parse(text).id, 'chatcmpl-up1');
  assert.equal(r.headers.get('x-tollgate-cost'), '0');
  assert.ok(r.headers.get('age') !== null);
  const seen = [];
  for await (const c of await h.client.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } })) seen.push(c);
  assert.equal(seen.map((c) => c.choices[0]?.delta?.content ?? '').join(''), 'Hi there');
  assert.equal(seen.filter((c) => c.choices[0]?.finish_reason).length, 1);
  assert.equal(seen[0].choices[0].delta.role, 'assistant');
  assert.deepEqual(seen.at(-1).choices, []);
  assert.equal(new Set(seen.map((c) => c.id)).size, 1);
  assert.equal(h.up.calls.length, 1);
  assert.equal((await call({ seed: 7 }))[0], 'miss');
  assert.equal((await call({ tools: [{ type: 'function', function: { name: 'a' } }, { type: 'function', function: { name: 'b' } }] }))[0], 'miss');
  assert.equal((await call({ tools: [{ type: 'function', function: { name: 'b' } }, { type: 'function', function: { name: 'a' } }] }))[0], 'miss');
  assert.match((await call({ temperature: undefined }))[0], /^bypass/);
  await h.end();
});

test('Codex and the AI SDK: responses pass to openai, stored ids are refused by name', async () => {
  const response = { id: 'resp_up', object: 'response', created_at: 1, status: 'completed', error: null, incomplete_details: null, model: 'model-x', instructions: null, metadata: {}, temperature: 1, top_p: 1,
    tools: [], tool_choice: 'auto', parallel_tool_calls: true, output: [{ id: 'msg_1', type: 'message', status: 'completed', role: 'assistant', content: [{ type: 'output_text', text: 'Hi there', annotations: [], logprobs: [] }] }],
    usage: { input_tokens: 5, input_tokens_details: { cached_tokens: 0 }, output_tokens: 2, output_tokens_details: { reasoning_tokens: 0 }, total_tokens: 7 } };
  const stream = [
    { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
    { type: 'response.output_item.added', output_index: 0, item: { id: 'msg_1', type: 'message', status: 'in_progress', role: 'assistant', content: [] } },
    { type: 'response.content_part.added', item_id: 'msg_1', output_index: 0, content_index: 0, part: { type: 'output_text', text: '', annotations: [], logprobs: [] } },
    { type: 'response.output_text.delta', item_id: 'msg_1', output_index: 0, content_index: 0, delta: 'Hi there', logprobs: [] },
    { type: 'response.output_text.done', item_id: 'msg_1', output_index: 0, content_index: 0, text: 'Hi there', logprobs: [] },
    { type: 'response.content_part.done', item_id: 'msg_1', output_index: 0, content_index: 0, part: { type: 'output_text', text: 'Hi there', annotations: [], logprobs: [] } },
    { type: 'response.output_item.done', output_index: 0, item: response.output[0] },
    { type: 'response.completed', response }].map((v, i) => frame({ ...v, sequence_number: i })).join('');
  const h = await house((request, res, call) => (call.body.stream ? sse(res, stream) : json(res, response)));
  const r = await h.client.responses.create({ model: 'm', input: 'Hello' });
  assert.equal(r.output_text, 'Hi there');
  assert.equal(r.model, 'm');
  const final = await h.client.responses.stream({ model: 'm', input: 'Hello' }).finalResponse();
  assert.equal(final.output_text, 'Hi there');
  assert.equal(h.up.calls[0].url, '/v1/responses');
  await assert.rejects(h.client.responses.create({ model: 'm', input: 'x', previous_response_id: 'resp_1' }), (e) => e.status === 400 && e.code === 'unsupported_parameter' && /previous_response_id/.test(e.message));
  const { generateText } = await import('ai');
  const { createOpenAI } = await import('@ai-sdk/openai');
  const ai = await generateText({ model: createOpenAI({ baseURL: `${h.g.url}/v1`, apiKey: KEY })('m'), prompt: 'Hello' });
  assert.equal(ai.text, 'Hi there');
  await h.end();
});

test('LangChain chat: invoke and stream', async () => {
  const h = await house(usual(['Hi', ' there']));
  const chat = new ChatOpenAI({ model: 'm', apiKey: KEY, configuration: { baseURL: `${h.g.url}/v1` } });
  assert.equal((await chat.invoke('Hello')).content, 'Hi there');
  let text = '';
  for await (const c of await chat.stream('Hello')) text += c.content;
  assert.equal(text, 'Hi there');
  await h.end();
});
