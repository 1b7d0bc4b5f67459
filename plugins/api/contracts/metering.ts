/** `svc/contracts/metering`: the suite that every price list has to pass. */
import assert from 'node:assert/strict';
import { createMetering, type MeteringOptions } from '../../../subsystems/metering/create-metering.ts';
import { chargeOf, instructionsAllowed, isDry, type Metering } from '../../../subsystems/metering/index.ts';
import { nodeRunner, suite, type SuiteContext, type SuiteRunner } from './runner.ts';

/** Makes the server's own metering, with the defaults of its flags or with these options. */
export type OwnMetering = (options?: Partial<MeteringOptions>) => Metering;

const DEFAULTS: MeteringOptions = {
  isEnabled: true,
  instructionLimit: 40_000_000_000,
  startingCycles: 100_000_000_000_000n,
};

export function describeMetering(
  name: string,
  make: (context: SuiteContext, own: OwnMetering) => Metering | Promise<Metering>,
  runner: SuiteRunner = nodeRunner,
): void {
  suite(runner, name, (test) => {
    const made = async (t: SuiteContext): Promise<Metering> =>
      make(t, (options) => createMetering({ ...DEFAULTS, ...options }));

    test('the policy has all its numbers, and they are whole', async (t) => {
      const { policy } = await made(t);
      assert.equal(typeof policy.isEnabled, 'boolean');
      for (const key of ['cyclesPerMessage', 'cyclesPer10Instructions'] as const)
        assert.ok(Number.isSafeInteger(policy[key]) && policy[key] >= 0, `${key}: ${policy[key]}`);
      assert.ok(Number.isSafeInteger(policy.instructionLimit) && policy.instructionLimit > 0);
      assert.ok(typeof policy.startingCycles === 'bigint' && policy.startingCycles >= 0n);
    });

    test('the policy can be handed to a thread, and stays as it is', async (t) => {
      const metering = await made(t);
      const first = structuredClone(metering.policy);
      assert.deepEqual(first, { ...metering.policy }, 'it is plain data');
      assert.deepEqual(structuredClone(metering.policy), first);
    });

    test('more instructions never cost less, and what a balance allows it can pay', async (t) => {
      const { policy } = await made(t);
      let before = 0;
      for (const instructions of [0, 1, 9, 10, 11, 1000, 1_000_001, policy.instructionLimit]) {
        const charge = chargeOf(policy, instructions);
        assert.ok(Number.isSafeInteger(charge) && charge >= before, `${instructions} instructions cost ${charge}`);
        before = charge;
      }
      for (const balance of [0n, 1n, 589_999n, 590_000n, 1_180_001n, 10n ** 9n, 10n ** 14n, policy.startingCycles]) {
        if (isDry(policy, balance)) continue;
        const allowed = instructionsAllowed(policy, balance);
        assert.ok(allowed >= 0 && allowed <= policy.instructionLimit);
        if (policy.isEnabled) assert.ok(BigInt(chargeOf(policy, allowed)) <= balance, `${balance} allows ${allowed}`);
      }
    });
  });
}
