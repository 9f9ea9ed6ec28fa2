// Streams: what providers, networks and clients do to them, and what must still be true for the client and for the bill.
import test from 'node:test';
import assert from 'node:assert/strict';
import http from 'node:http';
import {
  Gateway, mock, confOf, teamOf, completion, chunk, data, json, sse, sleep, until, frame, run,
  DIALECTS, wholeStream, both, bothHouse, ask, parsed, textOf, SSE_HEAD, chunked, turn, each, PROVIDER_KEY,
} from './harness.mjs';

const dialects = Object.entries(DIALECTS);
const dialectOf = (url) => dialects.find(([, d]) => url.includes(d.path.slice(3)))?.[1];
const stream = (d, over = {}) => ({ ...d.ask, stream: true, ...over });
const settles = async (g) => { await g.idle(); return g.records().filter((r) => r.kind === 'settle'); };
const usageOf = (r) => ({ in: r.usage.in, out: r.usage.out });
const words = (n, word = 'word ') => Array.from({ length: n }, () => data(chunk({ content: word })));

/** One client's view and the record of one stream that the provider sends as `bytes` (a list: written one by one). */
async function seen(h, d, pieces, over = {}) {
  h.up.answer = async (request, response) => {
    sse(response);
    for (const piece of [].concat(pieces)) { response.write(piece); await turn(); }
    response.end();
  };
  const c = await ask(h.g, d.path, stream(d, over)).done;
  const record = await h.g.settled(c.id);
  return { status: c.status, whole: c.whole, events: parsed(c.text), usage: usageOf(record), estimated: record.estimated ?? false, code: record.code, text: c.text };
}

test('S-01 a stream that is cut at any byte, or comes byte by byte, gives the same text and usage', { timeout: 60000 }, async () => {
  for (const [name, d] of dialects) {
    const wire = chunked([...d.head, ...d.parts.text, ...d.tail]);
    let jobs = [];
    const h = await bothHouse({ raw: async (socket) => {
      const cut = jobs.shift();
      socket.write(SSE_HEAD);
      if (cut === 0) for (const byte of wire) { socket.write(Buffer.from([byte])); await turn(); }
      else { socket.write(wire.subarray(0, cut)); await turn(); socket.write(wire.subarray(cut)); }
    } });
    jobs = Array.from({ length: wire.length + 1 }, (_, cut) => cut);
    const agent = new http.Agent({ keepAlive: true, maxSockets: 6 });
    let whole;
    await each([...jobs], 6, async () => {
      const c = await ask(h.g, d.path, stream(d, { stream_options: d === DIALECTS.chat ? { include_usage: true } : undefined }), { agent }).done;
      const view = JSON.stringify([c.status, c.whole, parsed(c.text)]).replaceAll(/,"cost":[0-9.e-]+/g, '');
      whole ??= view;
      assert.equal(view, whole, name);
    });
    agent.destroy();
    assert.equal(textOf(JSON.parse(whole)[2]), 'Grüße \u{1F600} 漢字');
    const records = await settles(h.g);
    assert.equal(records.length, wire.length + 1);
    for (const r of records) assert.deepEqual([usageOf(r), r.estimated ?? false, r.status], [d.usage, false, 200], name);
    await h.end();
  }
});

