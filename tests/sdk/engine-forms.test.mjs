// What a caller may ask of the engine's answers: several of them, how likely their tokens were, JSON of a schema, calls of tools.
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Gateway, ROOT, confOf, events, teamOf } from './harness.mjs';

const TINY = join(ROOT, 'conf', 'tiny', 'base');
const dir = mkdtempSync(join(tmpdir(), 'tollgate-forms-'));
after(() => rmSync(dir, { recursive: true, force: true }));

/** The tiny model, with a template that tells of tools as Qwen's and Hermes' do. */
const withTools = () => {
  const model = join(dir, 'model'), file = join(model, 'tokenizer_config.json');
  cpSync(TINY, model, { recursive: true });
  const config = JSON.parse(readFileSync(file));
  config.chat_template = '{% if tools %}{% for tool in tools %}{{ tool.function.name }} {% endfor %}<tool_call>{% endif %}' + config.chat_template;
  writeFileSync(file, JSON.stringify(config));
  return model;
};
const conf = (model) => (d) => confOf(d, {
  backends: { local: { protocol: 'decode', model, name: 'tiny', max_context: 1024, max_sequences: 16, price: { input: '0.05 USD/1M', output: '0.20 USD/1M' } } },
  aliases: { m: 'local/tiny' }, teams: { search: teamOf() },
});
const chat = async (g, over) => { const r = await g.chat({ messages: [{ role: 'user', content: 'What is a budget?' }], temperature: 0, max_tokens: 48, ...over }); return { status: r.status, body: await r.json(), headers: r.headers }; };
const chunks = async (g, over) => events(await (await g.chat({ messages: [{ role: 'user', content: 'What is a budget?' }], temperature: 0, max_tokens: 48, stream: true, ...over })).text()).filter((e) => e !== '[DONE]').map((e) => JSON.parse(e));
const schema = { type: 'object', additionalProperties: false, required: ['title', 'tags', 'count'], properties: {
  title: { type: 'string', maxLength: 12 }, tags: { type: 'array', minItems: 1, maxItems: 3, items: { enum: ['red', 'green', 'blue'] } }, count: { type: 'integer' }, note: { type: ['string', 'null'], maxLength: 5 } } };
const fits = (v) => {
  assert.deepEqual(Object.keys(v).filter((k) => k !== 'note').sort(), ['count', 'tags', 'title']);
  assert.ok(typeof v.title === 'string' && [...v.title].length <= 12 && Number.isInteger(v.count));
  assert.ok(v.tags.length >= 1 && v.tags.length <= 3 && v.tags.every((t) => ['red', 'green', 'blue'].includes(t)));
};

