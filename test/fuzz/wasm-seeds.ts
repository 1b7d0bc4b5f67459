/** Modules with which fuzzing begins: real ones, generated ones, and one with every allowed instruction. */
import { ByteReader } from '../../subsystems/wasm/index.ts';
import { IMMEDIATE, IMMEDIATES, MISC, OP, OPCODE_COUNT, SIMD } from '../../subsystems/wasm/opcodes.ts';
import { scriptModule } from '../subsystems/execution/script-canister.ts';
import { bytesOf, FUNCREF, I32, I64, leb, module, type FunctionSpec } from '../support/module-builder.ts';
import { ANY_ACTOR, compileMotoko } from '../support/motoko.ts';
import { randomModule } from '../support/random-module.ts';
import { seeded } from '../support/seeded.ts';
import { mapSections } from '../support/wasm-sections.ts';
import { wat } from '../support/wat.ts';

/** Number of Motoko's thousand functions that keep their bodies in one seed. */
const KEPT_BODIES = 40;

const GENERATED = 12;

/** Returns small modules first; the last `wholeCount` are whole Motoko programs of 200 KB and more. */
export async function seeds(): Promise<{ readonly modules: readonly Uint8Array[]; readonly wholeCount: number }> {
  const whole: Uint8Array[] = [];
  for (const persistence of ['classical', 'enhanced'] as const) {
    whole.push((await compileMotoko(ANY_ACTOR, { persistence })).wasm);
  }
  const modules = [
    everyInstruction(32),
    everyInstruction(64),
    everySegment(),
    scriptModule(32),
    scriptModule(64),
    ...Array.from({ length: GENERATED }, (_, k) => wat(randomModule(k + 1).text)),
    ...whole.flatMap((bytes) => [1, 2, 3].map((seed) => thinned(bytes, seed))),
  ];
  return { modules: [...modules, ...whole], wholeCount: whole.length };
}

/** Makes a module with each instruction behind an `unreachable`, in a function of its own. */
function everyInstruction(width: 32 | 64): Uint8Array {
  const functions: FunctionSpec[] = [{ code: [], exports: ['canister_update m0'] }];
  for (let opcode = 0; opcode < OPCODE_COUNT; opcode++) {
    const kind = IMMEDIATES[opcode];
    if (kind === undefined || kind === IMMEDIATE.REFUSED || opcode === OP.ELSE || opcode === OP.END) continue;
    const prefixed =
      opcode >= SIMD
        ? bytesOf(0xfd, leb(opcode - SIMD))
        : opcode >= MISC
          ? bytesOf(0xfc, leb(opcode - MISC))
          : [opcode];
    const isBlock = kind === IMMEDIATE.BLOCK_TYPE;
    functions.push({
      locals: [[1, I32]],
      code: bytesOf(0, prefixed, immediates(kind), isBlock ? [0x01, OP.END] : [], 0),
    });
  }
  const pages = width === 64 ? [4, 1] : [0, 1];
  return module({
    types: [
      [[], []],
      [
        [I32, I64],
        [I64, I32],
      ],
    ],
    functions,
    memory: pages,
    table: [FUNCREF, ...pages],
    globals: [
      [I32, 1, 0x41, 5, 0x0b],
      [0x7c, 1, 0x44, 0, 0, 0, 0, 0, 0, 0, 0, 0x0b],
      [0x7b, 1, 0xfd, 12, ...new Array<number>(16).fill(3), 0x0b],
    ],
    elements: [[1, 0, 2, 0, 1]],
    data: [[1, 2, 65, 66]],
    hasDataCount: true,
  });
}

