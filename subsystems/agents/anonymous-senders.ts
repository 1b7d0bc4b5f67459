import { ANONYMOUS, ANONYMOUS_CREATOR, sameBytes, STRANGER } from '../ic/index.ts';
import type { AgentCreators } from './index.ts';

/**
 * Returns the caller of a sender's message. The anonymous principal is nobody's controller here; if it may create
 * canisters, it controls those.
 */
export function callerOf(sender: Uint8Array, { areAnonymous }: AgentCreators): Uint8Array {
  if (!sameBytes(sender, ANONYMOUS)) return sender;
  return areAnonymous ? ANONYMOUS_CREATOR : STRANGER;
}
