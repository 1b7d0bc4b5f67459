/**
 * The actor of the crash simulator: a ledger that makes every loss visible.
 *
 * Each event is an entry, with the number of the message that caused it, in the heap and in stable memory. The number
 * of entries is a mutable global, is certified, and is in the header of stable memory; the sum of amounts sent and
 * received is the balance. A state that has one of these has to have all. Entries lie at unaligned addresses, so that
 * they cross pages.
 *
 *     heap     BALANCE, BEATS, TIMER, note · ARGUMENT · CHUNK · callbacks' data, by number · entries · payload
 *     stable   header: u32 entries · u32 beats · i64 balance · note · entries · payload
 *              (an actor with `inHeap` has the header in the heap; its stable memory has a note and a payload, if any)
 *     entry    u32 number · u8 kind · u64 amount · u16 length · filling of that length, each byte the number's lowest
 *     note     u32 seed · u32 bytes: of the payload that was written last
 *
 * Messages, replies, rejects and calls carry payloads (`payload.ts`), which go through CHUNK piece by piece. A receiver
 * compares its payload with the expected one, and answers with the number of received bytes and their sum; an actor
 * that got a wrong payload enters that. Notes describe the payloads that were written into memory on request.
 */
import { DEBUG_LINE_BYTES_MAX } from '../../../subsystems/execution/engine/system-api/debug-output.ts';
import { createCodec } from '../../../subsystems/codec/codec.ts';
import { wat } from '../../support/wat.ts';
import { payload, payloadSeed, ROLES, type Role, SEED_FACTOR, SUM_FACTOR, WORD_FACTOR, WORD_MASK } from './payload.ts';
import { PAYLOAD_BYTES_MAX, SPREAD_PAGES } from './payload-sizes.ts';

const ARGUMENT = 1024;
export const ARGUMENT_BYTES = 96;
/** Sizes within ARGUMENT. */
const PAYLOAD_BYTES = ARGUMENT + 64;
const CALL_BYTES = ARGUMENT + 68;
const REPLY_BYTES = ARGUMENT + 72;
const ANSWER_BYTES = ARGUMENT + 76;
const REJECT_BYTES = ARGUMENT + 80;
const HEAP_BYTES = ARGUMENT + 84;
const STABLE_BYTES = ARGUMENT + 88;
const DEBUG_BYTES = ARGUMENT + 92;
/** 1 in an actor with `inHeap`; then its header. */
const IN_HEAP = 32;
const HEAP_HEADER = 40;
const BALANCE = 64;
const BEATS = 72;
const TIMER = 80;
/** Note of the payload written last into the heap on request. */
const HEAP_NOTE = 88;
/** Sum of the last received payload, and 1 if it was not the expected one. */
const SUM = 96;
const IS_WRONG = 100;
const SCRATCH = 512;
/** Payloads go through this area, piece by piece. */
const CHUNK = 2048;
const CHUNK_BYTES = 12_288;
const WAITING = 16_384;
const WAITING_BYTES = 64;
/** Offsets within a callback's data. */
const WAIT = {
  traps: 8,
  replyBytes: 12,
  gotBytes: 16,
  gotSum: 20,
  /** Adjacent, as in an answer. */
  callBytes: 24,
  callSum: 28,
  answerBytes: 32,
  rejectBytes: 36,
  /**
   * The message's number: a canister that was restored to an earlier state does not have it, and its callbacks trap.
   */
  number: 40,
} as const;
/** Offsets within the data of a callee that calls a third actor. */
const RELAY_WAIT = { gotBytes: 44, gotSum: 48, answerBytes: 52, number: 56 } as const;
/** Marks an answer that is not a ledger's. */
const FOREIGN = -1;
export const NUMBERS_MAX = 500;
export const ENTRIES_AT = WAITING + NUMBERS_MAX * WAITING_BYTES + 3;
/** Header of stable memory, as it is certified; the note comes after it. */
export const HEADER_BYTES = 16;
export const STABLE_ENTRIES_AT = HEADER_BYTES + 8;
export const ENTRY_BYTES = 1021;
const ENTRY_HEADER_BYTES = 15;
export const FILL_BYTES_MAX = ENTRY_BYTES - ENTRY_HEADER_BYTES;
/** Address behind all entries. */
const PAD_AT = 2 ** 20;
/** Address far behind all entries. */
export const PAYLOAD_AT = 2 * 2 ** 20;
/** Address far behind the payload. */
export const SPREAD_AT = PAYLOAD_AT + PAYLOAD_BYTES_MAX + 2 ** 20;
/** Turns of a loop, of ten instructions at most, that take a slice of fuel together. */
const TURNS_PER_SLICE = 2 ** 20 / 8;
export const FIRST_BALANCE = 1_000_000n;

/** Kinds of entries; an entry's number is that of the message. */
const KINDS = [
  'none',
  'noted',
  'sent',
  'received',
  /** The call was answered. */
  'done',
  /** The call was rejected (the amount is the code). */
  'failed',
  /** The call was answered, and the callback has trapped. */
  'cleaned',
  'armed',
  'fired',
  /** A message that another one caused; then its answer. */
  'relayed',
  'relayDone',
  /** A byte in each of SPREAD_PAGES pages, at the number's place. */
  'spread',
  /** The received payload was not the one that was sent. */
  'mangled',
] as const;
export type Kind = (typeof KINDS)[number];

