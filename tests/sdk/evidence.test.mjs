// Evidence, from outside: the log survives a kill and a full disk, a cut of it is seen, and what is exported from it is
// proved by the very commands that audit/README.md gives.
import test from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { appendFileSync, readFileSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Webhook } from 'standardwebhooks';
import { Redis, ROOT, house, json, mock, run, simple, until, usual } from './harness.mjs';

const segments = (g) => readdirSync(join(g.dir, 'audit')).filter((f) => f.endsWith('.jsonl')).sort().map((f) => join(g.dir, 'audit', f));

/** A gateway whose heads are signed every ten records, and anchored in a file. */
async function sealed(over = {}, answer = usual(), beside = {}) {
  const keys = {};
  const conf = (up, more, team) => (dir) => {
    keys.private = join(dir, 'head.pem');
    keys.public = join(dir, 'head.pub.pem');
    keys.heads = join(dir, 'heads.jsonl');
    execFileSync('openssl', ['genpkey', '-algorithm', 'ed25519', '-out', keys.private], { stdio: 'ignore' });
    execFileSync('openssl', ['pkey', '-in', keys.private, '-pubout', '-out', keys.public], { stdio: 'ignore' });
    const made = simple(up, more, team);
    const value = typeof made === 'function' ? made(dir) : made;
    return { ...value, ...beside, audit: { directory: join(dir, 'audit'), head: { every: 10, interval: '1s', key: `\${file:${keys.private}}`, anchor: [{ file: keys.heads }] }, ...over } };
  };
  const h = await house(answer, conf);
  return { ...h, keys, audit: join(h.g.dir, 'audit'), end: () => h.end() };
}

async function calls(g, n) {
  const ids = [];
  for (let i = 0; i < n; i++) {
    const r = await g.chat();
    assert.equal(r.status, 200);
    await r.text();
    ids.push(r.headers.get('x-request-id'));
  }
  return ids;
}

test('kill -9: the log verifies, sealed by its key, and a cut tail is told by the anchored heads alone', { timeout: 60000 }, async () => {
  const h = await sealed();
  await calls(h.g, 12);
  await until(() => { try { return readFileSync(h.keys.heads, 'utf8').includes('"kind":"head"'); } catch { return false; } }, 'a head in the anchor');
  await h.g.stop('SIGKILL');
  appendFileSync(segments(h.g).at(-1), '{"seq":99,"time":"20'); // a line that the crash tore
  await h.g.start();
  await calls(h.g, 3);
  await h.g.stop();
  assert.ok(h.g.records().some((r) => r.what === 'torn_line'));
  const whole = await run(['audit', 'verify', h.audit, '--key', h.keys.public, '--head', h.keys.heads, '--format', 'json']);
  assert.equal(whole.code, 0, whole.out + whole.err);
  const verdict = JSON.parse(whole.out);
  assert.deepEqual([verdict.clean, verdict.unsealed, verdict.signatures_checked, verdict.complete_from], [true, 0, true, 1]);
  assert.ok(verdict.anchors >= 2 && verdict.signatures >= 2);
  const blind = await run(['audit', 'verify', h.audit]);
  assert.match(blind.out, /signatures were not checked .*nothing counts as sealed/);
  const file = segments(h.g).at(-1), text = readFileSync(file, 'utf8');
  truncateSync(file, text.slice(0, -1).lastIndexOf('\n') + 1); // the last head goes, at the end of a line
  const alone = JSON.parse((await run(['audit', 'verify', h.audit, '--key', h.keys.public, '--format', 'json'])).out);
  assert.ok(alone.clean && alone.unsealed > 0);
  const anchored = await run(['audit', 'verify', h.audit, '--key', h.keys.public, '--head', h.keys.heads]);
  assert.equal(anchored.code, 1);
  assert.match(anchored.out, /truncated: /);
  writeFileSync(file, text.replace('"status":200', '"status":201'));
  const edited = await run(['audit', 'verify', h.audit, '--key', h.keys.public]);
  assert.match(edited.out, /\.jsonl:\d+: record \d+: edited: /);
  writeFileSync(file, text);
  await h.end();
});

