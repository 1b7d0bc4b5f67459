import { defineCapability } from '../../kernel/index.ts';
import type { Scopes } from './scopes.ts';

export { type ActorScope, type HostScope, isHostScope, scopeMissing, Scopes } from './scopes.ts';

/** The rights of somebody who has shown credentials. */
export interface Grant {
  /** The name of the token, for those who read who did something. No secret. */
  readonly name: string;
  readonly scopes: Scopes;
  /** The principal as which the holder calls; undefined: the anonymous one. 0 to 29 bytes. */
  readonly caller: Uint8Array | undefined;
  /**
   * True from the moment on when the same credentials would not give the same rights: streams that were opened with
   * them are ended within five seconds.
   */
  readonly isOver: boolean;
  /** True if the caller is proven, and a request may not even name it: `x-caller` beside such credentials is 403. */
  readonly takesNoClaim?: boolean;
}

/**
 * Authorization for the token-guarded routes: one shared bearer token that may do everything, tokens that may do part
 * of it, or none at all.
 */
export interface Auth {
  /** False if no token is configured: every request is allowed. */
  readonly needsToken: boolean;
  /**
   * Returns true if `authorization` (the raw header, or undefined) may do everything, or if no token is configured.
   * Takes constant time in the token's bytes.
   */
  allows(authorization: string | undefined): boolean;
  /**
   * Returns the rights of credentials that have a name, and undefined for all others: the shared token, and what is
   * wrong. The same object as long as they are the same rights. Asked before `allows`, which is true for those that may
   * do everything; without this method nobody has a part of the rights.
   */
  grantOf?(authorization: string | undefined): Grant | undefined;
  /**
   * Begins to find out what `grantOf` cannot say at once (a signature, keys of somebody else). Returns undefined if
   * there is nothing to find out. The promise never rejects, is bounded in time, and resolves when `grantOf` knows:
   * with undefined, or with the reason of a refusal, which clients may read: ASCII without quotes and backslashes.
   */
  prove?(authorization: string | undefined): Promise<string | undefined> | undefined;
  /** Reads again what may have changed (SIGHUP), and tells the log. Returns false if a fault left all as it was. */
  reread?(): boolean;
}
export const Auth = defineCapability<Auth>('auth');
