/** Executor thread, within a message: certified data. Touches the effects of the execution alone. */
import { DataCertificate } from '../data-certificate.ts';
import { HostTrap, TooLong } from '../fault.ts';
import { contractViolation, type CurrentExecution } from './current-execution.ts';

const CERTIFIED_DATA_BYTES_MAX = 32;
/** Last byte of the principals of canisters. */
const OPAQUE_ID = 1;

/**
 * Placeholder for a certificate (docs/websites.md): in CBOR a map with an empty tree and an empty signature, so a
 * certificate in form only. Modules that look into the placeholder find nothing; nobody who verifies certificates
 * accepts it.
 */
const PLACEHOLDER = Buffer.from('d9d9f7a264747265658100697369676e617475726540', 'hex');

/**
 * Imports for certified data, which is kept. Queries find a certificate of it if the operator has asked for one, or for
 * a placeholder.
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
function hasCertificate(execution: CurrentExecution): boolean {
  const { canister, mode } = execution;
  return (mode === 'NRQ' || mode === 'CQ') && (canister.facts.hasCertificate || isCertified(execution));
}

/** Returns true if the certificate is a real one. As on the IC, queries that canisters call have none. */
function isCertified({ canister, context }: CurrentExecution): boolean {
  return canister.facts.isCertified && context.caller.at(-1) !== OPAQUE_ID;
}

function certificate(execution: CurrentExecution, name: string): Uint8Array {
  if (!hasCertificate(execution))
    throw contractViolation(`ic0.${name}: there is no data certificate (ic0.data_certificate_present is 0)`);
  if (!isCertified(execution)) return PLACEHOLDER;
  const { canister } = execution;
  const kept = (canister.certificate ??= new DataCertificate());
  const answer = kept.answerFor(canister.certifiedData, execution.nowMs);
  if (answer === undefined) {
    kept.isWanted = true;
    throw new TooLong();
  }
  if (typeof answer === 'string') throw new HostTrap(`ic0.${name}: there is no certificate now: ${answer}`);
  return answer;
}