test('S-02 CRLF, lone CR, no space after the colon, a BOM and split data lines are the same stream', async () => {
  const h = await bothHouse(() => {});
  for (const [name, d] of dialects) {
    const plain = wholeStream(d);
    const twoLines = plain.replaceAll(/^data: (\{"[a-z_]+":)/gm, 'data: $1\ndata: ');
    let n = 0;
    const forms = {
      crlf: plain.replaceAll('\n', '\r\n'), cr: plain.replaceAll('\n', '\r'), nospace: plain.replaceAll('data: ', 'data:').replaceAll('event: ', 'event:'),
      mixed: plain.replaceAll('\n', () => ['\r\n', '\n', '\r'][n++ % 3]), bom: `\ufeff${plain}`, twoLines,
      split: plain.split('\n').flatMap((line) => [`${line}\r`, '\n']).slice(0, -2), ids: plain.replaceAll('data: {', 'id: 7\nretry: 10\ndata: {'),
    };
    const expected = await seen(h, d, plain);
    assert.deepEqual([expected.status, expected.usage, expected.estimated], [200, d.usage, false], name);
    for (const [form, pieces] of Object.entries(forms)) {
      const got = await seen(h, d, pieces);
      assert.deepEqual({ ...got, text: '' }, { ...expected, text: '' }, `${name} ${form}`);
    }
  }
  await h.end();
});

test('S-03 comments of the provider never become data and never break the stream', async () => {
  const h = await bothHouse(() => {});
  for (const [name, d] of dialects) {
    const list = [...d.head, ...d.parts.text, ...d.tail];
    const expected = await seen(h, d, list);
    const noted = [': PROCESSING\n\n', ':\n', ': x\n\n', ...list.slice(0, 3), ': {"error":{"message":"not me"}}\n\n', ...list.slice(3, -1), ': PROCESSING\n\n', ':data: x\n', list.at(-1)];
    const got = await seen(h, d, noted);
    assert.deepEqual({ ...got, text: '' }, { ...expected, text: '' }, name);
    assert.ok(!/^data: :/m.test(got.text), name);
  }
  await h.end();
});

test('S-05 a client that leaves ends the upstream call within a second, whatever the phase', { timeout: 60000 }, async () => {
  const phases = {
    'before the head': () => {},
    'after the head': (response) => sse(response) ?? response.write(': working\n\n'),
    'in the stream': async (response) => { sse(response); while (!response.destroyed) { response.write(data(chunk({ content: 'word ' }))); await sleep(20); } },
  };
  const h = await bothHouse((request, response, call) => phases[call.body.metadata.phase](response));
  const jobs = Object.keys(phases).flatMap((phase) => [true, false].flatMap((streams) => ['FIN', 'RST'].map((how) => ({ phase, streams, how }))));
  const found = new Map();
  await each(jobs, jobs.length, async (job) => {
    const mark = `${job.phase} ${job.streams} ${job.how}`;
    const c = ask(h.g, DIALECTS.chat.path, { ...DIALECTS.chat.ask, stream: job.streams, metadata: { phase: job.phase, mark } });
    const call = await until(() => h.up.calls.find((x) => x.body.metadata.mark === mark), `${mark} to arrive`);
    if (job.phase === 'in the stream' && job.streams) await c.until((t) => t.includes('word'), 'a word');
    const left = Date.now();
    if (job.how === 'FIN') c.request.socket.end();
    else c.request.socket.resetAndDestroy();
    await until(() => call.closedAt, `${mark}: the provider's connection to close`, 5000);
    found.set(mark, call.closedAt - left);
  });
  for (const [mark, took] of found) assert.ok(took < 3000, `${mark}: ${took} ms`);
  const records = await settles(h.g);
  assert.equal(records.length, jobs.length);
  for (const r of records) assert.deepEqual([r.aborted, r.status, r.attempts.length], [true, 499, 1]);
  assert.equal(h.up.calls.length, jobs.length, 'no try begins after the client has left');
  await h.end();
});

test('S-05 a client that leaves while a try backs off: no further try begins', async () => {
  let close;
  const h = await bothHouse((request, response) => { json(response, { error: { message: 'down' } }, 500); close?.(); }, both, {
    retries: { backoff: ['2s', '2s'] }, aliases: { m: { ladder: [{ targets: ['up/a', 'up/b', 'up/c'] }] } },
  });
  const c = ask(h.g, DIALECTS.chat.path, stream(DIALECTS.chat));
  await until(async () => (await (await h.g.admin('/admin/requests')).text()).includes('backing off'), 'the back-off');
  c.request.destroy();
  await h.g.idle();
  assert.equal(h.up.calls.length, 1);
  const [record] = await settles(h.g);
  assert.equal(record.attempts.length, 1);
  assert.ok(record.aborted);
  await h.end();
});

test('S-06 an aborted stream is billed: the prompt and at least the tokens that were relayed', { timeout: 60000 }, async () => {
  const h = await bothHouse(async (request, response) => {
    sse(response, undefined);
    response.write(data(chunk({ role: 'assistant', content: '' })));
    for (const word of words(60, 'a')) response.write(word);
  });
  await each(Array.from({ length: 50 }), 10, async () => {
    const c = ask(h.g, DIALECTS.chat.path, stream(DIALECTS.chat));
    await c.until((t) => t.split('"content":"a"').length === 61, '60 tokens');
    c.request.destroy();
  });
  await until(() => h.g.records().filter((r) => r.kind === 'settle').length === 50, '50 records');
  const records = await settles(h.g);
  assert.equal(records.length, 50, 'one record a request');
  for (const r of records) {
    assert.ok(r.aborted && r.estimated, 'marked as aborted and estimated');
    assert.ok(r.usage.in > 0 && r.usage.out >= 60, `in ${r.usage.in} out ${r.usage.out}`);
    assert.ok(r.cost_nanousd >= r.usage.in * 1000 + r.usage.out * 2000);
  }
  assert.equal((await h.g.budget()).settled_nanousd, records.reduce((sum, r) => sum + r.cost_nanousd, 0));
  assert.equal((await h.g.budget()).held_nanousd, 0);
  await h.end();
});

test('S-06 an aborted Anthropic stream keeps the input that message_start told; a zero that was told stays zero', async () => {
  const d = DIALECTS.messages;
  const h = await bothHouse((request, response) => { sse(response); response.write([...d.head, ...d.parts.text].join('')); });
  const c = ask(h.g, d.path, stream(d));
  await c.until((t) => t.includes('漢字'), 'the text');
  c.request.destroy();
  await until(() => h.g.records().some((r) => r.kind === 'settle'), 'a record');
  const [record] = await settles(h.g);
  assert.deepEqual([record.usage.in, record.aborted, record.estimated], [25, true, true]);
  assert.ok(record.usage.out >= 3);
  h.up.answer = (request, response) => sse(response, [data(chunk({ role: 'assistant', content: '' })), data(chunk({ content: 'free' })), data(chunk({}, 'stop')),
    data({ ...chunk({}), choices: [], usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } }), 'data: [DONE]\n\n'].join(''));
  const free = await ask(h.g, DIALECTS.chat.path, stream(DIALECTS.chat)).done;
  const zero = await h.g.settled(free.id);
  assert.deepEqual([usageOf(zero), zero.estimated ?? false, zero.cost_nanousd], [{ in: 0, out: 0 }, false, 0]);
  await h.end();
});

