/** Executor thread, within a message: certified data. Touches the effects of the execution alone. */
import { HostTrap } from '../fault.ts';
import { contractViolation, type CurrentExecution } from './current-execution.ts';

const CERTIFIED_DATA_BYTES_MAX = 32;

/**
 * Placeholder for a certificate (docs/websites.md): in CBOR a map with an empty tree and an empty signature, so a
 * certificate in form only. Modules that look into the placeholder find nothing; nobody who verifies certificates
 * accepts it.
 */
const PLACEHOLDER = Buffer.from('d9d9f7a264747265658100697369676e617475726540', 'hex');

/**
 * Imports for certified data, which is kept. Off-chain no certificate for it exists, unless the operator put a
 * placeholder in place.
 */
export function certifiedDataImports(execution: CurrentExecution) {
  return {
    certified_data_set: (source: number, size: number) => {
      if (size > CERTIFIED_DATA_BYTES_MAX)
        throw new HostTrap(
          `ic0_certified_data_set failed because the passed data must be no larger than ${CERTIFIED_DATA_BYTES_MAX} bytes. Found ${size} bytes.`,
        );
      execution.certifiedData = execution.copyIn('certified_data_set', source, size, CERTIFIED_DATA_BYTES_MAX);
    },
    data_certificate_present: () => (hasCertificate(execution) ? 1 : 0),
    data_certificate_size: () => certificate(execution, 'data_certificate_size').length,
    data_certificate_copy: (destination: number, offset: number, size: number) =>
      execution.copyOut(
        'data_certificate_copy',
        certificate(execution, 'data_certificate_copy'),
        destination,
        offset,
        size,
      ),
  };
}

/** Returns true if there is a certificate. As on the IC, only queries that run alone find one. */
function hasCertificate({ canister, mode }: CurrentExecution): boolean {
  return canister.facts.hasCertificate && (mode === 'NRQ' || mode === 'CQ');
}

function certificate(execution: CurrentExecution, name: string): Uint8Array {
  if (!hasCertificate(execution))
    throw contractViolation(`ic0.${name}: there is no data certificate (ic0.data_certificate_present is 0)`);
  return PLACEHOLDER;
}
