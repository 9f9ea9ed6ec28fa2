// The tiny model behind its real door, what the command line says of a conf and what the gateway then does, and what
// `serve`, `check` and the installer say when a machine or a model is not as it should be.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { BINARY, Gateway, PROVIDER_KEY, ROOT, confOf, events, mock, run, teamOf, until, usual } from './harness.mjs';

const TINY = join(ROOT, 'conf', 'tiny', 'base');
const GREEDY = JSON.parse(readFileSync(join(ROOT, 'conf', 'tiny', 'greedy.json')));
const folders = [];
const folder = () => { const dir = mkdtempSync(join(tmpdir(), 'tollgate-engine-')); folders.push(dir); return dir; };
after(() => { for (const dir of folders) rmSync(dir, { recursive: true, force: true }); });

const confAround = (model) => (dir) => confOf(dir, {
  backends: { local: { protocol: 'decode', model, name: 'tiny', max_context: 512, max_sequences: 16, price: { input: '0.05 USD/1M', output: '0.20 USD/1M' } } },
  aliases: { m: 'local/tiny' },
  teams: { search: teamOf() },
});
const ask = (prompt, over = {}) => ({ messages: [{ role: 'user', content: prompt }], temperature: 0, max_tokens: 64, ...over });
const bothConf = (up, team = {}) => (dir) => confOf(dir, {
  backends: { one: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY] }, other: { protocol: 'openai', url: `${up.url}/v1`, api_keys: [PROVIDER_KEY] } },
  aliases: { two: { ladder: [{ targets: ['one/a'] }, { targets: ['other/b'] }], cache: { enabled: true } } },
  teams: { search: teamOf(team) },
});
const answerOf = (body) => body.choices[0].message.content;

test('the committed greedy answers come through the door: alone, streamed, and all together among sampled ones', { timeout: 60000 }, async () => {
  const g = await new Gateway(confAround(TINY)).start();
  try {
    for (const { prompt, answer, tokens } of GREEDY) {
      const plain = await g.chat(ask(prompt));
      assert.equal(plain.status, 200);
      const body = await plain.json();
      assert.equal(answerOf(body), answer);
      assert.equal(body.choices[0].finish_reason, 'stop');
      assert.equal(body.usage.completion_tokens, tokens);
      const nanousd = Math.ceil(body.usage.prompt_tokens * 50 + tokens * 200);
      assert.equal(Math.round(Number(plain.headers.get('x-tollgate-cost')) * 1e9), nanousd, 'the price of every token, to the nano-dollar');
    }
    const streams = await Promise.all(GREEDY.map(async ({ prompt }) => (await g.chat(ask(prompt, { stream: true }))).text()));
    streams.forEach((text, i) => {
      const list = events(text);
      assert.equal(list.at(-1), '[DONE]');
      assert.equal(list.slice(0, -1).map((e) => JSON.parse(e).choices[0]?.delta?.content ?? '').join(''), GREEDY[i].answer);
    });
    const noise = Array.from({ length: 7 }, (_, i) => g.chat(ask(GREEDY[i].prompt, { temperature: 1.5, seed: i })));
    const one = await g.chat(ask(GREEDY[9].prompt));
    assert.equal(answerOf(await one.json()), GREEDY[9].answer);
    for (const r of await Promise.all(noise)) assert.equal(r.status, 200);
    await g.idle();
    assert.equal((await run(['audit', 'verify', join(g.dir, 'audit')])).code, 0);
  } finally { await g.end(); }
});

const VOICES = JSON.parse(readFileSync(join(ROOT, 'conf', 'tiny', 'greedy-adapters.json')));
const confOfVoices = (over = {}) => (dir) => {
  const conf = confAround(TINY)(dir);
  Object.assign(conf.backends.local, { adapters: { directory: join(ROOT, 'conf', 'tiny', 'adapters') } }, over.local);
  return { ...conf, aliases: { m: 'local/tiny', 'ft-*': { ladder: [{ targets: ['local/*'] }, { targets: ['local/tiny'], degraded: true }] }, pirate: 'local/pirate', lost: 'local/nobody', ...over.aliases } };
};

