/**
 * Writes the page tests before stores (page-tests.ts) that store-coverage.ts asks for, and collects those that move out
 * of a loop (loop-ranges.ts).
 */
import { ByteWriter, OP, SIMD, STORE_BYTES, type ValueType, VALUE_TYPE } from '../../wasm/index.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import type { BodyOutput } from '../body-output.ts';
import type { JournalFunctions } from './journal.ts';
import { emitRange, type Range } from './loop-ranges.ts';
import type { Stride } from './loop-strides.ts';
import { emitIsOnNewPage, emitIsUntouched, emitIsUntouchedOrBeyond, emitPageOf, emitSum } from './page-tests.ts';
import { STORE, type StoreCoverage } from './store-coverage.ts';

/** Largest offset of a tested store: beyond, no store can be in bounds, and a test would only be wrong. */
const OFFSET_MAX = 2 ** 40;

export class StoreTests {
  readonly #output: BodyOutput;
  readonly #coverage: StoreCoverage;
  readonly #journal: JournalFunctions;
  readonly #is64: boolean;
  readonly #addressType: ValueType;
  /** Page tests to be put before the innermost loop, and unlikely branches in the tests. */
  readonly #hoisted = new ByteWriter(256);
  readonly #hoistedHints: number[] = [];

  constructor(output: BodyOutput, coverage: StoreCoverage, journal: JournalFunctions, pointerWidth: 32 | 64) {
    this.#output = output;
    this.#coverage = coverage;
    this.#journal = journal;
    this.#is64 = pointerWidth === 64;
    this.#addressType = this.#is64 ? VALUE_TYPE.i64 : VALUE_TYPE.i32;
  }

  begin(): void {
    this.#hoisted.length = 0;
    this.#hoistedHints.length = 0;
  }

  /**
   * Emits the test of a store, unless none is needed. Returns true if the pages of all its addresses are touched before
   * the loop.
   */
  store(opcode: number, instruction: number, offset: number): boolean {
    const bytes = STORE_BYTES[opcode] ?? 0;
    const coverage = this.#coverage;
    if (offset > OFFSET_MAX) {
      coverage.pop(2);
      return false;
    }
    const decision = coverage.store(bytes, offset, instruction);
    const { stride } = coverage;
    if (stride === undefined) {
      this.#test(decision, opcode, undefined);
      return false;
    }
    const range = coverage.strides.range(coverage.hoistedValue, stride);
    this.#hoist(range);
    const isTested = range !== undefined || (stride.constant === 0 && stride.local === -1);
    if (!isTested) this.#test(decision, opcode, stride);
    return range !== undefined;
  }

  #test(decision: number, opcode: number, stride: Stride | undefined): void {
    const coverage = this.#coverage;
    const output = this.#output;
    switch (decision) {
      case STORE.COVERED:
        return;
      case STORE.TEST_CONSTANT:
        output.bytes.byte(OP.I32_CONST);
        output.bytes.signed(Math.floor(coverage.windowStart / PAGE_BYTES));
        this.#pageTest();
        return;
      case STORE.TEST_LOCAL:
        this.#addressTest(output.local(coverage.baseLocal), stride);
        return;
      default: {
        const type = storedType(opcode);
        const value = output.temporary('value', type);
        const address = output.temporary('address', this.#addressType);
        output.set(value);
        output.tee(address);
        this.#addressTest(address, stride);
        output.get(value);
      }
    }
  }

  /**
   * Emits the test of the window of the address in a local: of its page or, if the address moves by a step, of reaching
   * a new page.
   */
  #addressTest(address: number, stride: Stride | undefined): void {
    const { windowStart } = this.#coverage;
    const output = this.#output;
    output.get(address);
    if (stride === undefined) {
      emitPageOf(output.bytes, this.#is64, windowStart);
      this.#pageTest();
      return;
    }
    const place = stride.local === -1 ? -1 : output.local(stride.local);
    emitIsOnNewPage(output.bytes, this.#is64, windowStart, stride.constant, place);
    output.unlikelyIf();
    output.get(address);
    emitPageOf(output.bytes, this.#is64, windowStart);
    output.call(this.#journal.prepare);
    output.bytes.byte(OP.END);
  }

  /**
   * Puts the page test of the store's first address before the loop, and that of all others if their range is known.
   */
  #hoist(range: Range | undefined): void {
    const { strides, hoistedValue, hoistedConstant } = this.#coverage;
    const output = this.#output;
    const out = this.#hoisted;
    const page = output.temporary('page', VALUE_TYPE.i32);
    strides.emit(out, hoistedValue, this.#is64, (local) => output.local(local));
    const first = range === undefined ? 0 : output.temporary('first', this.#addressType);
    if (range !== undefined) {
      emitSum(out, this.#is64, hoistedConstant);
      out.byte(OP.LOCAL_TEE);
      out.unsigned(first);
    }
    emitPageOf(out, this.#is64, range === undefined ? hoistedConstant : 0);
    emitIsUntouchedOrBeyond(out, this.#is64, page, output.temporary('mark', VALUE_TYPE.i32));
    this.#hoistedHints.push(out.length);
    out.put([OP.IF, 0x40, OP.LOCAL_GET]);
    out.unsigned(page);
    out.byte(OP.CALL);
    out.unsigned(this.#journal.prepare);
    out.byte(OP.END);
    if (range === undefined) return;
    const distance = output.temporary('distance', VALUE_TYPE.i64);
    const mayWrap = output.temporary('mayWrap', VALUE_TYPE.i32);
    const place = (local: number): number => output.local(local);
    const { touchSteps } = this.#journal;
    this.#hoistedHints.push(emitRange(out, range, place, first, distance, mayWrap, touchSteps));
  }

  /** Puts the tests that were collected in a loop before it. */
  insertHoisted(loopStart: number): void {
    if (this.#hoisted.length === 0) return;
    this.#output.insert(loopStart, this.#hoisted, this.#hoistedHints);
    this.begin();
  }

  /** Emits a page test for the page number on the stack. */
  #pageTest(): void {
    const output = this.#output;
    const page = output.temporary('page', VALUE_TYPE.i32);
    const mark = output.temporary('mark', VALUE_TYPE.i32);
    emitIsUntouched(output.bytes, page, mark);
    output.unlikelyIf();
    output.get(page);
    output.get(mark);
    output.bytes.byte(OP.I32_ADD);
    output.call(this.#journal.touch);
    output.bytes.byte(OP.END);
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
