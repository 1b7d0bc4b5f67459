import { ServerError } from '../../kernel/index.ts';
import type { Canister } from '../canisters/index.ts';
import type { Gateway, SiteOutcome } from './index.ts';

/** Replaces the gateway with `--no-gateway`: no actor has a website. */
export class NoGateway implements Gateway {
  find(): Canister {
    throw websitesOff();
  }

  referenceOfHost(): undefined {
    return undefined;
  }

  respond(): Promise<SiteOutcome> {
    return Promise.reject(websitesOff());
  }
}

function websitesOff(): ServerError {
  return new ServerError('missing', 'gateway-off', 'websites (/site/<ACTOR>/<PATH>) are turned off (--no-gateway)');
}
