/**
 * A canister that runs its argument: a list of imports with their parameters, one after the other. With it a test of
 * the system API is a list of calls, in both pointer widths, instead of a module of its own.
 *
 * Argument: u64 count · BLOB_BYTES of data · operations of 72 bytes (u64 number, eight u64 parameters). It is copied to
 * ARGUMENT_AT, so the blob has a known address; the result of operation i is kept at RESULTS_AT + 8 i.
 *
 * Scripts for callbacks and hooks lie in the heap, in slots: `keeping` puts them there. The callback function runs the
 * script whose address is its environment; the hooks run those of the slots named in HOOK_SLOTS, if there are any.
 */
import { IC0_SIGNATURES, type HostType, type Ic0Name } from '../../../subsystems/wasm/index.ts';
import type { CallKind, ContextView } from '../../../subsystems/ic/index.ts';
import { assemble, type Sample, TestCanister, type TestResult, type Width } from './engine-fixture.ts';

const OPERATION_BYTES = 72;
const BLOB_BYTES = 4096;
export const RESULTS_AT = 0x8000;
export const ARGUMENT_AT = 0x1_0000;
export const BLOB_AT = ARGUMENT_AT + 8;
const OPERATIONS_AT = BLOB_AT + BLOB_BYTES;
const HEAP_PAGES = 64;
export const HEAP_BYTES = HEAP_PAGES * 65_536;

/** Scripts to be run later. */
const SLOTS_AT = 0x30_0000;
const SLOT_BYTES = 0x4000;
export function slotAt(slot: number): number {
  return SLOTS_AT + slot * SLOT_BYTES;
}
export const HOOK_SLOTS = {
  canister_heartbeat: 20,
  canister_global_timer: 21,
  canister_pre_upgrade: 22,
  canister_on_low_wasm_memory: 23,
} as const;

/**
 * Besides the imports: copying within the heap, a store of one byte, a store to a mutable global, heap growth, a plain
 * wasm trap, an endless loop.
 */
const OWN = [
  'store8',
  'store64',
  'load8',
  'global_set',
  'global_get',
  'heap_grow',
  'heap_copy',
  'unreachable',
  'spin',
] as const;
type Own = (typeof OWN)[number];
type Operation = Ic0Name | Own;
export type Call = readonly [Operation, ...(number | bigint)[]];

function namesFor(width: Width): readonly Operation[] {
  const names = Object.keys(IC0_SIGNATURES) as Ic0Name[];
  return [...names.filter((name) => width === 32 || !IC0_SIGNATURES[name].isOnly32Bit), ...OWN];
}

const assembled = new Map<string, Uint8Array>();

/** `inspects: false` leaves out `canister_inspect_message`, which runs the message's script too. */
export function scriptModule(width: Width, { inspects = true }: { readonly inspects?: boolean } = {}): Uint8Array {
  const key = `${width} ${inspects}`;
  const bytes = assembled.get(key) ?? assemble(width, source(width, inspects));
  assembled.set(key, bytes);
  return bytes;
}

