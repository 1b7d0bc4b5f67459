/**
 * Bounds the work of V8 to check code, before V8 sees the code.
 *
 * V8 keeps the types of all operands, and of all parameters and results of blocks, until a function's end. With types
 * of a thousand parameters that is a thousand times the function's size, and running out of memory there ends the
 * process, no matter in which thread. Measured on Node 26:
 *
 *     100,000 calls of a function with 1000 results (200 KB)          the process is dead after 2 s
 *     100,000 blocks with 1000 parameters and 1000 results (300 KB)   3.2 GB, 5.5 s
 *     3,000,000 nested blocks (6 MB)                                  0.7 GB
 *
 * So the operands moved are counted and bounded; what a compiler makes of a program stays far below. The walk trusts
 * nothing, since the code is not validated yet; bodies that are too small to reach a bound are not walked at all. What
 * code costs V8 to compile is bounded by the instrumenter (instrument/analyze/).
 */
import { numberAt } from '../../kernel/index.ts';
import { decodeBody, InstructionBuffer } from './instructions.ts';
import type { FunctionType, WasmModule } from './module.ts';
import { typeOfFunction } from './module.ts';
import { describeFunction } from './names.ts';
import { OP, POPS, PUSHES } from './opcodes.ts';
import { hex, refusal } from './refusal.ts';

/** Deeper code is a bomb, not a program: a compiled `switch` of a thousand cases nests a thousand deep. */
export const NESTING_MAX = 10_000;

/** Operands of blocks, branches and calls in a function and in a module; V8 takes some 40 bytes for each. */
const OPERANDS_MAX = { function: 2_000_000, module: 100_000_000 } as const;
/** Bytes of a body below which it cannot nest deep enough to matter. */
const WALKED_BYTES = 1 << 20;

const NO_TYPE: FunctionType = { params: [], results: [] };

/** Refuses code that V8 would need too much memory for. */
export function boundComplexity(module: WasmModule): void {
  new ComplexityWalk(module).run();
}

class ComplexityWalk {
  readonly #module: WasmModule;
  readonly #buffer = new InstructionBuffer();
  // Open blocks: results, and operands that a branch to it carries.
  readonly #results = new Uint32Array(NESTING_MAX + 1);
  readonly #carried = new Uint32Array(NESTING_MAX + 1);
  #nesting = 0;
  #operands = 0;

  constructor(module: WasmModule) {
    this.#module = module;
  }

  run(): void {
    const { types, bodyStart, bodyEnd } = this.#module;
    const arityMax = types.reduce((most, { params, results }) => Math.max(most, params.length + results.length), 1);
    let total = 0;
    for (let body = 0; body < bodyStart.length; body++) {
      const bytes = numberAt(bodyEnd, body, 'end of body') - numberAt(bodyStart, body, 'start of body');
      // A byte moves at most the operands of one type: an instruction has one, and so has each label of a `br_table`.
      const most = bytes * arityMax;
      if (bytes < WALKED_BYTES && most < OPERANDS_MAX.function / 10) {
        total += most;
      } else {
        this.#walk(body);
        total += this.#operands;
      }
    }
    if (total > OPERANDS_MAX.module) throw tooComplex('the module', OPERANDS_MAX.module);
  }

  #typeOf(functionIndex: number): FunctionType {
    return functionIndex < this.#module.functionTypes.length ? typeOfFunction(this.#module, functionIndex) : NO_TYPE;
  }

  // `?? 0` without an assertion: this runs for each instruction, and every element is there by the buffer's layout.
  // Indices of types may still lead nowhere.
  #walk(body: number): void {
    const module = this.#module;
    const buffer = this.#buffer;
    decodeBody(module, body, buffer);
    const functionIndex = module.importedFunctionCount + body;
    const { opcode: opcodes, first, second, labels, at, count } = buffer;
    this.#operands = 0;
    this.#nesting = 0;
    this.#results[0] = this.#carried[0] = this.#typeOf(functionIndex).results.length;
    for (let i = 0; i < count; i++) {
      const opcode = opcodes[i] ?? 0;
      const index = first[i] ?? 0;
      switch (opcode) {
        case OP.BLOCK:
        case OP.LOOP:
        case OP.IF: {
          if (this.#nesting === NESTING_MAX) {
            throw refusal(
              'wasm-limit',
              `${describeFunction(module, functionIndex)}: blocks are nested more than ${NESTING_MAX} deep at offset ${hex(numberAt(at, i, 'instruction'))}`,
            );
          }
          const { params, results } = index < 0 ? NO_TYPE : (module.types[index] ?? NO_TYPE);
          this.#operands += params.length + results.length;
          const n = ++this.#nesting;
          this.#results[n] = results.length;
          this.#carried[n] = opcode === OP.LOOP ? params.length : results.length;
          break;
        }
        case OP.ELSE:
        case OP.END:
          this.#operands += this.#results[this.#nesting] ?? 0;
          if (opcode === OP.END && this.#nesting > 0) this.#nesting--;
          break;
        case OP.BR:
        case OP.BR_IF:
          this.#branch(index);
          break;
        case OP.RETURN:
          this.#branch(this.#nesting);
          break;
        case OP.BR_TABLE:
          for (let k = index; k <= index + (second[i] ?? 0); k++) this.#branch(labels[k] ?? 0);
          break;
        case OP.CALL:
        case OP.RETURN_CALL:
          this.#call(this.#typeOf(index));
          break;
        case OP.CALL_INDIRECT:
        case OP.RETURN_CALL_INDIRECT:
          this.#call(module.types[index] ?? NO_TYPE);
          break;
        default:
          this.#operands += (POPS[opcode] ?? 0) + (PUSHES[opcode] ?? 0) > 0 ? 1 : 0;
      }
      if (this.#operands > OPERANDS_MAX.function)
        throw tooComplex(describeFunction(module, functionIndex), OPERANDS_MAX.function);
    }
  }

  #branch(depth: number): void {
    this.#operands += this.#carried[Math.max(0, this.#nesting - depth)] ?? 0;
  }

  #call({ params, results }: FunctionType): void {
    this.#operands += params.length + results.length;
  }
}

function tooComplex(where: string, max: number): Error {
  return refusal(
    'wasm-limit',
    `${where} is too complex: its blocks, branches and calls move more than ${max} operands`,
  );
}