test('three adapters and the base answer in one batch, each in its own voice, named with its version and priced as its base', { timeout: 60000 }, async () => {
  const g = await new Gateway(confOfVoices()).start();
  try {
    const all = Object.entries(VOICES).flatMap(([name, rows]) => rows.map((row) => ({ ...row, name, model: `ft-${name}` })));
    const base = GREEDY.map((row) => ({ ...row, model: 'm' }));
    const asked = [...all, ...base];
    const replies = await Promise.all(asked.map(async (row) => { const r = await g.chat(ask(row.prompt, { model: row.model })); return { row, r, body: await r.json() }; }));
    for (const { row, r, body } of replies) {
      assert.equal(r.status, 200);
      assert.equal(answerOf(body), row.answer, row.model);
      assert.equal(body.model, row.model, 'the reply says what was asked');
      assert.equal(body.usage.completion_tokens, row.tokens);
      assert.match(r.headers.get('x-tollgate-target'), row.name ? new RegExp(`^local/${row.name}@[0-9a-f]{12}$`) : /^local\/tiny$/);
      assert.equal(Math.round(Number(r.headers.get('x-tollgate-cost')) * 1e9), Math.ceil(body.usage.prompt_tokens * 50 + row.tokens * 200));
    }
    const models = (await (await g.fetch('/v1/models', undefined)).json()).data;
    assert.deepEqual(models.filter((m) => ['m', 'pirate'].includes(m.id)).map((m) => [m.id, m.root, m.parent]).sort(), [['m', 'local/tiny', null], ['pirate', 'local/pirate', 'tiny']]);
    const direct = await (await g.chat(ask(VOICES.pirate[0].prompt, { model: 'pirate' }))).json();
    assert.equal(answerOf(direct), VOICES.pirate[0].answer);
    const version = replies[0].r.headers.get('x-tollgate-target').split('@')[1];
    const exact = await g.chat(ask(VOICES.pirate[0].prompt, { model: `ft-pirate@${version}` }));
    assert.equal(answerOf(await exact.json()), VOICES.pirate[0].answer);
  } finally { await g.end(); }
});

test('an adapter that does not exist is 404, never the base, not even as a lower rung', { timeout: 60000 }, async () => {
  const g = await new Gateway(confOfVoices()).start();
  try {
    for (const model of ['ft-pirat', 'ft-Pirate', 'ft-pirate@', 'ft-pirate@000000000000', 'ft-../base', 'ft-base:pirate', 'ft-.', 'lost', 'adaptr', 'local/pirate', '']) {
      const r = await g.chat(ask('hi', { model }));
      const body = await r.json();
      assert.equal(r.status, model === '' ? 400 : 404, `${model}: ${JSON.stringify(body)}`);
      if (model !== '') assert.equal(body.error.code, 'model_not_found', model);
    }
  } finally { await g.end(); }
});

