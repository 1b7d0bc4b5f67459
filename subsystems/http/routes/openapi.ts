import { isInternalMethod } from '../../canisters/index.ts';
import { JSON_TYPE } from '../responder.ts';
import type { Handlers, RouteHost } from '../route.ts';
import { noInterface } from './candid.ts';

/** `GET /openapi/<ACTOR>`: the OpenAPI 3.1 document of its JSON endpoints. */
export function openApiHandlers({ canisters, openApi, responder }: RouteHost): Pick<Handlers, 'GET /openapi/:actor'> {
  return {
    async 'GET /openapi/:actor'(_request, response, { actor }) {
      const canister = canisters.resolve(actor);
      const candid = await canisters.interfaceOf(canister);
      const { name, module } = canister;
      if (candid === undefined || module === undefined) throw noInterface(canister);
      const methods = new Map([...module.methods].filter(([method]) => !isInternalMethod(method)));
      responder.bytes(response, 200, JSON_TYPE, await openApi.documentOf({ name, candid, methods }));
    },
  };
}
