/**
 * Modules put together byte by byte, for tests that need modules no assembler would write: a million labels, sections
 * out of order, wrong lengths. Nothing is checked here; a `Section` is whatever bytes it is given.
 */
import { ByteWriter } from '../../subsystems/wasm/index.ts';

export const I32 = 0x7f;
export const I64 = 0x7e;
export const FUNCREF = 0x70;

/** Bytes in several forms: numbers are single bytes. */
type Part = number | Uint8Array | readonly number[];

/** Returns the bytes of the parts in a row. */
export function bytesOf(...parts: readonly Part[]): Uint8Array {
  const out = new Uint8Array(
    parts.reduce<number>((sum, part) => sum + (typeof part === 'number' ? 1 : part.length), 0),
  );
  let at = 0;
  for (const part of parts) {
    if (typeof part === 'number') {
      out[at++] = part;
    } else {
      out.set(part, at);
      at += part.length;
    }
  }
  return out;
}

/** Encodes unsigned LEB128; `width` pads it to so many bytes. */
export function leb(value: number, width = 1): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  do {
    bytes.push(rest % 128);
    rest = Math.floor(rest / 128);
  } while (rest > 0 || bytes.length < width);
  return Uint8Array.from(bytes, (byte, k) => (k < bytes.length - 1 ? byte | 0x80 : byte));
}

/** Encodes a number beyond 2^53 as unsigned LEB128. */
export function bigLeb(value: bigint): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  do {
    bytes.push(Number(rest & 127n));
    rest >>= 7n;
  } while (rest > 0n);
  return Uint8Array.from(bytes, (byte, k) => (k < bytes.length - 1 ? byte | 0x80 : byte));
}

/** Encodes signed LEB128. */
export function signedLeb(value: number): Uint8Array {
  const out = new ByteWriter(16);
  out.signed(value);
  return out.written().slice();
}

export function name(text: string | Uint8Array): Uint8Array {
  const bytes = typeof text === 'string' ? Buffer.from(text) : text;
  return bytesOf(leb(bytes.length), bytes);
}

/** Returns the same bytes `count` times. */
export function repeat(part: Part, count: number): Uint8Array {
  const one = bytesOf(part);
  const all = new Uint8Array(one.length * count);
  if (all.length > 0) Buffer.from(all.buffer).fill(one);
  return all;
}

/** Returns the parts that `make` gives for 0, 1, …, count − 1, in a row. */
export function sequence(count: number, make: (index: number) => Part): Uint8Array {
  // Small at first: each of ten thousands of function bodies is a sequence.
  const out = new ByteWriter();
  for (let k = 0; k < count; k++) {
    const part = make(k);
    if (typeof part === 'number') out.byte(part);
    else if (part instanceof Uint8Array) out.append(part);
    else out.put(part);
  }
  return out.written().slice();
}

export function section(id: number, ...content: readonly Part[]): Uint8Array {
  const bytes = bytesOf(...content);
  return bytesOf(id, leb(bytes.length), bytes);
}

export function custom(sectionName: string | Uint8Array, ...content: readonly Part[]): Uint8Array {
  return section(0, name(sectionName), ...content);
}

const HEADER = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0];

/** Makes a module of sections in a row behind the header. */
export function rawModule(...sections: readonly Part[]): Uint8Array {
  return bytesOf(HEADER, ...sections);
}

export interface FunctionSpec {
  /** Index of its type; 0 without. */
  readonly type?: number;
  /** Groups of locals: count and type. */
  readonly locals?: readonly (readonly [number, number])[];
  /** Instructions without the final `end`. */
  readonly code?: Part;
  /** Names it is exported under. */
  readonly exports?: readonly string[];
}

interface ModuleSpec {
  /** Parameters and results. Type 0 is `() -> ()` unless given. */
  readonly types?: readonly (readonly [readonly number[], readonly number[]])[];
  readonly imports?: readonly (readonly [module: string, name: string, type: number])[];
  readonly functions?: readonly FunctionSpec[];
  /** Limits of the memory as they stand in the binary. */
  readonly memory?: Part | undefined;
  /** Element type and limits of the table. */
  readonly table?: Part;
  readonly globals?: readonly Part[];
  readonly start?: number;
  readonly elements?: readonly Part[];
  /** Data segments, and whether to count them in front of the code. */
  readonly data?: readonly Part[];
  readonly hasDataCount?: boolean;
  readonly customs?: readonly Part[];
}

export const MEMORY_1_PAGE = [0, 1];

function vector(id: number, items: readonly Part[]): Uint8Array {
  return items.length === 0
    ? new Uint8Array(0)
    : section(
        id,
        leb(items.length),
        sequence(items.length, (k) => items[k] ?? []),
      );
}

/** Returns a function's body with its length. */
function body({ locals = [], code = [] }: FunctionSpec): Uint8Array {
  const groups = sequence(locals.length, (k) => bytesOf(leb(locals[k]?.[0] ?? 0), locals[k]?.[1] ?? I32));
  const content = bytesOf(leb(locals.length), groups, code, 0x0b);
  return bytesOf(leb(content.length), content);
}

/** Makes a whole module, with its sections in the required order. */
export function module(spec: ModuleSpec): Uint8Array {
  const { types = [[[], []]], imports = [], functions = [], customs = [], data = [] } = spec;
  const exports = functions.flatMap(({ exports: names = [] }, k) =>
    names.map((text) => bytesOf(name(text), 0, leb(imports.length + k))),
  );
  return rawModule(
    vector(
      1,
      types.map(([params, results]) => bytesOf(0x60, leb(params.length), params, leb(results.length), results)),
    ),
    vector(
      2,
      imports.map(([from, text, type]) => bytesOf(name(from), name(text), 0, leb(type))),
    ),
    vector(
      3,
      functions.map(({ type = 0 }) => leb(type)),
    ),
    spec.table === undefined ? [] : section(4, 1, spec.table),
    spec.memory === undefined ? [] : section(5, 1, spec.memory),
    vector(6, spec.globals ?? []),
    vector(7, exports),
    spec.start === undefined ? [] : section(8, leb(spec.start)),
    vector(9, spec.elements ?? []),
    spec.hasDataCount === true ? section(12, leb(data.length)) : [],
    vector(10, functions.map(body)),
    vector(11, data),
    ...customs,
  );
}

/** `ic0.msg_reply` as function 0, whose type must be () -> (). */
export const IMPORT_REPLY = ['ic0', 'msg_reply', 0] as const;
export const CALL_REPLY = [0x10, 0];