function source(width: Width, inspects: boolean): string {
  const names = namesFor(width);
  const typeOf = (type: HostType): string => (type === 'I' || type === 'bits' ? 'PTR' : type === 'i32' ? 'i32' : 'i64');
  const param = (index: number, type: string): string => {
    const load = `(i64.load offset=${8 + 8 * index} (local.get $op))`;
    return type === 'i64' || (type === 'PTR' && width === 64) ? load : `(i32.wrap_i64 ${load})`;
  };
  const asResult = (type: string | undefined, call: string): string => {
    if (type === undefined) return `${call} (i64.const 0)`;
    return type === 'i64' || (type === 'PTR' && width === 64) ? call : `(i64.extend_i32_u ${call})`;
  };
  const own: Record<Own, string> = {
    store8: `(i32.store8 ${param(0, 'PTR')} ${param(1, 'i32')}) (i64.const 0)`,
    store64: `(i64.store ${param(0, 'PTR')} ${param(1, 'i64')}) (i64.const 0)`,
    load8: `(i64.load8_u ${param(0, 'PTR')})`,
    global_set: `(global.set $g ${param(0, 'i64')}) (i64.const 0)`,
    global_get: `(global.get $g)`,
    heap_grow: asResult('PTR', `(memory.grow ${param(0, 'PTR')})`),
    heap_copy: `(memory.copy ${param(0, 'PTR')} ${param(1, 'PTR')} ${param(2, 'PTR')}) (i64.const 0)`,
    unreachable: `(unreachable)`,
    spin: `(loop $l (br $l)) (i64.const 0)`,
  };
  const imports: string[] = [];
  const bodies = names.map((name) => {
    if (isOwn(name)) return own[name];
    const { params, result } = IC0_SIGNATURES[name];
    const types = params.map(typeOf);
    const results = result === undefined ? '' : ` (result ${typeOf(result)})`;
    imports.push(
      `(import "ic0" "${name}" (func $${name}${types.length > 0 ? ` (param ${types.join(' ')})` : ''}${results}))`,
    );
    const call = `(call $${name} ${types.map((type, index) => param(index, type)).join(' ')})`;
    return asResult(result === undefined ? undefined : typeOf(result), call);
  });
  const cases = bodies.map((body, index) => `(func $do${index} (param $op PTR) (result i64) ${body})`);
  const at = (address: number): string => `(PTR.const ${address})`;
  const scaled = (factor: number): string =>
    width === 64
      ? `(i64.mul (i64.extend_i32_u (local.get $i)) (i64.const ${factor}))`
      : `(i32.mul (local.get $i) (i32.const ${factor}))`;
  return `(module
    ${imports.join('\n')}
    (memory (export "memory") %index ${HEAP_PAGES})
    (global $g (mut i64) (i64.const 7))
    (type $case (func (param PTR) (result i64)))
    (table %index ${names.length + 1} funcref)
    (elem (PTR.const 0) ${names.map((_, index) => `$do${index}`).join(' ')} $script)
    ${cases.join('\n')}
    (func $script (param $at PTR) (local $i i32) (local $n i32) (local $op PTR)
      (local.set $n (i32.load (local.get $at)))
      (block $done (loop $next
        (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
        (local.set $op (PTR.add (PTR.add (local.get $at) (PTR.const ${OPERATIONS_AT - ARGUMENT_AT})) ${scaled(OPERATION_BYTES)}))
        (i64.store (PTR.add ${at(RESULTS_AT)} ${scaled(8)})
          (call_indirect (type $case) (local.get $op) (PTR.load (local.get $op))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next))))
    (func $run
      (call $msg_arg_data_copy ${at(ARGUMENT_AT)} ${at(0)} (call $msg_arg_data_size))
      (call $script ${at(ARGUMENT_AT)}))
    (func $init (if (PTR.gt_u (call $msg_arg_data_size) (PTR.const 8)) (then (call $run))))
    (func (export "canister_update run") (call $run))
    (func (export "canister_query look") (call $run))
    (func (export "canister_composite_query compose") (call $run))
    ${inspects ? '(func (export "canister_inspect_message") (call $run))' : ''}
    (func (export "canister_init") (call $init))
    (func (export "canister_post_upgrade") (call $init))
    ${Object.entries(HOOK_SLOTS)
      .map(([name, slot]) => `(func (export "${name}") (call $script ${at(slotAt(slot))}))`)
      .join('\n')})`;
}

function isOwn(name: Operation): name is Own {
  return OWN.some((own) => own === name);
}

export function encodeScript(width: Width, calls: readonly Call[], blob: Uint8Array = new Uint8Array(0)): Uint8Array {
  const names = namesFor(width);
  const bytes = new Uint8Array(8 + BLOB_BYTES + calls.length * OPERATION_BYTES);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, BigInt(calls.length), true);
  bytes.set(blob, 8);
  calls.forEach(([name, ...params], index) => {
    const at = 8 + BLOB_BYTES + index * OPERATION_BYTES;
    const number = names.indexOf(name);
    if (number < 0) throw new Error(`a ${width}-bit module has no ${name}`);
    view.setBigUint64(at, BigInt(number), true);
    params.forEach((param, k) => view.setBigUint64(at + 8 + 8 * k, BigInt.asUintN(64, BigInt(param)), true));
  });
  return bytes;
}

