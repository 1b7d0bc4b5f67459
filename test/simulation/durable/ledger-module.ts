/**
 * The actor of the crash simulator: a ledger that makes every loss visible.
 *
 * What happens is an entry with the number of the message that made it happen, in the heap and in stable memory; how many
 * there are is a mutable global, certified, and in the header of stable memory; the sum of what was sent and received is the
 * balance. Whoever has one of these has to have all. Entries lie at unaligned places, so that they cross pages.
 *
 *     heap     ARGUMENT · BALANCE, BEATS, TIMER · what callbacks need, by number · entries
 *     stable   header: u32 entries · u32 beats · i64 balance · entries
 *     entry    u32 number · u8 kind · u64 amount · u16 length · filling of that length, each byte the number's lowest
 */
import { wat } from '../../support/wat.ts';

const ARGUMENT = 1024;
const ARGUMENT_BYTES = 64;
const BALANCE = 64;
const BEATS = 72;
const TIMER = 80;
const SCRATCH = 512;
const WAITING = 16_384;
const WAITING_BYTES = 16;
export const NUMBERS_MAX = 2000;
export const ENTRIES_AT = WAITING + NUMBERS_MAX * WAITING_BYTES + 3;
export const STABLE_ENTRIES_AT = 16;
export const ENTRY_BYTES = 1021;
const ENTRY_HEADER_BYTES = 15;
export const FILL_BYTES_MAX = ENTRY_BYTES - ENTRY_HEADER_BYTES;
/** Far behind all entries, more than a checkpoint writes at once. */
export const SPREAD_AT = 8 * 2 ** 20;
export const SPREAD_PAGES = 2304;
/** Turns of a loop, of ten instructions at most, that take a slice of fuel together. */
const TURNS_PER_SLICE = 2 ** 20 / 8;
export const FIRST_BALANCE = 1_000_000n;

/** What an entry says; its number is that of the message. */
export const KINDS = [
  'none',
  'noted',
  'sent',
  'received',
  /** The call was answered, */
  'done',
  /** rejected (the amount is the code), */
  'failed',
  /** or answered, and the callback has trapped. */
  'cleaned',
  'armed',
  'fired',
  /** A message that another one caused, and its answer. */
  'relayed',
  'relayDone',
  /** A byte in each of SPREAD_PAGES pages, at the number's place. */
  'spread',
] as const;
export type Kind = (typeof KINDS)[number];

export const FLAGS = {
  /** Traps when the heap has the entry, and stable memory does not. */
  trapsHalfway: 1,
  trapsAtEnd: 2,
  /** A transfer's receiver keeps it, and rejects all the same. */
  rejects: 4,
  isBestEffort: 8,
  trapsInCallback: 16,
  /** A transfer's receiver calls a third one before it answers. */
  relays: 32,
  /** Cycles are not accepted. */
  leavesCycles: 64,
} as const;

export interface LedgerArgument {
  readonly number: number;
  readonly flags?: number;
  readonly amount?: bigint;
  readonly fillBytes?: number;
  /** Pages of 64 KiB. */
  readonly grow?: number;
  readonly cycles?: bigint;
  readonly callee?: Uint8Array;
  readonly calleeFlags?: number;
  readonly delayMs?: number;
  /** Whom the receiver calls. */
  readonly third?: Uint8Array;
  /** How long it takes, in slices of fuel, when the heap has the entry, and stable memory does not. */
  readonly spinSlices?: number;
}

export function ledgerArgument(argument: LedgerArgument): Uint8Array {
  const bytes = new Uint8Array(ARGUMENT_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, argument.number, true);
  view.setUint32(4, argument.flags ?? 0, true);
  view.setBigUint64(8, argument.amount ?? 0n, true);
  view.setUint32(16, argument.fillBytes ?? 0, true);
  view.setUint32(20, argument.grow ?? 0, true);
  view.setBigUint64(24, argument.cycles ?? 0n, true);
  bytes.set(argument.callee ?? [], 32);
  view.setUint16(42, argument.calleeFlags ?? 0, true);
  view.setUint32(44, argument.delayMs ?? 0, true);
  bytes.set(argument.third ?? [], 48);
  view.setUint16(60, argument.spinSlices ?? 0, true);
  return bytes;
}