test('n answers, their logprobs, JSON of a schema and calls of tools, plain and streamed', { timeout: 90000 }, async () => {
  const g = await new Gateway(conf(withTools())).start();
  try {
    // several choices: the first is what it is alone, usage counts the prompt once
    const one = await chat(g, { temperature: 2, seed: 7 });
    const three = await chat(g, { temperature: 2, seed: 7, n: 3 });
    assert.equal(three.status, 200, JSON.stringify(three.body));
    assert.deepEqual(three.body.choices.map((c) => c.index), [0, 1, 2]);
    assert.equal(three.body.choices[0].message.content, one.body.choices[0].message.content);
    assert.ok(new Set(three.body.choices.map((c) => c.message.content)).size > 1, 'choices differ');
    assert.equal(three.body.usage.prompt_tokens, one.body.usage.prompt_tokens);
    const again = await chunks(g, { temperature: 2, seed: 7, n: 3, stream_options: { include_usage: true } });
    for (const c of three.body.choices) assert.equal(again.flatMap((e) => e.choices).filter((x) => x.index === c.index).map((x) => x.delta.content ?? '').join(''), c.message.content);
    assert.equal(again.at(-1).usage.completion_tokens, three.body.usage.completion_tokens);

    // logprobs
    const lp = await chat(g, { logprobs: true, top_logprobs: 3, max_tokens: 8 });
    const content = lp.body.choices[0].logprobs.content;
    assert.equal(content.map((t) => t.token).join('').trimStart(), lp.body.choices[0].message.content.trimStart());
    for (const t of content) {
      assert.equal(t.top_logprobs.length, 3);
      assert.ok(t.logprob <= 0 && t.logprob === t.top_logprobs[0].logprob, 'at temperature 0 the likeliest is taken');
      assert.equal(Buffer.from(t.bytes).toString(), t.token);
    }
    const parts = await chunks(g, { logprobs: true, top_logprobs: 3, max_tokens: 8 });
    assert.deepEqual(parts.flatMap((e) => e.choices[0]?.logprobs?.content ?? []), content);
    const old = await (await g.fetch('/v1/completions', { model: 'm', prompt: 'A budget is', max_tokens: 9, temperature: 0, logprobs: 2 })).json();
    const l = old.choices[0].logprobs;
    assert.ok(l.tokens.length > 0);
    assert.deepEqual([l.token_logprobs, l.top_logprobs, l.text_offset].map((list) => list.length), Array(3).fill(l.tokens.length));
    assert.equal(l.tokens.join(''), old.choices[0].text);
    assert.equal(Object.keys(l.top_logprobs[0]).length, 2);

    // JSON, whatever the model would rather say, at any temperature
    const format = { type: 'json_schema', json_schema: { name: 'x', schema } };
    let whole = 0;
    const replies = await Promise.all(Array.from({ length: 12 }, (_, i) => chat(g, { response_format: format, temperature: i ? 1.5 : 0, seed: i, max_tokens: 200 })));
    for (const { status, body } of replies) {
      assert.equal(status, 200, JSON.stringify(body));
      const [choice] = body.choices;
      if (choice.finish_reason !== 'stop') { assert.equal(choice.finish_reason, 'length'); continue; }
      fits(JSON.parse(choice.message.content));
      whole++;
    }
    assert.ok(whole >= 10, `${whole} of 12 came to their end`);
    const alone = await chat(g, { response_format: format, temperature: 1.5, seed: 5, max_tokens: 200 });
    assert.equal(alone.body.choices[0].message.content, replies[5].body.choices[0].message.content, 'the same seed, the same text, alone and in company');
    const free = await chat(g, { response_format: { type: 'json_object' }, temperature: 1, seed: 3, max_tokens: 300 });
    if (free.body.choices[0].finish_reason === 'stop') assert.equal(typeof JSON.parse(free.body.choices[0].message.content), 'object');
    const cut = await chat(g, { response_format: format, max_tokens: 2 });
    assert.equal(cut.body.choices[0].finish_reason, 'length');
    const refused = await chat(g, { response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'object', properties: { a: { type: 'string', pattern: 'x' } } } } } });
    assert.equal(refused.status, 400);
    assert.equal(refused.body.error.param, 'response_format.json_schema.schema.properties.a.pattern');

    // a tool that has to be called is called, with arguments of its schema
    const tools = [{ type: 'function', function: { name: 'paint', parameters: schema } }, { type: 'function', function: { name: 'look', parameters: { type: 'object', properties: { far: { type: 'boolean' } }, required: ['far'] } } }];
    const named = await chat(g, { tools, tool_choice: { type: 'function', function: { name: 'paint' } }, max_tokens: 300, temperature: 1, seed: 1 });
    assert.equal(named.status, 200, JSON.stringify(named.body));
    assert.equal(named.body.choices[0].finish_reason, 'tool_calls', JSON.stringify(named.body));
    const [callOf] = named.body.choices[0].message.tool_calls;
    assert.equal(callOf.function.name, 'paint');
    assert.equal(named.body.choices[0].message.content, null);
    fits(JSON.parse(callOf.function.arguments));
    const streamed = await chunks(g, { tools, tool_choice: 'required', parallel_tool_calls: false, max_tokens: 300, temperature: 1, seed: 2 });
    const deltas = streamed.flatMap((e) => e.choices[0]?.delta?.tool_calls ?? []);
    assert.ok(['paint', 'look'].includes(deltas[0].function.name) && /^call_/.test(deltas[0].id));
    const args = JSON.parse(deltas.map((d) => d.function?.arguments ?? '').join(''));
    if (deltas[0].function.name === 'paint') fits(args); else assert.equal(typeof args.far, 'boolean');
    assert.ok(deltas.length > 3, 'arguments come in pieces');
    assert.equal(streamed.map((e) => e.choices[0]?.finish_reason).filter(Boolean).join(), 'tool_calls');
    const round = await chat(g, { tools, messages: [{ role: 'user', content: 'x' }, { role: 'assistant', content: null, tool_calls: [callOf] }, { role: 'tool', tool_call_id: callOf.id, content: 'done' }] });
    assert.equal(round.status, 200, JSON.stringify(round.body));
  } finally { await g.end(); }
  const plain = await new Gateway(conf(TINY)).start();
  try {
    const r = await chat(plain, { tools: [{ type: 'function', function: { name: 'f' } }] });
    assert.equal(r.status, 400);
    assert.equal(r.body.error.param, 'tools');
  } finally { await plain.end(); }
});