test('S-06 a provider that dies in the stream is billed like a client that leaves', async () => {
  const h = await bothHouse(async (request, response) => { sse(response); for (const word of words(60)) response.write(word); await turn(); response.socket.resetAndDestroy(); });
  const c = await ask(h.g, DIALECTS.chat.path, stream(DIALECTS.chat)).done;
  const record = await h.g.settled(c.id);
  const relayed = c.text.split('"content":"word "').length - 1;
  assert.ok(record.estimated && record.usage.in > 0 && record.usage.out >= relayed && record.cost_nanousd > 0);
  assert.ok(!record.aborted);
  await h.end();
});

test('S-07 an upstream that dies mid-stream never ends clean', { timeout: 60000 }, async () => {
  const endings = {
    fin: (socket, bytes) => socket.end(bytes),
    'clean end': (socket, bytes) => socket.end(Buffer.concat([bytes, Buffer.from('0\r\n\r\n')])),
    framing: (socket, bytes) => socket.write(Buffer.concat([bytes, Buffer.from('zz\r\nnot a chunk\r\n')])),
    reset: async (socket, bytes, c) => { socket.write(bytes); await c.saw; socket.resetAndDestroy(); },
    error: (socket, bytes, c) => socket.write(Buffer.concat([bytes, chunked([c.d.errors[0]])])),
  };
  let now;
  const h = await bothHouse({ raw: (socket) => { socket.write(SSE_HEAD); now.end(socket, chunked([...now.d.head, ...now.d.parts[now.kind]], false), now); } }, both, {
    aliases: { m: { ladder: [{ targets: ['up/model-x'] }], cache: { enabled: true } }, c: { ladder: [{ targets: ['claude/claude-x'] }], cache: { enabled: true } } },
  });
  let calls = 0;
  for (const [name, d] of dialects)
    for (const kind of ['text', 'tool', 'thinking'])
      for (const [ending, end] of Object.entries(endings))
        for (let again = 0; again < 2; again++) {
          const mark = `${name} ${kind} ${ending}`;
          now = { d, kind, end };
          now.saw = new Promise((resolve) => { now.see = resolve; });
          const c = ask(h.g, d.path, stream(d, { temperature: 0, max_tokens: 50, ...(name === 'responses' ? { max_tokens: undefined } : {}) }));
          c.until((t) => t.includes('Zür') || t.includes('Ich') || t.includes('Grü'), 'content').then(now.see, now.see);
          await c.done;
          calls++;
          assert.equal(c.status, 200, mark);
          assert.ok(c.whole, `${mark}: our own framing ends well`);
          assert.ok(!d.ends.test(c.text), `${mark}: no success terminator in ${c.text}`);
          assert.match(c.text, d.failed, mark);
          const record = await h.g.settled(c.id);
          assert.ok(record.code, `${mark}: recorded as failed`);
          assert.ok(record.estimated && record.usage.in > 0 && record.usage.out > 0 && record.cost_nanousd > 0, `${mark}: what came is billed`);
          assert.equal(h.up.count, calls, `${mark}: never cached, never tried again`);
        }
  await h.end();
});

