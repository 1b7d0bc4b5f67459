/** Writes calls, which hand on the remaining stack and the fuel, and what a body takes of the stack. */
import { numberAt } from '../../kernel/index.ts';
import { OP, typeOfFunction, VALUE_TYPE, type WasmModule } from '../wasm/index.ts';
import type { BodyOutput } from './body-output.ts';
import type { FunctionTypes } from './function-types.ts';
import type { StoreCoverage } from './journal/store-coverage.ts';
import type { CallGraph } from './metering/call-graph.ts';

interface CallContext {
  readonly module: WasmModule;
  readonly graph: CallGraph;
  readonly types: FunctionTypes;
  /** Returns the index to call or refer to for a module's function: that of the adapter for an import. */
  readonly callable: (functionIndex: number) => number;
  readonly withDepth: boolean;
}

export class CallWriter {
  readonly #output: BodyOutput;
  readonly #coverage: StoreCoverage;
  readonly #context: CallContext;
  readonly #module: WasmModule;
  readonly #overflow: readonly number[];

  /** @param overflow Code for a frame that does not fit. */
  constructor(output: BodyOutput, coverage: StoreCoverage, context: CallContext, overflow: readonly number[]) {
    this.#output = output;
    this.#coverage = coverage;
    this.#context = context;
    this.#module = context.module;
    this.#overflow = overflow;
  }

  /** Emits a direct call; returns true if the path ends there. */
  call(opcode: number, body: number, functionIndex: number): boolean {
    const { params, results } = typeOfFunction(this.#module, functionIndex);
    const output = this.#output;
    const out = output.bytes;
    this.#passStack(opcode === OP.RETURN_CALL, body);
    output.get(output.fuel);
    out.byte(opcode);
    out.unsigned(this.#context.callable(functionIndex));
    this.#coverage.pop(params.length);
    this.#coverage.pushUnknown(results.length);
    this.#coverage.globalsChange();
    if (opcode === OP.CALL) output.set(output.fuel);
    return opcode !== OP.CALL;
  }

  /** Emits a call through a table; returns true if the path ends there. */
  callIndirect(opcode: number, body: number, typeIndex: number, table: number): boolean {
    const type = this.#module.types[typeIndex];
    const output = this.#output;
    const out = output.bytes;
    const is64 = this.#module.tables[table]?.is64 === true;
    // The table index is on top; stack and fuel belong below it.
    const index = is64 ? output.temporary('index', VALUE_TYPE.i64) : output.temporary('index', VALUE_TYPE.i32);
    output.set(index);
    this.#passStack(opcode === OP.RETURN_CALL_INDIRECT, body);
    output.get(output.fuel);
    output.get(index);
    out.byte(opcode);
    out.unsigned(this.#context.types.widened(typeIndex));
    out.unsigned(table);
    this.#coverage.pop(1 + (type?.params.length ?? 0));
    this.#coverage.pushUnknown(type?.results.length ?? 0);
    this.#coverage.globalsChange();
    if (opcode === OP.CALL_INDIRECT) output.set(output.fuel);
    return opcode !== OP.CALL_INDIRECT;
  }

  /** Emits the remaining stack, for a callee; a tail call returns what this frame took. */
  #passStack(isTailCall: boolean, body: number): void {
    const output = this.#output;
    output.get(output.stack);
    const weight = this.#weight(body);
    if (!isTailCall || weight === 0) return;
    output.bytes.byte(OP.I32_CONST);
    output.bytes.signed(weight);
    output.bytes.byte(OP.I32_ADD);
  }

  /** Returns the bytes that the body subtracts from the remaining stack. */
  #weight(body: number): number {
    const { graph, withDepth } = this.#context;
    return withDepth && graph.takesStack[body] === 1 ? numberAt(graph.frameBytes, body, 'frame of body') : 0;
  }

  /**
   * Emits code that subtracts the frame and, in functions that test, checks that the untested frames below it fit, too.
   */
  takeStack(body: number): void {
    const weight = this.#weight(body);
    if (weight === 0) return;
    const output = this.#output;
    const out = output.bytes;
    output.get(output.stack);
    out.byte(OP.I32_CONST);
    out.signed(weight);
    out.byte(OP.I32_SUB);
    const { testsStack, untestedStackBytes } = this.#context.graph;
    if (testsStack[body] === 0) {
      output.set(output.stack);
      return;
    }
    output.tee(output.stack);
    out.byte(OP.I32_CONST);
    out.signed(numberAt(untestedStackBytes, body, 'stack of body'));
    out.byte(OP.I32_LT_S);
    output.unlikelyIf();
    out.put(this.#overflow);
    out.byte(OP.END);
  }
}
