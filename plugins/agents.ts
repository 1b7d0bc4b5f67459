import { Clock, definePlugin, Random } from '../kernel/index.ts';
import { type AgentCreators, type AgentMode, Agents } from '../subsystems/agents/index.ts';
import { IC_ROOT_KEY } from '../subsystems/agents/ic-root-key.ts';
import { LazyAgents } from '../subsystems/agents/lazy-agents.ts';
import { NoAgents } from '../subsystems/agents/no-agents.ts';
import { Canisters } from '../subsystems/canisters/index.ts';
import { ServiceStore } from '../subsystems/cluster/index.ts';
import { Execution } from '../subsystems/execution/index.ts';
import { IcFacade } from '../subsystems/ic-facade/index.ts';
import { principalFromText } from '../subsystems/ic/index.ts';
import { Management } from '../subsystems/management/index.ts';
import { Storage } from '../subsystems/storage/index.ts';

interface AgentsConfig {
  readonly mode: AgentMode;
  readonly waitMs: number;
  readonly version: string;
  readonly trustsIcRoot: boolean;
  readonly creators: Omit<AgentCreators, 'principals'> & { readonly principals: readonly string[] };
}

export const agentsPlugin = definePlugin({
  name: 'agents',
  provides: Agents,
  requires: {
    canisters: Canisters,
    execution: Execution,
    management: Management,
    facade: IcFacade,
    storage: Storage,
    service: ServiceStore,
    clock: Clock,
    random: Random,
  },
  create: (granted, { config }: { readonly config: AgentsConfig }): Agents => {
    const { mode, waitMs, version, trustsIcRoot } = config;
    const creators = { ...config.creators, principals: config.creators.principals.map(principalFromText) };
    const icRootKey = trustsIcRoot ? IC_ROOT_KEY : undefined;
    if (mode === 'off') return new NoAgents();
    const agents = new LazyAgents(granted, { isOpen: mode === 'open', creators, waitMs, version, icRootKey });
    granted.execution.certifiedBy?.(agents);
    return agents;
  },
  disabled: () => new NoAgents(),
  // Comes after the scheduler has drained, so that all calls have their answers.
  stop: async (agents) => {
    if (agents instanceof LazyAgents) await agents.close();
  },
  stopDeadlineMs: 10_000,
});