test('S-08 a finish reason and one [DONE], also when the provider leaves them out or keeps its socket open', async () => {
  const d = DIALECTS.chat;
  const list = [...d.head, ...d.parts.text, ...d.tail];
  let stays;
  const h = await bothHouse((request, response) => { sse(response); response.write(stays.join('')); if (!stays.open) response.end(); });
  const check = async (pieces, open, asked) => {
    stays = pieces;
    stays.open = open;
    const c = await ask(h.g, d.path, stream(d, asked ? { stream_options: { include_usage: true } } : {})).done;
    const got = parsed(c.text);
    assert.ok(c.whole);
    assert.equal(got.filter(([, v]) => v === '[DONE]').length, 1);
    assert.equal(got.at(-1)[1], '[DONE]');
    assert.equal(got.filter(([, v]) => v.choices?.[0]?.finish_reason).length, 1);
    assert.equal(got.filter(([, v]) => v.usage).length, asked ? 1 : 0);
    if (asked) assert.deepEqual(got.at(-2)[1].choices, []);
    return h.g.settled(c.id);
  };
  for (const asked of [true, false]) {
    assert.deepEqual(usageOf(await check(list, false, asked)), d.usage);
    assert.deepEqual(usageOf(await check(list, true, asked)), d.usage, 'ends at once while the provider keeps its socket');
    assert.deepEqual(usageOf(await check(list.slice(0, -1), false, asked)), d.usage, 'without [DONE]');
    assert.ok((await check(list.slice(0, -2), false, asked)).estimated, 'closed right after the finish');
  }
  for (const [, other] of dialects.slice(1)) {
    stays = [wholeStream(other)];
    stays.open = true;
    const c = await ask(h.g, other.path, stream(other)).done;
    assert.ok(c.whole && !c.text.includes('[DONE]'));
    assert.equal(parsed(c.text).at(-1)[0], other === DIALECTS.messages ? 'message_stop' : 'response.completed');
  }
  await h.end();
});

test('S-09 usage comes when it was asked for, never else, and the bill is exact either way', async () => {
  const d = DIALECTS.chat;
  const say = (n) => ({ prompt_tokens: 9, completion_tokens: n, total_tokens: 9 + n });
  const text = ['a', 'b', 'c'];
  const finish = data(chunk({}, 'stop')), done = 'data: [DONE]\n\n', role = data(chunk({ role: 'assistant', content: '' }));
  const last = data({ ...chunk({}), choices: [], usage: say(3) });
  const providers = {
    'on request': (call) => role + text.map((w) => data(chunk({ content: w }, null, call.body.stream_options?.include_usage ? { usage: null } : {}))).join('') + finish + (call.body.stream_options?.include_usage ? last : '') + done,
    always: () => role + text.map((w) => data(chunk({ content: w }))).join('') + finish + last + done,
    'on each chunk': () => role + text.map((w, i) => data(chunk({ content: w }, null, { usage: say(i + 1) }))).join('') + data(chunk({}, 'stop', { usage: say(3) })) + done,
    'in the finish': () => role + text.map((w) => data(chunk({ content: w }))).join('') + data(chunk({}, 'stop', { usage: say(3) })) + done,
    'refuses stream_options': (call) => !call.body.stream_options && role + text.map((w) => data(chunk({ content: w }))).join('') + finish + done,
  };
  const h = await bothHouse(() => {});
  for (const [name, make] of Object.entries(providers))
    for (const asked of [true, false]) {
      h.up.answer = (request, response, call) => { const s = make(call); if (s) sse(response, s); else json(response, { error: { message: 'Unknown parameter: stream_options', type: 'invalid_request_error', param: 'stream_options', code: 'unknown_parameter' } }, 400); };
      const c = await ask(h.g, d.path, stream(d, asked ? { stream_options: { include_usage: true } } : {})).done;
      const mark = `${name}, ${asked ? 'asked' : 'not asked'}`;
      const record = await h.g.settled(c.id);
      if (name === 'refuses stream_options' && asked) {
        assert.deepEqual([c.status, JSON.parse(c.text).error.param], [400, 'stream_options'], mark);
        continue;
      }
      assert.equal(c.status, 200, `${mark}: ${c.text}`);
      const chunks = parsed(c.text).map(([, v]) => v).filter((v) => v !== '[DONE]');
      assert.equal(chunks.map((v) => v.choices[0]?.delta?.content ?? '').join(''), 'abc', mark);
      if (asked) {
        const end = chunks.pop();
        assert.deepEqual([end.choices, end.usage.completion_tokens, end.usage.prompt_tokens], [[], 3, 9], mark);
        assert.ok(chunks.every((v) => v.usage === null && v.choices.length), mark);
      } else {
        assert.ok(chunks.every((v) => !('usage' in v) && v.choices.length), mark);
      }
      if (name === 'refuses stream_options') assert.ok(record.estimated && record.usage.out >= 3, mark);
      else assert.deepEqual([usageOf(record), record.estimated ?? false], [{ in: 9, out: 3 }, false], mark);
    }
  const before = h.up.calls.length;
  assert.equal((await ask(h.g, d.path, stream(d)).done).status, 200);
  assert.equal(h.up.calls.length - before, 1, 'a provider that refused stream_options is not asked again');
  await h.end();
});

