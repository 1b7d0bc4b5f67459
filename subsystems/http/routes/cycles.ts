import { ServerError } from '../../../kernel/index.ts';
import { bodyOf } from '../request-body.ts';
import { GUARDED_BYTES_MAX } from '../route-table.ts';
import type { Handlers, RouteHost } from '../route.ts';

/** Balances are 128-bit numbers on the IC; no amount can be larger. */
const AMOUNT_MAX = 2n ** 128n - 1n;
const AMOUNT_TEXT_BYTES_MAX = 64;

/** `GET /cycles/<ACTOR>` and `POST` to add to the balance; both answer with the balance as decimal text. */
export function cyclesHandlers({
  canisters,
  jobs,
  responder,
}: RouteHost): Pick<Handlers, 'GET /cycles/:actor' | 'POST /cycles/:actor'> {
  return {
    'GET /cycles/:actor'(_request, response, { actor }) {
      const startedMs = jobs.nowMs();
      const canister = canisters.resolve(actor);
      responder.text(response, 200, String(canister.balance));
      jobs.done('cycles', canister, '', startedMs);
    },
    async 'POST /cycles/:actor'(request, response, { actor }) {
      const startedMs = jobs.nowMs();
      const canister = canisters.resolve(actor);
      const body = await bodyOf(request, GUARDED_BYTES_MAX);
      try {
        const balance = await canisters.addCycles(canister, amountOf(body));
        responder.text(response, 200, String(balance));
        jobs.done('topup', canister, '', startedMs);
      } catch (error) {
        responder.error(response, error);
        jobs.failed('topup', canister, '', startedMs, error);
      }
    },
  };
}

/** Cycles as decimal text. Throws ServerError `invalid`. */
export function amountOf(body: Uint8Array): bigint {
  const text = body.length <= AMOUNT_TEXT_BYTES_MAX ? Buffer.from(body).toString('latin1').trim() : '';
  const amount = /^[0-9]+$/.test(text) ? BigInt(text) : undefined;
  if (amount === undefined || amount > AMOUNT_MAX) {
    const got = Buffer.from(body.subarray(0, 40)).toString('utf8');
    throw new ServerError(
      'invalid',
      'bad-amount',
      `expected cycles as decimal text below 2^128, got ${JSON.stringify(got)}`,
    );
  }
  return amount;
}
