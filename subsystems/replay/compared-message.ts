/**
 * Compares a message that was executed again with what the timeline has of it: how it ended, what it cost, the timer
 * that it set, and the whole state that it left. Replies are not recorded: the same state after the same instructions
 * says that they are the same.
 */
import type { PlayedEnd } from '../copies/index.ts';
import type { CanisterImage } from '../execution/index.ts';
import { sameBytes, type ToldStep, WASM_PAGE_BYTES } from '../ic/index.ts';
import type { PastMessage, StateBehind } from '../timeline/index.ts';
import type { ReplayDifference, ReplayVerdict } from './index.ts';
import { compareMemory } from './compared-memory.ts';

/** A message that was executed again. */
interface PlayedMessage {
  readonly end: PlayedEnd;
  readonly told: ToldStep;
  readonly state: CanisterImage;
}

interface ComparedMessage {
  readonly changedBytes: number;
  readonly verdict: ReplayVerdict;
}

export async function compareMessage(message: PastMessage, played: PlayedMessage): Promise<ComparedMessage> {
  const { before, after } = message;
  const { state } = played;
  const heap = await compareMemory('heap', before.image, after, state);
  const stable = await compareMemory('stable', before.image, after, state);
  const difference =
    first(endsOf(message, played)) ?? first(statesOf(after, state)) ?? heap.difference ?? stable.difference;
  const changedBytes = heap.changedBytes + stable.changedBytes;
  if (difference === undefined) return { changedBytes, verdict: { kind: 'exact' } };
  const why = whyUnsure(message, played, difference.what);
  if (why === undefined) return { changedBytes, verdict: { kind: 'different', difference } };
  return { changedBytes, verdict: { kind: 'unsure', difference, why } };
}

type Compared = readonly [what: string, was: string | number | null, is: string | number | null];

function endsOf(message: PastMessage, played: PlayedMessage): readonly Compared[] {
  const { note } = message.entry;
  const { end, told } = played;
  const { step, version } = told;
  return [
    ['outcome', note.outcome, end.outcome],
    ['instructions', note.instructions, end.instructions],
    ['cycles', note.charge, step.charge],
    ['timer', timerText(note.timerNs), timerText(step.timerNs)],
    ['version', note.version, isOvertaken(message, played) ? note.version : version],
  ];
}

function statesOf({ heapBytes, stableBytes, image: was }: StateBehind, is: CanisterImage): readonly Compared[] {
  return [
    ['heap bytes', heapBytes, is.heap.length],
    ['stable bytes', stableBytes, is.stablePages * WASM_PAGE_BYTES],
    ...(sameBytes(was.globals, is.globals) ? [] : [hexOf('globals', was.globals, is.globals)]),
    ...(sameBytes(was.certifiedData, is.certifiedData)
      ? []
      : [hexOf('certified data', was.certifiedData, is.certifiedData)]),
  ];
}

function hexOf(what: string, was: Uint8Array, is: Uint8Array): Compared {
  return [what, Buffer.from(was).toString('hex'), Buffer.from(is).toString('hex')];
}

function first(compared: readonly Compared[]): ReplayDifference | undefined {
  const found = compared.find(([, was, is]) => was !== is);
  return found && { what: found[0], was: found[1], is: found[2] };
}

/**
 * True if settings were changed while the message waited in its executor: the change is stored before the message, with
 * the version that the message has come to.
 */
function isOvertaken({ entry, before }: PastMessage, { told }: PlayedMessage): boolean {
  return before.version === entry.note.version && told.version === before.version + 1;
}

/** Returns the reason why a difference may come from something else than the message; undefined: there is none. */
function whyUnsure(message: PastMessage, played: PlayedMessage, what: string): string | undefined {
  const { entry, before, after, isAlone, otherServer } = message;
  const { kind, upgrade, charge, balance } = entry.note;
  const isChangeOfCode = kind === 'install' || kind === 'reinstall' || kind === 'upgrade';
  if (otherServer !== undefined) return `another server executed the message: ${otherServer}`;
  if (kind === 'upgrade' && upgrade === undefined)
    return 'an earlier version of svc noted the upgrade, and not whether the heap was kept';
  if (isOvertaken(message, played)) return 'settings were changed while the message waited: the state before has that';
  if (!isAlone && !isChangeOfCode)
    return 'settings, or the whole state, were changed in the same unit: the recorded states have that';
  // The charge follows from the instructions alone.
  if (what !== 'cycles' && (balance ?? before.balance - BigInt(charge)) !== after.balance)
    return 'cycles came to the actor in the same unit, or left it, besides the message';
  return undefined;
}

function timerText(timerNs: bigint | undefined): string | null {
  return timerNs === undefined ? null : String(timerNs);
}
