/** The canisters of a host, and those in TypeScript that tests of HTTP have in their place, keep the same promises. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { CONTRACT_CANISTER } from '../../../plugins/api/contracts/support/contract-canister.ts';
import type { SuiteRunner } from '../../../plugins/api/contracts/runner.ts';
import { type Canister, Canisters, type RemoveOptions } from '../../../subsystems/canisters/index.ts';
import { hostOf } from '../../support/host-kernel.ts';
import { startKernel } from '../../support/kernel.ts';
import { CounterCanisters } from '../http/counter-host.ts';
import { type CanistersUnderTest, describeCanisters } from './describe-canisters.ts';

/** Ends of what all tests share. */
const ends: (() => Promise<void>)[] = [];
after(async () => {
  for (const end of ends) await end();
});

async function startService(): Promise<CanistersUnderTest> {
  const { plugins, config } = await hostOf(['--executors', '1', '--heartbeat-ms', '0'], import.meta.dirname);
  const kernel = await startKernel({ after: (end) => void ends.push(end) }, plugins, {
    config,
    disabled: new Set(['manifest', 'compiler']),
  });
  const canisters = kernel.get(Canisters);
  const message = { kind: 'update', method: 'print', caller: Uint8Array.of(4), argument: Buffer.from('[]') } as const;
  return {
    canisters,
    module: CONTRACT_CANISTER,
    trapping: 'fail',
    print: (canister) => canisters.call(canister, { ...message, addressedBy: 'name' }),
  };
}

function countersUnderTest(canisters = new CounterCanisters()): CanistersUnderTest {
  return {
    canisters,
    module: Uint8Array.of(0, 0x61, 0x73, 0x6d),
    trapping: 'boom',
    print: (canister) => canisters.resolve(canister.name).print('a line'),
  };
}

let service: Promise<CanistersUnderTest> | undefined;
describeCanisters('the canisters of a host', () => (service ??= startService()));
describeCanisters('canisters in TypeScript', () => countersUnderTest());

class Forgetful extends CounterCanisters {
  override async remove(canister: Canister, options?: RemoveOptions): Promise<void> {
    if (options?.endsCalls !== true) await super.remove(canister, options);
  }
}

class Deaf extends CounterCanisters {
  override watch(): Disposable {
    return { [Symbol.dispose]: () => undefined };
  }
}

class Poor extends CounterCanisters {
  override async addCycles(canister: Canister, amount: bigint): Promise<bigint> {
    return this.resolve(canister.name).balance + amount;
  }
}

test('canisters that break a promise do not pass', async () => {
  for (const Broken of [Forgetful, Deaf, Poor]) {
    const failed: string[] = [];
    const running: Promise<void>[] = [];
    const runner: SuiteRunner = {
      describe: (_name, body) => body(),
      test: (name, body) => void running.push(body().catch(() => void failed.push(name))),
    };
    describeCanisters(Broken.name, () => countersUnderTest(new Broken()), runner);
    await Promise.all(running);
    assert.ok(failed.length > 0, Broken.name);
  }
});
