/**
 * Sizes and durations of messages as proofs draw them: on both sides of each threshold at which the code changes its
 * behaviour, with a count of each class drawn. A class comes again only after all the others, so few messages see them
 * all.
 */
import { LARGE_BODY_BYTES } from '../../subsystems/codec/faults.ts';
import { DEBUG_BYTES_MAX } from '../../subsystems/execution/engine/system-api/debug-output.ts';
import { REPLY_BYTES_MAX } from '../../subsystems/execution/engine/system-api/responding.ts';
import { INLINE_BYTES_MAX as TASK_BYTES } from '../../subsystems/execution/wire/ring-bytes.ts';
import { FUEL_SLICE } from '../../subsystems/instrument/index.ts';
import { PAGE_BYTES } from '../../subsystems/bytes/index.ts';
import { FILL_BYTES } from '../../subsystems/storage/segment-maker.ts';
import { INLINE_BYTES_MAX as UNIT_BYTES } from '../../subsystems/storage/storage-wire.ts';
import type { Seeded } from './seeded.ts';

/** Maximum of a message from outside; messages of actors have less room (`actorSizesOf`). */
const PAYLOAD_BYTES_MAX = 4 * 2 ** 20;
/**
 * Approximate bytes around a message's payload: a payload this close to a threshold puts the message on either side.
 */
const NEAR_BYTES = 400;

/** Thresholds at which the code decides by size, with the decision's name. */
const THRESHOLDS: readonly (readonly [string, number])[] = [
  ['a page', PAGE_BYTES],
  ['a ring record of a task', TASK_BYTES],
  ['a ring record of a unit', UNIT_BYTES],
  ['a body for the codec thread', LARGE_BODY_BYTES],
  ['a debug line', DEBUG_BYTES_MAX],
  ['a step of the log', FILL_BYTES],
];

type Draw = (random: Seeded) => number;

const MOST = 'the most there may be';
const SIZES: readonly (readonly [string, Draw])[] = [
  ['no bytes', () => 0],
  ['few bytes', (random) => 1 + random.below(1000)],
  ...THRESHOLDS.flatMap(([name, bytes]): [string, Draw][] => [
    [`under ${name}`, (random): number => bytes - NEAR_BYTES - random.below(NEAR_BYTES)],
    [`about ${name}`, (random): number => bytes - NEAR_BYTES + random.below(2 * NEAR_BYTES)],
    [`over ${name}`, (random): number => bytes + 1 + random.below(NEAR_BYTES)],
  ]),
  ['between the thresholds', (random) => random.below(FILL_BYTES)],
  [MOST, (random) => PAYLOAD_BYTES_MAX - NEAR_BYTES - random.below(NEAR_BYTES)],
];

const ACTOR_SIZES: typeof SIZES = SIZES.map(([name, draw]) => [
  name,
  (random): number => Math.min(draw(random), REPLY_BYTES_MAX - NEAR_BYTES - random.below(NEAR_BYTES)),
]);

/** Durations in instructions, compared with a slice of fuel; the typical ones come in between again and again. */
const DURATIONS: readonly (readonly [string, Draw])[] = [
  ['no time', () => 0],
  ['less than a slice', (random) => random.below(FUEL_SLICE / 2)],
  ['no time', () => 0],
  ['about a slice', (random) => FUEL_SLICE - random.below(FUEL_SLICE / 8)],
  ['no time', () => 0],
  ['a few slices', (random) => FUEL_SLICE * (2 + random.below(16))],
  ['no time', () => 0],
  ['half a second', (random) => HALF_A_SECOND - random.below(HALF_A_SECOND / 8)],
];
/** Number of instructions. */
const HALF_A_SECOND = 2 ** 28;

interface Drawn {
  readonly name: string;
  readonly value: number;
}

/** Draws one class after the other, beginning with a random one. */
class Classes {
  readonly #random: Seeded;
  readonly #classes: readonly (readonly [string, Draw])[];
  #at: number;

  constructor(random: Seeded, classes: readonly (readonly [string, Draw])[]) {
    this.#random = random;
    this.#classes = classes;
    this.#at = random.below(classes.length);
  }

  next(): Drawn {
    const [name, draw] = this.#classes[this.#at++ % this.#classes.length] ?? ['', (): number => 0];
    return { name, value: draw(this.#random) };
  }
}

/** Sizes of payloads from outside, in bytes. */
export const sizesOf = (random: Seeded): Classes => new Classes(random, SIZES);
/** Sizes of replies and of payloads between actors. */
export const actorSizesOf = (random: Seeded): Classes => new Classes(random, ACTOR_SIZES);
/** Durations in instructions. */
export const durationsOf = (random: Seeded): Classes => new Classes(random, DURATIONS);

/** Names of all classes. */
export const SIZE_NAMES: readonly string[] = SIZES.map(([name]) => name);
export const DURATION_NAMES: readonly string[] = [...new Set(DURATIONS.map(([name]) => name))];

/** Counts how often each class was drawn. */
export class Tally {
  readonly #counts = new Map<string, number>();

  saw(name: string): void {
    this.#counts.set(name, this.of(name) + 1);
  }

  of(name: string): number {
    return this.#counts.get(name) ?? 0;
  }

  get all(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.#counts].toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }
}