test('adapters come, go, move and return over the admin port while streams run, and a load that cannot be served is a refusal with its reason', { timeout: 90000 }, async () => {
  const dir = folder(), adapters = join(dir, 'adapters');
  mkdirSync(adapters);
  const put = (voice, path) => cpSync(join(ROOT, 'conf', 'tiny', 'adapters', voice), join(adapters, path), { recursive: true });
  put('pirate', 'voice/1');
  const g = await new Gateway(confOfVoices({ local: { adapters: { directory: adapters, watch: '1h' } }, aliases: { voice: 'local/voice' } }), dir).start();
  const act = async (method, path, body) => { const r = await g.admin(path, method, body); return { status: r.status, body: await r.json() }; };
  const says = async (model) => { const r = await g.chat(ask('Thank you', { model })); return r.status === 200 ? answerOf(await r.json()) : r.status; };
  const [pirate, formal] = [VOICES.pirate[1].answer, VOICES.formal[2].answer];
  try {
    assert.equal(await says('voice'), pirate);
    const stream = g.chat(ask('Thank you', { model: 'voice', stream: true }));
    put('formal', 'voice/2');
    assert.equal((await act('POST', '/admin/adapters', { name: 'voice', version: '2' })).status, 201);
    assert.equal(await says('voice'), pirate, 'a new version does not go live by itself');
    assert.equal(await says('ft-voice@2'), formal);
    assert.equal((await act('POST', '/admin/adapters/voice/promote', { version: '2', reason: 'better' })).status, 200);
    assert.equal(await says('voice'), formal);
    assert.match(await (await stream).text(), /Arr/);
    assert.equal((await act('POST', '/admin/adapters/voice/rollback', {})).status, 200);
    assert.equal(await says('voice'), pirate);
    assert.equal((await act('POST', '/admin/adapters/voice/rollback', {})).status, 400);
    mkdirSync(join(adapters, 'bad'));
    for (const f of ['adapter_config.json', 'adapter_model.safetensors']) writeFileSync(join(adapters, 'bad', f), '{}');
    const bad = await act('POST', '/v1/load_lora_adapter', { lora_name: 'bad', lora_path: join(adapters, 'bad') });
    assert.equal(bad.status, 400);
    assert.match(bad.body.error.message, /adapter_config\.json: peft_type must be/);
    for (const body of [{ lora_name: 'nowhere', lora_path: '/nowhere' }, { lora_name: '../voice' }, { lora_name: 'voice', lora_path: '/etc/passwd' }, {}]) assert.equal((await act('POST', '/v1/load_lora_adapter', body)).status, 400, JSON.stringify(body));
    assert.equal((await act('POST', '/v1/unload_lora_adapter', { lora_name: 'voice' })).status, 200);
    assert.equal((await act('POST', '/v1/unload_lora_adapter', { lora_name: 'voice' })).status, 400);
    assert.equal(await says('voice'), 404);
    assert.equal((await act('POST', '/v1/load_lora_adapter', { lora_name: 'voice' })).status, 201);
    assert.equal(await says('voice'), pirate);
    const list = (await act('GET', '/admin/adapters')).body.adapters;
    assert.deepEqual(list.filter((a) => a.listed).map((a) => [a.name, a.version, a.present]).sort(), [['voice', '1', true], ['voice', '2', false]]);
    assert.match(list.find((a) => a.name === 'bad').why, /peft_type/);
    assert.equal((await act('PUT', '/admin/adapters/voice/versions/3')).status, 400);
  } finally { await g.end(); }
});

test('a corrupt model directory gets a sentence with file and tensor from check and serve, and serve ends with 1', async () => {
  const edits = {
    'model.safetensors: cut': [(dir) => { const f = join(dir, 'model.safetensors'); writeFileSync(f, readFileSync(f).subarray(0, -100)); }, /model\.safetensors: tensor \S+: ends at byte/],
    'model.safetensors: another shape': [(dir) => { const f = join(dir, 'config.json'); writeFileSync(f, readFileSync(f, 'utf8').replace('"intermediate_size":320', '"intermediate_size":321')); }, /tensor model\.layers\.\d+\.mlp\.\w+\.weight/],
    'model.safetensors: no such tensor': [(dir) => { const f = join(dir, 'model.safetensors'); writeFileSync(f, Buffer.from(readFileSync(f).toString('latin1').replace('model.norm.weight', 'model.morn.weight'), 'latin1')); }, /tensor model\.\w+\.weight/],
    'tokenizer.json: no JSON': [(dir) => writeFileSync(join(dir, 'tokenizer.json'), '{'), /tokenizer\.json/],
    'config.json: gone': [(dir) => rmSync(join(dir, 'config.json')), /config\.json/],
  };
  for (const [name, [spoil, sentence]] of Object.entries(edits)) {
    const dir = folder(), model = join(dir, 'model');
    cpSync(TINY, model, { recursive: true });
    spoil(model);
    const g = new Gateway(confAround(model), dir);
    for (const verb of ['serve', 'check']) {
      const r = await run([verb, '-c', g.file]);
      assert.equal(r.code, 1, `${name}: ${verb} ended with ${r.code}: ${r.out}${r.err}`);
      assert.match(r.out + r.err, sentence, `${name}: ${verb}`);
    }
  }
});