test('S-10 silence is bounded by clocks of its own, and a healthy long stream by none of them', { timeout: 60000 }, async () => {
  const d = DIALECTS.chat;
  const ways = {
    stalls: (response) => { sse(response); response.write(d.head[0] + words(1)[0]); },
    long: async (response) => { sse(response); for (let i = 0; i < 12 && !response.destroyed; i++) { response.write(words(1)[0]); await sleep(250); } response.end(d.tail.join('')); },
    comments: async (response) => { sse(response); while (!response.destroyed) { response.write(': working\n\n'); await sleep(100); } },
    silent: () => {},
  };
  const h = await bothHouse((request, response, call) => (call.body.model === 'well' ? sse(response, wholeStream(d)) : ways[call.body.metadata.way](response)), (up) => (dir) => confOf(dir, {
    backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY], timeouts: { connect: '1s', first_token: '1s', idle: '1s', total: '1h' } }, other: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY] } },
    aliases: { m: 'up/model-x', two: ['up/model-x', 'other/well'] }, health: { samples: 100000 }, teams: { search: teamOf() },
  }));
  const call = async (way, over = {}) => { const c = await ask(h.g, d.path, stream(d, { metadata: { way }, ...over })).done; return [c, await h.g.settled(c.id)]; };
  // Eight clients and four ways at once: a stalled provider holds nobody else up.
  const [stalls, long, comments, silent, next] = await Promise.all([call('stalls'), call('long'), call('comments'), call('silent'), call('silent', { model: 'two' }), call('stalls'), call('comments'), call('silent')]);
  assert.ok(stalls[0].whole && d.failed.test(stalls[0].text) && !d.ends.test(stalls[0].text));
  assert.equal(stalls[1].code, 'deadline_exceeded');
  assert.equal(long[0].text.split('word ').length - 1, 12);
  assert.equal(long[1].code, undefined);
  assert.ok(long[1].duration_us > 2000000, 'longer than any of the clocks');
  for (const c of [comments, silent]) assert.deepEqual([c[0].status, JSON.parse(c[0].text).error.code], [504, 'deadline_exceeded']);
  assert.equal(textOf(parsed(next[0].text)), 'Grüße \u{1F600} 漢字', 'the next rung answers');
  assert.deepEqual(next[1].attempts.map((a) => a.outcome), ['timeout', 'ok']);
  await until(() => h.up.open === 0, 'every connection upstream to be let go');
  await h.end();
});

test('S-10 a stalled provider gives its slots back', async () => {
  const d = DIALECTS.chat;
  const h = await bothHouse((request, response, call) => { sse(response, call.body.metadata ? undefined : wholeStream(d)); if (call.body.metadata) response.write(d.head[0] + words(1)[0]); }, (up) => (dir) => confOf(dir, {
    backends: { up: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY], timeouts: { idle: '1s' }, rate_limits: { in_flight: 4 } } },
    aliases: { m: 'up/model-x' }, health: { samples: 100000 }, teams: { search: teamOf() },
  }));
  const calls = await Promise.all(Array.from({ length: 8 }, () => ask(h.g, d.path, stream(d, { metadata: { way: 'stalls' } })).done));
  const full = calls.filter((c) => c.status !== 200);
  assert.equal(h.up.calls.length, 4);
  assert.equal(full.length, 4);
  for (const c of full) assert.deepEqual([c.status, JSON.parse(c.text).error.code, Number(c.headers['retry-after']) > 0], [503, 'no_healthy_target', true]);
  await h.g.idle();
  for (let i = 0; i < 2; i++) assert.deepEqual((await Promise.all(Array.from({ length: 4 }, () => ask(h.g, d.path, stream(d)).done))).map((c) => c.status), [200, 200, 200, 200]);
  await h.end();
});

test('S-11 a long event is relayed whole, one over the limit is an error and not a loss', { timeout: 60000 }, async () => {
  const h = await bothHouse(() => {});
  const d = DIALECTS.chat;
  for (const size of [65535, 65537, 1048577, 8 << 20]) {
    const text = 'x'.repeat(size);
    const ways = { text: { content: text }, tool: { tool_calls: [{ index: 0, id: 't0', type: 'function', function: { name: 'look', arguments: JSON.stringify(text) } }] }, image: { images: [{ image_url: { url: `data:image/png;base64,${text}` } }] } };
    for (const [name, delta] of Object.entries(ways).slice(0, size > 2 << 20 ? 1 : 3)) {
      const got = await seen(h, d, [data(chunk({ role: 'assistant', content: '' })), data(chunk({ content: 'a' })), data(chunk(delta)), ...d.tail]);
      assert.equal(got.code, undefined, `${name} of ${size}`);
      assert.ok(got.events.some(([, v]) => JSON.stringify(v.choices?.[0]?.delta) === JSON.stringify(delta)), `${name} of ${size} is whole`);
      assert.equal(got.events.at(-1)[1], '[DONE]');
      assert.deepEqual(got.usage, d.usage);
    }
  }
  const much = await seen(h, d, [data(chunk({ content: 'a' })), `data: {"choices":[{"index":0,"delta":{"content":"`, ...Array.from({ length: 17 }, () => 'x'.repeat(1 << 20)), '"}}]}\n\n', ...d.tail]);
  assert.ok(much.whole && d.failed.test(much.text) && !d.ends.test(much.text) && much.code);
  await h.end();
});

