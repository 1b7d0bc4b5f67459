import { type Canister, isInternalMethod } from '../../canisters/index.ts';
import type { DescribedActor } from '../../openapi/index.ts';
import { JSON_TYPE, TEXT } from '../responder.ts';
import type { Handlers, RouteHost } from '../route.ts';
import { noInterface } from './candid.ts';

type OpenApiRoutes = 'GET /openapi/:actor' | 'GET /x/actors/:actor/types';

/**
 * `GET /openapi/<ACTOR>`: the OpenAPI 3.1 document of its JSON endpoints. `GET /x/actors/<ACTOR>/types`: the same as
 * declarations of TypeScript.
 */
export function openApiHandlers(host: RouteHost): Pick<Handlers, OpenApiRoutes> {
  const { canisters, openApi, responder, jobs, callers } = host;
  async function described(canister: Canister): Promise<DescribedActor> {
    const candid = await canisters.interfaceOf(canister);
    const { name, module } = canister;
    if (candid === undefined || module === undefined) throw noInterface(canister);
    const methods = new Map([...module.methods].filter(([method]) => !isInternalMethod(method)));
    return { name, candid, methods, takesCaller: !callers.areRefused };
  }

  return {
    async 'GET /openapi/:actor'(_request, response, { actor }) {
      const document = await openApi.documentOf(await described(canisters.resolve(actor)));
      responder.bytes(response, 200, JSON_TYPE, document);
    },
    async 'GET /x/actors/:actor/types'(_request, response, { actor }) {
      const startedMs = jobs.nowMs();
      const canister = canisters.resolve(actor);
      try {
        responder.bytes(response, 200, TEXT, await openApi.typesOf(await described(canister)));
        jobs.done('types', canister, '', startedMs);
      } catch (error) {
        responder.error(response, error);
        jobs.failed('types', canister, '', startedMs, error);
      }
    },
  };
}
