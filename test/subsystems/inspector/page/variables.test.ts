import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import type { Canister } from '../../../../subsystems/canisters/index.ts';
import { ApiError } from '../../../../subsystems/inspector/page/api-errors.ts';
import { isCopying, memberText, waysTo } from '../../../../subsystems/inspector/page/variables.ts';
import { ActorVariables, tooManyWait } from '../../../../subsystems/variables/actor-variables.ts';
import { FakeClock } from '../../../support/fake-clock.ts';

const actor = (name: string): Canister =>
  ({ name, idHex: name, heapBytes: 1, stableBytes: 0 }) as Partial<Canister> as Canister;

suite('answers about variables', () => {
  test('the text of a member is found behind and before all that looks like it', () => {
    const name = fc.oneof(fc.constantFrom('value', 'x', '"value":', 'a,"value":1', '\\', '\\"'), fc.string());
    fc.assert(
      fc.property(name, fc.json(), fc.json(), (path, value, tail) => {
        const answer = `{"copy":1,"path":${JSON.stringify(path)},"inner":{"value":3},"value":${value},"total":${tail}}`;
        assert.equal(memberText(answer, 'value'), value.trim());
        assert.equal(memberText(answer, 'total'), tail.trim());
        assert.equal(memberText(answer, 'other'), '');
      }),
      { numRuns: 500 },
    );
  });

  test('digits stay as they came', () => {
    assert.equal(memberText('{"value":123456789012345678901234567890}', 'value'), '123456789012345678901234567890');
  });

  test('a path has the ways to it', () => {
    assert.deepEqual(waysTo('users[3].name'), ['users', 'users[3]', 'users[3].name']);
    assert.deepEqual(waysTo('one'), ['one']);
  });

  test('what the server says of a copy that is being made is asked again, other refusals are not', async () => {
    const clock = new FakeClock();
    const variables = new ActorVariables({
      canisters: {
        copyState: () => new Promise<never>(() => undefined),
        watch: () => ({ [Symbol.dispose]: () => undefined }),
      },
      memory: { holdMemory: () => () => undefined },
      clock,
    });
    try {
      for (const name of ['shop', 'other']) {
        const answer = assert.rejects(variables.list(actor(name)), (error: Error & { code?: string }) => {
          assert.equal(error.code, name === 'shop' ? 'variables-copying' : 'variables-busy');
          assert.ok(isCopying(new ApiError(503, error.message)), error.message);
          assert.ok(!isCopying(new ApiError(500, error.message)));
          return true;
        });
        while (clock.pending === 0) await new Promise((resolve) => setImmediate(resolve));
        clock.advance(1_000);
        await answer;
      }
      assert.ok(isCopying(new ApiError(503, tooManyWait().message)));
    } finally {
      await variables.close();
    }
    assert.ok(!isCopying(new ApiError(503, 'memory is short: free some')));
    assert.ok(!isCopying(new Error('is still being copied; try again in a second')));
  });
});
