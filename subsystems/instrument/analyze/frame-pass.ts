/**
 * Follows the operands through a body to find the contents of its frame (guest-stack.ts), and the values that V8's
 * compilers copy.
 */
import { numberAt } from '../../../kernel/index.ts';
import {
  BLOCK_TYPE_EMPTY,
  describeFunction,
  type InstructionBuffer,
  MISC,
  NESTING_MAX,
  OP,
  OPCODE_COUNT,
  POPS,
  PUSHES,
  refusal,
  SIMD,
  STORE_BYTES,
  type FunctionType,
  typeOfFunction,
  VALUE_TYPE,
  type WasmModule,
} from '../../wasm/index.ts';
import { BLOCK, type ModuleBlocks } from './block-pass.ts';

/**
 * Limits on compile-time state. V8's compilers copy the state of every local and operand wherever control flow splits
 * or joins, so the cost of a function is a product: 10,000 `if`s in a function with 50,000 locals (90 KB) took 11.6 GB
 * and 33 s at its first call, and running out of memory there ends the process. The sum of these copies is limited for
 * a function because of memory (24 bytes each), and for a module because of time.
 */
const STATES_MAX = { function: 10_000_000, module: 100_000_000 } as const;

/** Frame sizes of all bodies, in words of 8 bytes. */
export class ModuleFrames {
  /** Parameters and locals. */
  readonly valueWords: Float64Array;
  readonly operandWords: Float64Array;
  /** Values that V8 may compute once although the code computes them twice. */
  readonly sharedWords: Float64Array;
  /** True if a body uses values of 16 bytes. */
  hasV128 = false;

  constructor(bodies: number) {
    this.valueWords = new Float64Array(bodies);
    this.operandWords = new Float64Array(bodies);
    this.sharedWords = new Float64Array(bodies);
  }
}

/**
 * 1 for each opcode whose result V8 may share between two computations, because it reads neither memory nor a global.
 */
const SHAREABLE = Uint8Array.from({ length: OPCODE_COUNT }, (_, opcode) => {
  const isNumeric = opcode >= OP.I32_EQZ && opcode <= OP.I64_EXTEND32_S;
  const isOther = [OP.SELECT, OP.SELECT_TYPED, OP.F32_CONST, OP.F64_CONST].some((other) => other === opcode);
  return isNumeric || isOther || opcode >= MISC ? 1 : 0;
});

/** 1 for each opcode before which V8 copies the state of all locals and operands; a test precedes each store. */
const COPIES_STATE = Uint8Array.from({ length: OPCODE_COUNT }, (_, opcode) => {
  const splits = [OP.BLOCK, OP.LOOP, OP.IF, OP.END, OP.BR, OP.BR_IF].some((other) => other === opcode);
  return splits || STORE_BYTES[opcode] !== 0 ? 1 : 0;
});

/** Runs after the block pass. Uses `?? 0` for the reason given in block-pass.ts. */
export class FramePass {
  readonly #module: WasmModule;
  readonly #blocks: ModuleBlocks;
  readonly #frames: ModuleFrames;
  readonly #signaturesHaveV128: boolean;
  // Open blocks by nesting; index 0 is the function itself.
  readonly #block = new Uint32Array(NESTING_MAX + 1);
  readonly #floor = new Int32Array(NESTING_MAX + 1);
  /** Numbers of operands that the block takes and leaves. */
  readonly #params = new Uint32Array(NESTING_MAX + 1);
  readonly #results = new Uint32Array(NESTING_MAX + 1);
  /** Copies of locals and operands that V8 makes before it reaches the block. */
  readonly #statesBefore = new Float64Array(NESTING_MAX + 1);
  /** Copies in all functions so far. */
  #states = 0;

  constructor(module: WasmModule, blocks: ModuleBlocks, frames: ModuleFrames) {
    this.#module = module;
    this.#blocks = blocks;
    this.#frames = frames;
    this.#signaturesHaveV128 =
      module.globals.some(({ type }) => type === VALUE_TYPE.v128) ||
      module.types.some(({ params, results }) => params.includes(VALUE_TYPE.v128) || results.includes(VALUE_TYPE.v128));
  }

