/**
 * Responses as Candid messages, written once, straight from their bytes: by way of JSON, as other results go, a body would be base64
 * in between and be copied five times.
 */
import { blob, messageOf, nat, record, text, vec } from '../../codec/known-values/index.ts';
import type { OutcallHeader, OutcallResponse } from '../../outcalls/index.ts';

interface TransformArgument {
  readonly response: OutcallResponse;
  readonly context: Uint8Array;
}

const HEADER = record<OutcallHeader>({ name: text, value: text });
const RESPONSE = record<OutcallResponse>({ status: nat, headers: vec(HEADER), body: blob });

/** What `http_request` answers. */
export const candidOfResponse: (response: OutcallResponse) => Uint8Array = messageOf(RESPONSE);

/** What a transform is called with. */
export const candidOfTransformArgument: (argument: TransformArgument) => Uint8Array = messageOf(
  record<TransformArgument>({ response: RESPONSE, context: blob }),
);
