import { definePlugin } from '../kernel/index.ts';
import { type BearerAuthOptions, createBearerAuth } from '../subsystems/auth/bearer-auth.ts';
import { Auth } from '../subsystems/auth/index.ts';

export const authPlugin = definePlugin({
  name: 'auth',
  provides: Auth,
  requires: {},
  create: (_granted, { config }: { readonly config: BearerAuthOptions }) => createBearerAuth(config),
  // Everybody may do everything; config/ lets that happen on a loopback address only, or with --insecure.
  disabled: () => createBearerAuth({ token: undefined }),
});
