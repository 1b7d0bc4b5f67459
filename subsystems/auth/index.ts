import { defineCapability } from '../../kernel/index.ts';

/** Who may use the token-guarded routes. There is one shared bearer token, or none. */
export interface Auth {
  /** False: no token is configured, and everybody is let in. */
  readonly needsToken: boolean;
  /** True when `authorization` (the raw header, or undefined) carries the token, or no token is configured. Constant time in the token's bytes. */
  allows(authorization: string | undefined): boolean;
}
export const Auth = defineCapability<Auth>('auth');