test('S-12 finish, usage and [DONE] in one segment or in three: the same bytes', async () => {
  const h = await bothHouse(() => {});
  for (const [name, d] of dialects)
    for (const over of d === DIALECTS.chat ? [{}, { stream_options: { include_usage: true } }] : [{}]) {
      const three = await seen(h, d, [...d.head, ...d.parts.text, ...d.tail], over);
      const one = await seen(h, d, [[...d.head, ...d.parts.text].join(''), d.tail.join('')], over);
      const all = await seen(h, d, wholeStream(d), over);
      assert.equal(one.text, three.text, name);
      assert.equal(all.text, three.text, name);
      assert.ok(one.text.split('\n').every((line) => line === '' || /^(data|event): /.test(line)), name);
    }
  await h.end();
});

test('S-14 empty or null choices, extra fields and a delta without role pass through a stream', async () => {
  const h = await bothHouse(() => {});
  const d = DIALECTS.chat;
  const filter = { id: '', object: '', created: 0, model: '', choices: [], prompt_filter_results: [{ prompt_index: 0, content_filter_results: { hate: { filtered: false } } }] };
  const got = await seen(h, d, [data(filter), data(chunk({ content: 'a' })), data({ ...chunk({}), choices: [] }), data({ ...chunk({}), choices: null }), data({ type: 'ping' }), data(chunk({ content: 'b', odd: { x: 1 } }, null, { odd: [1] })), ...d.tail]);
  assert.deepEqual([got.status, got.code, got.usage, textOf(got.events)], [200, undefined, d.usage, 'ab']);
  assert.ok(got.events.every(([, v]) => v === '[DONE]' || Array.isArray(v.choices)), 'clients walk over choices');
  assert.ok(got.text.includes('prompt_filter_results') && got.text.includes('"odd":[1]') && got.text.includes('"odd":{"x":1}'));
  await h.end();
});

test('S-15 each token leaves before the next one comes: nothing is gathered', async () => {
  for (const over of [{}, { aliases: { m: { ladder: [{ targets: ['up/model-x'] }], cache: { enabled: true } } } }]) {
    let go = () => {};
    const h = await bothHouse(async (request, response) => {
      sse(response);
      for (let i = 0; i < 10; i++) { const shown = new Promise((resolve) => { go = resolve; }); response.write(data(chunk({ content: `token${i}` }))); await shown; }
      response.end(DIALECTS.chat.tail.join(''));
    }, both, over);
    const c = ask(h.g, DIALECTS.chat.path, stream(DIALECTS.chat, { temperature: 0 }), { headers: { 'accept-encoding': 'gzip, br' } });
    for (let i = 0; i < 10; i++) { await c.until((t) => t.includes(`token${i}`), `token ${i} while the provider waits`); go(); }
    await c.done;
    assert.equal(c.headers['content-type'], 'text/event-stream');
    assert.deepEqual([c.headers['content-length'], c.headers['content-encoding']], [undefined, undefined]);
    await h.end();
  }
});

test('S-16 an error before the first token is a real status, not a 200 with an error in it', async () => {
  const opened = { chat: data({ error: { message: 'overloaded', type: 'server_error', code: 'overloaded' } }), messages: DIALECTS.messages.errors[0], responses: DIALECTS.responses.errors[0] };
  for (const ladder of [false, true])
    for (const [name, d] of dialects) {
      const h = await bothHouse(() => {}, both, ladder ? { aliases: { m: ['up/model-x', 'up/model-y'], c: ['claude/claude-x', 'claude/claude-y'] } } : {});
      const answers = [
        [400, (r) => json(r, { type: 'error', error: { type: 'invalid_request_error', message: 'prompt is too long: 9 > 8', code: 'context_length_exceeded' } }, 400), 2],
        [422, (r) => json(r, { type: 'error', error: { type: 'invalid_request_error', message: 'tools is wrong', code: 'bad_tools' } }, 422), 1],
        [502, (r) => json(r, { error: { message: 'down', type: 'server_error' } }, 500), 2],
        [502, (r) => sse(r, opened[name]), 2],
        [502, (r) => sse(r, [...d.head, opened[name]].join('')), 2],
        [429, (r) => json(r, { error: { message: 'slow', type: 'rate_limit' } }, 429, { 'retry-after': '1' }), 2],
      ];
      for (const [status, answer, tries] of answers) {
        h.up.answer = (request, response) => answer(response);
        const c = await ask(h.g, d.path, stream(d)).done;
        assert.equal(c.status, status, `${name}: ${c.text}`);
        assert.equal(c.headers['content-type'], 'application/json');
        const error = JSON.parse(c.text);
        assert.ok(error.error.message && (name === 'messages' ? error.type === 'error' && error.error.type : error.error.code), c.text);
        assert.equal((await h.g.settled(c.id)).attempts.length, ladder ? tries : 1, `${name}: the next rung was asked, and failed too`);
      }
      await h.end();
    }
});

