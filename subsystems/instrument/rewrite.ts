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
  ByteWriter,
  decodeBody,
  type InstructionBuffer,
  NESTING_MAX,
  OP,
  POPS,
  PUSHES,
  SIMD,
  STORE_BYTES,
  typeOfFunction,
  type ValueType,
  VALUE_TYPE,
  type WasmModule,
} from '../wasm/index.ts';
import { CONTROL, STOP } from './abi/index.ts';
import { PAGE_BYTES } from '../bytes/index.ts';
import type { ModuleAnalysis } from './analyze/analyze.ts';
import { BLOCK } from './analyze/block-pass.ts';
import { i32, writeI32 } from './assembler.ts';
import type { CallGraph } from './metering/call-graph.ts';
import { emitCharge, emitIsUsedUp, emitRefillCall, type FuelFunctions } from './metering/fuel.ts';
import { type FunctionTypes, THREADED_PARAMS } from './function-types.ts';
import {
  emitIsOnNewPage,
  emitIsUntouched,
  emitIsUntouchedOrBeyond,
  emitPageOf,
  emitSum,
} from './journal/page-tests.ts';
import type { BulkFunctions } from './journal/bulk.ts';
import type { JournalFunctions } from './journal/journal.ts';
import { emitRange, type Range } from './journal/loop-ranges.ts';
import { type Stride, type StridingLoop, steppingLoop } from './journal/loop-strides.ts';
import { STORE, StoreCoverage, type CoverageMark } from './journal/store-coverage.ts';

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
}

const SET_NEEDS_FRESH_INSTANCE = writeI32(CONTROL.NEEDS_FRESH_INSTANCE, i32(1));
/** Largest offset of a tested store: beyond, no store can be in bounds, and a test would only be wrong. */
const OFFSET_MAX = 2 ** 40;
/** Labels that doubling a loop adds around it. */
const DOUBLED_LABELS = 3;
/**
 * Largest number of locals in a function whose loops are written twice: V8 copies the state of all locals at each
 * branch.
 */
const TWICE_LOCALS_MAX = 1000;

/** Passes over a loop that counts, which is written up to three times; the output of the first pass is discarded. */
const PASS = {
  /** Finds out if there are stores whose range is known. If not, the loop is finished. */
  LOOK: 0,
  /** Writes the loop with ranges touched before it. */
  RANGES: 1,
  /** Writes the same loop with tests inside, for ranges that may wrap or are too long. */
  TESTS: 2,
} as const;
/** Number of labels added around the loop, by pass. */
const PASS_LABELS = [0, 2, 1] as const;

/** State to which the walk returns, to write a loop again. */
interface LoopPass {
  kind: (typeof PASS)[keyof typeof PASS];
  ranges: number;
  readonly nesting: number;
  readonly at: number;
  readonly block: number;
  readonly charge: number;
  readonly out: number;
  readonly hints: number;
  readonly coverage: CoverageMark;
}

/** Rewrites bodies, one after the other. Uses `?? 0` for the reason given in block-pass.ts. */
export class BodyRewriter {
  readonly #context: RewriteContext;
  readonly #module: WasmModule;
  readonly #is64: boolean;
  readonly #addressType: ValueType;
  readonly #coverage: StoreCoverage;
  readonly #overflow: readonly number[];
  readonly #out = new ByteWriter(1 << 16);
  /** Places of unlikely branches in `#out`. */
  readonly #hints: number[] = [];
  readonly #blockOpcode = new Uint8Array(NESTING_MAX + 1);
  readonly #blockIndex = new Uint32Array(NESTING_MAX + 1);
  readonly #blockResults = new Uint32Array(NESTING_MAX + 1);
  #nesting = 0;
  /** Nesting of the tight loop that has become two; 0: none. They do not nest. */
  #doubledLoop = 0;
  #pass: LoopPass | undefined;
  /** Facts about the loop that begins. */
  #stepping: StridingLoop | undefined;
  #params = 0;
  #stack = 0;
  #fuel = 0;
  #nextCharge = 0;
  #nextLocal = 0;
  /** Page tests to be put before the innermost loop, the loop's place in `#out`, and unlikely branches in the tests. */
  readonly #hoisted = new ByteWriter(256);
  readonly #hoistedHints: number[] = [];
  #loopStart = 0;
  /** Temporaries in use, by purpose; declared only when used, because V8's baseline compiler clears each at entry. */
  readonly #temporaries = new Map<string, number>();
  readonly #temporaryTypes: ValueType[] = [];

