/** The functions that are open at an instruction of a message, found by executing it up to there on a copy. */
import type { Execution, ModuleInfo } from '../execution/index.ts';
import { CLEANUP_SHARE } from '../ic/index.ts';
import type { Note, PastMessage } from '../timeline/index.ts';
import { pastCopy } from './past-copy.ts';
import { playNoted } from './played-message.ts';

/** Facts that are not recorded, but where the message did not ask for them make no difference. */
export interface Unknown {
  /** The timer before the message: of two that differ by some hundred ns, one. */
  readonly timerNs: bigint;
  /** Instructions of a callback's call before it. */
  readonly instructions: number;
}

/** A message that is executed up to an instruction. */
interface SampledMessage {
  readonly id: Uint8Array;
  /** The code of then, made by `profiledModule`. */
  readonly module: ModuleInfo;
  readonly past: PastMessage['before'];
  readonly note: Note;
  readonly unknown: Unknown;
}

/** Stacks of this many functions may have had more. */
const FUNCTIONS_MAX = 32;

/**
 * Resolves with the open functions, outermost first; `…` stands for those that were too many. Undefined: the executor
 * notes no more stacks for now. Rejects as copies do.
 */
export async function stackAt(
  execution: Execution,
  { id, module, past, note, unknown }: SampledMessage,
  instruction: number,
  terms: Parameters<typeof pastCopy>[2],
): Promise<readonly string[] | undefined> {
  const copy = await pastCopy(execution, { id, module, past, timerNs: unknown.timerNs }, terms);
  try {
    copy.stand(note.instantMs);
    // A callback's limit has a part in it for the cleanup.
    const share = note.kind === 'callback' ? 1 - CLEANUP_SHARE : 1;
    const { end } = await playNoted(copy, id, note, module, unknown.instructions, Math.ceil(instruction / share));
    const { outcome, stack } = end;
    if (outcome !== 'limit' && outcome !== 'out_of_cycles') return [];
    return stack === undefined ? undefined : outermostFirst(stack);
  } finally {
    copy.end();
  }
}

function outermostFirst(stack: string): readonly string[] {
  const functions = stack === '' ? [] : stack.split('\n').toReversed();
  return functions.length < FUNCTIONS_MAX ? functions : ['…', ...functions];
}