test('heads that a stream in Redis and a webhook keep prove the log as those in a file do', { timeout: 60000 }, async () => {
  const secret = 'whsec_' + Buffer.from('canary-of-the-webhook-0123456789').toString('base64');
  const redis = await new Redis().start(), hook = await mock((request, response) => json(response, {}));
  const h = await sealed({ head: { every: 5, interval: '1s', key: '${file:head.pem}', anchor: [{ stream: 'heads' }] } }, usual(),
    { redis: { url: redis.url, when_down: { budget: 'allow' } }, alerts: [{ url: `${hook.url}/hook`, secret, events: ['audit_head'] }] });
  const ask = async () => (await redis.ask('XRANGE tollgate:heads - +')).split('\r\n').filter((l) => l.startsWith('{'));
  await calls(h.g, 12);
  const told = () => hook.calls.filter((c) => c.body?.event === 'audit_head');
  const both = async () => (await ask()).length >= 3 && told().length >= 3;
  await until(async () => (await both()) || (await calls(h.g, 1), false), 'heads in both'); // a head follows records
  await h.g.stop();
  const kept = await ask();
  for (const line of kept) assert.equal(JSON.parse(line).kind, 'head');
  for (const c of told()) {
    const { figures } = new Webhook(secret).verify(c.text, c.headers);
    assert.ok(kept.some((line) => JSON.parse(line).hash === figures.head.hash), 'both keep the same heads');
  }
  const from = { stream: kept, webhook: told().map((c) => JSON.stringify(c.body.figures.head)) };
  const file = segments(h.g).at(-1), text = readFileSync(file, 'utf8');
  for (const [who, heads] of Object.entries(from)) {
    const at = join(h.g.dir, `${who}.jsonl`);
    writeFileSync(at, heads.map((l) => `${l}\n`).join(''));
    const verify = () => run(['audit', 'verify', h.audit, '--key', h.keys.public, '--head', at]);
    const good = await verify();
    assert.equal(good.code, 0, who + good.out + good.err);
    const last = Math.max(...heads.map((l) => JSON.parse(l).seq));
    truncateSync(file, text.indexOf(`"seq":${last},`) - 1); // it goes, and all after it
    assert.match((await verify()).out, /truncated: /, who);
    writeFileSync(file, text);
  }
  await h.end();
  await hook.stop();
  await redis.end();
});

test('audit export: one request, proved with bash, sed, sha256sum and openssl as audit/README.md says', { timeout: 60000 }, async () => {
  const h = await sealed();
  const ids = await calls(h.g, 15);
  await h.g.stop();
  const out = join(h.g.dir, 'export');
  const made = await run(['audit', 'export', h.audit, '--request', ids[7], '--out', out]);
  assert.equal(made.code, 0, made.err);
  assert.match(made.out, /^2 records in .*: 2 proved by \d+ signed heads, 0 not sealed yet/);
  const shown = readFileSync(join(out, 'records.jsonl'), 'utf8');
  assert.ok(shown.includes(ids[7]) && ids.every((id, i) => i === 7 || !readdirSync(out).some((f) => readFileSync(join(out, f), 'latin1').includes(id))), 'nothing of the others is shown');
  const recipe = /```bash\n(# audit export[\s\S]*?)```/.exec(readFileSync(join(ROOT, 'audit/README.md'), 'utf8'))[1];
  const check = () => spawnSync('bash', ['-c', recipe], { cwd: out, env: { ...process.env, PUB: h.keys.public }, encoding: 'utf8' });
  const good = check();
  assert.deepEqual([good.status, good.stdout.trim()], [0, 'proved: 2 records'], good.stderr);
  for (const [file, from, to] of [['records.jsonl', '"status":200', '"status":500'], ['trees.jsonl', '"tree_from":', '"tree_from":9'], ['head-1.txt', 'test.0', 'test.1']]) {
    const path = join(out, file), text = readFileSync(path, 'utf8');
    writeFileSync(path, text.replace(from, to));
    assert.notEqual(readFileSync(path, 'utf8'), text, file);
    assert.notEqual(check().status, 0, file);
    writeFileSync(path, text);
  }
  assert.equal(check().status, 0);
  await h.end();
});

test('content.store: digest proves bytes by a keyed digest, streams too; no word of them and no key is in any sink', { timeout: 60000 }, async () => {
  const key = 'content-canary-key-0123456789';
  const h = await sealed({ content: { store: 'digest', key } });
  const sum = (text) => createHmac('sha256', key).update(text).digest('hex');
  for (const stream of [false, true]) {
    const body = JSON.stringify({ model: 'm', stream, messages: [{ role: 'user', content: 'canary-word-zwölf' }] });
    const r = await h.g.fetch('/v1/chat/completions', body, { 'x-tollgate-content': 'none', 'x-no-log': 'false' });
    const text = await r.text();
    const record = await h.g.settled(r.headers.get('x-request-id'));
    assert.deepEqual([record.request_digest, record.answer_digest], [sum(body), sum(text)], `stream: ${stream}`);
    assert.equal(h.g.records().find((a) => a.kind === 'admit' && a.request === record.request).request_digest, sum(body));
  }
  for (const [where, text] of Object.entries(await h.g.sinks())) assert.ok(!/canary-word|content-canary/.test(text), where);
  await h.end();
});

