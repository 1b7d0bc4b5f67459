/**
 * The tests of a team's packages, with `svc/…` as this tree has it; `test/system/packed-plugins.test.ts` runs them once
 * packed.
 */
import { importFrom } from '../../../plugins/loader/own-modules.ts';

for (const name of ['team-outcalls', 'otlp-metrics']) {
  const folder = new URL(`../../fixtures/plugins/${name}/`, import.meta.url).pathname;
  const imported = await importFrom(folder, './test/contract.test.js').outcome;
  if ('error' in imported) throw imported.error;
}