  /** Analyzes one body. Throws a ServerError `wasm-limit` if it is too much for V8's compilers. */
  run(body: number, buffer: InstructionBuffer): void {
    const { opcode: opcodes, first, second, count, localCount } = buffer;
    const { flags, start } = this.#blocks;
    let block = numberAt(start, body, 'first block of body');
    let nesting = 0;
    let height = 0;
    let heightMax = 0;
    let shareable = 0;
    let states = 0;
    let hasV128 = buffer.localsHaveV128 || this.#signaturesHaveV128;
    // The end of the function splits nothing.
    for (let i = 0; i < count - 1; i++) {
      const opcode = opcodes[i] ?? 0;
      height -= POPS[opcode] ?? 0;
      // Unreachable code may take more operands than there are.
      const floor = this.#floor[nesting] ?? 0;
      if (height < floor) height = floor;
      height += PUSHES[opcode] ?? 0;
      shareable += SHAREABLE[opcode] ?? 0;
      if (COPIES_STATE[opcode] === 1) states += localCount + height;
      switch (opcode) {
        case OP.BLOCK:
        case OP.LOOP:
        case OP.IF:
          nesting++;
          this.#block[nesting] = block++;
          this.#statesBefore[nesting] = states;
          this.#setOperands(nesting, first[i] ?? 0, floor, height);
          break;
        case OP.ELSE:
          height = floor + (this.#params[nesting] ?? 0);
          states += localCount + height;
          break;
        case OP.END:
          height = floor + (this.#results[nesting] ?? 0);
          // Such a loop may be written twice (loop-ranges.ts).
          if ((flags.at(this.#block[nesting] ?? 0) & BLOCK.PLAIN_LOOP) !== 0)
            states += states - (this.#statesBefore[nesting] ?? 0);
          nesting--;
          break;
        case OP.BR_TABLE:
          states += (localCount + height) * ((second[i] ?? 0) + 1);
          height = floor;
          break;
        case OP.CALL:
          height = heightAfter(typeOfFunction(this.#module, first[i] ?? 0), floor, height);
          break;
        case OP.CALL_INDIRECT:
          height = heightAfter(this.#module.types[first[i] ?? 0], floor, height);
          break;
        case OP.BR:
        case OP.RETURN:
        case OP.UNREACHABLE:
        case OP.RETURN_CALL:
        case OP.RETURN_CALL_INDIRECT:
          height = floor;
          break;
        case OP.GLOBAL_GET:
          if (this.#module.globals[first[i] ?? 0]?.isMutable === false) shareable++;
          break;
        default:
          if (opcode >= SIMD) hasV128 = true;
      }
      if (height > heightMax) heightMax = height;
    }
    this.#bound(body, states);
    this.#record(body, hasV128, { values: localCount, operands: heightMax, shared: Math.ceil(shareable / 2) });
  }

  #record(
    body: number,
    hasV128: boolean,
    { values, operands, shared }: { readonly values: number; readonly operands: number; readonly shared: number },
  ): void {
    const wordsPerValue = hasV128 ? 2 : 1;
    const frames = this.#frames;
    if (hasV128) frames.hasV128 = true;
    frames.valueWords[body] = wordsPerValue * values;
    frames.operandWords[body] = wordsPerValue * operands;
    frames.sharedWords[body] = wordsPerValue * shared;
  }

  /** Keeps the operands that a block takes and leaves, and those that belong to the blocks around it. */
  #setOperands(nesting: number, blockType: number, floor: number, height: number): void {
    const type = this.#module.types[blockType];
    const params = blockType < 0 ? 0 : (type?.params.length ?? 0);
    this.#floor[nesting] = Math.max(floor, height - params);
    this.#params[nesting] = params;
    this.#results[nesting] = blockType < 0 ? (blockType === BLOCK_TYPE_EMPTY ? 0 : 1) : (type?.results.length ?? 0);
  }

  #bound(body: number, states: number): void {
    this.#states += states;
    const isFunction = states > STATES_MAX.function;
    if (!isFunction && this.#states <= STATES_MAX.module) return;
    const where = isFunction ? describeFunction(this.#module, this.#module.importedFunctionCount + body) : 'the module';
    const max = isFunction ? STATES_MAX.function : STATES_MAX.module;
    throw refusal(
      'wasm-limit',
      `${where} is too complex to compile: locals and operands, counted at each block, branch and store, are more than ${max}`,
    );
  }
}

/** Returns the number of operands behind a call. */
function heightAfter(type: FunctionType | undefined, floor: number, height: number): number {
  return Math.max(floor, height - (type?.params.length ?? 0)) + (type?.results.length ?? 0);
}
