// `tollgate adapter` against a running gateway with the tiny model: every verb, and what is refused.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Gateway, ROOT, confOf, run, teamOf } from './harness.mjs';

test('adapters are listed, added, compared, promoted when they reach what is required, rolled back, removed; costs and history are told', { timeout: 60000 }, async () => {
  const dir = mkdtempSync(join(tmpdir(), 'tollgate-verbs-')), adapters = join(dir, 'adapters'), prompts = join(dir, 'prompts.txt');
  const put = (voice, path) => cpSync(join(ROOT, 'conf', 'tiny', 'adapters', voice), join(adapters, path), { recursive: true });
  mkdirSync(adapters);
  put('pirate', 'voice/1');
  writeFileSync(prompts, 'Thank you\nWhat is a budget?\n\nHello\n');
  const g = await new Gateway((d) => confOf(d, {
    backends: { local: { protocol: 'decode', model: join(ROOT, 'conf', 'tiny', 'base'), name: 'tiny', max_context: 512, price: { input: '0.05 USD/1M', output: '0.20 USD/1M' }, adapters: { directory: adapters, watch: '1h' } } },
    aliases: { m: 'local/tiny', voice: 'local/voice' }, teams: { search: teamOf() },
  }), dir).start();
  const verb = (...words) => run(['adapter', ...words, '-c', g.file, '--admin', g.adminUrl.replace('http://', '')]);
  const good = async (...words) => { const r = await verb(...words); assert.equal(r.code, 0, `${words.join(' ')}: ${r.out}${r.err}`); return r.out; };
  const bad = async (pattern, ...words) => { const r = await verb(...words); assert.equal(r.code, 1, words.join(' ')); assert.match(r.err, pattern); };
  try {
    assert.match(await good('list'), /voice +1 +true +true/);
    put('formal', 'voice/2');
    await bad(/no such adapter/, 'add', 'voice', '3');
    assert.match(await good('add', 'voice', '2', '--reason', 'new'), /voice is served/);
    const compared = await good('compare', 'voice', '1', '2', '--prompts', prompts);
    assert.match(compared, /VERSION +FINISH +LENGTH +LOGPROB/);
    assert.match(compared, /prompts 3, same 0, similarity 0\.\d+/);
    const itself = JSON.parse(await good('compare', 'voice', '1', '1', '--prompts', prompts, '--format', 'json'));
    assert.deepEqual([itself.prompts, itself.same, itself.similarity], [3, 3, 1]);
    assert.ok(itself.versions[0].logprob < 0 && itself.versions[0].finish === 1 && itself.versions[0].length > 3);
    await bad(/not promoted: similarity is 0\.\d+, not >= 0.99/, 'promote', 'voice', '2', '--require', 'finish>=0.5, similarity>=0.99', '--prompts', prompts);
    await bad(/--prompts FILE is missing/, 'promote', 'voice', '2', '--require', 'finish>=1');
    await bad(/there is no figure/, 'promote', 'voice', '2', '--require', 'speed>=1', '--prompts', prompts);
    await bad(/a rule is FIGURE>=NUMBER/, 'promote', 'voice', '2', '--require', 'finish>1', '--prompts', prompts);
    assert.match(await good('list'), /voice +1 +true/, 'what was not reached has moved nothing');
    assert.match(await good('promote', 'voice', '2', '--require', 'finish>=0.9, logprob>=-5', '--prompts', prompts, '--reason', 'better'), /means the new version/);
    assert.match(await good('list'), /voice +2 +true/);
    await g.chat({ model: 'voice', max_tokens: 8 });
    await good('rollback', 'voice', '--reason', 'worse');
    const history = JSON.parse(await good('history', 'voice', '--format', 'json')).history;
    assert.deepEqual(history.map((h) => [h.act, h.version]).slice(-2), [['promote', '2'], ['rollback', '1']]);
    assert.equal(history.at(-2).reason, 'better');
    const { cost } = JSON.parse(await good('cost', '--format', 'json'));
    const two = cost.find((c) => c.version === '2');
    assert.ok(two.tokens > 0 && two.device_us > 0 && two.bytes > 0, JSON.stringify(two));
    assert.deepEqual(cost.slice(-2).map((c) => c.name), ['(base)', '(idle)']);
    assert.match(await good('cost'), /\(idle\)/);
    await good('remove', 'voice@2');
    await bad(/there is none called voice@2/, 'remove', 'voice@2');
    await bad(/is no name of an adapter/, 'history', '../x');
    await bad(/did you mean list/, 'lst');
    await bad(/tollgate adapter list/, 'promote', 'voice');
    const acts = g.records().filter((r) => r.kind === 'admin' && /adapter/.test(r.what ?? r.act ?? '')).length;
    assert.ok(acts >= 4, 'acts are in the audit log');
  } finally { await g.end(); }
  rmSync(dir, { recursive: true, force: true });
});