test('S-18 JSON to a stream call and a stream to a plain call: the client gets the form it asked for', async () => {
  const message = { role: 'assistant', content: 'Hi there', refusal: null };
  const plain = {
    chat: completion('Hi there', { usage: { prompt_tokens: 9, completion_tokens: 5, total_tokens: 14 } }),
    messages: { id: 'msg_up1', type: 'message', role: 'assistant', model: 'claude-x', content: [{ type: 'text', text: 'Hi there' }], stop_reason: 'end_turn', stop_sequence: null, usage: { input_tokens: 25, output_tokens: 5 } },
    responses: JSON.parse(DIALECTS.responses.tail[0].split('data: ')[1]).response,
  };
  const h = await bothHouse(() => {});
  for (const [name, d] of dialects)
    for (const type of ['application/json', 'text/event-stream']) {
      h.up.answer = (request, response) => { response.writeHead(200, { 'content-type': type }); response.end(JSON.stringify(plain[name])); };
      const c = await ask(h.g, d.path, stream(d, d === DIALECTS.chat ? { stream_options: { include_usage: true } } : {})).done;
      assert.deepEqual([c.status, c.headers['content-type'], c.whole], [200, 'text/event-stream', true], `${name}: ${c.text}`);
      const got = parsed(c.text);
      assert.equal(textOf(got), name === 'responses' ? 'Grüße \u{1F600} 漢字' : 'Hi there', `${name} as ${type}`);
      assert.match(c.text, { chat: /data: \[DONE\]\n\n$/, messages: /event: message_stop\n/, responses: /event: response\.completed\n/ }[name]);
      assert.deepEqual(usageOf(await h.g.settled(c.id)), d.usage, name);
      h.up.answer = (request, response) => { response.writeHead(200, { 'content-type': type }); response.end(wholeStream(d)); };
      const p = await ask(h.g, d.path, d.ask).done;
      assert.deepEqual([p.status, p.headers['content-type']], [200, 'application/json'], `${name}: ${p.text}`);
      const body = JSON.parse(p.text);
      const text = { chat: () => body.choices[0].message.content, messages: () => body.content[0].text, responses: () => body.output[0].content[0].text }[name]();
      assert.equal(text, 'Grüße \u{1F600} 漢字', `${name} as ${type}`);
      assert.equal(body.usage.completion_tokens ?? body.usage.output_tokens, d.usage.out);
      assert.deepEqual(usageOf(await h.g.settled(p.id)), d.usage, name);
    }
  assert.ok(message);
  h.up.answer = (request, response) => { response.writeHead(200, { 'content-type': 'text/html' }); response.end('<html>sign in</html>'); };
  for (const body of [DIALECTS.chat.ask, stream(DIALECTS.chat)]) {
    const c = await ask(h.g, DIALECTS.chat.path, body).done;
    assert.deepEqual([c.status, JSON.parse(c.text).error.code], [502, 'upstream_failed']);
  }
  await h.end();
});

