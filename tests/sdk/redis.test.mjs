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
