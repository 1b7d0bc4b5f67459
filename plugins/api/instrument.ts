/**
 * `svc/instrument`: the instrumenter by itself, for hosts of other kinds. Bytes of a module in, bytes of a metered and
 * transactional one out; `docs/instrument.md` has the contract between that module and its host, with a host of a
 * hundred lines.
 */
import { instrument as instrumentModule, type InstrumentedModule } from '../../subsystems/instrument/index.ts';
import { decodeModule, validateCanister } from '../../subsystems/wasm/index.ts';

export {
  CONTROL,
  FUEL_MAX,
  FUEL_SLICE,
  type InstrumentedExports,
  INSTRUMENTER_VERSION,
  messageStackBytes,
  type ModuleLayout,
  ROOM,
  STOP,
} from '../../subsystems/instrument/abi/index.ts';
export { ServerError } from '../../kernel/index.ts';
export { PAGE_BYTES } from '../../subsystems/bytes/index.ts';
export type { InstrumentedModule };

/**
 * Makes a module metered and transactional. The module imports nothing but functions of `ic0` (docs/modules.md).
 * Throws a `ServerError` whose code begins with `wasm-` for a module that cannot be used.
 */
export function instrument(bytes: Uint8Array): InstrumentedModule {
  const module = decodeModule(bytes);
  validateCanister(module);
  return instrumentModule(module);
}