export const FLAGS = {
  /** Traps when the heap has the entry and stable memory does not. */
  trapsHalfway: 1,
  trapsAtEnd: 2,
  /** The receiver of a transfer keeps it and rejects nevertheless. */
  rejects: 4,
  isBestEffort: 8,
  trapsInCallback: 16,
  /** The receiver of a transfer calls a third actor before it answers. */
  relays: 32,
  /** Does not accept cycles. */
  leavesCycles: 64,
} as const;

export interface LedgerArgument {
  readonly number: number;
  readonly flags?: number;
  readonly amount?: bigint;
  readonly fillBytes?: number;
  /** Number of pages of 64 KiB. */
  readonly grow?: number;
  readonly cycles?: bigint;
  readonly callee?: Uint8Array;
  readonly calleeFlags?: number;
  readonly delayMs?: number;
  /** Id of the actor that the receiver calls. */
  readonly third?: Uint8Array;
  /** Duration in slices of fuel, at the point where the heap has the entry and stable memory does not. */
  readonly spinSlices?: number;
  /** Bytes of the payload behind this argument. */
  readonly payloadBytes?: number;
  /** Bytes of the payload of the call that a transfer makes. */
  readonly callBytes?: number;
  /** Bytes of the payload of the reply to the client. */
  readonly replyBytes?: number;
  /** Bytes of the payload of the receiver's reply to the actor. */
  readonly answerBytes?: number;
  /** Bytes of the payload of the receiver's reject; 0: a text of its own. */
  readonly rejectBytes?: number;
  /** Bytes that the method writes into the heap, if it notes or receives. */
  readonly heapBytes?: number;
  readonly stableBytes?: number;
  /** Bytes that the message prints. */
  readonly debugBytes?: number;
}

export function ledgerArgument(argument: LedgerArgument): Uint8Array {
  const { payloadBytes = 0 } = argument;
  const bytes = new Uint8Array(ARGUMENT_BYTES + payloadBytes);
  bytes.set(payload(payloadSeed(argument.number, 'argument'), payloadBytes), ARGUMENT_BYTES);
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
  const { callBytes, replyBytes, answerBytes, rejectBytes, heapBytes, stableBytes, debugBytes } = argument;
  const sizes = [payloadBytes, callBytes, replyBytes, answerBytes, rejectBytes, heapBytes, stableBytes, debugBytes];
  for (const [index, size] of sizes.entries()) view.setUint32(PAYLOAD_BYTES - ARGUMENT + 4 * index, size ?? 0, true);
  return bytes;
}

/** Answer of every method: the state's summary, the newest entry, and the received payload. A payload follows. */
export interface Look {
  readonly entries: number;
  readonly balance: bigint;
  readonly beats: number;
  readonly last: { readonly number: number; readonly kind: Kind } | undefined;
  readonly gotBytes: number;
  readonly gotSum: number;
}

export const LOOK_BYTES = 32;
/** Offsets of the received payload's size and sum in an answer. */
const GOT_BYTES_AT = 24;
const GOT_SUM_AT = 28;

export function readLook(reply: Uint8Array): Look {
  const view = new DataView(reply.buffer, reply.byteOffset, reply.byteLength);
  const entries = view.getUint32(0, true);
  const last = { number: view.getUint32(16, true), kind: kindOf(view.getUint8(20)) };
  return {
    entries,
    beats: view.getUint32(4, true),
    balance: view.getBigInt64(8, true),
    last: entries === 0 ? undefined : last,
    gotBytes: view.getUint32(GOT_BYTES_AT, true),
    gotSum: view.getUint32(GOT_SUM_AT, true),
  };
}

export function kindOf(kind: number): Kind {
  const known = KINDS[kind];
  if (known === undefined) throw new Error(`entries have no kind ${kind}`);
  return known;
}

