// An embedded engine with two workers and a real Redis: worker 0 owns it, and nobody can tell by which worker a call was taken.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Gateway, ROOT, Redis, call, confOf, events, run, teamOf, until } from './harness.mjs';

const TINY = join(ROOT, 'conf', 'tiny', 'base');
const ADAPTERS = join(ROOT, 'conf', 'tiny', 'adapters');
const GREEDY = JSON.parse(readFileSync(join(ROOT, 'conf', 'tiny', 'greedy.json')));
const VOICES = JSON.parse(readFileSync(join(ROOT, 'conf', 'tiny', 'greedy-adapters.json')));
const ready = async (g) => (await g.admin('/readyz')).json();
const ask = (prompt, over = {}) => ({ model: 'm', messages: [{ role: 'user', content: prompt }], temperature: 0, max_tokens: 64, ...over });
/** Settle records of one worker. */
const settledBy = (g, worker) => readdirSync(`${g.dir}/audit`).filter((f) => f.startsWith(`audit-test.${worker}-`))
  .flatMap((f) => readFileSync(`${g.dir}/audit/${f}`, 'utf8').split('\n').filter((l) => l.includes('"kind":"settle"')).map((l) => JSON.parse(l)));
/** A call on a connection of its own; asked again until the worker that is wanted has taken one. */
const by = async (g, worker, body) => {
  for (let i = 0; i < 40; i++) {
    const c = await call(g, body).done;
    const record = await g.settled(c.headers['x-request-id']);
    if (settledBy(g, worker).some((r) => r.request === record.request)) return { ...c, status: c.status, headers: c.headers, text: c.text, record };
  }
  return assert.fail(`worker ${worker} took no call`);
};

