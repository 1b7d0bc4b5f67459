/**
 * Second pass: turns one function body into the instrumented body.
 *
 *     (func $f (param … $stack i32 $fuel i64) (result … i64)
 *       [stack, in functions that can recurse or reach one that can]
 *       block (result …)                     ;; so that a branch out of the function still returns the fuel
 *         [charge] [fuel test]
 *         the body, with
 *           charge points and fuel tests     (fuel.ts, places from analyze.ts)
 *           page tests before stores         (page-tests.ts, which ones from store-coverage.ts)
 *           $stack and $fuel passed to calls, $fuel taken back
 *       end
 *       local.get $fuel)
 *
 * Injected tests are hardly ever true: their `if`s are listed as unlikely in the section metadata.code.branch_hint,
 * which gained more than any other measure.
 */
import { numberAt } from '../../kernel/index.ts';
import {
  BLOCK_TYPE_EMPTY,
  type ByteWriter,
  decodeBody,
  type InstructionBuffer,
  NESTING_MAX,
  OP,
  POPS,
  PUSHES,
  STORE_BYTES,
  typeOfFunction,
  type WasmModule,
} from '../wasm/index.ts';
import { CONTROL, STOP } from './abi/index.ts';
import type { ModuleAnalysis } from './analyze/analyze.ts';
import { BLOCK } from './analyze/block-pass.ts';
import { i32, writeI32 } from './assembler.ts';
import { BodyOutput } from './body-output.ts';
import { CallWriter } from './call-writer.ts';
import type { CallGraph } from './metering/call-graph.ts';
import { emitCharge, emitIsUsedUp, emitRefillCall, type FuelFunctions } from './metering/fuel.ts';
import type { FunctionTypes } from './function-types.ts';
import type { BulkFunctions } from './journal/bulk.ts';
import type { JournalFunctions } from './journal/journal.ts';
import { type StridingLoop, steppingLoop } from './journal/loop-strides.ts';
import { StoreCoverage } from './journal/store-coverage.ts';
import { StoreTests } from './journal/store-tests.ts';
import { LoopPasses } from './loop-passes.ts';

/** Facts about the module and the added functions that rewriting a body needs. */
interface RewriteContext {
  readonly module: WasmModule;
  readonly analysis: ModuleAnalysis;
  readonly graph: CallGraph;
  readonly types: FunctionTypes;
  readonly fuel: FuelFunctions;
  readonly journal: JournalFunctions;
  readonly bulk: BulkFunctions;
  /** (delta) -> old size or −1, both in addresses' type: replaces `memory.grow`. */
  readonly grow: number;
  /** Returns the index to call or refer to for a module's function: that of the adapter for an import. */
  readonly callable: (functionIndex: number) => number;
  readonly withJournal: boolean;
  readonly withDepth: boolean;
  /** True: a message out of instructions ends at the charge that was too much, and not at one of the next. */
  readonly testsEachCharge: boolean;
}

const SET_NEEDS_FRESH_INSTANCE = writeI32(CONTROL.NEEDS_FRESH_INSTANCE, i32(1));
/** Labels that doubling a loop adds around it. */
const DOUBLED_LABELS = 3;
/**
 * Largest number of locals in a function whose loops are written twice: V8 copies the state of all locals at each
 * branch.
 */
const TWICE_LOCALS_MAX = 1000;

/** Rewrites bodies, one after the other. Uses `?? 0` for the reason given in block-pass.ts. */
export class BodyRewriter {
  readonly #context: RewriteContext;
  readonly #module: WasmModule;
  readonly #coverage: StoreCoverage;
  readonly #output = new BodyOutput();
  readonly #out = this.#output.bytes;
  readonly #stores: StoreTests;
  readonly #calls: CallWriter;
  readonly #passes: LoopPasses;
  readonly #blockOpcode = new Uint8Array(NESTING_MAX + 1);
  readonly #blockIndex = new Uint32Array(NESTING_MAX + 1);
  readonly #blockResults = new Uint32Array(NESTING_MAX + 1);
  #nesting = 0;
  /** Nesting of the tight loop that has become two; 0: none. They do not nest. */
  #doubledLoop = 0;
  /** Facts about the loop that begins. */
  #stepping: StridingLoop | undefined;
  #nextCharge = 0;
  /** Place of the innermost loop in `#out`. */
  #loopStart = 0;

  /** Size of the body that was rewritten last. */
  bodyBytes = 0;

  constructor(context: RewriteContext) {
    this.#context = context;
    this.#module = context.module;
    this.#coverage = new StoreCoverage(context.analysis.blocks);
    const overflow = context.fuel.globals.stopBecause(STOP.STACK_OVERFLOW);
    this.#stores = new StoreTests(this.#output, this.#coverage, context.journal, context.module.pointerWidth);
    this.#calls = new CallWriter(this.#output, this.#coverage, context, overflow);
    this.#passes = new LoopPasses(this.#output, this.#coverage);
  }

