/**
 * Encodes responses as Candid messages, directly from their bytes: through JSON, as for other results, a body would be
 * turned into base64 and be copied five times.
 */
import { blob, messageOf, nat, record, text, vec } from '../../codec/known-values/index.ts';
import type { OutcallHeader, OutcallResponse } from '../../outcalls/index.ts';

interface TransformArgument {
  readonly response: OutcallResponse;
  readonly context: Uint8Array;
}

const HEADER = record<OutcallHeader>({ name: text, value: text });
const RESPONSE = record<OutcallResponse>({ status: nat, headers: vec(HEADER), body: blob });

/** Encodes the answer of `http_request`. */
export const candidOfResponse: (response: OutcallResponse) => Uint8Array = messageOf(RESPONSE);

/** Encodes the argument of a transform. */
export const candidOfTransformArgument: (argument: TransformArgument) => Uint8Array = messageOf(
  record<TransformArgument>({ response: RESPONSE, context: blob }),
);