/** What every method answers: how it stands, and the newest entry. */
export interface Look {
  readonly entries: number;
  readonly balance: bigint;
  readonly beats: number;
  readonly last: { readonly number: number; readonly kind: Kind } | undefined;
}

export const LOOK_BYTES = 24;

export function readLook(reply: Uint8Array): Look {
  const view = new DataView(reply.buffer, reply.byteOffset, reply.byteLength);
  const entries = view.getUint32(0, true);
  const last = { number: view.getUint32(16, true), kind: kindOf(view.getUint8(20)) };
  return {
    entries,
    beats: view.getUint32(4, true),
    balance: view.getBigInt64(8, true),
    last: entries === 0 ? undefined : last,
  };
}

export function kindOf(kind: number): Kind {
  const known = KINDS[kind];
  if (known === undefined) throw new Error(`entries have no kind ${kind}`);
  return known;
}

export interface LedgerVariant {
  readonly hasHeartbeat?: boolean;
  /** Different modules of the same behaviour. */
  readonly version?: number;
  /** The heap stays at upgrades. */
  readonly keepsHeap?: boolean;
  /** Messages are looked at before they are let in. */
  readonly inspects?: boolean;
  /** Upgrades to it fail. */
  readonly isBroken?: boolean;
}

const assembled = new Map<string, Uint8Array>();

export function ledgerModule(variant: LedgerVariant): Uint8Array {
  const key = JSON.stringify(variant);
  const bytes = assembled.get(key) ?? assemble(variant);
  assembled.set(key, bytes);
  return bytes;
}

function assemble(variant: LedgerVariant): Uint8Array {
  const { keepsHeap = false } = variant;
  const module = wat(source(variant));
  return keepsHeap ? withSection(module, 'icp:private enhanced-orthogonal-persistence') : module;
}

/** A custom section without content at the end. */
function withSection(module: Uint8Array, name: string): Uint8Array {
  const text = Buffer.from(name);
  return Uint8Array.from(Buffer.concat([module, Uint8Array.of(0, text.length + 1, text.length), text]));
}

const SPREAD_END_PAGES = (SPREAD_AT + SPREAD_PAGES * 4096) / 65_536;

const kind = (name: Kind): number => KINDS.indexOf(name);

