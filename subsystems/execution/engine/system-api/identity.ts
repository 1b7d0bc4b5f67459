/** Executor thread, within a message: the canister's identity. Reads its state; writes to the heap alone. */
import { ANONYMOUS, isStranger } from '../../../ic/index.ts';
import { ROOT_KEY_BYTES, SUBNET_ID_BYTES } from '../environment.ts';
import { HostTrap } from '../fault.ts';
import type { CurrentExecution } from './current-execution.ts';

/** Longest principal there is. */
export const PRINCIPAL_BYTES_MAX = 29;

/** Imports for the canister's identity, place, status and controllers. */
export function identityImports(execution: CurrentExecution) {
  return {
    canister_self_size: () => execution.canister.id.length,
    canister_self_copy: (destination: number, offset: number, size: number) =>
      execution.copyOut('canister_self_copy', execution.canister.id, destination, offset, size),
    subnet_self_size: () => SUBNET_ID_BYTES,
    subnet_self_copy: (destination: number, offset: number, size: number) =>
      execution.copyOut('subnet_self_copy', execution.canister.host.subnetId, destination, offset, size),
    canister_status: () => execution.canister.statusCode,
    canister_version: () => execution.canister.version,
    is_controller: (source: number, size: number) => {
      if (size > PRINCIPAL_BYTES_MAX)
        throw new HostTrap(
          `ic0.is_controller: ${size} bytes are not a principal, which has at most ${PRINCIPAL_BYTES_MAX}`,
        );
      const principal = execution.copyIn('is_controller', source, size, PRINCIPAL_BYTES_MAX);
      const { caller } = execution.context;
      const isMeant = isStranger(caller) && Buffer.compare(principal, ANONYMOUS) === 0;
      return execution.canister.isController(isMeant ? caller : principal) ? 1 : 0;
    },
    in_replicated_execution: () => (execution.isReplicated ? 1 : 0),
    root_key_size: () => ROOT_KEY_BYTES,
    root_key_copy: (destination: number, offset: number, size: number) =>
      execution.copyOut('root_key_copy', execution.canister.host.rootKey, destination, offset, size),
  };
}