test('a port that is taken is one sentence and status 1', async () => {
  const holder = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => holder.on('listening', resolve));
  const { port } = holder.address();
  try {
    for (const over of [{ listen: [{ address: `127.0.0.1:${port}` }] }, { admin: { address: `127.0.0.1:${port}`, token: 'x'.repeat(20) } }]) {
      const dir = folder();
      const g = new Gateway((d) => ({ ...confAround(TINY)(d), ...over }), dir);
      const r = await run(['serve', '-c', g.file]);
      assert.equal(r.code, 1);
      assert.equal(r.err.trim().split('\n').filter((l) => l.includes(String(port))).length, 1, r.err);
      assert.match(r.err, /in use/);
    }
  } finally { holder.close(); }
});

test('the installer says in one sentence what hinders it: no sudo, a locked dpkg, no apt-get', async () => {
  const dir = folder(), bin = join(dir, 'bin');
  mkdirSync(bin);
  const tool = (name, text) => { writeFileSync(join(bin, name), `#!/bin/sh\n${text}\n`); chmodSync(join(bin, name), 0o755); };
  for (const name of ['grep', 'mktemp', 'rm', 'head', 'env']) tool(name, `exec /usr/bin/${name} "$@"`);
  const packages = (...args) => new Promise((resolve) => {
    const child = spawn('/bin/sh', [join(ROOT, '.ci', 'packages'), ...args], { env: { PATH: bin, TMPDIR: dir }, stdio: ['ignore', 'pipe', 'pipe'] });
    let text = '';
    for (const s of [child.stdout, child.stderr]) s.on('data', (d) => { text += d; });
    child.on('exit', (code) => resolve({ code, text }));
  });
  tool('dpkg-query', 'echo installed');
  assert.deepEqual(await packages('run'), { code: 0, text: '' }, 'what is there is not installed again, and nothing is asked');
  tool('dpkg-query', 'exit 1');
  tool('id', 'echo 1000');
  let r = await packages('run');
  assert.equal(r.code, 1);
  assert.match(r.text, /^These packages are missing and apt-get is not here[^\n]*\n$/);
  tool('apt-get', 'echo "$@" >>"$TMPDIR/asked"; case " $* " in *" install "*) echo "E: Could not get lock /var/lib/dpkg/lock-frontend"; exit 100;; esac');
  r = await packages('run');
  assert.equal(r.code, 1);
  assert.match(r.text, /^These packages are missing; install them as root:[^\n]*\n$/);
  tool('id', 'echo 0');
  r = await packages('run');
  assert.equal(r.code, 1);
  assert.match(r.text, /^installing:[^\n]*\ndpkg is locked by another program[^\n]*\n$/);
  assert.equal(readFileSync(join(dir, 'asked'), 'utf8').split('\n').filter((l) => / update$/.test(l)).length, 1, 'one update');
  tool('apt-get', 'echo "E: Unable to locate package gcc"; exit 100');
  assert.match((await packages('run')).text, /apt-get could not install[^\n]*: E: Unable to locate/);
});

