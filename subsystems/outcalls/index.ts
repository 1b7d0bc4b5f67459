/**
 * Requests of canisters to the outside world: the face behind which anybody may bring another way out (a proxy, a recording).
 *
 * The division of work. The management canister has checked the request, waits for its turn, keeps the deadline, looks at the
 * size of what came, transforms it and tells the caller. Whoever implements this sends one request and brings its answer, and
 * reads no more of it than it has to. `plugins/api/contracts/outcalls.ts` says the same as tests.
 */
import { defineCapability } from '../../kernel/index.ts';

export type OutcallMethod = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE' | 'PATCH';

export interface OutcallHeader {
  readonly name: string;
  /** Any text; on the wire it is UTF-8. */
  readonly value: string;
}

/** One request, checked: it may be sent as it stands. */
export interface OutcallRequest {
  /** Principal bytes of the canister that asks. */
  readonly sender: Uint8Array;
  readonly method: OutcallMethod;
  /** Absolute, `http` or `https`, as the URL standard writes it; without credentials and fragment. */
  readonly url: string;
  /** In order, names may be there twice. None is the connection's own: no `content-length`, no `transfer-encoding`. */
  readonly headers: readonly OutcallHeader[];
  /** Empty: none. */
  readonly body: Uint8Array;
  /** Bytes that names and values of headers and the body may have together. */
  readonly responseBytesMax: number;
}

export interface OutcallResponse {
  /** 200 to 999, as it came; a redirect is an answer like any other. Interim answers (1xx) are read over. */
  readonly status: number;
  /** In order, names in lower case, values without blanks around them; without those of the connection (`transfer-encoding`). */
  readonly headers: readonly OutcallHeader[];
  /** As it was sent: what has a `content-encoding` is not unpacked. */
  readonly body: Uint8Array;
}

/** Nothing else in the server opens a connection to the outside. */
export interface Outcalls {
  /**
   * Sends the request once, over a connection whose certificate holds where the URL says `https`. Rejects with the signal's
   * reason once that is aborted, and otherwise with one of OUTCALL_FAILURES: `outcall-too-large` as soon as the body has more
   * than `responseBytesMax` bytes, `outcall-refused`, `outcall-failed`, …
   */
  send(request: OutcallRequest, options: { readonly signal: AbortSignal }): Promise<OutcallResponse>;
}
export const Outcalls = defineCapability<Outcalls>('outcalls');

export { BoundedBody } from './bounded-body.ts';
export { abortReason, OUTCALL_FAILURES, type OutcallFailure } from './outcall-failures.ts';
