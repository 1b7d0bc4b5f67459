import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc, { cases } from '../../support/properties.ts';
import { CyclesAccount } from '../../../subsystems/execution/engine/canister-state.ts';
import { chargeOf, instructionsAllowed, isDry, type MeteringPolicy } from '../../../subsystems/metering/index.ts';
import { POLICY } from './engine-fixture.ts';

const balance = fc.oneof(
  fc.bigInt({ min: 0n, max: 3_000_000n }),
  fc.bigInt({ min: 16_000_000_000n, max: 16_010_000_000n }),
  fc.bigInt({ min: 0n, max: 2n ** 100n }),
);
const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      charge: fc.oneof(
        fc.nat(1_000_000),
        fc.maxSafeNat().map((n) => n % 40_000_000_000),
      ),
    }),
  },
  { weight: 1, arbitrary: fc.record({ add: fc.bigInt({ min: -(2n ** 60n), max: 2n ** 60n }) }) },
  { weight: 1, arbitrary: fc.constant({ read: true }) },
);

test('an account that adds up its charges agrees with one that computes every balance', () => {
  fc.assert(
    fc.property(balance, fc.boolean(), fc.array(step, { maxLength: 40 }), (start, isEnabled, steps) => {
      const policy: MeteringPolicy = { ...POLICY, isEnabled };
      const account = new CyclesAccount(start, policy);
      let model = start;
      for (const s of steps) {
        assert.equal(account.isDry, isDry(policy, model));
        assert.equal(account.instructionsAllowed, instructionsAllowed(policy, model));
        if ('charge' in s) {
          const cost = BigInt(chargeOf(policy, s.charge));
          const taken = cost < model ? cost : model;
          assert.equal(account.charge(s.charge), Number(taken));
          model -= taken;
        } else if ('add' in s) {
          account.add(s.add);
          model = model + s.add < 0n ? 0n : model + s.add;
        } else {
          assert.equal(account.balance, model);
        }
      }
      assert.equal(account.balance, model);
    }),
    { numRuns: cases(1000) },
  );
});

test('charges of many messages add up without losing a cycle', () => {
  const account = new CyclesAccount(10n ** 30n, POLICY);
  for (let i = 0; i < 300_000; i++) account.charge(39_999_999_999);
  assert.equal(account.balance, 10n ** 30n - 300_000n * BigInt(chargeOf(POLICY, 39_999_999_999)));
});

test('a balance is never more than 128 bits hold', () => {
  const account = new CyclesAccount(5n, POLICY);
  account.add(2n ** 128n - 3n);
  assert.equal(account.balance, 2n ** 128n - 1n);
  account.add(-1n);
  assert.equal(account.balance, 2n ** 128n - 2n);
});
