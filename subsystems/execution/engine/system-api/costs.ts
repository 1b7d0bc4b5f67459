/** Executor thread, within a message: costs of calls. Reads the heap and writes amounts to it. */
import type { CurrentExecution } from './current-execution.ts';
import { decodeStrictly } from './responding.ts';

const OK = 0;
const UNKNOWN_CURVE = 1;
const UNKNOWN_KEY = 2;

/**
 * Number of curves or algorithms in each family, numbered from 0: secp256k1; bip340secp256k1 and ed25519; bls12_381.
 */
const ECDSA_CURVES = 1;
const SCHNORR_ALGORITHMS = 2;
const VETKD_CURVES = 1;

/** Keys that local networks and the IC offer; a signature with them costs nothing here, like everything else. */
const KEY_NAMES: ReadonlySet<string> = new Set(['dfx_test_key', 'test_key_1', 'key_1']);
const KEY_NAME_BYTES_MAX = 1024;

/**
 * Imports for the costs of calls on the IC. This host takes no fees besides those for instructions, so every answer is
 * 0.
 */
export function costImports(execution: CurrentExecution) {
  const forKey = (
    name: string,
    curves: number,
    source: number,
    size: number,
    curve: number,
    destination: number,
  ): number => {
    const key = decodeStrictly(name, execution.copyIn(name, source, size, KEY_NAME_BYTES_MAX));
    if (curve >>> 0 >= curves) return UNKNOWN_CURVE;
    if (!KEY_NAMES.has(key)) return UNKNOWN_KEY;
    execution.writeAmount(name, destination, 0n);
    return OK;
  };
  return {
    cost_call: (_methodNameSize: number, _payloadSize: number, destination: number) =>
      execution.writeAmount('cost_call', destination, 0n),
    cost_create_canister: (destination: number) => execution.writeAmount('cost_create_canister', destination, 0n),
    cost_http_request: (_requestSize: number, _responseBytesMax: number, destination: number) =>
      execution.writeAmount('cost_http_request', destination, 0n),
    cost_http_request_v2: (source: number, size: number, destination: number) => {
      execution.checkHeapRange('cost_http_request_v2', execution.memory.heap(), source, size);
      execution.writeAmount('cost_http_request_v2', destination, 0n);
    },
    cost_sign_with_ecdsa: (source: number, size: number, curve: number, destination: number) =>
      forKey('cost_sign_with_ecdsa', ECDSA_CURVES, source, size, curve, destination),
    cost_sign_with_schnorr: (source: number, size: number, algorithm: number, destination: number) =>
      forKey('cost_sign_with_schnorr', SCHNORR_ALGORITHMS, source, size, algorithm, destination),
    cost_vetkd_derive_key: (source: number, size: number, curve: number, destination: number) =>
      forKey('cost_vetkd_derive_key', VETKD_CURVES, source, size, curve, destination),
  };
}
