/**
 * The families that have a line an actor. Of 10,000 actors that are 40,000 lines, 2 MB: as prom-client's labelled values,
 * an object and a hashed label set each, they keep the main thread for 90 to 190 ms; written as text, for 10 to 60, and
 * messages go on in between.
 *
 * Names and ids need no escaping: they consist of letters, digits, `_` and `-`.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { Canister } from '../canisters/index.ts';
import { familyText } from './exposition.ts';

/** What is shown of an actor. */
export type MeasuredCanister = Pick<
  Canister,
  'name' | 'idHex' | 'balance' | 'heapBytes' | 'messagesByName' | 'trapsByName' | 'messagesById' | 'trapsById'
>;

/** Actors that are told of before something else has its turn: about a millisecond. */
const ACTORS_A_TURN = 500;

export async function actorText(canisters: readonly MeasuredCanister[]): Promise<string> {
  const messages = [
    familyText(
      'svc_actor_messages_total',
      'counter',
      'Messages executed: calls, queries, heartbeats, timers; by the actor as it was addressed.',
    ),
  ];
  const traps = [
    familyText(
      'svc_actor_traps_total',
      'counter',
      'Messages and callbacks that trapped or reached the instruction limit; by the actor as it was addressed.',
    ),
  ];
  const cycles = [familyText('svc_actor_cycles', 'gauge', 'Cycles balance.')];
  const heap = [familyText('svc_actor_heap_bytes', 'gauge', 'Bytes of heap after the last message.')];
  for (const [at, canister] of canisters.entries()) {
    if (at % ACTORS_A_TURN === ACTORS_A_TURN - 1) await turn();
    const { name, idHex } = canister;
    messages.push(`svc_actor_messages_total{actor="${name}"} ${canister.messagesByName}\n`);
    traps.push(`svc_actor_traps_total{actor="${name}"} ${canister.trapsByName}\n`);
    // Few actors are addressed by their ids: those that never were have no second line.
    if (canister.messagesById > 0) {
      messages.push(`svc_actor_messages_total{actor="${idHex}"} ${canister.messagesById}\n`);
      traps.push(`svc_actor_traps_total{actor="${idHex}"} ${canister.trapsById}\n`);
    }
    cycles.push(`svc_actor_cycles{actor="${idHex}"} ${canister.balance}\n`);
    heap.push(`svc_actor_heap_bytes{actor="${idHex}"} ${canister.heapBytes}\n`);
  }
  return [messages, traps, cycles, heap].map((lines) => lines.join('')).join('');
}