function immediates(kind: number): readonly number[] {
  const bytes = (count: number): number[] => new Array<number>(count).fill(0);
  switch (kind) {
    case IMMEDIATE.NONE:
      return [];
    case IMMEDIATE.BLOCK_TYPE:
      return [0x40];
    case IMMEDIATE.TYPES:
      return [1, I64];
    case IMMEDIATE.LABELS:
      return [1, 0, 0];
    case IMMEDIATE.FOUR_BYTES:
      return bytes(4);
    case IMMEDIATE.EIGHT_BYTES:
      return bytes(8);
    case IMMEDIATE.SIXTEEN_BYTES:
      return bytes(16);
    case IMMEDIATE.REFERENCE_TYPE:
      return [FUNCREF];
    case IMMEDIATE.TWO_INDICES:
    case IMMEDIATE.MEMORY_ARGUMENT:
    case IMMEDIATE.TWO_MEMORIES:
    case IMMEDIATE.DATA_MEMORY:
      return bytes(2);
    case IMMEDIATE.MEMORY_ARGUMENT_LANE:
      return bytes(3);
    default:
      return bytes(1);
  }
}

/**
 * Makes a module with all kinds of element and data segments, imports in a table, references, blocks with parameters,
 * tail calls, a start function.
 */
function everySegment(): Uint8Array {
  const offset = [0x41, 0, 0x0b];
  const reference = [0xd2, 1, 0x0b];
  return module({
    types: [
      [[], []],
      [[I32], [I32]],
      [[I32, I32], []],
      [
        [I32, I32],
        [I32, I32],
      ],
    ],
    imports: [
      ['ic0', 'msg_reply', 0],
      ['ic0', 'msg_reply_data_append', 2],
    ],
    functions: [
      { code: [0x41, 0, 0x41, 4, 0x10, 1, 0x10, 0], exports: ['canister_update m0', 'canister_query m1', 'x'] },
      {
        type: 1,
        locals: [
          [2, I32],
          [1, I64],
        ],
        code: [0x20, 0, 0x41, 1, 0x02, 3, 0x0c, 0, 0x0b, 0x6a, 0x20, 0, 0x0d, 0, 0x12, 3],
      },
      {
        code: [
          0xd2, 3, 0xd1, 0x04, 0x40, 0x41, 1, 0x11, 0, 0, 0x05, 0x41, 0, 0x41, 0, 0x41, 2, 0xfc, 8, 1, 0, 0xfc, 9, 1,
          0x0b,
        ],
      },
    ],
    memory: [1, 1, 2],
    table: [FUNCREF, 1, 10, 20],
    globals: [[I64, 0, 0x42, 0x7f, 0x0b]],
    start: 4,
    elements: [
      bytesOf(0, offset, 2, 0, 1),
      [1, 0, 1, 2],
      bytesOf(2, 0, offset, 0, 1, 3),
      [3, 0, 1, 3],
      bytesOf(4, offset, 1, reference),
      bytesOf(5, FUNCREF, 2, reference, [0xd0, FUNCREF, 0x0b]),
      bytesOf(6, 0, offset, FUNCREF, 1, reference),
      bytesOf(7, FUNCREF, 1, reference),
    ],
    data: [bytesOf(0, offset, 4, 1, 2, 3, 4), [1, 3, 5, 6, 7], bytesOf(2, 0, offset, 1, 9)],
    hasDataCount: true,
  });
}

/** Makes a module whose bodies are `unreachable` except for a few; without data and custom sections. */
function thinned(bytes: Uint8Array, seed: number): Uint8Array {
  const random = seeded(seed);
  return mapSections(bytes, (id, content) => {
    if (id === 0 || id === 7) return undefined;
    if (id === 11) {
      // The number of segments stays, but all are empty and passive.
      const count = new ByteReader(content, 'data').u32();
      return bytesOf(leb(count), ...Array.from({ length: count }, () => [1, 0]));
    }
    if (id !== 10) return content;
    const r = new ByteReader(content, 'code');
    const count = r.u32();
    const parts: (Uint8Array | number[])[] = [leb(count)];
    for (let k = 0; k < count; k++) {
      const body = r.take(r.u32());
      const isKept = body.length < 2000 && random.below(count) < KEPT_BODIES;
      parts.push(isKept ? bytesOf(leb(body.length), body) : [3, 0, 0, 0x0b]);
    }
    return bytesOf(...parts);
  });
}
