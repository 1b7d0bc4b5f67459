import { ServerError } from '../../../kernel/index.ts';
import { argumentFrom, factsIn, readUpload, refuseCycles } from '../code-upload.ts';
import { hexParameter } from '../request-target.ts';
import type { Handlers, RouteHost } from '../route.ts';

/**
 * `POST /install/<name>`: the body is a module, raw or gzip, or a form with one; `?arg=0x<hex>` is the Candid
 * argument of its init hook. With `?mode=reinstall` an existing actor gets the module and starts afresh.
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
      try {
        const upload = await readUpload(request);
        const { module, candidText, cycles } = upload;
        if (module === undefined) {
          throw new ServerError(
            'invalid',
            'no-module',
            `install of ${name}: the body is empty, or a form without the part wasm; send a WebAssembly module, raw or gzip`,
          );
        }
        const options = { argument: argumentFrom(argument, upload), caller, candidText, cycles, ...factsIn(query) };
        if (replaced !== undefined) {
          refuseCycles(upload, 'a reinstallation keeps the balance');
          await canisters.reinstall(replaced, module, options);
        }
        const canister = replaced ?? (await canisters.install(name, module, options));
        responder.text(response, 200, canister.idHex);
        jobs.done('install', canister, '', startedMs);
      } catch (error) {
        responder.error(response, error);
        jobs.failed('install', replaced, '', startedMs, error);
      }
    },
  };
}