export interface LedgerVariant {
  readonly hasHeartbeat?: boolean;
  /** Number that makes modules of the same behaviour different. */
  readonly version?: number;
  /** True if the heap stays at upgrades. */
  readonly keepsHeap?: boolean;
  /** True if the module inspects messages. */
  readonly inspects?: boolean;
  /** True if upgrades to the module fail. */
  readonly isBroken?: boolean;
  /** True if stable memory is empty, except for payloads. Goes with `keepsHeap`. */
  readonly inHeap?: boolean;
  /** True if the module has `askOutside`, too. */
  readonly asksOutside?: boolean;
  /** Number of pages of 4 KiB that come with the code, behind everything else of a small heap. */
  readonly padPages?: number;
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

/** Appends a custom section without content. */
function withSection(module: Uint8Array, name: string): Uint8Array {
  const text = Buffer.from(name);
  return Uint8Array.from(Buffer.concat([module, Uint8Array.of(0, text.length + 1, text.length), text]));
}

/** Returns the seed of a payload of the message with the number on the stack. */
const seedOf = (number: string, role: Role): string =>
  `(i32.add (i32.mul ${number} (i32.const ${Object.keys(ROLES).length})) (i32.const ${ROLES[role]}))`;
const NUMBER = `(i32.load (i32.const ${ARGUMENT}))`;
const load = (address: number): string => `(i32.load (i32.const ${address}))`;

const SPREAD_END_PAGES = (SPREAD_AT + SPREAD_PAGES * 4096) / 65_536;

const kind = (name: Kind): number => KINDS.indexOf(name);

/** Argument of http_request; three of its digits are the number of the message. */
const OUTSIDE_ARGUMENT = createCodec().encodeText(
  '(record { url = "http://outside/000"; method = variant { get }; headers = vec {} })',
);
const OUTSIDE_NAME_AT = 208;
const OUTSIDE_AT = 224;
const OUTSIDE_DIGITS_AT = OUTSIDE_AT + Buffer.from(OUTSIDE_ARGUMENT).indexOf('000');
const OUTSIDE_DATA = `(data (i32.const ${OUTSIDE_NAME_AT}) "http_request")
    (data (i32.const ${OUTSIDE_AT}) "${[...OUTSIDE_ARGUMENT].map((byte) => `\\${byte.toString(16).padStart(2, '0')}`).join('')}")`;
const digitOf = (unit: number, at: number): string =>
  `(i32.store8 (i32.const ${OUTSIDE_DIGITS_AT + at}) (i32.add (i32.const 48) (i32.rem_u (i32.div_u (call $number) (i32.const ${unit})) (i32.const 10))))`;
/** Does the same as `ask`, but has the management canister send a request to a server. */
const ASK_OUTSIDE = `(func (export "canister_update askOutside")
      (call $take (i32.const 0))
      (call $enter (call $number) (i32.const ${KINDS.indexOf('sent')}) (i64.const 0)
        (i32.load (i32.const ${ARGUMENT + 16})) (call $flag (i32.const 3)))
      (call $complain (call $number))
      (drop (call $wait (call $number) (i32.const ${FOREIGN})))
      ${[digitOf(100, 0), digitOf(10, 1), digitOf(1, 2)].join('\n      ')}
      (call $call_new (i32.const ${ARGUMENT + 32}) (i32.const 0) (i32.const ${OUTSIDE_NAME_AT}) (i32.const 12)
        (i32.const 0) (call $number) (i32.const 1) (call $number))
      (call $call_on_cleanup (i32.const 2) (call $number))
      (call $call_data (i32.const ${OUTSIDE_AT}) (i32.const ${OUTSIDE_ARGUMENT.length}))
      (call $call_cycles (i64.const 0) (i64.load (i32.const ${ARGUMENT + 24})))
      (if (call $call_perform) (then unreachable)))`;

function source({
  hasHeartbeat = false,
  version = 0,
  inspects = false,
  isBroken = false,
  inHeap = false,
  asksOutside = false,
  padPages = 0,
}: LedgerVariant): string {
  const unlessInHeap = (text: string): string => (inHeap ? '' : text);
  return `(module
    (import "ic0" "msg_arg_data_size" (func $arg_size (result i32)))
    (import "ic0" "msg_arg_data_copy" (func $arg_copy (param i32 i32 i32)))
    (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
    (import "ic0" "msg_reply" (func $reply))
    (import "ic0" "msg_reject" (func $reject (param i32 i32)))
    (import "ic0" "msg_reject_code" (func $reject_code (result i32)))
    (import "ic0" "msg_reject_msg_size" (func $reject_size (result i32)))
    (import "ic0" "msg_reject_msg_copy" (func $reject_copy (param i32 i32 i32)))
    (import "ic0" "debug_print" (func $debug_print (param i32 i32)))
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
    (memory (export "memory") ${padPages === 0 ? 1 : PAD_AT / 65_536 + Math.ceil(padPages / 16)} 512)
    (global $count (mut i32) (i32.const 0))
    (table funcref (elem $onReply $onReject $onCleanup $onRelayReply $onRelayReject $onPeekReply $onPeekReject))
    (data (i32.const 128) "credit")
    (data (i32.const 144) "relay")
    (data (i32.const 160) "kept all the same")
    (data (i32.const 178) "raw_rand")
    (data (i32.const 152) "look")
    (data (i32.const 186) "DIDL\\00\\00")
    (data (i32.const 192) "version ${version}")
    ${asksOutside ? OUTSIDE_DATA : ''}
    ${inHeap ? `(data (i32.const ${IN_HEAP}) "\\01")` : ''}
    ${padPages === 0 ? '' : `(data (i32.const ${PAD_AT}) "${'p'.repeat(padPages * 4096)}")`}

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
      ${unlessInHeap(`(call $growStable (i32.add (i32.const ${STABLE_ENTRIES_AT}) (i32.mul (local.get $entries) (i32.const ${ENTRY_BYTES}))))`)})
    (func $growStable (param $bytes i32)
      (block $done (loop $more
        (br_if $done (i64.le_u (i64.extend_i32_u (local.get $bytes)) (i64.mul (call $stable_size) (i64.const 65536))))
        (if (i64.eq (call $stable_grow (i64.const 1)) (i64.const -1)) (then unreachable))
        (br $more))))

    ;; ---- payloads

    (func $min (param $a i32) (param $b i32) (result i32)
      (select (local.get $a) (local.get $b) (i32.lt_u (local.get $a) (local.get $b))))
    (func $word (param $seed i32) (param $index i32) (result i32)
      (i32.and
        (i32.mul (i32.add (local.get $index) (i32.mul (local.get $seed) (i32.const ${SEED_FACTOR}))) (i32.const ${WORD_FACTOR}))
        (i32.const ${WORD_MASK})))
    (func $sum (param $word i32)
      (i32.store (i32.const ${SUM}) (i32.add (i32.mul ${load(SUM)} (i32.const ${SUM_FACTOR})) (local.get $word))))
    ;; Bits of a word of which so many bytes count.
    (func $mask (param $bytes i32) (result i32)
      (select (i32.const -1) (i32.sub (i32.shl (i32.const 1) (i32.mul (local.get $bytes) (i32.const 8))) (i32.const 1))
        (i32.ge_u (local.get $bytes) (i32.const 4))))
    ;; Words of a payload from \`index\` on; up to three bytes more than were asked for.
    (func $fill (param $seed i32) (param $index i32) (param $at i32) (param $bytes i32) (local $word i32)
      (block $done (loop $next
        (br_if $done (i32.le_s (local.get $bytes) (i32.const 0)))
        (local.set $word (call $word (local.get $seed) (local.get $index)))
        (i32.store (local.get $at) (local.get $word))
        (call $sum (i32.and (local.get $word) (call $mask (local.get $bytes))))
        (local.set $at (i32.add (local.get $at) (i32.const 4)))
        (local.set $index (i32.add (local.get $index) (i32.const 1)))
        (local.set $bytes (i32.sub (local.get $bytes) (i32.const 4)))
        (br $next))))
    ;; Whether these bytes are such words.
    (func $compare (param $seed i32) (param $index i32) (param $at i32) (param $bytes i32) (local $word i32) (local $mask i32)
      (block $done (loop $next
        (br_if $done (i32.le_s (local.get $bytes) (i32.const 0)))
        (local.set $mask (call $mask (local.get $bytes)))
        (local.set $word (i32.and (i32.load (local.get $at)) (local.get $mask)))
        (call $sum (local.get $word))
        (if (i32.ne (local.get $word) (i32.and (call $word (local.get $seed) (local.get $index)) (local.get $mask)))
          (then (i32.store (i32.const ${IS_WRONG}) (i32.const 1))))
        (local.set $at (i32.add (local.get $at) (i32.const 4)))
        (local.set $index (i32.add (local.get $index) (i32.const 1)))
        (local.set $bytes (i32.sub (local.get $bytes) (i32.const 4)))
        (br $next))))
    ;; What has come as argument, reply or reject, from a place on: SUM and IS_WRONG tell.
    (func $got (param $isReject i32) (param $from i32) (param $size i32) (param $bytes i32) (param $seed i32)
      (local $done i32) (local $piece i32)
      (i32.store (i32.const ${SUM}) (i32.const 0))
      (i32.store (i32.const ${IS_WRONG}) (i32.ne (i32.sub (local.get $size) (local.get $from)) (local.get $bytes)))
      (if ${load(IS_WRONG)} (then return))
      (block $end (loop $next
        (local.set $piece (call $min (i32.const ${CHUNK_BYTES}) (i32.sub (local.get $bytes) (local.get $done))))
        (br_if $end (i32.eqz (local.get $piece)))
        (if (local.get $isReject)
          (then (call $reject_copy (i32.const ${CHUNK}) (i32.add (local.get $from) (local.get $done)) (local.get $piece)))
          (else (call $arg_copy (i32.const ${CHUNK}) (i32.add (local.get $from) (local.get $done)) (local.get $piece))))
        (call $compare (local.get $seed) (i32.shr_u (local.get $done) (i32.const 2)) (i32.const ${CHUNK}) (local.get $piece))
        (local.set $done (i32.add (local.get $done) (local.get $piece)))
        (br $next))))
    ;; Makes a payload piece by piece: for a reply (0), a call (1), or stable memory (2). SUM is its sum.
    (func $give (param $where i32) (param $bytes i32) (param $seed i32) (local $done i32) (local $piece i32)
      (i32.store (i32.const ${SUM}) (i32.const 0))
      (block $end (loop $next
        (local.set $piece (call $min (i32.const ${CHUNK_BYTES}) (i32.sub (local.get $bytes) (local.get $done))))
        (br_if $end (i32.eqz (local.get $piece)))
        (call $fill (local.get $seed) (i32.shr_u (local.get $done) (i32.const 2)) (i32.const ${CHUNK}) (local.get $piece))
        (if (i32.eqz (local.get $where))
          (then (call $append (i32.const ${CHUNK}) (local.get $piece)))
          (else (if (i32.eq (local.get $where) (i32.const 1))
            (then (call $call_data (i32.const ${CHUNK}) (local.get $piece)))
            (else (call $stable_write (i64.extend_i32_u (i32.add (i32.const ${PAYLOAD_AT}) (local.get $done)))
              (i64.const ${CHUNK}) (i64.extend_i32_u (local.get $piece)))))))
        (local.set $done (i32.add (local.get $done) (local.get $piece)))
        (br $next))))
    ;; A payload in one piece: where it is. A large one stays in the heap.
    (func $whole (param $bytes i32) (param $seed i32) (result i32) (local $at i32)
      (local.set $at (i32.const ${CHUNK}))
      (if (i32.gt_u (local.get $bytes) (i32.const ${CHUNK_BYTES})) (then
        (call $inHeap (local.get $bytes) (local.get $seed))
        (local.set $at (i32.const ${PAYLOAD_AT})))
      (else (call $fill (local.get $seed) (i32.const 0) (local.get $at) (local.get $bytes))))
      (local.get $at))
    (func $inHeap (param $bytes i32) (param $seed i32)
      (block $done (loop $more
        (br_if $done (i32.le_u (i32.add (i32.const ${PAYLOAD_AT + 4}) (local.get $bytes)) (i32.mul (memory.size) (i32.const 65536))))
        (call $grow (i32.const 1))
        (br $more)))
      (call $fill (local.get $seed) (i32.const 0) (i32.const ${PAYLOAD_AT}) (local.get $bytes))
      (i32.store (i32.const ${HEAP_NOTE}) (local.get $seed))
      (i32.store (i32.const ${HEAP_NOTE + 4}) (local.get $bytes)))
    (func $inStable (param $bytes i32) (param $seed i32)
      (call $growStable (i32.add (i32.const ${PAYLOAD_AT}) (local.get $bytes)))
      (call $give (i32.const 2) (local.get $bytes) (local.get $seed))
      (i32.store (i32.const ${SCRATCH}) (local.get $seed))
      (i32.store (i32.const ${SCRATCH + 4}) (local.get $bytes))
      (call $stable_write (i64.const ${HEADER_BYTES}) (i64.const ${SCRATCH}) (i64.const 8)))
    ;; What is a little too long for a line is one all the same; what is longer, several.
    (func $print (param $bytes i32) (param $seed i32) (local $at i32) (local $piece i32)
      (local.set $at (call $whole (local.get $bytes) (local.get $seed)))
      (if (i32.le_u (local.get $bytes) (i32.const ${2 * DEBUG_LINE_BYTES_MAX - 1})) (then
        (call $debug_print (local.get $at) (local.get $bytes))
        return))
      (block $end (loop $next
        (local.set $piece (call $min (i32.const ${DEBUG_LINE_BYTES_MAX}) (local.get $bytes)))
        (br_if $end (i32.eqz (local.get $piece)))
        (call $debug_print (local.get $at) (local.get $piece))
        (local.set $at (i32.add (local.get $at) (local.get $piece)))
        (local.set $bytes (i32.sub (local.get $bytes) (local.get $piece)))
        (br $next))))
    ;; What the argument wants written and printed; SUM and IS_WRONG are of the argument afterwards as before.
    (func $write (local $sum i32)
      (local.set $sum ${load(SUM)})
      (if ${load(HEAP_BYTES)} (then (call $inHeap ${load(HEAP_BYTES)} ${seedOf(NUMBER, 'heap')})))
      (if ${load(STABLE_BYTES)} (then (call $inStable ${load(STABLE_BYTES)} ${seedOf(NUMBER, 'stable')})))
      (if ${load(DEBUG_BYTES)} (then (call $print ${load(DEBUG_BYTES)} ${seedOf(NUMBER, 'debug')})))
      (i32.store (i32.const ${SUM}) (local.get $sum)))
    ;; A payload that was not what was sent is entered: it must not be forgotten.
    (func $complain (param $number i32)
      (if ${load(IS_WRONG)} (then
        (i32.store (i32.const ${IS_WRONG}) (i32.const 0))
        (call $enter (local.get $number) (i32.const ${kind('mangled')}) (i64.const 0) (i32.const 0) (i32.const 0)))))

    ;; ---- messages

    ;; Takes the argument, whose payload is a client's (0) or an actor's (2). Without one all is zero.
    (func $take (param $role i32)
      (memory.fill (i32.const ${ARGUMENT}) (i32.const 0) (i32.const ${ARGUMENT_BYTES}))
      (i32.store (i32.const ${SUM}) (i32.const 0))
      (i32.store (i32.const ${IS_WRONG}) (i32.const 0))
      (if (i32.eqz (call $arg_size)) (then return))
      (call $arg_copy (i32.const ${ARGUMENT}) (i32.const 0) (i32.const ${ARGUMENT_BYTES}))
      (call $got (i32.const 0) (i32.const ${ARGUMENT_BYTES}) (call $arg_size) ${load(PAYLOAD_BYTES)}
        (i32.add ${seedOf(NUMBER, 'argument')} (local.get $role)))
      (if (i32.load (i32.const ${ARGUMENT + 20})) (then (call $grow (i32.load (i32.const ${ARGUMENT + 20}))))))
    (func $header
      (i32.store (i32.const ${SCRATCH}) (global.get $count))
      (i32.store (i32.const ${SCRATCH + 4}) (i32.load (i32.const ${BEATS})))
      (i64.store (i32.const ${SCRATCH + 8}) (i64.load (i32.const ${BALANCE})))
      ${inHeap ? `(memory.copy (i32.const ${HEAP_HEADER}) (i32.const ${SCRATCH}) (i32.const 16))` : `(call $stable_write (i64.const 0) (i64.const ${SCRATCH}) (i64.const 16))`})
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
      ${unlessInHeap(`(call $stable_write
        (i64.extend_i32_u (i32.add (i32.const ${STABLE_ENTRIES_AT}) (i32.mul (global.get $count) (i32.const ${ENTRY_BYTES}))))
        (i64.extend_i32_u (local.get $at))
        (i64.extend_i32_u (i32.add (i32.const ${ENTRY_HEADER_BYTES}) (local.get $fill))))`)}
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
    ;; Replies to a client, or to an actor.
    (func $answer
      (call $replyTo ${load(PAYLOAD_BYTES)} ${load(SUM)} ${load(REPLY_BYTES)} ${seedOf(NUMBER, 'reply')}))
    (func $answerActor
      (call $replyTo ${load(PAYLOAD_BYTES)} ${load(SUM)} ${load(ANSWER_BYTES)} ${seedOf(NUMBER, 'answer')}))
    (func $replyTo (param $gotBytes i32) (param $gotSum i32) (param $bytes i32) (param $seed i32)
      (call $look (local.get $gotBytes) (local.get $gotSum))
      (call $give (i32.const 0) (local.get $bytes) (local.get $seed))
      (call $reply))
    (func $look (param $gotBytes i32) (param $gotSum i32) (local $at i32)
      (i32.store (i32.const ${SCRATCH}) (global.get $count))
      (i32.store (i32.const ${SCRATCH + 4}) (i32.load (i32.const ${BEATS})))
      (i64.store (i32.const ${SCRATCH + 8}) (i64.load (i32.const ${BALANCE})))
      (i64.store (i32.const ${SCRATCH + 16}) (i64.const 0))
      (if (global.get $count) (then
        (local.set $at (call $place (i32.sub (global.get $count) (i32.const 1))))
        (i64.store (i32.const ${SCRATCH + 16})
          (i64.or (i64.extend_i32_u (i32.load (local.get $at)))
                  (i64.shl (i64.extend_i32_u (i32.load8_u offset=4 (local.get $at))) (i64.const 32))))))
      (i32.store (i32.const ${SCRATCH + GOT_BYTES_AT}) (local.get $gotBytes))
      (i32.store (i32.const ${SCRATCH + GOT_SUM_AT}) (local.get $gotSum))
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
      ${inHeap ? `(memory.copy (i32.const ${SCRATCH}) (i32.const ${HEAP_HEADER}) (i32.const 16))` : `(call $stable_read (i64.const ${SCRATCH}) (i64.const 0) (i64.const 16))`}
      (global.set $count (i32.load (i32.const ${SCRATCH})))
      (i32.store (i32.const ${BEATS}) (i32.load (i32.const ${SCRATCH + 4})))
      (i64.store (i32.const ${BALANCE}) (i64.load (i32.const ${SCRATCH + 8})))
      (i32.store (i32.const ${TIMER}) (i32.const 0))
      (call $reserve (global.get $count))
      ${unlessInHeap(`(call $stable_read (i64.const ${ENTRIES_AT}) (i64.const ${STABLE_ENTRIES_AT})
        (i64.extend_i32_u (i32.mul (global.get $count) (i32.const ${ENTRY_BYTES}))))`)}
      ${isBroken ? 'unreachable' : ''})

    (func (export "canister_update note")
      (call $take (i32.const 0))
      (call $write)
      (call $enter (call $number) (i32.const ${kind('noted')}) (call $amount)
        (i32.load (i32.const ${ARGUMENT + 16})) (call $flag (i32.const 3)))
      (call $complain (call $number))
      (call $answer))

    ;; Changes a byte of many pages.
    (func (export "canister_update spread") (local $page i32)
      (call $take (i32.const 0))
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
      (call $take (i32.const 0))
      (call $pay (i64.sub (i64.const 0) (call $amount)))
      (call $enter (call $number) (i32.const ${kind('sent')}) (call $amount)
        (i32.load (i32.const ${ARGUMENT + 16})) (call $flag (i32.const 3)))
      (call $complain (call $number))
      (local.set $waiting (call $wait (call $number) ${load(ANSWER_BYTES)}))
      (i64.store (local.get $waiting) (call $amount))
      (call $call_new (i32.const ${ARGUMENT + 32}) (i32.const 10) (i32.const 128) (i32.const 6)
        (i32.const 0) (call $number) (i32.const 1) (call $number))
      (call $call_on_cleanup (i32.const 2) (call $number))
      (i32.store (i32.const ${ARGUMENT + 4}) (i32.load16_u (i32.const ${ARGUMENT + 42})))
      (i32.store (i32.const ${ARGUMENT + 20}) (i32.const 0))
      (i32.store (i32.const ${PAYLOAD_BYTES}) ${load(CALL_BYTES)})
      (call $call_data (i32.const ${ARGUMENT}) (i32.const ${ARGUMENT_BYTES}))
      (call $give (i32.const 1) ${load(CALL_BYTES)} ${seedOf(NUMBER, 'call')})
      (i32.store offset=${WAIT.callSum} (local.get $waiting) ${load(SUM)})
      (i32.store offset=${WAIT.callBytes} (local.get $waiting) ${load(CALL_BYTES)})
      (call $call_cycles (i64.const 0) (i64.load (i32.const ${ARGUMENT + 24})))
      (if (call $flag (i32.const ${FLAGS.isBestEffort})) (then (call $call_best_effort (i32.const 1))))
      (if (call $call_perform) (then unreachable)))
    ;; What callbacks need of this message: where it is.
    (func $wait (param $number i32) (param $answerBytes i32) (result i32) (local $waiting i32)
      (local.set $waiting (call $waiting (local.get $number)))
      (i64.store (local.get $waiting) (i64.const 0))
      (i32.store offset=${WAIT.number} (local.get $waiting) (local.get $number))
      (i32.store offset=${WAIT.traps} (local.get $waiting) (call $flag (i32.const ${FLAGS.trapsInCallback})))
      (i32.store offset=${WAIT.gotBytes} (local.get $waiting) ${load(PAYLOAD_BYTES)})
      (i32.store offset=${WAIT.gotSum} (local.get $waiting) ${load(SUM)})
      (i32.store offset=${WAIT.replyBytes} (local.get $waiting) ${load(REPLY_BYTES)})
      (i32.store offset=${WAIT.answerBytes} (local.get $waiting) (local.get $answerBytes))
      (i32.store offset=${WAIT.rejectBytes} (local.get $waiting)
        (select ${load(REJECT_BYTES)} (i32.const 0) (i32.eq (i32.const ${FLAGS.rejects})
          (i32.and (i32.load16_u (i32.const ${ARGUMENT + 42})) (i32.const ${FLAGS.rejects | FLAGS.relays})))))
      (local.get $waiting))
    (func $waited (param $number i32) (param $at i32) (result i32) (local $waiting i32)
      (local.set $waiting (call $waiting (local.get $number)))
      (if (i32.ne (i32.load (i32.add (local.get $waiting) (local.get $at))) (local.get $number)) (then unreachable))
      (local.get $waiting))
    ;; An actor's answer has the payload that was asked for, and tells of the one that was sent.
    (func $onReply (param $number i32) (local $waiting i32)
      (local.set $waiting (call $waited (local.get $number) (i32.const ${WAIT.number})))
      (if (i32.ne (i32.load offset=${WAIT.answerBytes} (local.get $waiting)) (i32.const ${FOREIGN})) (then
        (call $got (i32.const 0) (i32.const ${LOOK_BYTES}) (call $arg_size)
          (i32.load offset=${WAIT.answerBytes} (local.get $waiting)) ${seedOf('(local.get $number)', 'answer')})
        (call $arg_copy (i32.const ${CHUNK}) (i32.const ${GOT_BYTES_AT}) (i32.const 8))
        (if (i64.ne (i64.load (i32.const ${CHUNK})) (i64.load offset=${WAIT.callBytes} (local.get $waiting)))
          (then (i32.store (i32.const ${IS_WRONG}) (i32.const 1))))
        (call $complain (local.get $number))))
      (call $enter (local.get $number) (i32.const ${kind('done')}) (i64.const 0) (i32.const 0) (i32.const 0))
      (call $answerLater (local.get $waiting) (local.get $number)))
    (func $onReject (param $number i32) (local $waiting i32)
      (local.set $waiting (call $waited (local.get $number) (i32.const ${WAIT.number})))
      (call $pay (i64.load (local.get $waiting)))
      ;; A reject of the actor's own; the host rejects with that code what an uninstalled one has not answered.
      (if (i32.and (i32.eq (call $reject_code) (i32.const 4)) (i32.ne (i32.load offset=${WAIT.rejectBytes} (local.get $waiting)) (i32.const 0)))
        (then
          (call $got (i32.const 1) (i32.const 0) (call $reject_size)
            (i32.load offset=${WAIT.rejectBytes} (local.get $waiting)) ${seedOf('(local.get $number)', 'reject')})
          (call $complain (local.get $number))))
      (call $enter (local.get $number) (i32.const ${kind('failed')}) (i64.extend_i32_u (call $reject_code)) (i32.const 0) (i32.const 0))
      (call $answerLater (local.get $waiting) (local.get $number)))
    (func $answerLater (param $waiting i32) (param $number i32)
      (if (i32.load offset=${WAIT.traps} (local.get $waiting)) (then unreachable))
      (call $replyTo (i32.load offset=${WAIT.gotBytes} (local.get $waiting)) (i32.load offset=${WAIT.gotSum} (local.get $waiting))
        (i32.load offset=${WAIT.replyBytes} (local.get $waiting)) ${seedOf('(local.get $number)', 'reply')}))
    (func $onCleanup (param $number i32)
      (call $enter (local.get $number) (i32.const ${kind('cleaned')}) (i64.const 0) (i32.const 0) (i32.const 0)))

    (func (export "canister_update credit") (local $waiting i32)
      (call $take (i32.const ${ROLES.call - ROLES.argument}))
      (call $accept)
      (call $pay (call $amount))
      (call $write)
      (call $enter (call $number) (i32.const ${kind('received')}) (call $amount)
        (i32.load (i32.const ${ARGUMENT + 16})) (call $flag (i32.const 3)))
      (call $complain (call $number))
      (if (call $flag (i32.const ${FLAGS.relays})) (then
        (local.set $waiting (call $waiting (call $number)))
        (i32.store offset=${RELAY_WAIT.number} (local.get $waiting) (call $number))
        (i32.store offset=${RELAY_WAIT.gotBytes} (local.get $waiting) ${load(PAYLOAD_BYTES)})
        (i32.store offset=${RELAY_WAIT.gotSum} (local.get $waiting) ${load(SUM)})
        (i32.store offset=${RELAY_WAIT.answerBytes} (local.get $waiting) ${load(ANSWER_BYTES)})
        (call $call_new (i32.const ${ARGUMENT + 48}) (i32.const 10) (i32.const 144) (i32.const 5)
          (i32.const 3) (call $number) (i32.const 4) (call $number))
        (i32.store (i32.const ${ARGUMENT + 4}) (i32.const 0))
        (memory.fill (i32.const ${PAYLOAD_BYTES}) (i32.const 0) (i32.const ${ARGUMENT + ARGUMENT_BYTES - PAYLOAD_BYTES}))
        (call $call_data (i32.const ${ARGUMENT}) (i32.const ${ARGUMENT_BYTES}))
        (if (call $call_perform) (then unreachable))
        return))
      (if (call $flag (i32.const ${FLAGS.rejects}))
        (then (call $rejectActor))
        (else (call $answerActor))))
    (func $rejectActor
      (if (i32.eqz ${load(REJECT_BYTES)})
        (then (call $reject (i32.const 160) (i32.const 17)))
        (else (call $reject (call $whole ${load(REJECT_BYTES)} ${seedOf(NUMBER, 'reject')}) ${load(REJECT_BYTES)}))))
    (func $onRelayReply (param $number i32)
      (call $relayed (local.get $number) (i64.const 0)))
    (func $onRelayReject (param $number i32)
      (call $relayed (local.get $number) (i64.extend_i32_u (call $reject_code))))
    (func $relayed (param $number i32) (param $code i64) (local $waiting i32)
      (local.set $waiting (call $waited (local.get $number) (i32.const ${RELAY_WAIT.number})))
      (call $enter (local.get $number) (i32.const ${kind('relayDone')}) (local.get $code) (i32.const 0) (i32.const 0))
      (call $replyTo (i32.load offset=${RELAY_WAIT.gotBytes} (local.get $waiting)) (i32.load offset=${RELAY_WAIT.gotSum} (local.get $waiting))
        (i32.load offset=${RELAY_WAIT.answerBytes} (local.get $waiting)) ${seedOf('(local.get $number)', 'answer')}))
    (func (export "canister_update relay")
      (call $take (i32.const ${ROLES.call - ROLES.argument}))
      (call $enter (call $number) (i32.const ${kind('relayed')}) (i64.const 0) (i32.load (i32.const ${ARGUMENT + 16})) (i32.const 0))
      (call $answerActor))

    ;; Asks the management canister for something.
    (func (export "canister_update ask")
      (call $take (i32.const 0))
      (call $enter (call $number) (i32.const ${kind('sent')}) (i64.const 0)
        (i32.load (i32.const ${ARGUMENT + 16})) (call $flag (i32.const 3)))
      (call $complain (call $number))
      (drop (call $wait (call $number) (i32.const ${FOREIGN})))
      (call $call_new (i32.const ${ARGUMENT + 32}) (i32.const 0) (i32.const 178) (i32.const 8)
        (i32.const 0) (call $number) (i32.const 1) (call $number))
      (call $call_on_cleanup (i32.const 2) (call $number))
      (call $call_data (i32.const 186) (i32.const 6))
      (call $call_cycles (i64.const 0) (i64.load (i32.const ${ARGUMENT + 24})))
      (if (call $call_perform) (then unreachable)))

    ${asksOutside ? ASK_OUTSIDE : ''}
    ;; Not while another one is armed: each fires by itself.
    (func (export "canister_update arm")
      (call $take (i32.const 0))
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
    (func (export "canister_query look")
      (call $take (i32.const 0))
      (call $answer))

    ;; Answers how another one stands, and then how this one does.
    (func (export "canister_composite_query peek")
      (call $take (i32.const 0))
      (call $call_new (i32.const ${ARGUMENT + 32}) (i32.const 10) (i32.const 152) (i32.const 4)
        (i32.const 5) ${load(SUM)} (i32.const 6) ${load(SUM)})
      (if (call $call_perform) (then unreachable)))
    (func $onPeekReply (param $sum i32)
      (call $arg_copy (i32.const ${SCRATCH + 64}) (i32.const 0) (i32.const ${LOOK_BYTES}))
      (call $append (i32.const ${SCRATCH + 64}) (i32.const ${LOOK_BYTES}))
      (call $onPeekReject (local.get $sum)))
    (func $onPeekReject (param $sum i32)
      (i32.store (i32.const ${SUM}) (local.get $sum))
      (call $answer))
    ${inspects ? '(func (export "canister_inspect_message") (call $accept_message))' : ''})`;
}

export const ADDRESSES = {
  balance: BALANCE,
  beats: BEATS,
  timer: TIMER,
  note: HEAP_NOTE,
  inHeap: IN_HEAP,
  header: HEAP_HEADER,
} as const;
