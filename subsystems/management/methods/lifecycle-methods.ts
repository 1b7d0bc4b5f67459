import { sameBytes } from '../../ic/index.ts';
import type { PrincipalJson } from '../candid-types.ts';
import type { Call, MethodContext, Methods } from '../method-context.ts';
import { Refusal, REFUSE } from '../refusal.ts';

const ADMIN = { admin: true } as const;

/** Methods that start, stop and delete canisters. */
export function lifecycleMethods(
  context: MethodContext,
): Pick<Methods, 'start_canister' | 'stop_canister' | 'delete_canister'> {
  return {
    // Neither method waits for changes under way: a stop may take five minutes, and a start ends it.
    async start_canister({ canister_id: id }, call) {
      const canister = context.controlled(call, id, ADMIN);
      await context.host.start(canister);
    },

    stop_canister: ({ canister_id: id }, call) => stop(context, id, call),

    delete_canister({ canister_id: id }, call) {
      return context.change(call, id, ADMIN, async (canister) => {
        if (sameBytes(call.sender, canister.id)) throw REFUSE.wrongState(`canister ${id} cannot delete itself`);
        const { storedStatus: status } = canister;
        if (status !== 'stopped')
          throw new Refusal(5, 'IC0510', `canister ${id} is ${status}: only a stopped canister can be deleted`);
        // The host calls `forget` within `remove`.
        await context.host.remove(canister);
      });
    },
  };
}

async function stop(context: MethodContext, id: PrincipalJson, call: Call): Promise<void> {
  const canister = context.controlled(call, id, ADMIN);
  const waited = Promise.withResolvers<'timeout'>();
  using _deadline = context.clock.after(context.stopTimeoutMs, () => waited.resolve('timeout'));
  switch (await Promise.race([context.host.stop(canister), waited.promise])) {
    case 'stopped':
      return;
    case 'started':
      throw new Refusal(5, 'IC0511', `canister ${id} was started while it was stopping`);
    case 'removed':
      throw REFUSE.noCanister(id);
    case 'timeout':
      throw new Refusal(
        2,
        'IC0206',
        `canister ${id} has not stopped within ${context.stopTimeoutMs / 1000} s, because some of its calls are still open; the canister goes on stopping`,
      );
  }
}
