import { Clock, definePlugin, Logger } from '../kernel/index.ts';
import { type BearerAuthOptions, createBearerAuth } from '../subsystems/auth/bearer-auth.ts';
import { Auth } from '../subsystems/auth/index.ts';

export const authPlugin = definePlugin({
  name: 'auth',
  provides: Auth,
  requires: { log: Logger, clock: Clock },
  create: ({ log, clock }, { config }: { readonly config: BearerAuthOptions }) =>
    createBearerAuth(config, log, () => clock.nowMs()),
  // Every request is allowed; config/ permits that only on a loopback address, or with --insecure.
  disabled: () => createBearerAuth({ token: undefined }),
});
