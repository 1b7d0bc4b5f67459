/** Executes a noted message on a copy whose state is that before the message. */
import { ServerError } from '../../kernel/index.ts';
import { type ActorCopy, CopyPlayer, endOf, isPlayable, notedCall, type PlayedEnd } from '../copies/index.ts';
import type { CodeChange, ModuleInfo } from '../execution/index.ts';
import type { ToldStep } from '../ic/index.ts';
import type { Note, PastMessage } from '../timeline/index.ts';

/** A section whose presence says that a module finds its state in the heap of the module before (docs/modules.md). */
const PERSISTENCE_SECTION = 'enhanced-orthogonal-persistence';

/** Throws ServerError `replay-none` for a message that cannot be executed again. */
export function refuseUnplayable({ entry: { note, seq }, after }: PastMessage): void {
  const { kind, outcome } = note;
  const none = (why: string): ServerError =>
    new ServerError('invalid', 'replay-none', `seq:${seq} cannot be replayed: ${why}`);
  if (kind === 'restore' || kind === 'fork') throw none(`a ${kind} puts a state in place, and executes nothing`);
  if (kind === 'callback' && note.call?.answered === undefined)
    throw none('an earlier version of svc noted it, without the call that was answered');
  // The module of a change that failed is no part of the state behind it.
  if (!isPlayable(kind) && (outcome !== 'done' || after.wasm === undefined))
    throw none(`the ${kind} failed, and the module that was tried is not kept`);
}

/** True for a message whose instructions can be cut short. */
export function isProfilable({ kind, call }: Note): boolean {
  return kind === 'update' || (kind === 'callback' && call?.answered !== undefined);
}

/** Throws ServerError `replay-none` for any other. */
export function refuseUnprofiled(note: Note, seq: number): void {
  if (isProfilable(note)) return;
  const why = `it is of the kind ${note.kind}, and updates and callbacks have one`;
  throw new ServerError('invalid', 'replay-none', `seq:${seq} has no profile: ${why}`);
}

/**
 * Resolves as `ActorCopy` does. `to`: the code of a change; `instructions`: those of a callback's call before it;
 * `instructionsMax`: limit of an update or a callback.
 */
export async function playNoted(
  copy: ActorCopy,
  id: Uint8Array,
  note: Note,
  to: ModuleInfo,
  instructions: number,
  instructionsMax?: number,
): Promise<{ readonly end: PlayedEnd; readonly told: ToldStep }> {
  const change = changeOf(note, copy.module, to);
  if (change !== undefined) {
    const told = await copy.change(to, change);
    return { end: endOf(told.step), told };
  }
  const player = new CopyPlayer(copy, id, instructionsMax);
  const answered = note.call?.answered;
  const { end, told } = await (answered === undefined
    ? player.play(note)
    : player.answer(notedCall(note, answered, instructions), note, answered));
  if (told === undefined) throw new ServerError('invalid', 'replay-none', `nothing was executed: ${end.message ?? ''}`);
  return { end, told };
}

function changeOf({ kind, argument, caller, upgrade }: Note, from: ModuleInfo, to: ModuleInfo): CodeChange | undefined {
  const given = { argument: new Uint8Array(argument), caller };
  if (kind === 'install' || kind === 'reinstall') return { mode: kind, ...given };
  if (kind !== 'upgrade') return undefined;
  // Notes of earlier versions do not say: this is what an upgrade does that is asked for nothing else.
  const keepsHeap = [from, to].every(({ metadata }) => metadata.has(PERSISTENCE_SECTION));
  return { mode: 'upgrade', ...(upgrade ?? { keepsHeap, skipsPreUpgrade: false }), ...given };
}
