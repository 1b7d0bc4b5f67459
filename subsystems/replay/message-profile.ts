/**
 * Profile of a message, by samples. The engine is exact to the instruction: a message that is executed again with a
 * limit ends at that instruction, and the stack of its fault says which functions were open there. So a profile is the
 * same on every machine.
 *
 * Main thread.
 */
import { type Clock, sleep } from '../../kernel/index.ts';
import type { MessageProfile, ProfileSample } from './index.ts';

const SAMPLES_MAX = 500;
/** Instructions that all samples execute together: about 10 s. */
const INSTRUCTIONS_MAX = 4e10;
/** Time after which no further sample is taken: messages with few instructions may touch much memory. */
const SAMPLING_MS_MAX = 30_000;
/** Executors note few stacks at once; time after which they note more, and attempts for one sample. */
const NOTED_AGAIN_MS = 100;
const ATTEMPTS_MAX = 10;
/** Each further multiple of it falls between those before it: some first samples are evenly spread, too. */
const GOLDEN_RATIO = (Math.sqrt(5) - 1) / 2;
/** Samples of the first round; each further round has twice as many as the one before. */
const FIRST_ROUND = 4;

interface Sampled {
  readonly at: number;
  readonly stack: readonly string[];
}

/**
 * Resolves with the profile of a message of so many instructions. `at` resolves with the functions that are open at an
 * instruction, outermost first; undefined: they were not noted.
 */
export async function profileOf(
  instructions: number,
  at: (instruction: number) => Promise<readonly string[] | undefined>,
  clock: Clock,
): Promise<MessageProfile> {
  const endMs = clock.nowMs() + SAMPLING_MS_MAX;
  const sampled: Sampled[] = [];
  for (const instruction of instructionsIn(instructions)) {
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const stack = await at(instruction);
      if (stack !== undefined) {
        sampled.push({ at: instruction, stack });
        break;
      }
      await sleep(clock, NOTED_AGAIN_MS);
    }
    if (clock.nowMs() >= endMs) break;
  }
  return { instructions, samples: weighed(sampled, instructions) };
}

/**
 * Returns the instructions at which samples are taken, in rounds that are evenly spread. Within a round they go
 * forward, so that the state before a message, which may be large, is needed once a round.
 */
function instructionsIn(instructions: number): readonly number[] {
  const affordable = Math.floor((2 * INSTRUCTIONS_MAX) / Math.max(1, instructions));
  const count = Math.max(1, Math.min(SAMPLES_MAX, affordable, instructions - 1));
  const spread = Array.from({ length: count }, (_, index) => index)
    .toSorted((one, other) => ((one * GOLDEN_RATIO) % 1) - ((other * GOLDEN_RATIO) % 1))
    .map((index) => 1 + Math.floor(((index + 0.5) * (instructions - 1)) / count));
  const rounds: number[] = [];
  for (let size = FIRST_ROUND; rounds.length < count; size *= 2)
    rounds.push(...spread.slice(rounds.length, rounds.length + size).toSorted((one, other) => one - other));
  return rounds;
}

/** Returns the samples in the order of execution. Each stands for the instructions that are nearest to it. */
function weighed(sampled: readonly Sampled[], instructions: number): readonly ProfileSample[] {
  const sorted = sampled.toSorted((one, other) => one.at - other.at);
  let begin = 0;
  return sorted.map(({ at, stack }, index) => {
    const next = sorted[index + 1];
    const end = next === undefined ? instructions : Math.floor((at + next.at) / 2);
    const sample = { instructions: end - begin, stack };
    begin = end;
    return sample;
  });
}
