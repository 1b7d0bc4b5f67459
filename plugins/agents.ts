import { Clock, definePlugin, Random } from '../kernel/index.ts';
import { type AgentMode, Agents } from '../subsystems/agents/index.ts';
import { LazyAgents } from '../subsystems/agents/lazy-agents.ts';
import { NoAgents } from '../subsystems/agents/no-agents.ts';
import { Canisters } from '../subsystems/canisters/index.ts';
import { Management } from '../subsystems/management/index.ts';
import { Storage } from '../subsystems/storage/index.ts';

interface AgentsConfig {
  readonly mode: AgentMode;
  readonly waitMs: number;
  readonly version: string;
}

export const agentsPlugin = definePlugin({
  name: 'agents',
  provides: Agents,
  requires: { canisters: Canisters, management: Management, storage: Storage, clock: Clock, random: Random },
  create: (granted, { config }: { readonly config: AgentsConfig }): Agents => {
    const { mode, waitMs, version } = config;
    return mode === 'off' ? new NoAgents() : new LazyAgents(granted, { isOpen: mode === 'open', waitMs, version });
  },
  disabled: () => new NoAgents(),
  // Comes after the scheduler has drained, so that all calls have their answers.
  stop: async (agents) => {
    if (agents instanceof LazyAgents) await agents.close();
  },
  stopDeadlineMs: 10_000,
});
