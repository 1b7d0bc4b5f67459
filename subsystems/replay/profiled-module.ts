import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { FUEL_TESTS_SECTION } from '../instrument/index.ts';
import { ByteWriter } from '../wasm/index.ts';

const unpack = promisify(gunzip);

/** Resolves with the module as it is compiled for profiles. The bytes are those of an upload, packed or not. */
export async function profiledModule(uploaded: Uint8Array): Promise<Uint8Array> {
  const isPacked = uploaded[0] === 0x1f && uploaded[1] === 0x8b;
  const bytes = isPacked ? await unpack(uploaded) : uploaded;
  const out = new ByteWriter(bytes.length + 64);
  out.append(bytes);
  out.byte(0);
  out.unsigned(FUEL_TESTS_SECTION.length + 1);
  out.name(FUEL_TESTS_SECTION);
  return out.written();
}