test('S-19 an empty 200 is a failure that may be tried again; an empty answer that finished is an answer', async () => {
  for (const [name, d] of dialects) {
    const h = await bothHouse(() => {}, both, { aliases: { m: ['up/model-x', 'up/well'], c: ['claude/claude-x', 'claude/well'] } });
    for (const [how, bytes] of Object.entries({ nothing: '', 'a start': d.head.join('') })) {
      h.up.answer = (request, response, call) => sse(response, call.body.model === 'well' ? wholeStream(d) : bytes);
      const c = await ask(h.g, d.path, stream(d)).done;
      assert.equal(textOf(parsed(c.text)), 'Grüße \u{1F600} 漢字', `${name} ${how}: ${c.text}`);
      assert.equal(parsed(c.text).filter(([, v]) => v.type === 'message_start' || v.type === 'response.created' || v.choices?.[0]?.delta?.role).length, 1, `${name} ${how}: one start`);
      const record = await h.g.settled(c.id);
      assert.deepEqual(record.attempts.map((a) => a.outcome), ['unavailable', 'ok'], name);
      const told = how === 'a start' && d === DIALECTS.messages; // message_start says what the provider will bill
      assert.deepEqual(usageOf(record), told ? { in: 50, out: 6 } : d.usage, `${name} ${how}: what gave nothing and told nothing costs nothing`);
      h.up.answer = (request, response) => sse(response, bytes);
      const none = await ask(h.g, d.path, stream(d)).done;
      assert.equal(none.status, 502, `${name} ${how}`);
    }
    const tail = d === DIALECTS.messages ? d.tail.slice(1) : d.tail;
    h.up.answer = (request, response) => sse(response, [...d.head, ...tail].join(''));
    const c = await ask(h.g, d.path, stream(d)).done;
    assert.equal(c.status, 200, name);
    assert.ok(c.whole && d.ends.test(c.text) && !d.failed.test(c.text), name);
    assert.deepEqual((await h.g.settled(c.id)).attempts.map((a) => a.outcome), ['ok'], name);
    await h.end();
  }
});

test('S-20 usage that the gateway does not know is relayed as given, and what the total holds beyond its parts is billed as output', async () => {
  const h = await bothHouse(() => {});
  const usage = { prompt_tokens: 3, completion_tokens: 7, total_tokens: 298, completion_tokens_details: { reasoning_tokens: 5, odd_tokens: 288 }, odd: { deep: [1, { x: 1.50 }] } };
  h.up.answer = (request, response, call) => (call.body.stream
    ? sse(response, data(chunk({ role: 'assistant', content: 'a' })) + data(chunk({}, 'stop')) + data({ ...chunk({}), choices: [], usage }) + 'data: [DONE]\n\n')
    : json(response, completion('a', { usage })));
  const plain = await ask(h.g, DIALECTS.chat.path, DIALECTS.chat.ask).done;
  assert.deepEqual(JSON.parse(plain.text).usage, usage);
  const c = await ask(h.g, DIALECTS.chat.path, stream(DIALECTS.chat, { stream_options: { include_usage: true } })).done;
  const { cost, ...told } = parsed(c.text).at(-2)[1].usage;
  assert.deepEqual(told, usage);
  assert.ok(cost > 0);
  for (const id of [plain.id, c.id]) { const r = await h.g.settled(id); assert.deepEqual([usageOf(r), r.estimated ?? false], [{ in: 3, out: 295 }, false]); }
  const d = DIALECTS.responses;
  const ended = JSON.parse(d.tail[0].split('data: ')[1]).response;
  for (const status of ['incomplete', 'failed']) {
    const value = { ...ended, status, error: status === 'failed' ? { code: 'server_error', message: 'died' } : null, incomplete_details: status === 'incomplete' ? { reason: 'max_output_tokens' } : null, usage: { input_tokens: 3, output_tokens: 7, total_tokens: 298, odd: 1 } };
    h.up.answer = (request, response) => sse(response, [...d.head, ...d.parts.text, frame({ type: `response.${status}`, response: value, sequence_number: 9 })].join(''));
    const got = await ask(h.g, d.path, stream(d)).done;
    const record = await h.g.settled(got.id);
    assert.deepEqual(usageOf(record), { in: 3, out: 295 }, status);
    assert.equal(record.estimated ?? false, false, `${status}: the provider told it`);
    if (status === 'incomplete') assert.equal(parsed(got.text).at(-1)[1].response.usage.total_tokens, 298);
    else assert.match(got.text, d.failed);
  }
  await h.end();
});

test('S-22 a last event without its blank line counts at a clean end, and not at a broken one', async () => {
  const h = await bothHouse(() => {});
  for (const [name, d] of dialects) {
    const list = [...d.head, ...d.parts.text, ...d.tail.filter((e) => !e.includes('[DONE]'))];
    const cut = list.join('').replace(/\n\n$/, '\n');
    const clean = await seen(h, d, cut);
    assert.deepEqual([clean.status, clean.code, clean.usage], [200, undefined, d.usage], name);
    assert.ok(d.ends.test(clean.text), name);
  }
  const d = DIALECTS.messages;
  h.up.answer = async (request, response) => { sse(response); response.write([...d.head, ...d.parts.text, ...d.tail].join('').replace(/\n\n$/, '\n')); await sleep(50); response.socket.resetAndDestroy(); };
  const c = await ask(h.g, d.path, stream(d)).done;
  assert.ok(d.failed.test(c.text) && !c.text.includes('message_stop'));
  assert.ok((await h.g.settled(c.id)).code);
  await h.end();
});
