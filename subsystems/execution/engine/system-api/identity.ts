/** Executor thread, within a message: the canister's identity. Reads its state; writes to the heap alone. */
import { createHash } from 'node:crypto';
import { ANONYMOUS, isStranger } from '../../../ic/index.ts';
import { HostTrap } from '../fault.ts';
import type { CurrentExecution } from './current-execution.ts';

/** Longest principal there is. */
export const PRINCIPAL_BYTES_MAX = 29;

/**
 * The root key has the form that programs parse: DER, algorithm and curve of the network's BLS keys, 96 bytes of key.
 * The key itself is zeros, which no signature verifies against: nothing is certified off-chain.
 */
const ROOT_KEY_PREFIX = '308182301d060d2b0601040182dc7c0503010201060c2b0601040182dc7c05030201036100';
const ROOT_KEY: Uint8Array = new Uint8Array(Buffer.from(ROOT_KEY_PREFIX + '00'.repeat(96), 'hex'));

/** The subnet's principal, derived from its key as a network does it: SHA-224 of the DER key and the byte 2. */
const SUBNET_ID: Uint8Array = new Uint8Array([...createHash('sha224').update(ROOT_KEY).digest(), 2]);

/** Imports for the canister's identity, place, status and controllers. */
export function identityImports(execution: CurrentExecution) {
  return {
    canister_self_size: () => execution.canister.id.length,
    canister_self_copy: (destination: number, offset: number, size: number) =>
      execution.copyOut('canister_self_copy', execution.canister.id, destination, offset, size),
    subnet_self_size: () => SUBNET_ID.length,
    subnet_self_copy: (destination: number, offset: number, size: number) =>
      execution.copyOut('subnet_self_copy', SUBNET_ID, destination, offset, size),
    canister_status: () => execution.canister.statusCode,
    canister_version: () => execution.canister.version,
    is_controller: (source: number, size: number) => {
      if (size > PRINCIPAL_BYTES_MAX)
        throw new HostTrap(
          `ic0.is_controller: ${size} bytes are not a principal, which has at most ${PRINCIPAL_BYTES_MAX}`,
        );
      const principal = execution.copyIn('is_controller', source, size, PRINCIPAL_BYTES_MAX);
      if (isStranger(execution.context.caller) && Buffer.compare(principal, ANONYMOUS) === 0) return 0;
      return execution.canister.isController(principal) ? 1 : 0;
    },
    in_replicated_execution: () => (execution.isReplicated ? 1 : 0),
    root_key_size: () => ROOT_KEY.length,
    root_key_copy: (destination: number, offset: number, size: number) =>
      execution.copyOut('root_key_copy', ROOT_KEY, destination, offset, size),
  };
}
