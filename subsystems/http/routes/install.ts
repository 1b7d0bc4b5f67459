import { ServerError } from '../../../kernel/index.ts';
import { bodyOf } from '../request-body.ts';
import { hexParameter, MODULE_BYTES_MAX, queryParametersOf } from '../request-target.ts';
import type { Route, RouteHost } from '../route.ts';

const PARAMETERS: readonly string[] = ['arg', 'mode'];

/**
 * `POST /install/<name>`, the body a module, raw or gzip; `?arg=0x<hex>` the Candid argument of its init hook. With
 * `?mode=reinstall` an actor that is there gets the module and starts afresh.
 */
export function installRoutes({ canisters, callers, jobs, responder }: RouteHost): readonly Route[] {
  return [
    {
      method: 'POST',
      path: '/install/:name',
      job: 'install',
      async handle(request, response, { name }) {
        const startedMs = jobs.nowMs();
        const parameters = queryParametersOf(request.url ?? '', PARAMETERS);
        const argument = hexParameter(parameters, 'arg');
        const replaced = isReinstall(parameters) ? canisters.resolve(name) : undefined;
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
          const options = { argument, caller };
          if (replaced !== undefined) await canisters.reinstall(replaced, moduleBytes, options);
          const canister = replaced ?? (await canisters.install(name, moduleBytes, options));
          responder.text(response, 200, canister.idHex);
          jobs.ended('install', canister.idHex, '', true, startedMs);
        } catch (error) {
          responder.error(response, error);
          jobs.ended('install', replaced?.idHex ?? '', '', false, startedMs);
        }
      },
    },
  ];
}

function isReinstall(parameters: ReadonlyMap<string, string>): boolean {
  const mode = parameters.get('mode');
  if (mode !== undefined && mode !== 'reinstall') {
    throw new ServerError('missing', 'unknown-query', 'query parameter mode: expected mode=reinstall');
  }
  return mode === 'reinstall';
}
