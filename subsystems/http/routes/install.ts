import { ServerError } from '../../../kernel/index.ts';
import { bodyOf } from '../request-body.ts';
import { hexParameter } from '../request-target.ts';
import { MODULE_BYTES_MAX } from '../route-table.ts';
import type { Handlers, RouteHost } from '../route.ts';

/**
 * `POST /install/<name>`, the body a module, raw or gzip; `?arg=0x<hex>` the Candid argument of its init hook. With
 * `?mode=reinstall` an actor that is there gets the module and starts afresh.
 */
export function installHandlers({
  canisters,
  callers,
  jobs,
  responder,
}: RouteHost): Pick<Handlers, 'POST /install/:name'> {
  return {
    async 'POST /install/:name'(request, response, { name }, query) {
      const startedMs = jobs.nowMs();
      const argument = hexParameter(query, 'arg');
      const replaced = query.has('mode') ? canisters.resolve(name) : undefined;
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
  };
}
