// Versions of adapters pushed over the admin port with tar and curl, as an operator does it.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, cpSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { ADMIN, Gateway, ROOT, confOf, teamOf } from './harness.mjs';

const tarOf = (voice) => execFileSync('tar', ['-cf', '-', '-C', join(ROOT, 'conf', 'tiny', 'adapters', voice), '.']);

test('a pushed version is served, the same again is 200, and what is cut, too large or no adapter leaves nothing', { timeout: 60000 }, async () => {
  const dir = mkdtempSync(join(tmpdir(), 'tollgate-push-')), adapters = join(dir, 'adapters');
  mkdirSync(adapters);
  cpSync(join(ROOT, 'conf', 'tiny', 'adapters', 'pirate'), join(adapters, 'voice', '1'), { recursive: true });
  const local = { protocol: 'decode', model: join(ROOT, 'conf', 'tiny', 'base'), name: 'tiny', max_context: 512, adapters: { directory: adapters, watch: '1h' }, price: { input: '0.05 USD/1M', output: '0.20 USD/1M' } };
  const g = await new Gateway((d) => confOf(d, { http: { max_upload: '8MiB' }, backends: { local }, aliases: { m: 'local/voice@2' }, teams: { search: teamOf() } }), dir).start();
  const put = async (path, body) => { const r = await fetch(g.adminUrl + path, { method: 'PUT', headers: { authorization: `Bearer ${ADMIN}` }, body }); return { status: r.status, body: await r.json() }; };
  try {
    const tar = tarOf('formal');
    const first = await put('/admin/adapters/voice/versions/2', tar);
    assert.deepEqual([first.status, first.body.pushed], [201, 'voice@2']);
    assert.equal((await put('/admin/adapters/voice/versions/2', tar)).status, 200);
    assert.equal((await g.chat({ model: 'm', messages: [{ role: 'user', content: 'Thank you' }], max_tokens: 8 })).status, 200);
    assert.equal((await put('/admin/adapters/voice/versions/2', tarOf('pirate'))).status, 400);
    assert.equal((await put('/admin/adapters/voice/versions/3', tar.subarray(0, 4000))).status, 400);
    assert.equal((await put('/admin/adapters/voice/versions/3', Buffer.alloc(9 << 20))).status, 413);
    assert.deepEqual(readdirSync(join(adapters, 'voice')).sort(), ['1', '2']);
    assert.deepEqual(readdirSync(adapters).sort(), ['.blobs', 'voice']);
  } finally { await g.end(); rmSync(dir, { recursive: true, force: true }); }
});
