import { isUtf8 } from 'node:buffer';
import { ServerError } from '../../../kernel/index.ts';
import type { Canister } from '../../canisters/index.ts';
import { prefersJson } from '../accept.ts';
import { bodyOf } from '../request-body.ts';
import { DID_BYTES_MAX } from '../route-table.ts';
import { JSON_TYPE } from '../responder.ts';
import type { Handlers, RouteHost } from '../route.ts';

/** `GET /candid/<ACTOR>`: the interface as .did text, or its types as JSON; `PUT` gives one to a module without. */
export function candidHandlers({
  canisters,
  jobs,
  responder,
  typeTables,
}: RouteHost): Pick<Handlers, 'GET /candid/:actor' | 'PUT /candid/:actor'> {
  return {
    async 'GET /candid/:actor'(request, response, { actor }) {
      const canister = canisters.resolve(actor);
      const candid = await canisters.interfaceOf(canister);
      if (prefersJson(request.headers.accept)) {
        if (candid === undefined) throw noInterface(canister);
        responder.bytes(response, 200, JSON_TYPE, await typeTables.tableOf(candid.text));
        return;
      }
      // One that was not understood is shown all the same: its faults are named by line and column.
      const text = candid?.text ?? canister.module?.candid;
      if (text === undefined) throw noInterface(canister);
      responder.text(response, 200, text);
    },
    async 'PUT /candid/:actor'(request, response, { actor }) {
      const startedMs = jobs.nowMs();
      const canister = canisters.resolve(actor);
      const body = await bodyOf(request, DID_BYTES_MAX);
      try {
        await canisters.giveInterface(canister, didTextOf(body));
        responder.text(response, 200, 'kept');
        jobs.done('candid', canister, '', startedMs);
      } catch (error) {
        responder.error(response, error);
        jobs.failed('candid', canister, '', startedMs, error);
      }
    },
  };
}

/** The characters of .did text. Throws ServerError `invalid`. */
export function didTextOf(bytes: Uint8Array): string {
  if (!isUtf8(bytes))
    throw new ServerError('invalid', 'bad-interface', 'the interface is not UTF-8 text: send a .did file');
  return Buffer.from(bytes).toString('utf8');
}

/** Returns the error that there is no usable interface, with the reason and the way out. */
export function noInterface({ name, module, candidProblem }: Canister): ServerError {
  if (module === undefined) {
    return new ServerError('missing', 'no-interface', `actor ${name} is empty: install a module first`);
  }
  const why =
    candidProblem === undefined
      ? `the module of ${name} carries no Candid interface`
      : `the Candid interface of ${name} was not understood (${candidProblem})`;
  const fix = `give it one: curl -X PUT --data-binary @${name}.did …/candid/${name}`;
  return new ServerError('missing', 'no-interface', `${why}; ${fix}`);
}
