/** Finds the functions that bodies call and refer to, and the bodies' costs: the input of call-graph.ts. */
import { type InstructionBuffer, OP, type WasmModule } from '../../wasm/index.ts';
import { FUNCTION_ENTRY_COST, instructionCosts, systemCallOverhead } from '../metering/cost-table.ts';
import { Uint32List } from './number-list.ts';

export class ModuleCalls {
  /** Sum of all costs of each body, an upper bound of the cost between two tests of the fuel. */
  readonly cost: Float64Array;
  /** Number of calls through a table in each body. */
  readonly indirect: Uint32Array;
  /** Bodies called directly: the callees of body `f` are `callees[start[f] … start[f + 1] − 1]`. */
  readonly start: Uint32Array;
  readonly callees = new Uint32List();
  /** Functions to which the code takes a reference. */
  readonly referenced = new Set<number>();

  constructor(bodies: number) {
    this.cost = new Float64Array(bodies);
    this.indirect = new Uint32Array(bodies);
    this.start = new Uint32Array(bodies + 1);
  }
}

/** Collects calls and costs of each body. Uses `?? 0` for the reason given in block-pass.ts. */
export class CallPass {
  readonly #calls: ModuleCalls;
  readonly #imported: number;
  readonly #costs: Uint16Array;
  readonly #importCosts: readonly number[];

  constructor({ pointerWidth, imports, importedFunctionCount }: WasmModule, calls: ModuleCalls) {
    this.#calls = calls;
    this.#imported = importedFunctionCount;
    this.#costs = instructionCosts(pointerWidth);
    this.#importCosts = imports.map(({ name }) => systemCallOverhead(name));
  }

  run(body: number, { opcode: opcodes, first, count }: InstructionBuffer): void {
    const { cost, indirect, start, callees, referenced } = this.#calls;
    const costs = this.#costs;
    const imported = this.#imported;
    let total = FUNCTION_ENTRY_COST;
    let indirectCalls = 0;
    for (let i = 0; i < count; i++) {
      const opcode = opcodes[i] ?? 0;
      total += costs[opcode] ?? 0;
      switch (opcode) {
        case OP.CALL:
        case OP.RETURN_CALL: {
          const callee = first[i] ?? 0;
          if (callee >= imported) callees.push(callee - imported);
          else total += this.#importCosts[callee] ?? 0;
          break;
        }
        case OP.CALL_INDIRECT:
        case OP.RETURN_CALL_INDIRECT:
          indirectCalls++;
          break;
        case OP.REF_FUNC:
          referenced.add(first[i] ?? 0);
          break;
        default:
      }
    }
    cost[body] = total;
    indirect[body] = indirectCalls;
    start[body + 1] = callees.length;
  }
}
