/**
 * Finds the places where fuel is charged, and the amounts. Fuel is subtracted where control flow can diverge: at a
 * function's entry, in a loop, in the arms of an `if`, behind a branch. Each such point pays for all the code that
 * certainly follows. If no branch jumps out of a block (past its own end: the block is not *left*), execution that
 * reaches the block's beginning also reaches its `end`, so the code behind it is paid for before the block. A completed
 * path pays exactly the sum of its instructions. A charge that can wait until control flow has split does so
 * (charge-paths.ts).
 */
import { numberAt } from '../../../kernel/index.ts';
import { type InstructionBuffer, NESTING_MAX, OP, type WasmModule } from '../../wasm/index.ts';
import { ChargePaths } from '../metering/charge-paths.ts';
import { FUNCTION_ENTRY_COST, instructionCosts } from '../metering/cost-table.ts';
import { BLOCK, type ModuleBlocks } from './block-pass.ts';
import { Uint32List } from './number-list.ts';

/** Costs of all charge points of a module, in the order in which the rewriter reaches them. */
export class ModuleCharges {
  /** The charge points of body `f` are `start[f] … start[f + 1] − 1`. */
  readonly start: Uint32Array;
  readonly costs = new Uint32List();

  constructor(bodies: number) {
    this.start = new Uint32Array(bodies + 1);
  }
}

/** Runs after the block pass. Uses `?? 0` for the reason given there. */
export class ChargePass {
  readonly #blocks: ModuleBlocks;
  readonly #charges: ModuleCharges;
  readonly #costs: Uint16Array;
  readonly #paths: ChargePaths;
  // Open blocks by nesting; index 0 is the function itself.
  readonly #block = new Uint32Array(NESTING_MAX + 1);
  /** The charge point before the block. */
  readonly #before = new Uint32Array(NESTING_MAX + 1);
  readonly #opcode = new Uint8Array(NESTING_MAX + 1);
  #nesting = 0;
  #nextBlock = 0;
  /** The open charge point. */
  #charge = 0;

  constructor({ pointerWidth }: WasmModule, blocks: ModuleBlocks, charges: ModuleCharges) {
    this.#blocks = blocks;
    this.#charges = charges;
    this.#costs = instructionCosts(pointerWidth);
    this.#paths = new ChargePaths(charges.costs);
  }

  run(body: number, buffer: InstructionBuffer): void {
    const { opcode: opcodes, first, second, count } = buffer;
    const { costs: charges, start } = this.#charges;
    const costs = this.#costs;
    const paths = this.#paths;
    this.#nextBlock = numberAt(this.#blocks.start, body, 'first block of body');
    this.#nesting = 0;
    this.#charge = charges.length;
    charges.push(FUNCTION_ENTRY_COST);
    paths.begin();
    this.#opcode[0] = OP.BLOCK;
    for (let i = 0; i < count; i++) {
      const opcode = opcodes[i] ?? 0;
      charges.values[this.#charge] = (charges.values[this.#charge] ?? 0) + (costs[opcode] ?? 0);
      switch (opcode) {
        case OP.BLOCK:
        case OP.LOOP:
        case OP.IF:
          this.#enter(opcode);
          break;
        case OP.ELSE:
          paths.secondArm(this.#nesting, this.#before[this.#nesting] ?? 0, this.#open());
          break;
        case OP.END:
          if (this.#nesting > 0) this.#leave();
          break;
        case OP.BR:
          this.#branch(this.#nesting - (first[i] ?? 0));
          break;
        case OP.BR_IF:
          this.#branchIf(this.#nesting - (first[i] ?? 0));
          break;
        case OP.BR_TABLE:
          this.#branchTable(first[i] ?? 0, second[i] ?? 0, buffer);
          break;
        case OP.RETURN:
        case OP.UNREACHABLE:
          this.#endPath();
          break;
        case OP.CALL:
        case OP.CALL_INDIRECT:
        case OP.MEMORY_GROW:
        case OP.MEMORY_INIT:
        case OP.MEMORY_COPY:
        case OP.MEMORY_FILL:
          paths.calls();
          break;
        case OP.RETURN_CALL:
        case OP.RETURN_CALL_INDIRECT:
          paths.calls();
          this.#endPath();
          break;
        default:
      }
    }
    paths.move();
    start[body + 1] = charges.length;
  }

  /** Begins a charge point, and returns the one before it. */
  #open(): number {
    const before = this.#charge;
    this.#charge = this.#charges.costs.length;
    this.#charges.costs.push(0);
    return before;
  }

  #enter(opcode: number): void {
    const paths = this.#paths;
    const n = ++this.#nesting;
    this.#block[n] = this.#nextBlock++;
    this.#before[n] = this.#charge;
    this.#opcode[n] = opcode;
    paths.enter(n);
    if (opcode === OP.BLOCK) return;
    const before = this.#open();
    if (opcode === OP.LOOP) paths.loop();
    else paths.firstArm(n, before);
  }

  /** Closes the innermost block; if no branch leaves it, the code behind is paid for before the block. */
  #leave(): void {
    const label = this.#nesting--;
    const before = this.#before[label] ?? 0;
    const known = this.#blocks.flags.at(this.#block[label] ?? 0);
    if ((known & BLOCK.LEFT) === 0) {
      this.#paths.continues(label, this.#charge === before);
      this.#charge = before;
      return;
    }
    const skips = this.#opcode[label] === OP.IF && (known & BLOCK.HAS_ELSE) === 0;
    this.#paths.joins(label, this.#open(), skips ? before : undefined);
  }

  #branch(label: number): void {
    this.#paths.branch(label, this.#isLost(label), this.#open(), undefined);
    this.#paths.ends();
  }

  #branchIf(label: number): void {
    this.#paths.branchIf(label, this.#isLost(label), this.#open());
  }

  #branchTable(from: number, count: number, { labels }: InstructionBuffer): void {
    const split = this.#paths.table(this.#charge);
    for (let k = from; k <= from + count; k++) {
      const label = this.#nesting - (labels[k] ?? 0);
      this.#paths.branch(label, this.#isLost(label), this.#charge, split);
    }
    this.#endPath();
  }

  #endPath(): void {
    this.#open();
    this.#paths.ends();
  }

  /** Returns true if a charge cannot wait until the label: it is that of a loop or of the function. */
  #isLost(label: number): boolean {
    return label <= 0 || this.#opcode[label] === OP.LOOP;
  }
}
