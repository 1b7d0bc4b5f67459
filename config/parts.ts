/**
 * The parts of the server in the order of its plugins: names for `--no-<part>` and for help, without the code of the
 * plugins, which takes three quarters of the time that a help text would need. `test/config/parts.test.ts` compares the
 * list with the plugins.
 */
export interface PartName {
  readonly name: string;
  /** True if the server can run without this part. */
  readonly isOptional: boolean;
}

const optional = (name: string): PartName => ({ name, isOptional: true });
const needed = (name: string): PartName => ({ name, isOptional: false });

export const PARTS: readonly PartName[] = [
  optional('auth'),
  optional('metering'),
  optional('storage'),
  optional('timeline'),
  needed('execution'),
  needed('scheduler'),
  needed('codec'),
  optional('manifest'),
  optional('compiler'),
  needed('compatibility'),
  optional('rehearsal'),
  optional('replay'),
  needed('canisters'),
  optional('outcalls'),
  needed('management'),
  optional('metrics'),
  optional('openapi'),
  optional('mops-closure'),
  optional('variables'),
  optional('ic-facade'),
  optional('agents'),
  optional('gateway'),
  optional('inspector'),
  needed('hot-reload'),
  needed('cluster'),
  needed('http'),
];
