import { ServerError } from '../../../kernel/index.ts';
import { bodyOf } from '../request-body.ts';
import { hexParameter, MODULE_BYTES_MAX, queryParametersOf } from '../request-target.ts';
import type { Route, RouteHost } from '../route.ts';

const PARAMETERS: readonly string[] = ['arg'];

/** `POST /install/<name>`, the body a module, raw or gzip; `?arg=0x<hex>` the Candid argument of its init hook. */
export function installRoutes({ canisters, callers, jobs, responder }: RouteHost): readonly Route[] {
  return [
    {
      method: 'POST',
      path: '/install/:name',
      job: 'install',
      async handle(request, response, { name }) {
        const startedMs = jobs.nowMs();
        const argument = hexParameter(queryParametersOf(request.url ?? '', PARAMETERS), 'arg');
        const caller = callers.callerOf(request.headers['x-caller']);
        const moduleBytes = await bodyOf(request, MODULE_BYTES_MAX);
        try {
          if (moduleBytes.length === 0) {
            throw new ServerError(
              'invalid',
              'no-module',
              `install of ${name}: the body is empty; send a WebAssembly module, raw or gzip`,
            );
          }
          const canister = await canisters.install(name, moduleBytes, { argument, caller });
          responder.text(response, 200, canister.idHex);
          jobs.ended('install', canister.idHex, '', true, startedMs);
        } catch (error) {
          responder.error(response, error);
          jobs.ended('install', '', '', false, startedMs);
        }
      },
    },
  ];
}
