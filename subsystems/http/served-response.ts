import type { RequestTally } from '../metrics/index.ts';
import { ServerResponse } from './node-http.ts';

/** An answer that knows who counts it and since when: two fields of the object that node:http makes anyway. */
export class ServedResponse extends ServerResponse {
  /** When its request was first looked at, ms. */
  startedMs = 0;
  /** Undefined: it is not known yet what was asked for. */
  tally: RequestTally | undefined = undefined;
  /** True if the answer lasts as long as its client likes. */
  isOpenEnded = false;
}