test('two workers and one engine: answers, streams, adapters, usage, cancel, and worker 0 killed', { timeout: 120000 }, async () => {
  const redis = await new Redis().start(), adapters = mkdtempSync(join(tmpdir(), 'tollgate-adapters-'));
  const put = (voice, path) => cpSync(join(ADAPTERS, voice), join(adapters, path), { recursive: true });
  mkdirSync(join(adapters, 'voice'));
  put('pirate', 'voice/1');
  const g = await new Gateway((dir) => confOf(dir, {
    workers: 2, redis: { url: redis.url, timeout: '500ms' },
    backends: { local: { protocol: 'decode', model: TINY, name: 'tiny', max_context: 512, max_sequences: 16, price: { input: '0.05 USD/1M', output: '0.20 USD/1M' }, adapters: { directory: adapters, watch: '1h' } } },
    aliases: { m: 'local/tiny', voice: { ladder: [{ targets: ['local/voice'] }], cache: { enabled: true } }, lost: 'local/nobody' },
    teams: { search: teamOf() },
  })).start();
  try {
    await until(async () => (await ready(g)).ledger === 'redis', 'the ledger to open', 15000);
    await until(async () => (await g.chat(ask('hi', { max_tokens: 1 }))).status === 200, 'a first call', 15000);
    const socket = join(g.dir, 'state', 'engine.sock');
    assert.equal((statSync(socket).mode & 0o777).toString(8), '600');
    const status = await new Promise((resolve, reject) => http.request({ socketPath: socket, path: '/run', method: 'POST', headers: { 'x-secret': '0'.repeat(64) } }, (r) => { r.resume(); resolve(r.statusCode); }).on('error', reject).end('{}'));
    assert.equal(status, 403, 'who does not know the secret is turned away');

    // the same answers, to the token and the nano-dollar, from both
    for (const worker of [1, 0]) {
      const { prompt, answer, tokens } = GREEDY[worker];
      const plain = await by(g, worker, ask(prompt));
      const body = JSON.parse(plain.text);
      assert.equal(body.choices[0].message.content, answer);
      assert.equal(body.choices[0].finish_reason, 'stop');
      assert.equal(body.usage.completion_tokens, tokens);
      assert.equal(plain.record.cost_nanousd, Math.ceil(body.usage.prompt_tokens * 50 + tokens * 200));
      assert.equal(plain.record.estimated ?? false, false);
      const stream = await by(g, worker, ask(prompt, { stream: true, stream_options: { include_usage: true } }));
      const list = events(stream.text);
      assert.equal(list.at(-1), '[DONE]');
      assert.equal(list.slice(0, -1).map((e) => JSON.parse(e).choices[0]?.delta?.content ?? '').join(''), answer);
      assert.equal(JSON.parse(list.at(-2)).usage.completion_tokens, tokens);
      const voice = await by(g, worker, ask('Thank you', { model: 'voice' }));
      assert.equal(JSON.parse(voice.text).choices[0].message.content, VOICES.pirate[1].answer);
      assert.equal(voice.headers['x-tollgate-target'], 'local/voice@1');
      const lost = await call(g, ask('hi', { model: 'lost' })).done;
      assert.equal(lost.status, 404, 'an unknown adapter is never the base');
      const bad = await call(g, ask('hi', { tools: 'x' })).done;
      assert.equal(bad.status, 400);
      const wide = await call(g, ask('hi', { top_k: -7 })).done;
      assert.equal(wide.status, 400);
      assert.equal(JSON.parse(wide.text).error.param, 'top_k');
      const long = await call(g, ask('word '.repeat(2000))).done;
      assert.equal(JSON.parse(long.text).error.code, 'context_length_exceeded', long.text);
    }

    // many at once over both
    const all = await Promise.all(GREEDY.slice(0, 8).flatMap(({ prompt, answer }) => [1, 2].map(async () => ({ answer, c: await call(g, ask(prompt)).done }))));
    for (const { answer, c } of all) assert.equal(JSON.parse(c.text).choices[0].message.content, answer);

    // another version of an adapter: what worker 1 has cached of the former one is not given any more
    put('formal', 'voice/2');
    assert.equal((await g.admin('/admin/adapters', 'POST', { name: 'voice', version: '2' })).status, 201);
    assert.equal((await g.admin('/admin/adapters/voice/promote', 'POST', { version: '2', reason: 'better' })).status, 200);
    for (const worker of [1, 0]) {
      const c = await by(g, worker, ask('Thank you', { model: 'voice' }));
      assert.equal(JSON.parse(c.text).choices[0].message.content, VOICES.formal[2].answer, `worker ${worker}`);
    }

    // a client that hangs up ends the run in worker 0
    const running = async () => g.metric('decode_running');
    const streams = Array.from({ length: 12 }, () => call(g, ask('Once', { stream: true, ignore_eos: true, max_tokens: 450 })));
    await until(() => streams.every((s) => s.text.includes('content')), 'all streams to run');
    for (const s of streams) s.request.destroy();
    await until(async () => (await running()) === 0, 'all runs to end');
    await g.idle();

    // worker 0 dies under a stream of worker 1: an error in the stream, then unavailable, then as before
    const pid = (await ready(g)).workers[0].pid;
    const cut = Array.from({ length: 12 }, () => call(g, ask('Once', { stream: true, ignore_eos: true, max_tokens: 450 })));
    await until(() => cut.every((s) => s.text.includes('content')), 'the streams to run');
    process.kill(pid, 'SIGKILL');
    await Promise.all(cut.map((s) => s.done.catch(() => {})));
    const told = cut.filter((s) => s.text.includes('"error"'));
    assert.ok(told.length > 0, 'streams of worker 1 are told');
    assert.ok(cut.every((s) => !s.text.includes('[DONE]')), 'no stream ended as if it were whole');
    await until(async () => { try { return (await ready(g)).workers[0].pid !== pid; } catch { return false; } }, 'worker 0 to be started again', 15000);
    await until(async () => (await ready(g)).workers[0].up, 'worker 0 to serve', 15000);
    await until(async () => (await by(g, 1, ask(GREEDY[0].prompt))).status === 200, 'worker 1 to reach the engine again', 15000);
    const again = await by(g, 1, ask(GREEDY[0].prompt));
    assert.equal(JSON.parse(again.text).choices[0].message.content, GREEDY[0].answer);
    assert.equal(await g.stop(), 0, g.log.slice(-3000));
    assert.equal((await run(['audit', 'verify', join(g.dir, 'audit')])).code, 0);
    const settled = g.records().filter((r) => r.kind === 'settle' || r.kind === 'refuse'), ids = settled.map((r) => r.request).filter(Boolean);
    assert.equal(new Set(ids).size, ids.length, 'no call was recorded twice');
  } finally {
    await g.stop('SIGKILL');
    await redis.end();
    rmSync(adapters, { recursive: true, force: true });
  }
});