test('content.store: full is read back by the key alone, without what redact blanks; a flipped byte is named; shred ends it', { timeout: 60000 }, async () => {
  const key = '00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff';
  const redact = ['user', 'messages[*].secret', '/canary-[a-z]+/'];
  const h = await sealed({ content: { store: 'full', key, redact } }, usual(['It is can', 'ary-answer', ' they say']));
  const keyFile = join(h.g.dir, 'content.key');
  writeFileSync(keyFile, `${key}\n`);
  const ids = [];
  for (const stream of [false, true]) {
    const body = JSON.stringify({ model: 'm', stream, user: 'canary-user', messages: [{ role: 'user', content: 'say \\u0063anary-word zwölf', secret: { deep: ['canary-path'] } }] }).replace('\\\\u', '\\u');
    const r = await h.g.fetch('/v1/chat/completions', body, { 'x-tollgate-content': 'none' });
    await r.text();
    ids.push(r.headers.get('x-request-id'));
    const record = await h.g.settled(ids.at(-1));
    assert.ok(record.content_file && record.content_digest && !record.content_lost, JSON.stringify(record));
  }
  const show = async (id, ...more) => {
    const r = await run(['audit', 'show', h.audit, '--request', id, '--kind', 'settle', '--content', '--content-key', keyFile, '--format', 'json', ...more]);
    return { code: r.code, ...JSON.parse(r.out.trim().split('\n').at(-1)) };
  };
  const stored = () => readdirSync(h.audit).filter((f) => f.startsWith('content-')).map((f) => join(h.audit, f));
  await until(async () => (await show(ids[1])).content, 'the frames are written');
  for (const id of ids) {
    const { content } = await show(id);
    assert.deepEqual(content.request.messages, [{ role: 'user', content: 'say [redacted] zwölf', secret: '[redacted]' }]);
    assert.equal(content.request.user, '[redacted]');
    assert.equal(content.answer.choices[0].message.content, 'It is [redacted] they say');
  }
  for (const file of stored()) assert.ok(!/canary/.test(readFileSync(file, 'latin1')), file);
  for (const [where, text] of Object.entries(await h.g.sinks())) assert.ok(!/canary-(word|user|path|answer)|00112233/.test(text), where);
  assert.equal((await run(['audit', 'verify', h.audit, '--content'])).code, 0);

  const file = stored().find((f) => f.endsWith('.sealed')), whole = readFileSync(file);
  writeFileSync(file, whole.map((b, i) => (i === 40 ? b ^ 1 : b)));
  assert.match((await show(ids[0])).fault, /not those whose digest the record has/);
  const found = await run(['audit', 'verify', h.audit, '--content']);
  assert.deepEqual([found.code, /content of req.*not those whose digest/.test(found.out)], [1, true], found.out);
  writeFileSync(file, whole);
  const other = join(h.g.dir, 'other.key');
  writeFileSync(other, key.replaceAll('0', '9'));
  assert.match((await show(ids[0], '--content-key', other)).fault, /not sealed by this key/);

  const day = (await h.g.settled(ids[0])).time.slice(0, 10), conf = h.g.file;
  const gone = await run(['audit', 'shred', '--team', 'search', '--day', day, '--reason', 'asked to', '-c', conf, '--admin', h.g.adminUrl]);
  assert.equal(gone.code, 0, gone.err);
  assert.equal(JSON.parse(gone.out).keys_destroyed, 1);
  assert.deepEqual(stored().filter((f) => f.endsWith('.key')), []);
  for (const id of ids) assert.match((await show(id)).fault, /^shredded on 20.* by admin: asked to$/);
  assert.equal((await run(['audit', 'verify', h.audit, '--content'])).code, 0, 'the log stays provable');

  const later = await h.g.chat({ messages: [{ role: 'user', content: 'later' }] });
  await later.text();
  const id = later.headers.get('x-request-id');
  await until(async () => (await show(id)).content, 'content goes on under a new key');

  rmSync(stored().find((f) => f.endsWith('.key'))); // a key that goes behind the gateway's back
  const lost = await h.g.chat({ messages: [{ role: 'user', content: 'lost' }] });
  assert.equal(lost.status, 200, await lost.text());
  assert.ok((await h.g.settled(lost.headers.get('x-request-id'))).cost_nanousd > 0, 'the record is there whatever becomes of the body');
  await until(() => h.g.records().some((r) => r.what === 'content_lost' && r.request === lost.headers.get('x-request-id')), 'a note of what was lost');
  assert.equal(await h.g.metric('audit_content_lost_total'), 1);
  const after = await h.g.chat({ messages: [{ role: 'user', content: 'after' }] });
  await after.text();
  await until(async () => (await show(after.headers.get('x-request-id'))).content, 'content goes on');
  await h.g.stop();
  const off = await run(['audit', 'shred', '--team', 'search', '--day', day, '--reason', 'again', '-c', conf]);
  assert.equal(off.code, 0, off.err);
  assert.match((await show(after.headers.get('x-request-id'))).fault, /by command line: again$/);
  const verdict = await run(['audit', 'verify', h.audit, '--key', h.keys.public]);
  assert.equal(verdict.code, 0, verdict.out + verdict.err);
  await h.end();
});
