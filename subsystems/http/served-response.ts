import type { Grant } from '../auth/index.ts';
import type { RequestTally } from '../metrics/index.ts';
import { ServerResponse } from './node-http.ts';

/**
 * An answer that knows who counts it, since when, and for whom it is: fields of the object that node:http makes anyway.
 */
export class ServedResponse extends ServerResponse {
  /** Time at which the request was first looked at, in milliseconds. */
  startedMs = 0;
  /** Undefined while it is not known what was asked for. */
  tally: RequestTally | undefined = undefined;
  /** True if the answer lasts as long as its client likes. */
  isOpenEnded = false;
  /** True if nothing was executed: a server that stops lets the request be sent to the next owner. */
  isUnbegun = false;
  /** The rights of who asked; undefined: everything, without a name, or a target that needs no token. */
  grant: Grant | undefined = undefined;
  /** The reason why what was shown proves nothing, for the 401. */
  unproven: string | undefined = undefined;
  /**
   * The finding of another server, which has handed the request on, about who asks; `granted`: the rights are in
   * `grant`. Undefined: the request came from its client.
   */
  verdict: 'whole' | 'stranger' | 'granted' | undefined = undefined;
}