/** Returns the index of the callback function in the table; its environment is the address of a script. */
export function callbackFunction(width: Width): number {
  return namesFor(width).length;
}

/** Returns an argument that puts scripts into their slots before it runs the calls. */
export function keeping(
  width: Width,
  scripts: Readonly<Record<number, readonly Call[]>>,
  calls: readonly Call[],
  blob?: Uint8Array,
): Uint8Array {
  const kept = Object.entries(scripts).map(([slot, script]) => ({
    slot: Number(slot),
    bytes: encodeScript(width, script, blob),
  }));
  let from = OPERATIONS_AT + (kept.length + calls.length) * OPERATION_BYTES;
  const copies = kept.map(({ slot, bytes }): Call => {
    if (bytes.length > SLOT_BYTES) throw new Error(`a script of ${bytes.length} bytes does not fit into a slot`);
    const copy: Call = ['heap_copy', slotAt(slot), from, bytes.length];
    from += bytes.length;
    return copy;
  });
  return Buffer.concat([encodeScript(width, [...copies, ...calls], blob), ...kept.map(({ bytes }) => bytes)]);
}

export class ScriptCanister {
  readonly width: Width;
  readonly canister: TestCanister;

  constructor(width: Width, sample: Omit<Sample, 'bytes' | 'argument'> & { readonly init?: readonly Call[] } = {}) {
    this.width = width;
    const { init, ...rest } = sample;
    const argument = init === undefined ? {} : { argument: encodeScript(width, init) };
    this.canister = new TestCanister({ ...rest, ...argument, bytes: scriptModule(width) });
  }

  run(
    calls: readonly Call[],
    blob?: Uint8Array,
    kind: CallKind = 'update',
    method = kind === 'update' ? 'run' : 'look',
  ): TestResult {
    return this.canister.run(kind, method, encodeScript(this.width, calls, blob));
  }

  /**
   * Runs the calls, then replies with their results as unsigned numbers. Throws with the outcome unless that succeeds.
   */
  results(calls: readonly Call[], blob?: Uint8Array, kind: CallKind = 'update', method?: string): readonly bigint[] {
    const { outcome } = this.run(
      [...calls, ['msg_reply_data_append', RESULTS_AT, 8 * calls.length], ['msg_reply']],
      blob,
      kind,
      method,
    );
    if (outcome.kind !== 'reply') throw new Error(`${outcome.kind}: ${outcome.message}`);
    const view = new DataView(outcome.data.buffer, outcome.data.byteOffset, outcome.data.byteLength);
    return calls.map((_, index) => view.getBigUint64(8 * index, true));
  }

  /** Runs the calls as `run` does, with scripts for later in their slots. */
  runKeeping(
    scripts: Readonly<Record<number, readonly Call[]>>,
    calls: readonly Call[],
    blob?: Uint8Array,
    rest: { readonly kind?: CallKind; readonly method?: string; readonly context?: Partial<ContextView> } = {},
  ): TestResult {
    const { kind = 'update', method = kind === 'update' ? 'run' : 'compose', context = {} } = rest;
    return this.canister.run(kind, method, keeping(this.width, scripts, calls, blob), context);
  }

  /** Runs the calls, then replies with a piece of the heap. */
  heapAfter(
    calls: readonly Call[],
    address: number,
    size: number,
    blob?: Uint8Array,
    kind: CallKind = 'update',
    method?: string,
  ): Uint8Array {
    const { outcome } = this.run(
      [...calls, ['msg_reply_data_append', address, size], ['msg_reply']],
      blob,
      kind,
      method,
    );
    if (outcome.kind !== 'reply') throw new Error(`${outcome.kind}: ${outcome.message}`);
    return outcome.data;
  }

  /** Returns the message of the trap in which the calls must end. */
  trap(calls: readonly Call[], blob?: Uint8Array, kind: CallKind = 'update', method?: string): string {
    const { outcome } = this.run(calls, blob, kind, method);
    if (outcome.kind !== 'trap') throw new Error(`expected a trap, got ${JSON.stringify(outcome)}`);
    return outcome.message;
  }
}
