import { argumentFrom, factsIn, readUpload, refuseCycles } from '../code-upload.ts';
import { hexParameter } from '../request-target.ts';
import type { Handlers, RouteHost } from '../route.ts';
import { reportJson, reportOf } from '../upgrade-report.ts';

/**
 * `POST /upgrade/<ACTOR>`: the body is a module, raw or gzip, or a form with one, or nothing to read the manifest's
 * file again; `?arg=0x<hex>` is the Candid argument of its hook. `?report=1` answers with what changed, as JSON;
 * `?force=true` does not check what the module would lose.
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
          ...factsIn(query),
          isForced: query.has('force'),
        };
        const report = await canisters.upgrade(canister, upload.module, options);
        if (query.has('report')) responder.json(response, 200, reportJson(report));
        else responder.text(response, 200, 'upgraded');
        jobs.done('upgrade', canister, '', startedMs);
      } catch (error) {
        const report = query.has('report') ? reportOf(error) : undefined;
        responder.error(response, error, report);
        jobs.failed('upgrade', canister, '', startedMs, error);
      }
    },
  };
}
