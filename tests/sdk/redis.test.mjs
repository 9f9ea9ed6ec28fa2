// Redis beside the built gateway: started without it, with it, frozen and killed under it.
import test from 'node:test';
import assert from 'node:assert/strict';
import { Gateway, Redis, mock, simple, until, usual } from './harness.mjs';

const ready = async (g) => JSON.parse(await (await g.admin('/readyz')).text());

test('a gateway starts without its Redis, says so, and uses it once it is there', { timeout: 60000 }, async () => {
  const up = await mock(usual()), redis = new Redis(['--requirepass', 'redis-canary-77']);
  const g = await new Gateway(simple(up, { redis: { url: redis.url, password: 'redis-canary-77', timeout: '200ms', when_down: { budget: 'allow' } } })).start();
  assert.equal((await g.chat()).status, 200);
  assert.match(g.log, /redis unix:\S+ is not to be had: cannot connect: No such file or directory; the gateway goes on without it/);
  assert.equal((await ready(g)).redis.state, 'down');
  assert.equal(await g.metric('redis_up'), 0);
  await redis.start();
  await until(async () => (await g.metric('redis_up')) === 1, 'Redis to be used');
  await redis.kill();
  await until(async () => (await ready(g)).redis.state === 'down', 'its death to be seen');
  await redis.start();
  await until(async () => (await ready(g)).redis.state === 'up', 'the new one to be used');
  redis.signal('SIGSTOP');
  await until(async () => (await ready(g)).redis.state === 'down', 'the frozen one to be seen');
  assert.equal((await g.chat()).status, 200);
  redis.signal('SIGCONT');
  await until(async () => (await ready(g)).redis.state === 'up', 'it to go on');
  for (const [sink, text] of Object.entries(await g.sinks())) assert.ok(!text.includes('redis-canary-77'), sink);
  await g.end();
  await redis.end();
  await up.stop();
});

test('a key made or revoked at one gateway is so at the others, whatever Redis forgets', { timeout: 60000 }, async () => {
  const up = await mock(usual()), redis = await new Redis().start();
  const open = () => new Gateway(simple(up, { redis: { url: redis.url, timeout: '500ms', when_down: { budget: 'allow' } } })).start(); // an empty Redis promises no money at first
  const [a, b] = [await open(), await open()];
  const status = async (g, key) => (await g.chat({}, { authorization: `Bearer ${key}` })).status;
  const made = await (await a.admin('/admin/keys', 'POST', { team: 'search', name: 'x' })).json();
  assert.equal(await status(a, made.key), 200);
  await until(async () => (await status(b, made.key)) === 200, 'the key to be admitted at the other gateway', 6000);
  await redis.kill();
  assert.equal((await b.admin(`/admin/keys/${made.id}`, 'DELETE')).status, 200);
  await redis.start(); // without its data
  await until(async () => (await status(a, made.key)) === 401, 'the revocation to arrive though Redis was away', 10000);
  const late = await open(); // one that was never there before
  await until(async () => /revoked/.test(await (await late.chat({}, { authorization: `Bearer ${made.key}` })).text()), 'the newcomer to know the tombstone', 6000);
  for (const g of [a, b, late]) await g.end();
  await redis.end();
  await up.stop();
});