  /** Appends the instrumented body, with its size, to the code section; returns the places of its unlikely branches. */
  rewrite(body: number, buffer: InstructionBuffer, section: ByteWriter): number[] {
    const { module, analysis } = this.#context;
    decodeBody(module, body, buffer);
    const type = typeOfFunction(module, module.importedFunctionCount + body);
    this.#output.begin(type.params.length, buffer.localCount);
    this.#stores.begin();
    this.#passes.reset();
    this.#nextCharge = numberAt(analysis.charges.start, body, 'first charge of body');
    this.#nesting = 0;
    this.#doubledLoop = 0;
    this.#coverage.begin(buffer.localCount, buffer.count);

    this.#calls.takeStack(body);
    this.#out.byte(OP.BLOCK);
    this.#out.put(this.#context.types.blockType(type.results));
    this.#charge();
    if (this.#context.graph.testsFuel[body] === 1) this.#fuelTest();
    this.#instructions(body, buffer);
    this.#out.byte(OP.END);
    this.#output.get(this.#output.fuel);
    this.#out.byte(OP.END);
    return this.#append(buffer, section);
  }

  #append(buffer: InstructionBuffer, section: ByteWriter): number[] {
    const head = this.#output.head(buffer);
    this.bodyBytes = head.length + this.#out.length;
    section.unsigned(this.bodyBytes);
    section.append(head.written());
    section.append(this.#out.written());
    return this.#output.hints.map((position) => position + head.length);
  }

  // ---- the walk

  #instructions(body: number, buffer: InstructionBuffer): void {
    const out = this.#out;
    const { opcode: opcodes, at, first, second, count } = buffer;
    const bytes = this.#module.bytes;
    let block = numberAt(this.#context.analysis.blocks.start, body, 'first block of body');
    for (let i = 0; i < count - 1; i++) {
      const opcode = opcodes[i] ?? 0;
      switch (opcode) {
        case OP.BLOCK:
        case OP.LOOP:
        case OP.IF:
          if (opcode === OP.LOOP) this.#beginPass(i, block, first[i] ?? 0, buffer);
          out.copy(bytes, at[i] ?? 0, at[i + 1] ?? 0);
          this.#enter(opcode, block++, first[i] ?? 0, buffer, i);
          break;
        case OP.ELSE:
          out.byte(opcode);
          this.#coverage.enterElse();
          this.#charge();
          break;
        case OP.END:
          out.byte(opcode);
          if (this.#leave()) break;
          // Writes the loop again.
          i = (this.#passes.loop?.at ?? 0) - 1;
          block = this.#passes.loop?.block ?? 0;
          break;
        case OP.BR:
        case OP.BR_IF:
        case OP.BR_TABLE:
          if (this.#doubledLoop === 0 && this.#passes.loop === undefined) out.copy(bytes, at[i] ?? 0, at[i + 1] ?? 0);
          else this.#branchPastLabels(opcode, i, buffer);
          this.#branch(opcode, i, buffer);
          break;
        case OP.RETURN:
          this.#output.get(this.#output.fuel);
          out.byte(opcode);
          this.#endOfPath();
          break;
        case OP.UNREACHABLE:
          out.byte(opcode);
          this.#endOfPath();
          break;
        case OP.CALL:
        case OP.RETURN_CALL:
          if (this.#calls.call(opcode, body, first[i] ?? 0)) this.#endOfPath();
          else this.#testSystemCall(first[i] ?? 0);
          break;
        case OP.CALL_INDIRECT:
        case OP.RETURN_CALL_INDIRECT:
          if (this.#calls.callIndirect(opcode, body, first[i] ?? 0, second[i] ?? 0)) this.#endOfPath();
          break;
        default:
          this.#operation(opcode, i, buffer);
      }
    }
  }

  /** Writes an instruction behind which the next one is executed, unless it traps. */
  #operation(opcode: number, i: number, { at, first }: InstructionBuffer): void {
    const out = this.#out;
    const coverage = this.#coverage;
    const argument = first[i] ?? 0;
    const from = at[i] ?? 0;
    const to = at[i + 1] ?? 0;
    switch (opcode) {
      case OP.LOCAL_GET:
      case OP.LOCAL_SET:
      case OP.LOCAL_TEE:
        out.byte(opcode);
        out.unsigned(this.#output.local(argument));
        if (opcode === OP.LOCAL_GET) coverage.localGet(argument);
        else coverage.localSet(argument, opcode === OP.LOCAL_TEE);
        break;
      case OP.I32_CONST:
      case OP.I64_CONST:
        out.copy(this.#module.bytes, from, to);
        coverage.constant(argument);
        break;
      case OP.I32_ADD:
      case OP.I64_ADD:
      case OP.I32_SUB:
      case OP.I64_SUB:
      case OP.I32_MUL:
      case OP.I64_MUL:
      case OP.I32_SHL:
      case OP.I64_SHL:
        out.byte(opcode);
        coverage.binary(opcode);
        break;
      case OP.GLOBAL_GET:
        out.copy(this.#module.bytes, from, to);
        coverage.globalGet(argument);
        break;
      case OP.GLOBAL_SET:
        out.copy(this.#module.bytes, from, to);
        coverage.pop(1);
        coverage.globalsChange();
        break;
      case OP.I32_WRAP_I64:
      case OP.I64_EXTEND_I32_S:
      case OP.I64_EXTEND_I32_U:
        out.byte(opcode);
        coverage.convert(opcode);
        break;
      default:
        if (!this.#replaced(opcode, argument)) {
          const isStore = (STORE_BYTES[opcode] ?? 0) !== 0;
          if (isStore && this.#context.withJournal && this.#stores.store(opcode, i, argument))
            this.#passes.foundRange();
          out.copy(this.#module.bytes, from, to);
          if (isStore) break;
          coverage.pop(POPS[opcode] ?? 0);
          coverage.pushUnknown(PUSHES[opcode] ?? 0);
        }
    }
  }

  /** Writes other code for an instruction, if there has to be other code. */
  #replaced(opcode: number, argument: number): boolean {
    const out = this.#out;
    const coverage = this.#coverage;
    switch (opcode) {
      case OP.REF_FUNC:
        out.byte(opcode);
        out.unsigned(this.#context.callable(argument));
        coverage.pushUnknown(1);
        return true;
      case OP.MEMORY_INIT:
      case OP.MEMORY_COPY:
      case OP.MEMORY_FILL:
        this.#bulk(opcode, argument);
        coverage.pop(3);
        return true;
      case OP.MEMORY_GROW:
        this.#output.call(this.#context.grow);
        coverage.pop(1);
        coverage.pushUnknown(1);
        return true;
      case OP.DATA_DROP:
        out.put(SET_NEEDS_FRESH_INSTANCE);
        return false;
      default:
        return false;
    }
  }

  #enter(opcode: number, block: number, blockType: number, buffer: InstructionBuffer, at: number): void {
    const coverage = this.#coverage;
    const type = this.#module.types[blockType];
    const params = type?.params.length ?? 0;
    const flags = this.#context.analysis.blocks.flags.at(block);
    const n = ++this.#nesting;
    this.#blockOpcode[n] = opcode;
    this.#blockIndex[n] = block;
    this.#blockResults[n] = blockType < 0 ? (blockType === BLOCK_TYPE_EMPTY ? 0 : 1) : (type?.results.length ?? 0);
    if (opcode === OP.BLOCK) {
      coverage.enterBlock(block, params);
      return;
    }
    if (opcode === OP.LOOP) {
      const isTight = (flags & BLOCK.TIGHT_LOOP) !== 0;
      coverage.enterLoop(block, params, this.#stepping, this.#passes.hasRanges);
      if (isTight && params === 0) {
        this.#doubleLoop(n, buffer.at[at] ?? 0, buffer.at[at + 1] ?? 0);
        return;
      }
      this.#charge();
      if ((flags & BLOCK.TESTED_INSIDE) === 0) this.#fuelTest();
      return;
    }
    coverage.pop(1);
    coverage.enterIf(block, params, (flags & BLOCK.HAS_ELSE) !== 0);
    this.#charge();
  }

  /**
   * Closes the innermost block. Returns false if the walk has to return to the beginning of the loop that has ended.
   */
  #leave(): boolean {
    const n = this.#nesting--;
    if (n === this.#doubledLoop) this.#endDoubledLoop();
    const opcode = this.#blockOpcode[n];
    const results = this.#blockResults[n] ?? 0;
    if (opcode === OP.BLOCK) this.#coverage.endBlock(results);
    else if (opcode === OP.LOOP) {
      this.#stores.insertHoisted(this.#loopStart);
      this.#coverage.endLoop(results);
      const loop = this.#passes.loop;
      if (loop?.nesting === n && !this.#passes.end()) {
        this.#nextCharge = loop.charge;
        return false;
      }
    } else this.#coverage.endIf(results);
    if ((this.#context.analysis.blocks.flags.at(this.#blockIndex[n] ?? 0) & BLOCK.LEFT) !== 0) this.#charge();
    return true;
  }

  // ---- loops written twice (loop-ranges.ts)

  /** Begins a loop, perhaps not for the first time. */
  #beginPass(at: number, block: number, blockType: number, buffer: InstructionBuffer): void {
    const out = this.#out;
    const passes = this.#passes;
    this.#stepping = this.#context.withJournal ? steppingLoop(buffer, at) : undefined;
    const isCounted = this.#stepping?.bound !== undefined;
    const params = this.#module.types[blockType]?.params.length ?? 0;
    passes.openBlocks(this.#module.bytes, (buffer.at[at] ?? 0) + 1, buffer.at[at + 1] ?? 0);
    const mayRepeat = isCounted && params === 0 && buffer.localCount <= TWICE_LOCALS_MAX;
    if (mayRepeat && passes.loop === undefined)
      passes.begin({ nesting: this.#nesting + 1, at, block, charge: this.#nextCharge });
    this.#loopStart = out.length;
  }

  #branch(opcode: number, i: number, { first, second, labels }: InstructionBuffer): void {
    const coverage = this.#coverage;
    if (opcode === OP.BR_TABLE) {
      const start = first[i] ?? 0;
      for (let k = start; k <= start + (second[i] ?? 0); k++) coverage.branch(labels[k] ?? 0);
    } else {
      if (opcode === OP.BR_IF) coverage.pop(1);
      coverage.branch(first[i] ?? 0);
    }
    if (opcode !== OP.BR_IF) coverage.endOfPath();
    this.#charge();
  }

  #endOfPath(): void {
    this.#coverage.endOfPath();
    this.#charge();
  }

  // ---- fuel

  /** Emits the next charge point of the analysis. */
  #charge(): void {
    const cost = this.#context.analysis.charges.costs.at(this.#nextCharge++);
    if (cost === 0) return;
    emitCharge(this.#out, this.#output.fuel, cost);
    if (this.#context.testsEachCharge) this.#fuelTest();
  }

  /** A system call was charged for where nothing tests. */
  #testSystemCall(functionIndex: number): void {
    const { module, testsEachCharge } = this.#context;
    if (testsEachCharge && functionIndex < module.importedFunctionCount) this.#fuelTest();
  }

  #fuelTest(): void {
    emitIsUsedUp(this.#out, this.#output.fuel);
    this.#output.unlikelyIf();
    emitRefillCall(this.#out, this.#output.fuel, this.#context.fuel.refill);
    this.#out.byte(OP.END);
  }

  /** Turns a tight loop into two (see fuel.ts): the inner one only tests if the outer one must refill. */
  #doubleLoop(nesting: number, from: number, to: number): void {
    const out = this.#out;
    out.length = this.#loopStart;
    out.byte(OP.BLOCK);
    out.copy(this.#module.bytes, from + 1, to);
    out.put([OP.LOOP, 0x40, OP.BLOCK, 0x40]);
    out.copy(this.#module.bytes, from, to);
    emitIsUsedUp(out, this.#output.fuel);
    this.#output.hints.push(out.length);
    out.byte(OP.BR_IF);
    out.byte(1);
    this.#charge();
    this.#doubledLoop = nesting;
  }

  /** Ends a doubled loop: behind the inner loop, either leaves the outer one, or refills and repeats. */
  #endDoubledLoop(): void {
    const out = this.#out;
    out.put([OP.BR, 2, OP.END]);
    emitRefillCall(out, this.#output.fuel, this.#context.fuel.refill);
    out.put([OP.BR, 0, OP.END, OP.UNREACHABLE, OP.END]);
    this.#doubledLoop = 0;
  }

  /**
   * Emits a branch. Labels beyond a loop inside added labels are further away; the loop's own label is the inner
   * loop's.
   */
  #branchPastLabels(opcode: number, i: number, { first, second, labels }: InstructionBuffer): void {
    const out = this.#out;
    const loop = this.#passes.loop?.nesting ?? this.#doubledLoop;
    const added = (this.#doubledLoop === 0 ? 0 : DOUBLED_LABELS) + this.#passes.addedLabels;
    const shifted = (label: number): number => (label > this.#nesting - loop ? label + added : label);
    out.byte(opcode);
    const start = first[i] ?? 0;
    if (opcode !== OP.BR_TABLE) {
      out.unsigned(shifted(start));
      return;
    }
    const count = second[i] ?? 0;
    out.unsigned(count);
    for (let k = start; k <= start + count; k++) out.unsigned(shifted(labels[k] ?? 0));
  }

  /** Emits a call of the function that replaces memory.init, copy or fill (bulk.ts). */
  #bulk(opcode: number, segment: number): void {
    const { bulk } = this.#context;
    this.#output.get(this.#output.fuel);
    this.#output.call(
      opcode === OP.MEMORY_INIT ? bulk.init(segment) : opcode === OP.MEMORY_COPY ? bulk.copy : bulk.fill,
    );
    this.#output.set(this.#output.fuel);
  }
}
