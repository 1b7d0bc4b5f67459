import { defineCapability } from '../../kernel/index.ts';

/** Authorization for the token-guarded routes. There is one shared bearer token, or none. */
export interface Auth {
  /** False if no token is configured: every request is allowed. */
  readonly needsToken: boolean;
  /**
   * Returns true if `authorization` (the raw header, or undefined) carries the token, or if no token is configured.
   * Takes constant time in the token's bytes.
   */
  allows(authorization: string | undefined): boolean;
}
export const Auth = defineCapability<Auth>('auth');
