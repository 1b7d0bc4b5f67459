/**
 * The families that have one line for each actor. For 10,000 actors these are 40,000 lines, 2 MB: as prom-client's
 * labelled values, an object and a hashed label set each, they hold the main thread for 90 to 190 ms; written as text,
 * for 10 to 60, and in slices, between which other work runs.
 *
 * A family's lines have to be consecutive, so each family has its own pieces. The lines of one actor are of one moment,
 * those of different actors up to some milliseconds apart.
 *
 * Names and ids need no escaping: they consist of letters, digits, `_` and `-`.
 */
import type { TimeSlices } from '../../kernel/index.ts';
import type { Canister } from '../canisters/index.ts';
import { familyText } from './exposition.ts';
import { TextPieces } from './text-pieces.ts';

/** Properties of an actor that are shown. */
export type MeasuredCanister = Pick<
  Canister,
  | 'name'
  | 'idHex'
  | 'balance'
  | 'heapBytes'
  | 'queued'
  | 'messagesByName'
  | 'trapsByName'
  | 'messagesById'
  | 'trapsById'
>;

/** Actors written between two checks of the clock: well below a tenth of a millisecond. */
const ACTORS_A_LOOK = 16;

/** Lines and sums of all actors. */
interface ActorPage {
  readonly pieces: readonly Uint8Array[];
  /** Messages that wait for all actors together, and for the actor with the longest queue. */
  readonly queued: number;
  readonly queuedDeepest: number;
}

export async function actorPage(canisters: readonly MeasuredCanister[], slices: TimeSlices): Promise<ActorPage> {
  const families = [new TextPieces(), new TextPieces(), new TextPieces(), new TextPieces()] as const;
  const [messages, traps, cycles, heap] = families;
  messages.add(
    familyText(
      'svc_actor_messages_total',
      'counter',
      'Messages executed: calls, queries, heartbeats, timers; by the actor as it was addressed.',
    ),
  );
  traps.add(
    familyText(
      'svc_actor_traps_total',
      'counter',
      'Messages and callbacks that trapped or reached the instruction limit; by the actor as it was addressed.',
    ),
  );
  cycles.add(familyText('svc_actor_cycles', 'gauge', 'Cycles balance.'));
  heap.add(familyText('svc_actor_heap_bytes', 'gauge', 'Bytes of heap after the last message.'));
  let [queued, queuedDeepest] = [0, 0];
  for (let at = 0; at < canisters.length; at += ACTORS_A_LOOK) {
    if (slices.isOver) await slices.next();
    let [messageLines, trapLines, cycleLines, heapLines] = ['', '', '', ''];
    for (const canister of canisters.slice(at, at + ACTORS_A_LOOK)) {
      const { name, idHex, queued: waiting } = canister;
      // Actors made by other actors have no name but their id: one line counts both.
      const isNameless = name === idHex;
      const namedMessages = canister.messagesByName + (isNameless ? canister.messagesById : 0);
      const namedTraps = canister.trapsByName + (isNameless ? canister.trapsById : 0);
      messageLines += `svc_actor_messages_total{actor="${name}"} ${namedMessages}\n`;
      trapLines += `svc_actor_traps_total{actor="${name}"} ${namedTraps}\n`;
      // Few actors are addressed by their ids: the others have no second line.
      if (!isNameless && canister.messagesById > 0) {
        messageLines += `svc_actor_messages_total{actor="${idHex}"} ${canister.messagesById}\n`;
        trapLines += `svc_actor_traps_total{actor="${idHex}"} ${canister.trapsById}\n`;
      }
      cycleLines += `svc_actor_cycles{actor="${idHex}"} ${canister.balance}\n`;
      heapLines += `svc_actor_heap_bytes{actor="${idHex}"} ${canister.heapBytes}\n`;
      queued += waiting;
      if (waiting > queuedDeepest) queuedDeepest = waiting;
    }
    messages.add(messageLines);
    traps.add(trapLines);
    cycles.add(cycleLines);
    heap.add(heapLines);
  }
  return { pieces: families.flatMap((family) => family.end()), queued, queuedDeepest };
}
