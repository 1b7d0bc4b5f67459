/** Scripts that call: the operations of an outgoing call, and the blob to which they refer. */
import type { Width } from './engine-fixture.ts';
import { BLOB_AT, type Call, callbackFunction, slotAt } from './script-canister.ts';

export const CALLEE = new Uint8Array([0x80, 0, 0, 0, 0, 0x10, 0, 2, 1, 1]);
export const METHOD = 'method';
export const PAYLOAD = 'payload';
const utf8 = new TextEncoder();
/** Callee, method and payload, one behind the other; free space follows. */
export const CALL_BLOB: Uint8Array = new Uint8Array([...CALLEE, ...utf8.encode(METHOD), ...utf8.encode(PAYLOAD)]);

/** Place in the blob where the test's own texts begin. */
export const TEXT_AT = BLOB_AT + 64;
export function blobWith(text: string): Uint8Array {
  const blob = new Uint8Array(64 + 256);
  blob.set(CALL_BLOB);
  blob.set(utf8.encode(text), 64);
  return blob;
}

interface CallParts {
  /** Slots of the scripts that the callbacks run. */
  readonly reply?: number;
  readonly reject?: number;
  readonly cleanup?: number;
  readonly cycles?: number;
  readonly timeoutSeconds?: number;
  readonly calleeBytes?: number;
}

/** Returns all operations up to `call_perform`. */
export function construct(width: Width, parts: CallParts = {}): readonly Call[] {
  const { reply = 0, reject = 0, cleanup, cycles, timeoutSeconds, calleeBytes = CALLEE.length } = parts;
  const fun = callbackFunction(width);
  const nameAt = BLOB_AT + CALLEE.length;
  const payloadAt = nameAt + METHOD.length;
  return [
    ['call_new', BLOB_AT, calleeBytes, nameAt, METHOD.length, fun, slotAt(reply), fun, slotAt(reject)],
    ...(cleanup === undefined ? [] : [['call_on_cleanup', fun, slotAt(cleanup)] as const]),
    ...(timeoutSeconds === undefined ? [] : [['call_with_best_effort_response', timeoutSeconds] as const]),
    ...(cycles === undefined ? [] : [['call_cycles_add128', 0, cycles] as const]),
    ['call_data_append', payloadAt, PAYLOAD.length],
  ];
}

export function perform(width: Width, parts: CallParts = {}): readonly Call[] {
  return [...construct(width, parts), ['call_perform']];
}
