import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { ServerError } from '../../kernel/index.ts';
import type { Execution, ModuleInfo } from '../execution/index.ts';
import { FUEL_TESTS_SECTION } from '../instrument/index.ts';
import { ByteWriter } from '../wasm/index.ts';

const unpack = promisify(gunzip);

/**
 * Resolves with a module whose code tests its fuel behind each charge. The bytes are those of an upload, packed or not.
 * Rejects as `prepare` does, and with ServerError `replay-none` for a module that these tests make too large.
 */
export async function profiledModule(execution: Pick<Execution, 'prepare'>, uploaded: Uint8Array): Promise<ModuleInfo> {
  const bytes = await withTests(uploaded);
  try {
    return await execution.prepare(bytes);
  } catch (error) {
    if (!(error instanceof ServerError && error.kind === 'invalid')) throw error;
    const text = `the code has no profile: for that it is compiled with more tests, and then ${error.message}`;
    throw new ServerError('invalid', 'replay-none', text, { cause: error });
  }
}

async function withTests(uploaded: Uint8Array): Promise<Uint8Array> {
  const isPacked = uploaded[0] === 0x1f && uploaded[1] === 0x8b;
  const bytes = isPacked ? await unpack(uploaded) : uploaded;
  const out = new ByteWriter(bytes.length + 64);
  out.append(bytes);
  out.byte(0);
  out.unsigned(FUEL_TESTS_SECTION.length + 1);
  out.name(FUEL_TESTS_SECTION);
  return out.written();
}