function source({ hasHeartbeat = false, version = 0, inspects = false, isBroken = false }: LedgerVariant): string {
  return `(module
    (import "ic0" "msg_arg_data_size" (func $arg_size (result i32)))
    (import "ic0" "msg_arg_data_copy" (func $arg_copy (param i32 i32 i32)))
    (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
    (import "ic0" "msg_reply" (func $reply))
    (import "ic0" "msg_reject" (func $reject (param i32 i32)))
    (import "ic0" "msg_reject_code" (func $reject_code (result i32)))
    (import "ic0" "msg_cycles_available128" (func $cycles_available (param i32)))
    (import "ic0" "msg_cycles_accept128" (func $cycles_accept (param i64 i64 i32)))
    (import "ic0" "call_new" (func $call_new (param i32 i32 i32 i32 i32 i32 i32 i32)))
    (import "ic0" "call_on_cleanup" (func $call_on_cleanup (param i32 i32)))
    (import "ic0" "call_data_append" (func $call_data (param i32 i32)))
    (import "ic0" "call_cycles_add128" (func $call_cycles (param i64 i64)))
    (import "ic0" "call_with_best_effort_response" (func $call_best_effort (param i32)))
    (import "ic0" "call_perform" (func $call_perform (result i32)))
    (import "ic0" "stable64_size" (func $stable_size (result i64)))
    (import "ic0" "stable64_grow" (func $stable_grow (param i64) (result i64)))
    (import "ic0" "stable64_read" (func $stable_read (param i64 i64 i64)))
    (import "ic0" "stable64_write" (func $stable_write (param i64 i64 i64)))
    (import "ic0" "certified_data_set" (func $certify (param i32 i32)))
    (import "ic0" "accept_message" (func $accept_message))
    (import "ic0" "time" (func $time (result i64)))
    (import "ic0" "global_timer_set" (func $timer_set (param i64) (result i64)))
    (memory (export "memory") 1 512)
    (global $count (mut i32) (i32.const 0))
    (table funcref (elem $onReply $onReject $onCleanup $onRelayReply $onRelayReject $onPeekReply $onPeekReject))
    (data (i32.const 128) "credit")
    (data (i32.const 144) "relay")
    (data (i32.const 160) "kept all the same")
    (data (i32.const 178) "raw_rand")
    (data (i32.const 152) "look")
    (data (i32.const 186) "DIDL\\00\\00")
    (data (i32.const 192) "version ${version}")

    (func $flag (param $flag i32) (result i32)
      (i32.and (i32.load (i32.const ${ARGUMENT + 4})) (local.get $flag)))
    (func $number (result i32) (i32.load (i32.const ${ARGUMENT})))
    (func $amount (result i64) (i64.load (i32.const ${ARGUMENT + 8})))
    (func $place (param $entry i32) (result i32)
      (i32.add (i32.const ${ENTRIES_AT}) (i32.mul (local.get $entry) (i32.const ${ENTRY_BYTES}))))
    (func $waiting (param $number i32) (result i32)
      (i32.add (i32.const ${WAITING}) (i32.mul (local.get $number) (i32.const ${WAITING_BYTES}))))
    (func $grow (param $pages i32)
      (if (i32.eq (memory.grow (local.get $pages)) (i32.const -1)) (then unreachable)))
    (func $reserve (param $entries i32)
      (block $done (loop $more
        (br_if $done (i32.le_u (call $place (local.get $entries)) (i32.mul (memory.size) (i32.const 65536))))
        (call $grow (i32.const 1))
        (br $more)))
      (block $done (loop $more
        (br_if $done (i64.le_u
          (i64.extend_i32_u (i32.add (i32.const ${STABLE_ENTRIES_AT}) (i32.mul (local.get $entries) (i32.const ${ENTRY_BYTES}))))
          (i64.mul (call $stable_size) (i64.const 65536))))
        (if (i64.eq (call $stable_grow (i64.const 1)) (i64.const -1)) (then unreachable))
        (br $more))))

    (func $take
      (call $arg_copy (i32.const ${ARGUMENT}) (i32.const 0) (i32.const ${ARGUMENT_BYTES}))
      (if (i32.load (i32.const ${ARGUMENT + 20})) (then (call $grow (i32.load (i32.const ${ARGUMENT + 20}))))))
    (func $header
      (i32.store (i32.const ${SCRATCH}) (global.get $count))
      (i32.store (i32.const ${SCRATCH + 4}) (i32.load (i32.const ${BEATS})))
      (i64.store (i32.const ${SCRATCH + 8}) (i64.load (i32.const ${BALANCE})))
      (call $stable_write (i64.const 0) (i64.const ${SCRATCH}) (i64.const 16)))
    (func $certified
      (call $certify (i32.const ${SCRATCH}) (i32.const 16)))
    (func $enter (param $number i32) (param $kind i32) (param $amount i64) (param $fill i32) (param $flags i32)
      (local $at i32)
      (call $reserve (i32.add (global.get $count) (i32.const 1)))
      (local.set $at (call $place (global.get $count)))
      (i32.store (local.get $at) (local.get $number))
      (i32.store8 offset=4 (local.get $at) (local.get $kind))
      (i64.store offset=5 (local.get $at) (local.get $amount))
      (i32.store16 offset=13 (local.get $at) (local.get $fill))
      (memory.fill (i32.add (local.get $at) (i32.const ${ENTRY_HEADER_BYTES})) (local.get $number) (local.get $fill))
      ;; Only what methods enter: callbacks find the argument of another message there.
      (if (i32.le_u (local.get $kind) (i32.const ${kind('received')}))
        (then (call $spin (i32.mul (i32.load16_u (i32.const ${ARGUMENT + 60})) (i32.const ${TURNS_PER_SLICE})))))
      (if (i32.and (local.get $flags) (i32.const ${FLAGS.trapsHalfway})) (then unreachable))
      (call $stable_write
        (i64.extend_i32_u (i32.add (i32.const ${STABLE_ENTRIES_AT}) (i32.mul (global.get $count) (i32.const ${ENTRY_BYTES}))))
        (i64.extend_i32_u (local.get $at))
        (i64.extend_i32_u (i32.add (i32.const ${ENTRY_HEADER_BYTES}) (local.get $fill))))
      (global.set $count (i32.add (global.get $count) (i32.const 1)))
      (call $header)
      ;; Cleanup may not certify anything.
      (if (i32.ne (local.get $kind) (i32.const ${kind('cleaned')})) (then (call $certified)))
      (if (i32.and (local.get $flags) (i32.const ${FLAGS.trapsAtEnd})) (then unreachable)))
    (func $spin (param $turns i32)
      (block $done (loop $next
        (br_if $done (i32.eqz (local.get $turns)))
        (local.set $turns (i32.sub (local.get $turns) (i32.const 1)))
        (br $next))))
    (func $pay (param $amount i64)
      (i64.store (i32.const ${BALANCE}) (i64.add (i64.load (i32.const ${BALANCE})) (local.get $amount))))
    (func $answer
      (call $look)
      (call $reply))
    (func $look (local $at i32)
      (i32.store (i32.const ${SCRATCH}) (global.get $count))
      (i32.store (i32.const ${SCRATCH + 4}) (i32.load (i32.const ${BEATS})))
      (i64.store (i32.const ${SCRATCH + 8}) (i64.load (i32.const ${BALANCE})))
      (i64.store (i32.const ${SCRATCH + 16}) (i64.const 0))
      (if (global.get $count) (then
        (local.set $at (call $place (i32.sub (global.get $count) (i32.const 1))))
        (i64.store (i32.const ${SCRATCH + 16})
          (i64.or (i64.extend_i32_u (i32.load (local.get $at)))
                  (i64.shl (i64.extend_i32_u (i32.load8_u offset=4 (local.get $at))) (i64.const 32))))))
      (call $append (i32.const ${SCRATCH}) (i32.const ${LOOK_BYTES})))
    (func $accept
      (if (i32.eqz (call $flag (i32.const ${FLAGS.leavesCycles}))) (then
        (call $cycles_available (i32.const ${SCRATCH}))
        (call $cycles_accept (i64.const 0) (i64.load (i32.const ${SCRATCH})) (i32.const ${SCRATCH})))))

    (func (export "canister_init")
      (i64.store (i32.const ${BALANCE}) (i64.const ${FIRST_BALANCE}))
      (call $reserve (i32.const 1))
      (call $header)
      (call $certified))
    (func (export "canister_post_upgrade") (local $at i32)
      (call $stable_read (i64.const ${SCRATCH}) (i64.const 0) (i64.const 16))
      (global.set $count (i32.load (i32.const ${SCRATCH})))
      (i32.store (i32.const ${BEATS}) (i32.load (i32.const ${SCRATCH + 4})))
      (i64.store (i32.const ${BALANCE}) (i64.load (i32.const ${SCRATCH + 8})))
      (i32.store (i32.const ${TIMER}) (i32.const 0))
      (call $reserve (global.get $count))
      (call $stable_read (i64.const ${ENTRIES_AT}) (i64.const ${STABLE_ENTRIES_AT})
        (i64.extend_i32_u (i32.mul (global.get $count) (i32.const ${ENTRY_BYTES}))))
      ${isBroken ? 'unreachable' : ''})

    (func (export "canister_update note")
      (call $take)
      (call $enter (call $number) (i32.const ${kind('noted')}) (call $amount)
        (i32.load (i32.const ${ARGUMENT + 16})) (call $flag (i32.const 3)))
      (call $answer))

    ;; Changes a byte of many pages.
    (func (export "canister_update spread") (local $page i32)
      (call $take)
      (if (i32.lt_u (memory.size) (i32.const ${SPREAD_END_PAGES}))
        (then (call $grow (i32.sub (i32.const ${SPREAD_END_PAGES}) (memory.size)))))
      (loop $next
        (i32.store8
          (i32.add (i32.add (i32.const ${SPREAD_AT}) (call $number)) (i32.mul (local.get $page) (i32.const 4096)))
          (call $number))
        (local.set $page (i32.add (local.get $page) (i32.const 1)))
        (br_if $next (i32.lt_u (local.get $page) (i32.const ${SPREAD_PAGES}))))
      (call $enter (call $number) (i32.const ${kind('spread')}) (i64.const 0)
        (i32.load (i32.const ${ARGUMENT + 16})) (call $flag (i32.const 3)))
      (call $answer))

    ;; Debits here, calls \`credit\` there, and enters what came of it.
    (func (export "canister_update transfer") (local $waiting i32)
      (call $take)
      (call $pay (i64.sub (i64.const 0) (call $amount)))
      (call $enter (call $number) (i32.const ${kind('sent')}) (call $amount)
        (i32.load (i32.const ${ARGUMENT + 16})) (call $flag (i32.const 3)))
      (local.set $waiting (call $waiting (call $number)))
      (i64.store (local.get $waiting) (call $amount))
      (i32.store offset=8 (local.get $waiting) (call $flag (i32.const ${FLAGS.trapsInCallback})))
      (call $call_new (i32.const ${ARGUMENT + 32}) (i32.const 10) (i32.const 128) (i32.const 6)
        (i32.const 0) (call $number) (i32.const 1) (call $number))
      (call $call_on_cleanup (i32.const 2) (call $number))
      (i32.store (i32.const ${ARGUMENT + 4}) (i32.load16_u (i32.const ${ARGUMENT + 42})))
      (i32.store (i32.const ${ARGUMENT + 20}) (i32.const 0))
      (call $call_data (i32.const ${ARGUMENT}) (i32.const ${ARGUMENT_BYTES}))
      (call $call_cycles (i64.const 0) (i64.load (i32.const ${ARGUMENT + 24})))
      (if (call $flag (i32.const ${FLAGS.isBestEffort})) (then (call $call_best_effort (i32.const 1))))
      (if (call $call_perform) (then unreachable)))
    (func $onReply (param $number i32)
      (call $enter (local.get $number) (i32.const ${kind('done')}) (i64.const 0) (i32.const 0) (i32.const 0))
      (if (i32.load offset=8 (call $waiting (local.get $number))) (then unreachable))
      (call $answer))
    (func $onReject (param $number i32)
      (call $pay (i64.load (call $waiting (local.get $number))))
      (call $enter (local.get $number) (i32.const ${kind('failed')}) (i64.extend_i32_u (call $reject_code)) (i32.const 0) (i32.const 0))
      (if (i32.load offset=8 (call $waiting (local.get $number))) (then unreachable))
      (call $answer))
    (func $onCleanup (param $number i32)
      (call $enter (local.get $number) (i32.const ${kind('cleaned')}) (i64.const 0) (i32.const 0) (i32.const 0)))

    (func (export "canister_update credit")
      (call $take)
      (call $accept)
      (call $pay (call $amount))
      (call $enter (call $number) (i32.const ${kind('received')}) (call $amount)
        (i32.load (i32.const ${ARGUMENT + 16})) (call $flag (i32.const 3)))
      (if (call $flag (i32.const ${FLAGS.relays})) (then
        (call $call_new (i32.const ${ARGUMENT + 48}) (i32.const 10) (i32.const 144) (i32.const 5)
          (i32.const 3) (call $number) (i32.const 4) (call $number))
        (i32.store (i32.const ${ARGUMENT + 4}) (i32.const 0))
        (call $call_data (i32.const ${ARGUMENT}) (i32.const ${ARGUMENT_BYTES}))
        (if (call $call_perform) (then unreachable))
        return))
      (if (call $flag (i32.const ${FLAGS.rejects}))
        (then (call $reject (i32.const 160) (i32.const 17)))
        (else (call $answer))))
    (func $onRelayReply (param $number i32)
      (call $enter (local.get $number) (i32.const ${kind('relayDone')}) (i64.const 0) (i32.const 0) (i32.const 0))
      (call $answer))
    (func $onRelayReject (param $number i32)
      (call $enter (local.get $number) (i32.const ${kind('relayDone')}) (i64.extend_i32_u (call $reject_code)) (i32.const 0) (i32.const 0))
      (call $answer))
    (func (export "canister_update relay")
      (call $take)
      (call $enter (call $number) (i32.const ${kind('relayed')}) (i64.const 0) (i32.load (i32.const ${ARGUMENT + 16})) (i32.const 0))
      (call $answer))

    ;; Asks the management canister for something.
    (func (export "canister_update ask") (local $waiting i32)
      (call $take)
      (call $enter (call $number) (i32.const ${kind('sent')}) (i64.const 0)
        (i32.load (i32.const ${ARGUMENT + 16})) (call $flag (i32.const 3)))
      (local.set $waiting (call $waiting (call $number)))
      (i64.store (local.get $waiting) (i64.const 0))
      (i32.store offset=8 (local.get $waiting) (call $flag (i32.const ${FLAGS.trapsInCallback})))
      (call $call_new (i32.const ${ARGUMENT + 32}) (i32.const 0) (i32.const 178) (i32.const 8)
        (i32.const 0) (call $number) (i32.const 1) (call $number))
      (call $call_on_cleanup (i32.const 2) (call $number))
      (call $call_data (i32.const 186) (i32.const 6))
      (call $call_cycles (i64.const 0) (i64.load (i32.const ${ARGUMENT + 24})))
      (if (call $call_perform) (then unreachable)))

    ;; Not while another one is armed: each fires by itself.
    (func (export "canister_update arm")
      (call $take)
      (if (i32.eqz (i32.load (i32.const ${TIMER}))) (then
        (call $enter (call $number) (i32.const ${kind('armed')}) (i64.const 0) (i32.const 0) (i32.const 0))
        (i32.store (i32.const ${TIMER}) (call $number))
        (drop (call $timer_set (i64.add (call $time)
          (i64.mul (i64.extend_i32_u (i32.load (i32.const ${ARGUMENT + 44}))) (i64.const 1000000)))))))
      (call $answer))
    (func (export "canister_global_timer")
      (call $enter (i32.load (i32.const ${TIMER})) (i32.const ${kind('fired')}) (i64.const 0) (i32.const 0) (i32.const 0))
      (i32.store (i32.const ${TIMER}) (i32.const 0)))
    ${
      hasHeartbeat
        ? `(func (export "canister_heartbeat")
      (i32.store (i32.const ${BEATS}) (i32.add (i32.load (i32.const ${BEATS})) (i32.const 1)))
      (call $header)
      (call $certified))`
        : ''
    }
    (func (export "canister_query look") (call $look) (call $reply))

    ;; Answers how another one stands, and then how this one does.
    (func (export "canister_composite_query peek")
      (call $take)
      (call $call_new (i32.const ${ARGUMENT + 32}) (i32.const 10) (i32.const 152) (i32.const 4)
        (i32.const 5) (i32.const 0) (i32.const 6) (i32.const 0))
      (if (call $call_perform) (then unreachable)))
    (func $onPeekReply (param i32)
      (call $arg_copy (i32.const ${SCRATCH + 64}) (i32.const 0) (i32.const ${LOOK_BYTES}))
      (call $append (i32.const ${SCRATCH + 64}) (i32.const ${LOOK_BYTES}))
      (call $look)
      (call $reply))
    (func $onPeekReject (param i32)
      (call $look)
      (call $reply))
    ${inspects ? '(func (export "canister_inspect_message") (call $accept_message))' : ''})`;
}

export const ADDRESSES = { balance: BALANCE, beats: BEATS, timer: TIMER } as const;
