/**
 * Owners of keys. Keys of the families `heap` and `stable` are id · page number, of `log` id · number of the record,
 * of `module` the SHA-256 of the bytes, which are stored for as long as the identity of a canister names them, of
 * `blob` id · letter · rest: `c` and `s` are the management canister's, `a` the scheduler's. A key of `meta` begins
 * with one of these letters.
 */
import { numberAt } from '../../kernel/index.ts';
import { NO_BYTES } from '../bytes/index.ts';
import type { Family } from './tables.ts';
import type { WriteBatch } from './write-batch.ts';

export const META = {
  /** Name, settings and code of a canister (canisters). */
  identity: 'i',
  /** Numbers of a canister as of its last step: balance, version, timer, status, sizes, counters (canisters). */
  numbers: 's',
  /** Mutable globals of a canister (execution). */
  globals: 'g',
  /** Certified data of a canister (execution). */
  certifiedData: 'd',
  /** The state that a canister's log begins with, besides its memory (execution). */
  checkpoint: 'k',
  /** Which of the two copies of its memory is the newest, a byte; without it, the first (execution). */
  copy: 'c',
  /**
   * The copy of its memory that does not count is written ahead of a change of code; deleted when that is true
   * (execution).
   */
  ahead: 'w',
  /** Settings and history that the management canister keeps of it. */
  settings: 'S',
  history: 'H',
  /** The secret of the host's signing keys (management). */
  seed: 'K',
  /** The secret of the keys that certificates are signed with (certification). */
  certification: 'C',
  /** The answer of a management call of a user, by its request id (agents). */
  userCall: 'M',
  /** Ids that have been given out (canisters). */
  ids: 'n',
  /** The newest unit that the tables have (storage). */
  unit: 'U',
  /** Mark of a canister that has answers kept under keys of clients (scheduler). */
  answers: 'A',
  /** The least that the step log beside the tables must have; not in backups, which have no log (storage). */
  logFloor: 'L',
} as const;
export type MetaLetter = (typeof META)[keyof typeof META];

/** letter · rest */
export function metaKey(letter: MetaLetter, rest: Uint8Array = NO_BYTES): Uint8Array {
  const key = new Uint8Array(1 + rest.length);
  key[0] = letter.charCodeAt(0);
  key.set(rest, 1);
  return key;
}

/**
 * A canister with a log may have two copies of its memory: a checkpoint of many pages is written to the other one,
 * piece by piece, before it counts. What stands for the id in keys of `heap` and `stable`: ids end with 01, so both
 * are free.
 */
export function memoryId(id: Uint8Array, copy: number): Uint8Array {
  if (copy === 0) return id;
  const other = new Uint8Array(id);
  other[other.length - 1] = numberAt(id, id.length - 1, 'byte of an id') ^ 0x80;
  return other;
}

/** id · u48 number, big-endian: the n-th record of a canister's log. */
export function logKey(id: Uint8Array, number: number): Uint8Array {
  const key = Buffer.alloc(id.length + 6);
  key.set(id);
  key.writeUIntBE(number, id.length, 6);
  return key;
}

const ANSWERS = 0x61;

/** id · a: before all rows of answers that are kept of a canister. */
export function answersOf(id: Uint8Array): Uint8Array {
  const prefix = new Uint8Array(id.length + 1);
  prefix.set(id);
  prefix[id.length] = ANSWERS;
  return prefix;
}

/** id · a · u48 number, big-endian. */
export function answersKey(id: Uint8Array, number: number): Uint8Array {
  const key = Buffer.alloc(id.length + 7);
  key.set(id);
  key[id.length] = ANSWERS;
  key.writeUIntBE(number, id.length + 1, 6);
  return key;
}

/** Rows of `meta` that are a canister's state, each there once for it. */
export const STATE_ROWS = [
  META.identity,
  META.numbers,
  META.globals,
  META.certifiedData,
  META.checkpoint,
  META.copy,
  META.ahead,
] as const;

/** Deletes everything that canisters, execution and scheduler keep of a canister. */
export function eraseCanister(unit: Pick<WriteBatch, 'delete' | 'clear'>, id: Uint8Array): void {
  for (const letter of [...STATE_ROWS, META.answers]) {
    unit.delete('meta', metaKey(letter, id));
  }
  unit.clear('log', id);
  unit.clear('blob', answersOf(id));
  for (const family of ['heap', 'stable'] as const) {
    for (const copy of [0, 1]) unit.clear(family, memoryId(id, copy));
  }
}

/** Keys of a canister, which begin so, and the module of its identity. */
export interface MovedRows {
  readonly id: Uint8Array;
  /** Key of the module; undefined: it has none. */
  readonly moduleHash: Uint8Array | undefined;
  readonly prefixes: readonly { readonly family: Family; readonly prefix: Uint8Array }[];
}

/** Returns where all is that anybody keeps of a canister. */
export function rowsOfCanister(id: Uint8Array, moduleHash: Uint8Array | undefined): MovedRows {
  const letters = [...STATE_ROWS, META.answers, META.settings, META.history];
  return {
    id,
    moduleHash,
    prefixes: [
      ...letters.map((letter) => ({ family: 'meta', prefix: metaKey(letter, id) }) as const),
      { family: 'log', prefix: id },
      { family: 'blob', prefix: id },
      ...(['heap', 'stable'] as const).flatMap((family) =>
        [0, 1].map((copy) => ({ family, prefix: memoryId(id, copy) })),
      ),
    ],
  };
}
