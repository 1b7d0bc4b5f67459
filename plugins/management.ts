import { Clock, definePlugin, Logger, Random } from '../kernel/index.ts';
import { ServiceStore } from '../subsystems/cluster/index.ts';
import { Codec } from '../subsystems/codec/index.ts';
import { ManagementBackend, Management } from '../subsystems/management/index.ts';
import { ManagementCanister, type ManagementOptions } from '../subsystems/management/management-canister.ts';
import { Outcalls } from '../subsystems/outcalls/index.ts';
import { Storage } from '../subsystems/storage/index.ts';

export const managementPlugin = definePlugin({
  name: 'management',
  provides: Management,
  requires: {
    host: ManagementBackend,
    codec: Codec,
    clock: Clock,
    random: Random,
    log: Logger,
    storage: Storage,
    service: ServiceStore,
    outcalls: Outcalls,
  },
  neededBecause: 'actors create, upgrade and stop each other through it',
  create: (granted, { config }: { readonly config: ManagementOptions }) => new ManagementCanister(granted, config),
  open: async (management) => management.open(),
  drain: (management) => management.drain(),
});