test('serve --demo admits its key from state, prints a call that works as pasted, and ends with 0 on Ctrl-C', async () => {
  const dir = folder();
  const conf = confAround(TINY)(dir);
  conf.teams = { demo: { allow: ['m'], budgets: [{ limit: '10 USD', period: 'month' }] } };
  writeFileSync(join(dir, 'c.yaml'), JSON.stringify(conf));
  const child = spawn(BINARY, ['serve', '--demo', '-c', join(dir, 'c.yaml')], { cwd: dir, stdio: ['ignore', 'pipe', 'pipe'] });
  const exited = new Promise((resolve) => child.on('exit', resolve));
  let out = '';
  const curl = await new Promise((resolve) => child.stdout.on('data', (d) => { out += d; const line = /^curl .*$/m.exec(out); if (line && out.endsWith('\n')) resolve(line[0]); }));
  try {
    const shell = spawn('/bin/sh', ['-c', curl], { stdio: ['ignore', 'pipe', 'inherit'] });
    let text = '';
    shell.stdout.on('data', (d) => { text += d; });
    await new Promise((resolve) => shell.on('exit', resolve));
    assert.equal(answerOf(JSON.parse(text)), GREEDY.find((one) => one.prompt === 'What is a budget?').answer);
    const key = /Bearer (\S+)'/.exec(curl)[1];
    assert.ok(!readFileSync(join(dir, 'state', 'keys.jsonl'), 'utf8').includes(key), 'state knows the digest only');
  } finally { child.kill('SIGINT'); }
  assert.equal(await exited, 0);
});

test('explain says what the gateway then does: plan, hold, cache, refusals', async () => {
  const up = await mock(usual());
  const dir = folder();
  const g = await new Gateway((d) => ({ ...bothConf(up)(d) }), dir).start();
  try {
    const body = { model: 'two', temperature: 0, max_tokens: 7, messages: [{ role: 'user', content: 'Hi' }] };
    writeFileSync(join(dir, 'body.json'), JSON.stringify(body));
    const said = await run(['explain', '-c', g.file, '--team', 'search', '--body', join(dir, 'body.json')]);
    assert.equal(said.code, 0, said.err);
    const planned = [...said.out.matchAll(/^ +\d+\. ([^\s,:]+)/gm)].map((m) => m[1]);
    const reply = await g.chat(body);
    assert.equal(reply.status, 200);
    const admit = await until(() => g.records().find((r) => r.kind === 'admit' && r.request === reply.headers.get('x-request-id')), 'the admit record');
    assert.deepEqual(planned, admit.plan, said.out);
    const hold = new RegExp(`hold on ${admit.plan[0]}: at most ([0-9.]+) USD`).exec(said.out)[1];
    assert.equal(Math.round(Number(hold) * 1e9), admit.hold_nanousd, said.out);
    assert.match(said.out, /cache: yes/);
    assert.equal(reply.headers.get('x-tollgate-cache'), 'miss');
    await reply.text();
    const nope = await run(['explain', '-c', g.file, '--team', 'search', '--model', 'nope']);
    assert.equal(nope.code, 1);
    assert.match(nope.err, /404 model_not_found/);
    assert.equal((await g.chat({ model: 'nope' })).status, 404);
    assert.equal(up.calls.length, 1, 'explain calls nothing');
  } finally { await g.end(); await up.stop(); }
});

test('a budget resets at midnight of its zone, and says so at the door', async () => {
  const up = await mock(usual());
  const zone = 'Pacific/Kiritimati'; // 14 hours ahead all year
  const g = await new Gateway((d) => bothConf(up, { budgets: [{ limit: '0.000001 USD', period: 'day', timezone: zone }] })(d)).start();
  try {
    const refused = await g.chat({ max_tokens: 100, model: 'two' });
    assert.equal(refused.status, 402);
    const own = await (await g.fetch('/v1/key')).json();
    const shifted = new Date(Date.now() + 14 * 3600e3);
    const midnight = Date.UTC(shifted.getUTCFullYear(), shifted.getUTCMonth(), shifted.getUTCDate() + 1) - 14 * 3600e3;
    assert.equal(Date.parse(own.budgets[0].resets), midnight);
  } finally { await g.end(); await up.stop(); }
});
