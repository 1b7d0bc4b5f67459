import { OUTCALL_FAILURES, type OutcallResponse, type Outcalls } from './index.ts';

/** Replaces the outcalls with `--no-outcalls`: no request leaves this host. */
export class NoOutcalls implements Outcalls {
  send(): Promise<OutcallResponse> {
    return Promise.reject(OUTCALL_FAILURES['outcalls-off']('outcalls are turned off on this host (--no-outcalls)'));
  }
}
