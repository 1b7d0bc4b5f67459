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

  constructor({ pointerWidth }: WasmModule, blocks: ModuleBlocks, charges: ModuleCharges) {
    this.#blocks = blocks;
    this.#charges = charges;
    this.#costs = instructionCosts(pointerWidth);
    this.#paths = new ChargePaths(charges.costs);
  }

  run(body: number, { opcode: opcodes, first, second, labels, count }: InstructionBuffer): void {
    const { costs: charges, start } = this.#charges;
    const { flags, start: blockStart } = this.#blocks;
    const costs = this.#costs;
    const paths = this.#paths;
    let block = numberAt(blockStart, body, 'first block of body');
    let nesting = 0;
    let charge = charges.length;
    charges.push(FUNCTION_ENTRY_COST);
    paths.begin();
    this.#opcode[0] = OP.BLOCK;
    const open = (): void => {
      charge = charges.length;
      charges.push(0);
    };
    const isLost = (label: number): boolean => label <= 0 || this.#opcode[label] === OP.LOOP;
    for (let i = 0; i < count; i++) {
      const opcode = opcodes[i] ?? 0;
      charges.values[charge] = (charges.values[charge] ?? 0) + (costs[opcode] ?? 0);
      switch (opcode) {
        case OP.BLOCK:
        case OP.LOOP:
        case OP.IF: {
          const before = charge;
          nesting++;
          this.#block[nesting] = block++;
          this.#before[nesting] = before;
          this.#opcode[nesting] = opcode;
          paths.enter(nesting);
          if (opcode === OP.BLOCK) break;
          open();
          if (opcode === OP.LOOP) paths.loop();
          else paths.firstArm(nesting, before);
          break;
        }
        case OP.ELSE: {
          const last = charge;
          open();
          paths.secondArm(nesting, this.#before[nesting] ?? 0, last);
          break;
        }
        case OP.END: {
          if (nesting === 0) break;
          const label = nesting--;
          const before = this.#before[label] ?? 0;
          const known = flags.at(this.#block[label] ?? 0);
          if ((known & BLOCK.LEFT) !== 0) {
            const last = charge;
            open();
            const skips = this.#opcode[label] === OP.IF && (known & BLOCK.HAS_ELSE) === 0;
            paths.joins(label, last, skips ? before : undefined);
          } else {
            paths.continues(label, charge === before);
            charge = before;
          }
          break;
        }
        case OP.BR: {
          const label = nesting - (first[i] ?? 0);
          const before = charge;
          open();
          paths.branch(label, isLost(label), before, undefined);
          paths.ends();
          break;
        }
        case OP.BR_IF: {
          const label = nesting - (first[i] ?? 0);
          const before = charge;
          open();
          paths.branchIf(label, isLost(label), before);
          break;
        }
        case OP.BR_TABLE: {
          const split = paths.table(charge);
          const from = first[i] ?? 0;
          for (let k = from; k <= from + (second[i] ?? 0); k++) {
            const label = nesting - (labels[k] ?? 0);
            paths.branch(label, isLost(label), charge, split);
          }
          open();
          paths.ends();
          break;
        }
        case OP.RETURN:
        case OP.UNREACHABLE:
          open();
          paths.ends();
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
          open();
          paths.ends();
          break;
        default:
      }
    }
    paths.move();
    start[body + 1] = charges.length;
  }
}
