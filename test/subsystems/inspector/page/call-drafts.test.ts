import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { CallAnswer } from '../../../../subsystems/inspector/page/api.ts';
import { CallDraft, CallDrafts } from '../../../../subsystems/inspector/page/call-drafts.ts';
import { callableMethods } from '../../../../subsystems/inspector/page/callable-methods.ts';
import type { Parameter } from '../../../../subsystems/inspector/page/candid/did-types.ts';
import type { FormValue } from '../../../../subsystems/inspector/page/candid/form-value.ts';
import { readDid } from './read-did.ts';

function parametersOf(types: string): readonly Parameter[] {
  return readDid(`service : { f : (${types}) -> () }`).methods[0]?.parameters ?? [];
}

/** Makes a form of one number, with this text in it. */
function numberDraft(typed: string): { draft: CallDraft; field: FormValue & { kind: 'text' } } {
  const draft = new CallDraft(parametersOf('nat'));
  const field = draft.values?.[0];
  assert.ok(field?.kind === 'text');
  field.text = typed;
  draft.isTouched = typed !== '';
  return { draft, field };
}

suite('a call that is begun', () => {
  const parameters = parametersOf('nat');

  test('is not written while something is wrong with it, and says what', () => {
    const { draft, field } = numberDraft('1x');
    assert.equal(draft.write(parameters, false), undefined);
    assert.equal(draft.problems.get(field), 'expected a nat: digits only');
    draft.showJson(true, parameters, false);
    assert.equal(draft.isJson, false);
    assert.equal(draft.problems.size, 1);
    field.text = '1';
    assert.equal(draft.write(parameters, false), '[1]');
    assert.equal(draft.problems.size, 0);
  });

  test('an untouched form becomes JSON with gaps, for whoever would rather write that', () => {
    const { draft } = numberDraft('');
    draft.showJson(true, parameters, false);
    assert.deepEqual([draft.isJson, draft.json], [true, '[null]']);
  });

  test('edited JSON becomes the form, and the form becomes JSON; what does not fit stays, with its problem', () => {
    const { draft } = numberDraft('1');
    draft.showJson(true, parameters, false);
    draft.json = '[ 99 ]';
    draft.showJson(false, parameters, false);
    assert.equal(draft.isJson, false);
    draft.showJson(true, parameters, false);
    assert.equal(draft.json, '[99]');
    draft.setLossless(true, parameters);
    assert.equal(draft.json, '[{"$svc": "nat", "value": "99"}]');
    draft.setLossless(false, parameters);
    assert.equal(draft.json, '[99]');
    for (const [json, problem] of [
      ['[true]', 'argument 1: expected a text or a number'],
      ['[1, 2]', 'the method takes 1 arguments, not 2'],
      ['{}', 'expected a JSON array of arguments: [ … ]'],
    ] as const) {
      draft.json = json;
      draft.showJson(false, parameters, false);
      assert.deepEqual([draft.isJson, draft.json, draft.jsonProblem], [true, json, problem]);
      draft.setLossless(true, parameters);
      assert.deepEqual([draft.wantsLossless, draft.json], [false, json]);
    }
    assert.equal(draft.write(parameters, false), undefined, 'nothing wrong is sent');
  });

  test('is called once at a time', async () => {
    const { draft } = numberDraft('1');
    const { promise, resolve } = Promise.withResolvers<CallAnswer>();
    let calls = 0;
    const call = (): Promise<CallAnswer> => {
      calls++;
      return promise;
    };
    const first = draft.run(call);
    await draft.run(call);
    assert.deepEqual([calls, draft.isRunning], [1, true]);
    resolve({ status: 200, messageId: undefined, text: '[]', ms: 1 });
    await first;
    assert.deepEqual([draft.isRunning, draft.answer?.text], [false, '[]']);
    await draft.run(() => Promise.reject(new Error('no')));
    assert.deepEqual([draft.answer, String(draft.error)], [undefined, 'Error: no']);
  });

  test('without a form is JSON, with the reason if the form would be too large', () => {
    assert.deepEqual([new CallDraft(undefined).isJson, new CallDraft(undefined).formProblem], [true, undefined]);
    const wide = new CallDraft(parametersOf(new Array<string>(2_001).fill('nat').join(', ')));
    assert.ok(wide.isJson);
    assert.match(wide.formProblem ?? '', /more than 2000 fields/);
  });

  test('is kept while others are looked at, within a bound', () => {
    const drafts = new CallDrafts();
    const first = drafts.of('first', parameters);
    for (let index = 0; index < 29; index++) drafts.of(String(index), parameters);
    assert.equal(drafts.of('first', parameters), first);
    for (let index = 0; index < 30; index++) drafts.of(String(index), parameters);
    assert.notEqual(drafts.of('first', parameters), first);
  });
});

test('a method is called as the module exports it, whatever the interface says; that it is one-way, the interface says', () => {
  const described = readDid(
    'service : { a : () -> () query; b : () -> () oneway; c : () -> (); gone : () -> () query }',
  ).methods;
  const exported = [
    { name: 'd', kind: 'query' },
    { name: 'a', kind: 'update' },
    { name: 'b', kind: 'update' },
    { name: 'c', kind: 'query' },
  ];
  const methods = callableMethods({ methods: exported }, described);
  assert.deepEqual(
    methods.map(({ name, kind }) => `${name} ${kind}`),
    ['a update', 'b oneway', 'c query', 'gone query', 'd query'],
  );
});
