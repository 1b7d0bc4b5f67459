/**
 * A module whose methods touch as much memory as their argument says, each by another operation and with several
 * endings.
 */
import { wat } from './wat.ts';

export type HogWidth = 32 | 64;

export const HOG_OPERATIONS = [
  'fill',
  'store',
  'sweep',
  'copy',
  'init',
  'grow',
  'stableGrow',
  'stableWrite',
  'stableRead',
  'argument',
] as const;
export type HogOperation = (typeof HOG_OPERATIONS)[number];

/** Ends of a message: its changes are kept, the message traps, runs out of instructions, or is a query. */
export const HOG_ENDS = ['update', 'trap', 'spin', 'query'] as const;
export type HogEnd = (typeof HOG_ENDS)[number];

/** Size of the module's data segment, in bytes. */
export const HOG_SEGMENT_BYTES = 2.5 * 2 ** 20;
/** Bytes of parameters, before the part of the heap that operations work on. */
const PARAMETERS = 12;

/**
 * Makes a module with the methods `<operation>_<end>`, and `prepare`, which grows both memories. The heap grows in the
 * message if it is too small.
 */
export function memoryHog(width: HogWidth): Uint8Array {
  const ptr = `i${width}`;
  const wide = (value: string): string => (width === 64 ? value : `(i64.extend_i32_u ${value})`);
  const number = (at: number): string =>
    width === 64 ? `(i64.load32_u (i64.const ${at}))` : `(i32.load (i32.const ${at}))`;
  const c = (n: number): string => `(${ptr}.const ${n})`;
  const [to, from, size] = ['(local.get $to)', '(local.get $from)', '(local.get $size)'];
  const small = width === 64 ? '(i32.wrap_i64 (local.get $size))' : size;
  const step = (bytes: number, store: string): string =>
    `(loop $l ${store} (br_if $l (${ptr}.lt_u (local.tee $to (${ptr}.add ${to} ${c(bytes)})) (local.get $end))))`;
  const operations: Record<HogOperation, string> = {
    fill: `(memory.fill ${to} (i32.const 7) ${size})`,
    store: step(4096, `(i32.store ${to} (i32.const 3))`),
    sweep: `(loop $l (if (${ptr}.lt_u ${to} (local.get $end))
      (then (i64.store ${to} (i64.const 3)) (local.set $to (${ptr}.add ${to} ${c(8)})) (br $l))))`,
    copy: `(memory.copy ${to} ${from} ${size})`,
    init: `(memory.init $data ${to} (i32.const 0) ${small})`,
    grow: `(drop (memory.grow (${ptr}.shr_u ${size} ${c(16)})))`,
    stableGrow: `(drop (call $stableGrow (i64.shr_u ${wide(size)} (i64.const 16))))`,
    stableWrite: `(call $stableWrite ${wide(to)} ${wide(from)} ${wide(size)})`,
    stableRead: `(call $stableRead ${wide(to)} ${wide(from)} ${wide(size)})`,
    argument: `(call $arg ${to} ${c(0)} ${size})`,
  };
  const endings: Record<HogEnd, string> = {
    update: '(call $reply)',
    query: '(call $reply)',
    trap: 'unreachable',
    spin: '(loop $spin (br $spin))',
  };
  const grown = (end: string): string => `(if (${ptr}.lt_u (${ptr}.shl (memory.size) ${c(16)}) ${end})
    (then (drop (memory.grow (${ptr}.sub (${ptr}.shr_u (${ptr}.add ${end} ${c(65535)}) ${c(16)}) (memory.size))))))`;
  const method = (kind: string, name: string, body: string): string =>
    `(func (export "canister_${kind} ${name}") (local $to ${ptr}) (local $from ${ptr}) (local $size ${ptr}) (local $end ${ptr})
      (call $arg ${c(0)} ${c(0)} ${c(PARAMETERS)})
      (local.set $to ${number(0)}) (local.set $from ${number(4)}) (local.set $size ${number(8)})
      (local.set $end (${ptr}.add ${to} ${size})) ${body})`;
  const methods = HOG_OPERATIONS.flatMap((name) =>
    HOG_ENDS.map((end) => {
      const room = name.startsWith('stableW') || name === 'copy' ? grown(`(${ptr}.add ${from} ${size})`) : '';
      const isHeap = !['grow', 'stableGrow', 'stableWrite'].includes(name);
      const body = `${room} ${isHeap ? grown('(local.get $end)') : ''} ${operations[name]} ${endings[end]}`;
      return method(end === 'query' ? 'query' : 'update', `${name}_${end}`, body);
    }),
  );
  return wat(`(module
    (import "ic0" "msg_arg_data_copy" (func $arg (param ${ptr} ${ptr} ${ptr})))
    (import "ic0" "msg_reply" (func $reply))
    (import "ic0" "stable64_grow" (func $stableGrow (param i64) (result i64)))
    (import "ic0" "stable64_write" (func $stableWrite (param i64 i64 i64)))
    (import "ic0" "stable64_read" (func $stableRead (param i64 i64 i64)))
    (memory (export "memory") ${width === 64 ? 'i64 ' : ''}2 65535)
    ${methods.join('\n')}
    ${method('update', 'prepare', `${grown('(local.get $end)')} ${operations.stableGrow} (call $reply)`)}
    (data $data "${'xyz1'.repeat(HOG_SEGMENT_BYTES / 4)}"))`);
}

/** Returns the argument of its methods; `bytes`: length of the argument for `argument`. */
export function hogArgument(to: number, from: number, size: number, bytes = PARAMETERS): Uint8Array {
  const argument = new Uint8Array(bytes).fill(5, PARAMETERS);
  argument.set(new Uint8Array(Uint32Array.of(to, from, size).buffer));
  return argument;
}
