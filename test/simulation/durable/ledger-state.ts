/** Reader of an actor's memory that checks that its parts agree. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type { CanisterState } from '../../../subsystems/execution/engine/canister-state.ts';
import {
  ADDRESSES,
  ENTRIES_AT,
  ENTRY_BYTES,
  FIRST_BALANCE,
  HEADER_BYTES,
  kindOf,
  PAYLOAD_AT,
  SPREAD_AT,
  type Kind,
  STABLE_ENTRIES_AT,
} from './ledger-module.ts';
import { payload, payloadNumber } from './payload.ts';
import { SPREAD_PAGES } from './payload-sizes.ts';

export interface LedgerEntry {
  readonly number: number;
  readonly kind: Kind;
  readonly amount: bigint;
}

export interface Ledger {
  readonly entries: readonly LedgerEntry[];
  readonly beats: number;
  /** Number of the message that armed a timer which has not fired; 0: none. */
  readonly armed: number;
}

/** Reads a ledger. Throws if one part of a message is there and another is not. */
export function readLedger(name: string, { installed, stable, certifiedData }: CanisterState): Ledger {
  assert.ok(installed, `${name} has code`);
  const { instance } = installed;
  const whole = instance.heap();
  const heap = Buffer.from(whole.buffer, whole.byteOffset, whole.length);
  const inHeap = heap.readUInt8(ADDRESSES.inHeap) === 1;
  const header = Buffer.alloc(HEADER_BYTES);
  if (inHeap) heap.copy(header, 0, ADDRESSES.header, ADDRESSES.header + HEADER_BYTES);
  else stable.read(0, header, 0, header.length);
  const count = header.readUInt32LE(0);
  const globals = Buffer.from(instance.saveGlobals());
  assert.equal(
    globals.readInt32LE(instance.code.layout.globals[0]?.at ?? 0),
    count,
    `${name}: entries, global and stable`,
  );
  assert.equal(heap.readUInt32LE(ADDRESSES.beats), header.readUInt32LE(4), `${name}: beats, heap and stable`);
  const balance = heap.readBigInt64LE(ADDRESSES.balance);
  assert.equal(balance, header.readBigInt64LE(8), `${name}: balance, heap and stable`);
  const written = heap.subarray(ENTRIES_AT, ENTRIES_AT + count * ENTRY_BYTES);
  if (!inHeap) {
    const inStable = Buffer.alloc(count * ENTRY_BYTES);
    stable.read(STABLE_ENTRIES_AT, inStable, 0, inStable.length);
    assert.ok(written.equals(inStable), `${name}: entries, heap and stable`);
  }
  const entries = Array.from({ length: count }, (_, index) => readEntry(name, written.subarray(index * ENTRY_BYTES)));
  // Cleanup may not certify anything.
  if (entries.at(-1)?.kind !== 'cleaned')
    assert.deepEqual(Buffer.from(certifiedData), header, `${name}: certified and stable`);
  for (const { number, kind } of entries) {
    if (kind === 'spread') checkSpread(name, number, heap);
  }
  checkPayload(`${name}: the heap's payload`, entries, heap, ADDRESSES.note, PAYLOAD_AT);
  if (stable.bytes > 0) {
    const inStable = Buffer.alloc(stable.bytes);
    stable.read(0, inStable, 0, inStable.length);
    checkPayload(`${name}: stable memory's payload`, entries, inStable, HEADER_BYTES, PAYLOAD_AT);
  }
  let sum = FIRST_BALANCE;
  const sent = new Map<number, bigint>();
  for (const { number, kind, amount } of entries) {
    if (kind === 'sent') {
      sum -= amount;
      sent.set(number, amount);
    } else if (kind === 'received') sum += amount;
    else if (kind === 'failed') sum += sent.get(number) ?? 0n;
  }
  assert.equal(balance, sum, `${name}: balance and entries`);
  return { entries, beats: header.readUInt32LE(4), armed: heap.readUInt32LE(ADDRESSES.timer) };
}

/** Checks that the payload written last is there wholly, if its message is. */
function checkPayload(what: string, entries: readonly LedgerEntry[], memory: Buffer, noteAt: number, at: number): void {
  const seed = memory.readUInt32LE(noteAt);
  const bytes = memory.readUInt32LE(noteAt + 4);
  if (bytes === 0) return;
  const number = payloadNumber(seed);
  assert.ok(
    entries.some((entry) => entry.number === number),
    `${what} is of message ${number}, which is not there`,
  );
  assert.ok(
    memory.subarray(at, at + bytes).equals(payload(seed, bytes)),
    `${what} of ${bytes} bytes, message ${number}`,
  );
}

function checkSpread(name: string, number: number, heap: Buffer): void {
  for (let page = 0; page < SPREAD_PAGES; page++) {
    const byte = heap[SPREAD_AT + page * 4096 + number];
    assert.equal(byte, number & 0xff, `${name}: page ${page} of message ${number}`);
  }
}

function readEntry(name: string, bytes: Buffer): LedgerEntry {
  const number = bytes.readUInt32LE(0);
  const filling = bytes.subarray(15, 15 + bytes.readUInt16LE(13));
  assert.ok(
    filling.every((byte) => byte === (number & 0xff)),
    `${name}: the filling of entry ${number}`,
  );
  return { number, kind: kindOf(bytes.readUInt8(4)), amount: bytes.readBigUInt64LE(5) };
}

/** Parts of the text of `describe`, by name. */
export type Described = Readonly<Record<string, string>>;

/** Describes everything that an executor knows of its canister; memories are hashes. */
export function describe(state: CanisterState): Described {
  const { installed, stable, certifiedData, account, version, timerNs, settings, openCalls, instantMs } = state;
  const { env, controllers, heapBytesMax, status } = settings;
  const inStable = new Uint8Array(stable.bytes);
  stable.read(0, inStable, 0, inStable.length);
  return {
    numbers: `${account.balance} cycles, version ${version}, timer ${timerNs}, at ${instantMs}, ${status}`,
    settings: JSON.stringify([[...env], controllers, heapBytesMax]),
    openCalls: JSON.stringify(openCalls.entries()),
    certified: Buffer.from(certifiedData).toString('hex'),
    heap: installed === undefined ? '' : `${installed.instance.heapBytes} ${hashOf(installed.instance.heap())}`,
    globals: installed === undefined ? '' : hashOf(installed.instance.saveGlobals()),
    stable: `${stable.pages} ${hashOf(inStable)}`,
  };
}

function hashOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
