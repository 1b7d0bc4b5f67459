/** `POST /x/types`: the types of an interface that no actor has yet. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { startInProcess } from '../../support/in-process-server.ts';
import { readInterface, type TypeTable } from '../../../subsystems/inspector/page/candid/read-interface.ts';
import { typeText } from '../../../subsystems/inspector/page/candid/type-text.ts';

suite('types of an interface that no actor has', () => {
  test('are those of its methods and of the arguments of init, which may use its definitions', async (t) => {
    const server = await startInProcess(t);
    const ask = (body: unknown) => server.post('/x/types', JSON.stringify(body));
    const initOf = async (body: unknown): Promise<unknown> => {
      const { status, body: text } = await ask(body);
      assert.equal(status, 200, text);
      const { init } = readInterface(JSON.parse(text) as TypeTable);
      return init?.map(({ name, type }) => [name, typeText(type)]);
    };
    const candid = 'type T = variant { a; b : T }; service : { get : () -> (T) query }';
    assert.deepEqual(await initOf({ candid, init: '(first : T, record { nat; text })' }), [
      ['first', 'T'],
      [undefined, 'record { nat; text }'],
    ]);
    assert.deepEqual(await initOf({ candid: 'service : (start : nat) -> {}' }), [['start', 'nat']]);
    // As at an installation, the service's own word counts.
    assert.deepEqual(await initOf({ candid: 'service : (start : nat) -> {}', init: '(text)' }), [['start', 'nat']]);
    assert.deepEqual(await initOf({ candid, init: '()' }), []);
    assert.equal(await initOf({ candid }), undefined);
    const { body } = await ask({ candid: `${candid.slice(0, -1)}; ${'x'.repeat(20_000)} : () -> () }`, init: '(T)' });
    assert.deepEqual(readInterface(JSON.parse(body) as TypeTable).init?.length, 1, 'a long one is read in a thread');
  });

  test('are refused where something is wrong with the text, by line and column', async (t) => {
    const server = await startInProcess(t);
    for (const [body, message] of [
      ['', /the body names no interface/],
      ['[]', /the body names no interface/],
      ['{"candid":7}', /the body names no interface/],
      ['{"candid":"service : {}","init":null}', /the body names no interface/],
      ['{"candid":"service : {"}', /line 1/],
      ['{"candid":"service : {}","init":"(Unknown)"}', /Unknown.* is not defined/],
      ['{"candid":"service : {}","init":"(nat) x"}', /the end of the init arguments/],
    ] as const) {
      const answer = await server.post('/x/types', body);
      assert.equal(answer.status, 400, body);
      assert.match(answer.body, message);
    }
    const large = await server.post('/x/types', JSON.stringify({ candid: 'x'.repeat(300_000) }));
    assert.equal(large.status, 413);
  });
});
