/**
 * Canister ids: 8 bytes of a big-endian number, then 01 01 (an opaque principal). The numbers start where local
 * replicas start, so that no id collides with a mainnet canister that a program has hard-coded.
 */
import { ServerError } from '../../kernel/index.ts';

const FIRST_NUMBER = 0x8000_0000_0010_0001n;
const ID_BYTES = 10;
/** Bits of the number that name the shard begin here; there are eight of them. */
const SHARD_AT = 40n;
const SHARDS = 256n;
/** From here on a shard's numbers are those that all servers of the service know before the canister is there. */
export const RESERVED_NUMBERS: bigint = 1n << 39n;

/** Gives out ids, each one only once. */
export class CanisterIds {
  #next = 0n;
  /** Undefined: this host is a service by itself, and any id may be its own. */
  #shard: number | undefined;
  readonly #taken = new Set<string>();

  /** From now on all ids are those of a shard. */
  inShard(shard: number): void {
    this.#shard = shard;
  }

  next(): Uint8Array {
    for (;;) {
      const id = idInShard(this.#shard ?? 0, this.#next++);
      if (this.#taken.delete(hexOf(id))) continue;
      return id;
    }
  }

  /** Number that grows with every id that is given out. */
  get count(): bigint {
    return this.#next + BigInt(this.#taken.size) * 2n ** 64n;
  }

  /** Returns the state for `load`: u64 big-endian, then the chosen ids. */
  save(): Uint8Array {
    const next = Buffer.alloc(8);
    next.writeBigUInt64BE(this.#next);
    return Buffer.concat([next, ...[...this.#taken].map((hex) => Buffer.from(hex, 'hex'))]);
  }

  /** Continues from the state of another process. */
  load(saved: Uint8Array): void {
    if (saved.length < 8 || (saved.length - 8) % ID_BYTES !== 0) {
      throw new ServerError('unavailable', 'state-corrupt', 'the state is damaged: the ids given out cannot be read');
    }
    const bytes = Buffer.from(saved);
    this.#next = bytes.readBigUInt64BE();
    for (let at = 8; at < bytes.length; at += ID_BYTES) this.#taken.add(hexOf(bytes.subarray(at, at + ID_BYTES)));
  }

  /** Takes a chosen id. Throws ServerError `invalid` if it has another form or was given out before. */
  claim(id: Uint8Array): void {
    const number = id.length === ID_BYTES ? new DataView(id.buffer, id.byteOffset).getBigUint64(0) : undefined;
    if (number === undefined || id[8] !== 1 || id[9] !== 1) {
      throw new ServerError(
        'invalid',
        'id-unfit',
        `${hexOf(id)} cannot be the id of a canister: an id has 8 bytes of a number, then 01 01`,
      );
    }
    const hex = hexOf(id);
    const isOther = this.#shard !== undefined && shardOf(id) !== this.#shard;
    const first = FIRST_NUMBER + (BigInt(this.#shard ?? 0) << SHARD_AT);
    if (isOther || (this.#shard !== undefined && number >= first + RESERVED_NUMBERS)) {
      throw new ServerError(
        'invalid',
        'id-unfit',
        `the id ${hex} cannot be given out by this server: ` +
          `it has shard ${this.#shard} of a service, whose ids start with ${hexOf(idInShard(this.#shard ?? 0, 0n)).slice(0, 6)}`,
      );
    }
    const wasGiven = number >= first && number < first + this.#next;
    if (wasGiven || this.#taken.has(hex)) {
      throw new ServerError('invalid', 'id-taken', `the id ${hex} has been given to a canister already`);
    }
    this.#taken.add(hex);
  }
}

/** Returns the id of the canister of a shard that has this number there, counted from 0. */
export function idInShard(shard: number, number: bigint): Uint8Array {
  const id = new Uint8Array(ID_BYTES);
  new DataView(id.buffer).setBigUint64(0, FIRST_NUMBER + (BigInt(shard) << SHARD_AT) + number);
  id[8] = 1;
  id[9] = 1;
  return id;
}

/**
 * Returns the shard that an id belongs to, 0 to 255; undefined: it is no id that a host of this kind gives out. All ids
 * of a host that is a service by itself are in shard 0.
 */
export function shardOf(id: Uint8Array): number | undefined {
  if (id.length !== ID_BYTES || id[8] !== 1 || id[9] !== 1) return undefined;
  const number = new DataView(id.buffer, id.byteOffset).getBigUint64(0) - FIRST_NUMBER;
  const shard = number >> SHARD_AT;
  return shard >= 0n && shard < SHARDS ? Number(shard) : undefined;
}

export function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex');
}

export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, index) => byte === b[index]);
}
