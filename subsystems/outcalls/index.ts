/**
 * Requests of canisters to other servers: the interface for any way of sending them (a proxy, a recording).
 *
 * The division of work: the management canister has checked the request, waits for its turn, keeps the deadline, checks
 * the size of the response, transforms it and answers the caller. An implementation sends one request and returns its
 * response, and reads no more of it than it has to. `plugins/api/contracts/outcalls.ts` expresses the same as tests.
 */
import { defineCapability } from '../../kernel/index.ts';

export type OutcallMethod = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE' | 'PATCH';

export interface OutcallHeader {
  readonly name: string;
  /** Any text; sent as UTF-8. */
  readonly value: string;
}

/** One checked request: it may be sent unchanged. */
export interface OutcallRequest {
  /** Principal bytes of the canister that sends the request. */
  readonly sender: Uint8Array;
  readonly method: OutcallMethod;
  /** Absolute URL, `http` or `https`, in the URL standard's form; without credentials and fragment. */
  readonly url: string;
  /**
   * Headers in order; names may repeat. None belongs to the connection: no `content-length`, no `transfer-encoding`.
   */
  readonly headers: readonly OutcallHeader[];
  /** Empty: no body. */
  readonly body: Uint8Array;
  /** Limit on the bytes of header names and values and of the body together. */
  readonly responseBytesMax: number;
}

export interface OutcallResponse {
  /** Status from 200 to 999, as received; a redirect is an answer like any other. Interim answers (1xx) are skipped. */
  readonly status: number;
  /**
   * Headers in order, names in lower case, values without surrounding blanks; without those of the connection
   * (`transfer-encoding`).
   */
  readonly headers: readonly OutcallHeader[];
  /** Body as sent: with a `content-encoding` it stays encoded. */
  readonly body: Uint8Array;
}

/** Sender of outcalls. Nothing else in the server opens connections to other servers. */
export interface Outcalls {
  /**
   * Sends the request once, for `https` over a connection with a valid certificate. Rejects with the signal's reason
   * once that is aborted, and otherwise with one of OUTCALL_FAILURES: `outcall-too-large` as soon as the body has more
   * than `responseBytesMax` bytes, `outcall-refused`, `outcall-failed`, …
   */
  send(request: OutcallRequest, options: { readonly signal: AbortSignal }): Promise<OutcallResponse>;
}
export const Outcalls = defineCapability<Outcalls>('outcalls');

export { BoundedBody } from './bounded-body.ts';
export { abortReason, OUTCALL_FAILURES, type OutcallFailure } from './outcall-failures.ts';
