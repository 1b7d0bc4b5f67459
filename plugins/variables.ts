import { Clock, definePlugin } from '../kernel/index.ts';
import { Canisters } from '../subsystems/canisters/index.ts';
import { Execution } from '../subsystems/execution/index.ts';
import { ActorVariables } from '../subsystems/variables/actor-variables.ts';
import { Variables } from '../subsystems/variables/index.ts';
import { NoVariables } from '../subsystems/variables/no-variables.ts';

export const variablesPlugin = definePlugin({
  name: 'variables',
  provides: Variables,
  requires: { canisters: Canisters, memory: Execution, clock: Clock },
  create: (granted) => new ActorVariables(granted),
  disabled: () => new NoVariables(),
  stop: (variables) => variables.close(),
  stopDeadlineMs: 5_000,
});
