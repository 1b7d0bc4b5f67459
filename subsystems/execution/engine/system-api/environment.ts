/** Executor thread, within a message: environment variables. Reads them; writes to the heap alone. */
import type { EnvironmentVariable } from '../environment.ts';
import { HostTrap } from '../fault.ts';
import type { CurrentExecution } from './current-execution.ts';
import { decodeStrictly } from './responding.ts';

/** Longest name of an environment variable, in bytes. */
const ENV_NAME_BYTES_MAX = 128;

/** Imports for environment variables: by index in the order of their names, or by name. */
export function environmentImports(execution: CurrentExecution) {
  const nameArgument = (name: string, source: number, size: number): string =>
    decodeStrictly(name, execution.copyIn(name, source, size, ENV_NAME_BYTES_MAX));
  const byName = (name: string, source: number, size: number): EnvironmentVariable => {
    const key = nameArgument(name, source, size);
    const variable = execution.canister.environment.get(key);
    if (variable === undefined) throw new HostTrap(`ic0.${name}: there is no environment variable '${key}'`);
    return variable;
  };
  return {
    env_var_count: () => execution.canister.environment.size,
    env_var_name_size: (index: number) => byIndex(execution, 'env_var_name_size', index).name.length,
    env_var_name_copy: (index: number, destination: number, offset: number, size: number) =>
      execution.copyOut(
        'env_var_name_copy',
        byIndex(execution, 'env_var_name_copy', index).name,
        destination,
        offset,
        size,
      ),
    env_var_name_exists: (source: number, size: number) =>
      execution.canister.environment.has(nameArgument('env_var_name_exists', source, size)) ? 1 : 0,
    env_var_value_size: (source: number, size: number) => byName('env_var_value_size', source, size).value.length,
    env_var_value_copy: (nameSource: number, nameSize: number, destination: number, offset: number, size: number) =>
      execution.copyOut(
        'env_var_value_copy',
        byName('env_var_value_copy', nameSource, nameSize).value,
        destination,
        offset,
        size,
      ),
  };
}

function byIndex(execution: CurrentExecution, name: string, index: number): EnvironmentVariable {
  const variable = execution.canister.environment.at(index);
  if (variable === undefined)
    throw new HostTrap(
      `ic0.${name}: there is no environment variable ${index}, there are ${execution.canister.environment.size}`,
    );
  return variable;
}