  /** Size of the body that was rewritten last. */
  bodyBytes = 0;

  constructor(context: RewriteContext) {
    this.#context = context;
    this.#module = context.module;
    this.#is64 = context.module.pointerWidth === 64;
    this.#addressType = this.#is64 ? VALUE_TYPE.i64 : VALUE_TYPE.i32;
    this.#coverage = new StoreCoverage(context.analysis.blocks);
    this.#overflow = context.fuel.globals.stopBecause(STOP.STACK_OVERFLOW);
  }

  /** Appends the instrumented body, with its size, to the code section; returns the places of its unlikely branches. */
  rewrite(body: number, buffer: InstructionBuffer, section: ByteWriter): number[] {
    const { module, analysis } = this.#context;
    decodeBody(module, body, buffer);
    const type = typeOfFunction(module, module.importedFunctionCount + body);
    this.#params = type.params.length;
    this.#stack = this.#params;
    this.#fuel = this.#params + 1;
    this.#nextCharge = numberAt(analysis.charges.start, body, 'first charge of body');
    this.#nextLocal = buffer.localCount + THREADED_PARAMS.length;
    this.#temporaries.clear();
    this.#temporaryTypes.length = 0;
    this.#out.length = 0;
    this.#hints.length = 0;
    this.#hoisted.length = 0;
    this.#hoistedHints.length = 0;
    this.#nesting = 0;
    this.#doubledLoop = 0;
    this.#pass = undefined;
    this.#coverage.begin(buffer.localCount, buffer.count);

    this.#takeStack(body);
    this.#out.byte(OP.BLOCK);
    this.#out.put(this.#context.types.blockType(type.results));
    this.#charge();
    if (this.#context.graph.testsFuel[body] === 1) this.#fuelTest();
    this.#instructions(body, buffer);
    this.#out.byte(OP.END);
    this.#get(this.#fuel);
    this.#out.byte(OP.END);
    return this.#append(buffer, section);
  }

  #append(buffer: InstructionBuffer, section: ByteWriter): number[] {
    const head = new ByteWriter(64);
    head.unsigned(buffer.localGroups.length / 2 + this.#temporaryTypes.length);
    for (const number of buffer.localGroups) head.unsigned(number);
    for (const type of this.#temporaryTypes) head.put([1, type]);
    this.bodyBytes = head.length + this.#out.length;
    section.unsigned(this.bodyBytes);
    section.append(head.written());
    section.append(this.#out.written());
    return this.#hints.map((position) => position + head.length);
  }

  // ---- the walk

  #instructions(body: number, buffer: InstructionBuffer): void {
    const out = this.#out;
    const coverage = this.#coverage;
    const { opcode: opcodes, at, first, count } = buffer;
    const bytes = this.#module.bytes;
    let block = numberAt(this.#context.analysis.blocks.start, body, 'first block of body');
    for (let i = 0; i < count - 1; i++) {
      const opcode = opcodes[i] ?? 0;
      const from = at[i] ?? 0;
      const to = at[i + 1] ?? 0;
      switch (opcode) {
        case OP.LOCAL_GET:
        case OP.LOCAL_SET:
        case OP.LOCAL_TEE: {
          const local = first[i] ?? 0;
          out.byte(opcode);
          out.unsigned(this.#local(local));
          if (opcode === OP.LOCAL_GET) coverage.localGet(local);
          else coverage.localSet(local, opcode === OP.LOCAL_TEE);
          break;
        }
        case OP.I32_CONST:
        case OP.I64_CONST:
          out.copy(bytes, from, to);
          coverage.constant(first[i] ?? 0);
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
          out.copy(bytes, from, to);
          coverage.globalGet(first[i] ?? 0);
          break;
        case OP.GLOBAL_SET:
          out.copy(bytes, from, to);
          coverage.pop(1);
          coverage.globalsChange();
          break;
        case OP.I32_WRAP_I64:
        case OP.I64_EXTEND_I32_S:
        case OP.I64_EXTEND_I32_U:
          out.byte(opcode);
          coverage.convert(opcode);
          break;
        case OP.BLOCK:
        case OP.LOOP:
        case OP.IF:
          if (opcode === OP.LOOP) this.#beginPass(i, block, first[i] ?? 0, buffer);
          out.copy(bytes, from, to);
          this.#enter(opcode, block++, first[i] ?? 0, buffer, i);
          break;
        case OP.ELSE:
          out.byte(opcode);
          coverage.enterElse();
          this.#charge();
          break;
        case OP.END:
          out.byte(opcode);
          if (this.#leave()) break;
          // Writes the loop again.
          i = (this.#pass?.at ?? 0) - 1;
          block = this.#pass?.block ?? 0;
          break;
        case OP.BR:
        case OP.BR_IF:
        case OP.BR_TABLE:
          if (this.#doubledLoop === 0 && this.#pass === undefined) out.copy(bytes, from, to);
          else this.#branchPastLabels(opcode, i, buffer);
          this.#branch(opcode, i, buffer);
          break;
        case OP.RETURN:
          this.#get(this.#fuel);
          out.byte(opcode);
          this.#endOfPath();
          break;
        case OP.UNREACHABLE:
          out.byte(opcode);
          this.#endOfPath();
          break;
        case OP.CALL:
        case OP.RETURN_CALL:
          this.#call(opcode, body, first[i] ?? 0);
          break;
        case OP.CALL_INDIRECT:
        case OP.RETURN_CALL_INDIRECT:
          this.#callIndirect(opcode, body, first[i] ?? 0, buffer.second[i] ?? 0);
          break;
        case OP.REF_FUNC:
          out.byte(opcode);
          out.unsigned(this.#context.callable(first[i] ?? 0));
          coverage.pushUnknown(1);
          break;
        case OP.MEMORY_INIT:
        case OP.MEMORY_COPY:
        case OP.MEMORY_FILL:
          this.#bulk(opcode, first[i] ?? 0);
          coverage.pop(3);
          break;
        case OP.MEMORY_GROW:
          out.byte(OP.CALL);
          out.unsigned(this.#context.grow);
          coverage.pop(1);
          coverage.pushUnknown(1);
          break;
        case OP.DATA_DROP:
          out.put(SET_NEEDS_FRESH_INSTANCE);
          out.copy(bytes, from, to);
          break;
        default: {
          const stored = STORE_BYTES[opcode] ?? 0;
          if (stored !== 0) {
            if (this.#context.withJournal) this.#store(opcode, stored, first[i] ?? 0, i);
            out.copy(bytes, from, to);
          } else {
            out.copy(bytes, from, to);
            coverage.pop(POPS[opcode] ?? 0);
            coverage.pushUnknown(PUSHES[opcode] ?? 0);
          }
        }
      }
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
      const hasRanges = this.#pass !== undefined && this.#pass.kind !== PASS.TESTS;
      coverage.enterLoop(block, params, this.#stepping, hasRanges);
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
      this.#insertHoisted();
      this.#coverage.endLoop(results);
      if (this.#pass?.nesting === n && !this.#endPass(this.#pass)) return false;
    } else this.#coverage.endIf(results);
    if ((this.#context.analysis.blocks.flags.at(this.#blockIndex[n] ?? 0) & BLOCK.LEFT) !== 0) this.#charge();
    return true;
  }

  // ---- loops written twice (loop-ranges.ts)

  /** Begins a loop, perhaps not for the first time. */
  #beginPass(at: number, block: number, blockType: number, buffer: InstructionBuffer): void {
    const out = this.#out;
    const pass = this.#pass;
    this.#stepping = this.#context.withJournal ? steppingLoop(buffer, at) : undefined;
    const isCounted = this.#stepping?.bound !== undefined;
    const params = this.#module.types[blockType]?.params.length ?? 0;
    if (pass?.kind === PASS.RANGES) {
      out.byte(OP.BLOCK);
      out.copy(this.#module.bytes, (buffer.at[at] ?? 0) + 1, buffer.at[at + 1] ?? 0);
      out.put([OP.BLOCK, 0x40]);
    } else if (pass === undefined && isCounted && params === 0 && buffer.localCount <= TWICE_LOCALS_MAX) {
      this.#pass = {
        kind: PASS.LOOK,
        ranges: 0,
        nesting: this.#nesting + 1,
        at,
        block,
        charge: this.#nextCharge,
        out: out.length,
        hints: this.#hints.length,
        coverage: this.#coverage.mark(),
      };
    }
    this.#loopStart = out.length;
  }

  /** Ends a pass over a loop. Returns true if the loop is complete. */
  #endPass(pass: LoopPass): boolean {
    const out = this.#out;
    if (pass.kind === PASS.TESTS) out.byte(OP.END);
    if (pass.kind === PASS.TESTS || pass.ranges === 0) {
      this.#pass = undefined;
      return true;
    }
    if (pass.kind === PASS.LOOK) {
      out.length = pass.out;
      this.#hints.length = pass.hints;
      pass.kind = PASS.RANGES;
    } else {
      out.put([OP.BR, 1, OP.END]);
      pass.kind = PASS.TESTS;
    }
    this.#nextCharge = pass.charge;
    this.#coverage.goBack(pass.coverage);
    return false;
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

  // ---- calls

  #call(opcode: number, body: number, functionIndex: number): void {
    const { params, results } = typeOfFunction(this.#module, functionIndex);
    const out = this.#out;
    this.#passStack(opcode === OP.RETURN_CALL, body);
    this.#get(this.#fuel);
    out.byte(opcode);
    out.unsigned(this.#context.callable(functionIndex));
    this.#coverage.pop(params.length);
    this.#coverage.pushUnknown(results.length);
    this.#coverage.globalsChange();
    if (opcode === OP.CALL) this.#set(this.#fuel);
    else this.#endOfPath();
  }

  #callIndirect(opcode: number, body: number, typeIndex: number, table: number): void {
    const type = this.#module.types[typeIndex];
    const out = this.#out;
    const is64 = this.#module.tables[table]?.is64 === true;
    // The table index is on top; stack and fuel belong below it.
    const index = is64 ? this.#temporary('index', VALUE_TYPE.i64) : this.#temporary('index', VALUE_TYPE.i32);
    this.#set(index);
    this.#passStack(opcode === OP.RETURN_CALL_INDIRECT, body);
    this.#get(this.#fuel);
    this.#get(index);
    out.byte(opcode);
    out.unsigned(this.#context.types.widened(typeIndex));
    out.unsigned(table);
    this.#coverage.pop(1 + (type?.params.length ?? 0));
    this.#coverage.pushUnknown(type?.results.length ?? 0);
    this.#coverage.globalsChange();
    if (opcode === OP.CALL_INDIRECT) this.#set(this.#fuel);
    else this.#endOfPath();
  }

  /** Emits the remaining stack, for a callee; a tail call returns what this frame took. */
  #passStack(isTailCall: boolean, body: number): void {
    this.#get(this.#stack);
    const weight = this.#weight(body);
    if (!isTailCall || weight === 0) return;
    this.#out.byte(OP.I32_CONST);
    this.#out.signed(weight);
    this.#out.byte(OP.I32_ADD);
  }

  /** Returns the bytes that the body subtracts from the remaining stack. */
  #weight(body: number): number {
    const { graph, withDepth } = this.#context;
    return withDepth && graph.takesStack[body] === 1 ? numberAt(graph.frameBytes, body, 'frame of body') : 0;
  }

  /**
   * Emits code that subtracts the frame and, in functions that test, checks that the untested frames below it fit, too.
   */
  #takeStack(body: number): void {
    const weight = this.#weight(body);
    if (weight === 0) return;
    const out = this.#out;
    this.#get(this.#stack);
    out.byte(OP.I32_CONST);
    out.signed(weight);
    out.byte(OP.I32_SUB);
    const { testsStack, untestedStackBytes } = this.#context.graph;
    if (testsStack[body] === 0) {
      this.#set(this.#stack);
      return;
    }
    this.#tee(this.#stack);
    out.byte(OP.I32_CONST);
    out.signed(numberAt(untestedStackBytes, body, 'stack of body'));
    out.byte(OP.I32_LT_S);
    this.#unlikelyIf();
    out.put(this.#overflow);
    out.byte(OP.END);
  }

  // ---- fuel

  /** Emits the next charge point of the analysis. */
  #charge(): void {
    const cost = this.#context.analysis.charges.costs.at(this.#nextCharge++);
    if (cost > 0) emitCharge(this.#out, this.#fuel, cost);
  }

  #fuelTest(): void {
    emitIsUsedUp(this.#out, this.#fuel);
    this.#unlikelyIf();
    emitRefillCall(this.#out, this.#fuel, this.#context.fuel.refill);
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
    emitIsUsedUp(out, this.#fuel);
    this.#hints.push(out.length);
    out.byte(OP.BR_IF);
    out.byte(1);
    this.#charge();
    this.#doubledLoop = nesting;
  }

  /** Ends a doubled loop: behind the inner loop, either leaves the outer one, or refills and repeats. */
  #endDoubledLoop(): void {
    const out = this.#out;
    out.put([OP.BR, 2, OP.END]);
    emitRefillCall(out, this.#fuel, this.#context.fuel.refill);
    out.put([OP.BR, 0, OP.END, OP.UNREACHABLE, OP.END]);
    this.#doubledLoop = 0;
  }

  /**
   * Emits a branch. Labels beyond a loop inside added labels are further away; the loop's own label is the inner
   * loop's.
   */
  #branchPastLabels(opcode: number, i: number, { first, second, labels }: InstructionBuffer): void {
    const out = this.#out;
    const loop = this.#pass?.nesting ?? this.#doubledLoop;
    const added = (this.#doubledLoop === 0 ? 0 : DOUBLED_LABELS) + PASS_LABELS[this.#pass?.kind ?? PASS.LOOK];
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

  // ---- journal

  #store(opcode: number, bytes: number, offset: number, instruction: number): void {
    const coverage = this.#coverage;
    if (offset > OFFSET_MAX) {
      coverage.pop(2);
      return;
    }
    const decision = coverage.store(bytes, offset, instruction);
    const { stride } = coverage;
    if (stride !== undefined) {
      const range = coverage.strides.range(coverage.hoistedValue, stride);
      if (range !== undefined && this.#pass !== undefined) this.#pass.ranges++;
      this.#hoist(range);
      if (range !== undefined || (stride.constant === 0 && stride.local === -1)) return;
    }
    switch (decision) {
      case STORE.COVERED:
        return;
      case STORE.TEST_CONSTANT:
        this.#out.byte(OP.I32_CONST);
        this.#out.signed(Math.floor(coverage.windowStart / PAGE_BYTES));
        this.#pageTest();
        return;
      case STORE.TEST_LOCAL:
        this.#addressTest(this.#local(coverage.baseLocal), stride);
        return;
      default: {
        const type = storedType(opcode);
        const value = this.#temporary('value', type);
        const address = this.#temporary('address', this.#addressType);
        this.#set(value);
        this.#tee(address);
        this.#addressTest(address, stride);
        this.#get(value);
      }
    }
  }

  /**
   * Emits the test of the window of the address in a local: of its page or, if the address moves by a step, of reaching
   * a new page.
   */
  #addressTest(address: number, stride: Stride | undefined): void {
    const { windowStart } = this.#coverage;
    this.#get(address);
    if (stride === undefined) {
      emitPageOf(this.#out, this.#is64, windowStart);
      this.#pageTest();
      return;
    }
    const place = stride.local === -1 ? -1 : this.#local(stride.local);
    emitIsOnNewPage(this.#out, this.#is64, windowStart, stride.constant, place);
    this.#unlikelyIf();
    this.#get(address);
    emitPageOf(this.#out, this.#is64, windowStart);
    this.#out.byte(OP.CALL);
    this.#out.unsigned(this.#context.journal.prepare);
    this.#out.byte(OP.END);
  }

  /**
   * Puts the page test of the store's first address before the loop, and that of all others if their range is known.
   */
  #hoist(range: Range | undefined): void {
    const { strides, hoistedValue, hoistedConstant } = this.#coverage;
    const out = this.#hoisted;
    const page = this.#temporary('page', VALUE_TYPE.i32);
    strides.emit(out, hoistedValue, this.#is64, (local) => this.#local(local));
    const first = range === undefined ? 0 : this.#temporary('first', this.#addressType);
    if (range !== undefined) {
      emitSum(out, this.#is64, hoistedConstant);
      out.byte(OP.LOCAL_TEE);
      out.unsigned(first);
    }
    emitPageOf(out, this.#is64, range === undefined ? hoistedConstant : 0);
    emitIsUntouchedOrBeyond(out, this.#is64, page, this.#temporary('mark', VALUE_TYPE.i32));
    this.#hoistedHints.push(out.length);
    out.put([OP.IF, 0x40, OP.LOCAL_GET]);
    out.unsigned(page);
    out.byte(OP.CALL);
    out.unsigned(this.#context.journal.prepare);
    out.byte(OP.END);
    if (range === undefined) return;
    const distance = this.#temporary('distance', VALUE_TYPE.i64);
    const mayWrap = this.#temporary('mayWrap', VALUE_TYPE.i32);
    const place = (local: number): number => this.#local(local);
    const { touchSteps } = this.#context.journal;
    this.#hoistedHints.push(emitRange(out, range, place, first, distance, mayWrap, touchSteps));
  }

  #insertHoisted(): void {
    const { length } = this.#hoisted;
    if (length === 0) return;
    const out = this.#out;
    const start = this.#loopStart;
    out.reserve(length);
    out.bytes.copyWithin(start + length, start, out.length);
    out.bytes.set(this.#hoisted.written(), start);
    out.length += length;
    let first = this.#hints.length;
    while (first > 0 && (this.#hints[first - 1] ?? 0) >= start) first--;
    const behind = this.#hints.splice(first);
    for (const hint of this.#hoistedHints) this.#hints.push(start + hint);
    for (const hint of behind) this.#hints.push(hint + length);
    this.#hoisted.length = 0;
    this.#hoistedHints.length = 0;
  }

  /** Emits a page test for the page number on the stack. */
  #pageTest(): void {
    const page = this.#temporary('page', VALUE_TYPE.i32);
    const mark = this.#temporary('mark', VALUE_TYPE.i32);
    emitIsUntouched(this.#out, page, mark);
    this.#unlikelyIf();
    this.#get(page);
    this.#get(mark);
    this.#out.byte(OP.I32_ADD);
    this.#out.byte(OP.CALL);
    this.#out.unsigned(this.#context.journal.touch);
    this.#out.byte(OP.END);
  }

  /** Emits a call of the function that replaces memory.init, copy or fill (bulk.ts). */
  #bulk(opcode: number, segment: number): void {
    const { bulk } = this.#context;
    this.#get(this.#fuel);
    this.#out.byte(OP.CALL);
    this.#out.unsigned(
      opcode === OP.MEMORY_INIT ? bulk.init(segment) : opcode === OP.MEMORY_COPY ? bulk.copy : bulk.fill,
    );
    this.#set(this.#fuel);
  }

  // ---- helpers

  #unlikelyIf(): void {
    this.#hints.push(this.#out.length);
    this.#out.byte(OP.IF);
    this.#out.byte(0x40);
  }

  /** Returns the place of the module's local, which is shifted by our parameters unless it is a parameter. */
  #local(local: number): number {
    return local < this.#params ? local : local + THREADED_PARAMS.length;
  }

  #temporary(purpose: string, type: ValueType): number {
    const key = purpose + type;
    const known = this.#temporaries.get(key);
    if (known !== undefined) return known;
    this.#temporaries.set(key, this.#nextLocal);
    this.#temporaryTypes.push(type);
    return this.#nextLocal++;
  }

  #get(local: number): void {
    this.#out.byte(OP.LOCAL_GET);
    this.#out.unsigned(local);
  }
  #set(local: number): void {
    this.#out.byte(OP.LOCAL_SET);
    this.#out.unsigned(local);
  }
  #tee(local: number): void {
    this.#out.byte(OP.LOCAL_TEE);
    this.#out.unsigned(local);
  }
}

/** Returns the type of the value that a store takes. */
function storedType(opcode: number): ValueType {
  if (opcode >= SIMD) return VALUE_TYPE.v128;
  switch (opcode) {
    case OP.I64_STORE:
    case 0x3c:
    case 0x3d:
    case OP.I64_STORE32:
      return VALUE_TYPE.i64;
    case OP.F32_STORE:
      return VALUE_TYPE.f32;
    case OP.F64_STORE:
      return VALUE_TYPE.f64;
    default:
      return VALUE_TYPE.i32;
  }
}
