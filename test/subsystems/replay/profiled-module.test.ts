/** Code as it is compiled for profiles: larger than the code that runs, so it may be too large. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { ServerError } from '../../../kernel/index.ts';
import type { ModuleInfo } from '../../../subsystems/execution/index.ts';
import { profiledModule } from '../../../subsystems/replay/profiled-module.ts';
import { wat } from '../../support/wat.ts';

const MODULE = wat('(module (func (export "canister_update run")))');

test('code that gets too large with more tests is refused as code without a profile', async () => {
  const tooLarge = new ServerError('invalid', 'module-bad', 'function 3 has 3300044 bytes when instrumented');
  const busy = new ServerError('unavailable', 'server-stopping', 'the server is stopping');
  const failing = async (error: Error): Promise<ModuleInfo> => {
    const prepare = async (): Promise<never> => {
      throw error;
    };
    return await profiledModule({ prepare }, MODULE);
  };
  await assert.rejects(failing(tooLarge), {
    code: 'replay-none',
    message: /^the code has no profile: .* function 3 has 3300044 bytes/,
  });
  await assert.rejects(failing(busy), busy);
});

test('packed code is compiled like the same code unpacked', async () => {
  const prepared: Uint8Array[] = [];
  const prepare = async (bytes: Uint8Array): Promise<ModuleInfo> => {
    prepared.push(bytes);
    return {} as ModuleInfo;
  };
  for (const uploaded of [MODULE, gzipSync(MODULE)]) await profiledModule({ prepare }, uploaded);
  const [plain, packed] = prepared;
  assert.deepEqual(packed, plain);
  assert.equal(
    WebAssembly.Module.customSections(new WebAssembly.Module(Buffer.from(plain ?? [])), 'svc:fuel-tests').length,
    1,
  );
});
