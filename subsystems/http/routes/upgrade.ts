import { ServerError } from '../../../kernel/index.ts';
import { argumentFrom, readUpload, refuseCycles } from '../code-upload.ts';
import { hexParameter } from '../request-target.ts';
import type { Handlers, RouteHost } from '../route.ts';

/** Parameters that this version does not honour yet: to ignore them would do what the client did not ask for. */
const NOT_BUILT: readonly string[] = ['report', 'force'];

/**
 * `POST /upgrade/<ACTOR>`, the body a module, raw or gzip, a form with it, or nothing to read the manifest's file again; `?arg=0x<hex>`
 * the Candid argument of its hook.
 */
export function upgradeHandlers({
  canisters,
  callers,
  jobs,
  responder,
}: RouteHost): Pick<Handlers, 'POST /upgrade/:actor'> {
  return {
    async 'POST /upgrade/:actor'(request, response, { actor }, query) {
      const startedMs = jobs.nowMs();
      refuseNotBuilt(query);
      const argument = hexParameter(query, 'arg');
      const canister = canisters.resolve(actor);
      const caller = callers.callerOf(request.headers['x-caller']);
      try {
        const upload = await readUpload(request);
        refuseCycles(upload, 'an upgrade keeps the balance');
        const options = {
          argument: argumentFrom(argument, upload),
          caller,
          candidText: upload.candidText,
          hasCertificate: query.has('certificate'),
        };
        await canisters.upgrade(canister, upload.module, options);
        responder.text(response, 200, 'upgraded');
        jobs.ended('upgrade', canister.idHex, '', true, startedMs);
      } catch (error) {
        responder.error(response, error);
        jobs.ended('upgrade', canister.idHex, '', false, startedMs);
      }
    },
  };
}

function refuseNotBuilt(parameters: ReadonlyMap<string, string>): void {
  const name = NOT_BUILT.find((parameter) => parameters.has(parameter));
  if (name === undefined) return;
  throw new ServerError(
    'invalid',
    'not-built',
    `query parameter ${name} is not built yet in this version: nothing was upgraded; leave it out`,
  );
}
