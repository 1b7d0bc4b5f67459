/**
 * One canister's live wasm: an instance of its instrumented module on its heap, and the journal that makes each message
 * all or nothing.
 *
 *     begin → run (and system calls: touch, charge) → deltas? dirtyPages? → commit or rollback
 *
 * Whatever a message did, `rollback` takes it back. Wasm itself cannot undo two things, for which a fresh instance is
 * made: growth of the memory (another memory of the old size gets the old bytes) and dropped data segments. The latter
 * also after a commit, because every message of a canister begins with the module's segments.
 *
 * Memories come from the thread's pool and return to it; see heap-pool.ts. For the pool, and for the budget that all
 * actors share (memory-budget.ts), each memory has a tally of the pages that were touched: heap-tally.ts.
 *
 * Executor thread, and the module worker for an instance that is thrown away. Touches its heap, its control memory, and
 * the thread's pool.
 */
import { numberAt } from '../../../kernel/index.ts';
import { type Ic0Imports, type InstrumentedCode } from '../wire/instrumented-code.ts';
import {
  ALL_PAGES,
  CONTROL,
  IMPORT,
  IMPORT_MODULE,
  type InstrumentedExports,
  type ModuleLayout,
  SLOT_BYTES,
  SPILL_BYTES,
} from '../../instrument/abi/index.ts';
import { copyBytes, PAGE_BYTES, PageEntries, type PageSink, NO_BYTES } from '../../bytes/index.ts';
import { WASM_PAGE_BYTES } from '../../ic/index.ts';
import { CHUNK_PAGES, release, type StoredPages } from '../../storage/index.ts';
import type { ControlMemory } from '../memory/control-memory.ts';
import type { PageSet } from '../memory/page-set.ts';
import { type Fault, faultOf, OutOfInstructions, toldFault } from './fault.ts';
import type { BoundInstance, HeapPool, HeapShape, SpareHeap } from '../memory/heap-pool.ts';
import { dataPagesOf, HeapTally, PAGE } from '../memory/heap-tally.ts';
import { OutOfMemory } from '../memory/memory-budget.ts';
import { copyBytesInPieces, inOneGo, type Pieces, orUndone } from '../memory/pieces.ts';
import { type PackedHeap, pagesOf, readPacked } from '../memory/packed-memory.ts';

const CANDID_TEXT_BYTES_MAX = 1024 * 1024;

export class Instance {
  readonly code: InstrumentedCode;
  #imports: Ic0Imports;
  #control: ControlMemory;
  #memory: WebAssembly.Memory;
  #heap: Uint8Array;
  /** View of `#heap` in words, made when dirty pages were last compared. */
  #words: Int32Array = NO_WORDS;
  #wasm: InstrumentedExports;
  /** The same entry points for messages that can be suspended; undefined: no such message has run yet. */
  #promising: PromisingExports | undefined = undefined;
  /** Code to run next: an entry point, or CALLBACK and a function of the table with its environment. */
  #entry = CALLBACK;
  #fun = 0;
  #env: number | bigint = 0;
  /** From this 4 KiB page on, the heap is all zeros. */
  #freshPage: number;
  #tally: HeapTally;
  readonly #heaps: HeapPool | undefined;
  /** True if another instance was or is on this memory: it must not go to the pool. */
  #wasShared = false;
  #isInMessage = false;
  #instructionLimit = 0;
  #isExhausted = false;
  #bytesAtBegin = 0;
  /** Pages taken for the first content. */
  #takenAtFirst = 0;

  private constructor(
    code: InstrumentedCode,
    imports: Ic0Imports,
    control: ControlMemory,
    heap: WebAssembly.Memory,
    tally: HeapTally,
    heaps?: HeapPool,
    bound?: BoundInstance,
  ) {
    this.code = code;
    this.#imports = imports;
    this.#control = control;
    this.#memory = heap;
    this.#heap = new Uint8Array(heap.buffer);
    this.#freshPage = this.#heap.length / PAGE_BYTES;
    this.#tally = tally;
    this.#heaps = heaps;
    this.#wasm = this.#reusable(bound) ?? this.#instantiate();
    tally.owner = this;
  }

  /**
   * Makes an instance as new, on a heap of zeros, of which `pagesUsed` pages of 4 KiB are about to be used. Throws
   * OutOfMemory if there is no room now (`EngineRuntime.roomFor` waits for it), and RangeError.
   */
  static #onZeros(
    code: InstrumentedCode,
    imports: Ic0Imports,
    control: ControlMemory,
    pages: number,
    pagesUsed: number,
    heaps: HeapPool | undefined,
  ): Instance {
    const { budget } = control.message;
    const { memory, tally, bound } = zeros(code, pages, heaps);
    const wanted = tally.marks === undefined ? tally.uncounted : Math.max(0, pagesUsed - tally.counted);
    if (!budget.take(wanted)) {
      heaps?.give({ ...shapeOf(code.layout, pages), memory, tally, bound });
      budget.refused();
      throw new OutOfMemory(budget.explain(`there is no room for a heap of ${pages * WASM_PAGE_BYTES} bytes now`));
    }
    const globals = globalsAtFirst.get(code);
    let instance: Instance;
    try {
      instance = new Instance(code, imports, control, memory, tally, heaps, globals && bound);
    } catch (error) {
      budget.free(wanted);
      heaps?.give({ ...shapeOf(code.layout, pages), memory, tally, bound: undefined });
      throw error;
    }
    if (globals !== undefined) instance.loadGlobals(globals);
    else if (heaps !== undefined) globalsAtFirst.set(code, instance.saveGlobals());
    instance.#freshPage = 0;
    instance.#takenAtFirst = wanted;
    return instance;
  }

  /** Counts the pages of the first content, now that it is in place. */
  #placed(): this {
    this.#tally.settle(this.#control.message.budget, this.#takenAtFirst);
    return this;
  }

  /**
   * Makes an instance on a new heap with the module's data in it. The start function has not run: run entry `start`.
   */
  static create(code: InstrumentedCode, imports: Ic0Imports, control: ControlMemory, heaps?: HeapPool): Instance {
    const { data, heapPagesInitial } = code.layout;
    const dataPages = dataPagesOf(code.layout);
    const instance = Instance.#onZeros(code, imports, control, heapPagesInitial, dataPages, heaps);
    for (const { offset, bytes } of data) {
      instance.#heap.set(bytes, offset);
      instance.#use(Math.floor(offset / PAGE_BYTES), Math.ceil((offset + bytes.length) / PAGE_BYTES));
    }
    return instance.#placed();
  }

  /**
   * Makes an instance on the memory of another one, for an upgrade that keeps the heap: neither gives the memory to the
   * pool.
   */
  static onSameHeap(code: InstrumentedCode, imports: Ic0Imports, control: ControlMemory, other: Instance): Instance {
    const instance = new Instance(code, imports, control, other.#memory, other.#tally, other.#heaps);
    // The journal that the new instance continues was begun with this value.
    instance.#freshPage = other.#freshPage;
    instance.#wasShared = other.#wasShared = true;
    return instance;
  }

  /** Makes an instance on a copy of an existing heap. Throws as `create` does; `pagesOfCopy` have room then. */
  static *onCopy(
    code: InstrumentedCode,
    imports: Ic0Imports,
    control: ControlMemory,
    heap: Uint8Array,
    heaps?: HeapPool,
  ): Generator<void, Instance, void> {
    const pages = Math.max(code.layout.heapPagesInitial, heap.length / WASM_PAGE_BYTES);
    const used = heap.length / PAGE_BYTES;
    const instance = Instance.#onZeros(code, imports, control, pages, used, heaps);
    instance.#use(0, used);
    const to = (): Uint8Array => instance.#heap;
    const copying = copyBytesInPieces(heap.length, () => heap, to);
    yield* orUndone(copying, () => instance.#placed().release());
    return instance.#placed();
  }

  /**
   * Makes an instance on a heap of `heapBytes` with these pages in it, zeros elsewhere; pauses between chunks, and lets
   * go of the pages' buffers. Returns the reason if a page lies beyond the heap. Throws RangeError if there is no room.
   */
  static *onPages(
    code: InstrumentedCode,
    imports: Ic0Imports,
    control: ControlMemory,
    heapBytes: number,
    { numbers, chunks }: StoredPages,
    heaps?: HeapPool,
  ): Generator<void, Instance | string, void> {
    const pages = heapBytes / PAGE_BYTES;
    const last = numbers.at(-1) ?? -1;
    if (last >= pages) return `page ${last} lies beyond the heap of ${heapBytes} bytes`;
    const instance = Instance.#onZeros(code, imports, control, heapBytes / WASM_PAGE_BYTES, numbers.length, heaps);
    for (const [k, chunk] of chunks.entries()) {
      if (k > 0) yield;
      const begin = k * CHUNK_PAGES;
      const chunkEnd = Math.min(numbers.length, begin + CHUNK_PAGES);
      for (let at = begin; at < chunkEnd;) {
        // Neighbouring pages are copied at once.
        const first = numberAt(numbers, at, 'stored page');
        let end = at + 1;
        while (end < chunkEnd && numbers[end] === first + end - at) end++;
        instance.#heap.set(chunk.subarray((at - begin) * PAGE_BYTES, (end - begin) * PAGE_BYTES), first * PAGE_BYTES);
        instance.#use(first, first + end - at);
        at = end;
      }
      release(chunk);
    }
    return instance.#placed();
  }

  /**
   * Makes an instance on a heap of `heapBytes`, unpacked from `template` and `changes`. Throws RangeError if there is
   * no room for it.
   */
  static onPacked(
    code: InstrumentedCode,
    imports: Ic0Imports,
    control: ControlMemory,
    heapBytes: number,
    { template, changes }: PackedHeap,
    heaps?: HeapPool,
  ): Instance {
    const used = template.numbers.length + pagesOf(changes);
    const instance = Instance.#onZeros(code, imports, control, heapBytes / WASM_PAGE_BYTES, used, heaps);
    const heap = instance.#heap;
    template.runs((first, bytes) => {
      heap.set(bytes, first * PAGE_BYTES);
      instance.#use(first, first + bytes.length / PAGE_BYTES);
    });
    readPacked(changes, (page, offset, bytes) => {
      copyBytes(bytes, 0, heap, page * PAGE_BYTES + offset, bytes.length);
      instance.#use(page, page + 1);
    });
    return instance.#placed();
  }

  /** Notes that pages from `first` up to `end` are not all zeros any more. */
  #use(first: number, end: number): void {
    this.#tally.use(first, end);
    if (end > this.#freshPage) this.#freshPage = end;
  }

  #instantiate(): InstrumentedExports {
    const instance = new WebAssembly.Instance(this.code.module, {
      ic0: this.#imports,
      [IMPORT_MODULE]: {
        [IMPORT.MEMORY]: this.#memory,
        [IMPORT.CONTROL]: this.#control.memory,
        [IMPORT.YIELD]: this.#control.yieldImport,
        [IMPORT.ROOM]: this.#control.roomImport,
      },
    });
    return instance.exports as unknown as InstrumentedExports;
  }

  /** Moves, between messages, to another control memory and the system API that goes with it. */
  moveTo(imports: Ic0Imports, control: ControlMemory): void {
    if (this.#control === control) return;
    if (this.#isInMessage) throw new Error('an instance is to leave the journal of its own message');
    const globals = this.saveGlobals();
    this.#imports = imports;
    this.#control = control;
    this.#useExports(this.#instantiate());
    this.loadGlobals(globals);
  }

  isOn(control: ControlMemory): boolean {
    return this.#control === control;
  }

  #useExports(wasm: InstrumentedExports): void {
    this.#wasm = wasm;
    this.#promising = undefined;
  }

  /** Size of the heap in bytes. */
  get heapBytes(): number {
    return this.heap().length;
  }

  /** The heap, as it is now; do not keep it beyond a call that may grow memory. */
  heap(): Uint8Array {
    const heap = this.#heap;
    if (heap.length !== 0) return heap;
    return (this.#heap = new Uint8Array(this.#memory.buffer));
  }

  /**
   * Ends the instance and gives its heap to the pool. Must not be called within the instance's message. Later calls by
   * a holder of the instance throw TypeError; they never see what the next canister has put on the heap.
   */
  release(): void {
    if (this.#heap === NO_BYTES) return;
    if (this.#tally.owner === this) this.#free(this.#wasm, !this.#isInMessage);
    this.#heap = NO_BYTES;
    this.#words = NO_WORDS;
    this.#memory = this.#wasm = this.#promising = undefined as never;
    this.#imports = this.#control = undefined as never;
  }

  /** Index of an entry point such as `canister_update inc` or `start`, or undefined. */
  entry(name: string): number | undefined {
    const index = this.code.layout.entries.indexOf(name);
    return index < 0 ? undefined : index;
  }

  /** Starts a message with a number of instructions. One message at a time per control memory. */
  begin(instructionLimit: number): void {
    this.#instructionLimit = instructionLimit;
    this.#isExhausted = false;
    this.#bytesAtBegin = this.heap().length;
    const touchLimit = this.#control.message.begin(this.#tally, this.code.layout.heapPagesMax);
    this.#control.begin(instructionLimit, this.#freshPage, touchLimit);
    this.#isInMessage = true;
  }

  /** Says that the host is about to write `length` bytes at `address`, which must lie in the heap. */
  touch(address: number, length: number): void {
    this.#control.touch(this.#wasm.touch_range, address, length);
  }

  /** Charges a system call for `instructions`; throws OutOfInstructions if fewer are left. */
  charge(instructions: number): void {
    if (this.#control.charge(instructions) < 0) throw new OutOfInstructions();
  }

  /** Size of the heap when the message began. */
  get bytesBefore(): number {
    return this.#bytesAtBegin;
  }

  /** State of each page of 4 KiB, one of PAGE; undefined: the heap is too large for that. */
  get marks(): Uint8Array | undefined {
    return this.#tally.marks;
  }

  /** Pages of 4 KiB that the budget counts for the heap. */
  get countedPages(): number {
    return this.#tally.counted;
  }

  /**
   * Pages of 4 KiB that may hold something other than zeros, except for pages that the message in progress was first to
   * touch.
   */
  get usedPages(): number {
    return this.#tally.marks === undefined ? Math.max(this.#freshPage, this.touchedPages) : this.#tally.counted;
  }

  /** Pages of 4 KiB that `image` reads, if called between messages. */
  get imagePages(): number {
    const { marks } = this.#tally;
    if (marks === undefined) return this.#freshPage;
    return marks.reduce((count, mark) => count + Number(mark === PAGE.USED), 0);
  }

  /** Number of 4 KiB pages that the message has touched. */
  get touchedPages(): number {
    return this.#control.touchedCount;
  }

  /** The control memory on which its messages run. */
  get control(): ControlMemory {
    return this.#control;
  }

  /** Runs an entry point within the message, in one go. */
  run(entry: number): Fault | undefined {
    return this.calling(entry).runToEnd();
  }

  /** Runs a function of the table within the message, in one go; a type that does not fit is a trap. */
  runCallback(fun: number, env: number | bigint): Fault | undefined {
    return this.callingBack(fun, env).runToEnd();
  }

  /** Says which entry point `runToEnd` or `runSuspendable` runs next. */
  calling(entry: number): this {
    this.#entry = entry;
    return this;
  }

  /** Says which function of the table `runToEnd` or `runSuspendable` runs next. */
  callingBack(fun: number, env: number | bigint): this {
    this.#entry = CALLBACK;
    this.#fun = fun;
    this.#env = env;
    return this;
  }

  /** Runs the code that `calling` or `callingBack` has named, on this thread's own stack. */
  runToEnd(): Fault | undefined {
    if (this.#control.message.stoppedAfter !== undefined) return this.#stopAgain();
    const { invoke, callback } = this.#wasm;
    try {
      if (this.#entry !== CALLBACK) invoke(this.#entry);
      else if (callback === undefined || !this.#isInTable) return this.#noCallback;
      else callback(this.#fun, this.#env);
      return undefined;
    } catch (error) {
      return this.#fault(error);
    }
  }

  /** Does the same as `runToEnd` on a stack of its own, which `svc.yield` of the control memory may suspend. */
  async runSuspendable(): Promise<Fault | undefined> {
    if (this.#control.message.stoppedAfter !== undefined) return this.#stopAgain();
    const { invoke, callback } = (this.#promising ??= promisingExports(this.#wasm));
    try {
      if (this.#entry !== CALLBACK) await invoke(this.#entry);
      else if (callback === undefined || !this.#isInTable) return this.#noCallback;
      else await callback(this.#fun, this.#env);
      return undefined;
    } catch (error) {
      return this.#fault(error);
    }
  }

  /** True if the function that `callingBack` has named is in the table. */
  get #isInTable(): boolean {
    return this.#fun < this.code.layout.tableLength;
  }

  /**
   * Fault of a function that is not in the table. One-way calls name such functions on purpose: nobody wants their
   * answers.
   */
  get #noCallback(): Fault {
    const message = `Canister requested to invoke a non-existent Wasm function ${this.#fun} from table 0`;
    return { kind: 'noCallback', message };
  }

  #fault(error: unknown): Fault {
    this.#wasm.settle();
    const fault = faultOf(error, this.#control.stop);
    if (fault.kind === 'limit') this.#isExhausted = true;
    return toldFault(fault, error, this.#control.message.faulted(this.instructionsUsed()));
  }

  /** Ends the message as in its first execution, when there was no memory left for it. */
  #stopAgain(): Fault {
    const { message } = this.#control;
    this.#control.charge(message.stoppedAfter ?? 0);
    return { kind: 'trap', message: 'the message had no memory left when it was first executed' };
  }

  /**
   * Returns the instructions used since `begin`, at most the limit. Exact inside system calls and after a normal
   * return; after a trap in the module's own code up to a slice (2^20) less than the truth, but the same on every run.
   */
  instructionsUsed(): number {
    if (this.#isExhausted) return this.#instructionLimit;
    return Math.min(this.#instructionLimit, this.#instructionLimit - this.#control.instructionsLeft);
  }

  /**
   * Writes the bytes of the heap that the message has changed, as page entries. Must be called before commit or
   * rollback.
   */
  deltas(sink: PageSink): void {
    if (!this.#control.beginDeltas()) return;
    while (this.#control.nextDeltas(this.#wasm.delta, sink));
  }

  /** Does the same as `deltas` in pieces: other work may run between two of them. */
  *deltasInPieces(sink: PageSink): Pieces {
    if (!this.#control.beginDeltas()) return;
    while (this.#control.nextDeltas(this.#wasm.delta, sink)) yield;
  }

  /** Writes the whole heap as page entries: every page that is not all zeros. */
  *image(sink: PageSink, pausePages = IMAGE_PAGES): Pieces {
    const heap = this.heap();
    const end = Math.min(this.#freshPage, heap.length / PAGE_BYTES);
    const entries = new PageEntries(sink, Math.min(end, pausePages));
    // Reading a page for the first time costs a page fault, even if the page is empty.
    const marks = this.#isInMessage ? undefined : this.#tally.marks;
    for (let page = 0; page < end; page++) {
      if (marks === undefined || marks[page] === PAGE.USED) entries.addWhole(page, heap, page * PAGE_BYTES);
      if (page % pausePages === pausePages - 1) yield;
    }
    entries.end();
  }

  /** Adds the pages that `dirtyPages` names to both sets. Must be called before commit or rollback. */
  markDirtyPages(first: PageSet, second: PageSet): void {
    this.#markDirty(first, second, this.#control.touchedPages(), 0);
  }

  /** Does the same as `markDirtyPages`, in pieces. */
  *markDirtyPagesInPieces(first: PageSet, second: PageSet): Pieces {
    let slots = 0;
    for (let at = 0; at < this.touchedPages; at += MARKED_PAGES) {
      if (at > 0) yield;
      slots = this.#markDirty(first, second, this.#control.touchedPages().subarray(at, at + MARKED_PAGES), slots);
    }
  }

  /**
   * Marks the `touched` pages. `slots` is the number of pre-images of all pages before them; returns that number with
   * these pages included.
   */
  #markDirty(first: PageSet, second: PageSet, touched: Int32Array, slots: number): number {
    let slot = slots;
    for (const page of touched) {
      const preImage = page < this.#freshPage ? CONTROL.PRE_IMAGES + slot++ * SLOT_BYTES + PAGE_BYTES : undefined;
      first.add(page);
      second.add(page);
      // Pages that are in both sets already need no comparison: most messages change pages that others have changed
      // before.
      if ((first.has(page + 1) && second.has(page + 1)) || !this.#spilled((page + 1) * PAGE_BYTES, preImage)) continue;
      first.add(page + 1);
      second.add(page + 1);
    }
    return slot;
  }

  /**
   * Returns the 4 KiB pages that may differ from the message's beginning, ascending. Must be called before commit or
   * rollback.
   */
  dirtyPages(): Uint32Array {
    const touched = this.#control.touchedPages();
    const dirty = new Set<number>(touched);
    let slot = 0;
    for (const page of touched) {
      const preImage = page < this.#freshPage ? CONTROL.PRE_IMAGES + slot++ * SLOT_BYTES + PAGE_BYTES : undefined;
      if (!dirty.has(page + 1) && this.#spilled((page + 1) * PAGE_BYTES, preImage)) dirty.add(page + 1);
    }
    return Uint32Array.from(dirty).sort();
  }

  /**
   * Returns true if a store across a page's end changed the beginning of the next page; `preImage` undefined: it was
   * zeros.
   */
  #spilled(at: number, preImage: number | undefined): boolean {
    const heap = this.heap();
    if (at >= heap.length) return false;
    // Growing detaches the buffer and thereby empties the words; the words are dropped with a buffer that is replaced.
    if (this.#words.length * WORD_BYTES !== heap.length) this.#words = new Int32Array(heap.buffer);
    const words = this.#words;
    const first = at / WORD_BYTES;
    if (preImage === undefined) {
      for (let k = 0; k < SPILL_WORDS; k++) if (words[first + k] !== 0) return true;
      return false;
    }
    const before = this.#control.words();
    const second = preImage / WORD_BYTES;
    for (let k = 0; k < SPILL_WORDS; k++) if (words[first + k] !== before[second + k]) return true;
    return false;
  }

  /**
   * Returns the dirty pages' content as the message has made it, by page number. Must be called before commit or
   * rollback.
   */
  dirtyContents(): Map<number, Uint8Array> {
    const heap = this.heap();
    const contents = new Map<number, Uint8Array>();
    for (const page of this.dirtyPages()) contents.set(page, heap.slice(page * PAGE_BYTES, (page + 1) * PAGE_BYTES));
    return contents;
  }

  /**
   * Returns the dirty pages' content as it was when the message began, by page number. Must be called before commit or
   * rollback.
   */
  preImages(): Map<number, Uint8Array> {
    const heap = this.heap();
    const contents = new Map<number, Uint8Array>();
    const touched = this.#control.touchedPages();
    let slot = touched.reduce((count, page) => count + (page < this.#freshPage ? 1 : 0), 0);
    // Latest first, as `undo` does it: where pre-images overlap, the earlier one is right.
    for (const page of touched.toReversed()) {
      const isSaved = page < this.#freshPage;
      const place = CONTROL.PRE_IMAGES + (isSaved ? --slot : 0) * SLOT_BYTES;
      contents.set(page, isSaved ? this.#control.bytes(place, PAGE_BYTES).slice() : new Uint8Array(PAGE_BYTES));
      const next = (page + 1) * PAGE_BYTES;
      const preImage = isSaved ? place + PAGE_BYTES : undefined;
      if (next >= heap.length) continue;
      if (!contents.has(page + 1)) {
        if (!this.#spilled(next, preImage)) continue;
        contents.set(page + 1, heap.slice(next, next + PAGE_BYTES));
      }
      const behind = contents.get(page + 1);
      if (preImage === undefined) behind?.fill(0, 0, SPILL_BYTES);
      else behind?.set(this.#control.bytes(preImage, SPILL_BYTES));
    }
    return contents;
  }

  /** Begins a message's work with other pages and globals; the message counts them as its changes. */
  layOver(pages: ReadonlyMap<number, Uint8Array>, globals: Uint8Array): Fault | undefined {
    try {
      for (const [page, bytes] of pages) {
        this.touch(page * PAGE_BYTES, bytes.length);
        this.heap().set(bytes, page * PAGE_BYTES);
      }
    } catch (error) {
      if (error instanceof RangeError) return { kind: 'trap', message: `the heap cannot be grown: ${error.message}` };
      return this.#fault(error);
    }
    this.keepGlobals();
    this.loadGlobals(globals);
    return undefined;
  }

  /** Grows the heap within a message; pauses while there is no memory. Throws RangeError if it cannot grow. */
  *growingTo(heapBytes: number): Pieces {
    const pages = (heapBytes - this.heapBytes) / WASM_PAGE_BYTES;
    if (pages <= 0) return;
    const { message } = this.#control;
    if (!(yield* message.growing(pages)))
      throw new OutOfMemory(message.budget.explain(`there is no room for ${pages} pages of 64 KiB`));
    const grow = this.#memory.grow.bind(this.#memory) as (delta: number | bigint) => unknown;
    try {
      grow(this.code.layout.pointerWidth === 64 ? BigInt(pages) : pages);
    } catch (error) {
      message.notGrown();
      throw error;
    }
  }

  /** Saves the globals once per message, so that a rollback restores them even after the host has changed them. */
  keepGlobals(): void {
    if (this.#control.areGlobalsSaved) return;
    this.#wasm.save_globals(CONTROL.GLOBALS);
    this.#control.setGlobalsSaved();
  }

  /**
   * Continues the message that another instance on the same heap has begun: its journal stays, the instructions are
   * new.
   */
  resume(instructionLimit: number): void {
    this.#instructionLimit = instructionLimit;
    this.#isExhausted = false;
    this.#bytesAtBegin = this.heap().length;
    this.#control.refuel(instructionLimit);
    this.#control.message.resume(this.#tally, this.code.layout.heapPagesMax);
    this.#isInMessage = true;
  }

  /** Keeps the message's changes. */
  commit(): void {
    const needsFreshInstance = this.#control.needsFreshInstance;
    const tally = this.#tally;
    tally.growTo(this.heapBytes);
    // A store may have spilled into the page behind the last one touched.
    const largest = this.#control.seal(tally);
    this.#control.message.settle(tally);
    if (largest + 2 > this.#freshPage) this.#freshPage = Math.min(largest + 2, this.heapBytes / PAGE_BYTES);
    if (needsFreshInstance) this.#freshInstance();
    this.#isInMessage = false;
  }

  /** Undoes the message's changes; never fails. */
  rollback(): void {
    const marks = this.#beginUndo();
    this.#wasm.undo(ALL_PAGES);
    if (this.heapBytes === this.#bytesAtBegin) this.#endUndo();
    else inOneGo(this.#shrink(marks));
  }

  /** Does the same as `rollback` in pieces: other work may run between two of them, but none of the canister's. */
  *rollbackInPieces(): Pieces {
    const marks = this.#beginUndo();
    while (this.touchedPages > UNDONE_PAGES) {
      this.#wasm.undo(UNDONE_PAGES);
      yield;
    }
    this.#wasm.undo(ALL_PAGES);
    if (this.heapBytes === this.#bytesAtBegin) this.#endUndo();
    else yield* this.#shrink(marks);
  }

  /**
   * Prepares an undo. Returns the marks of the heap as it was when the message began, or later; undefined: it was large
   * then.
   */
  #beginUndo(): Uint8Array | undefined {
    const tally = this.#tally;
    tally.owner = this;
    const { marks } = tally;
    tally.growTo(this.heapBytes);
    this.#control.markTouched(tally);
    return tally.marks ?? marks;
  }

  #endUndo(): void {
    this.#control.undone();
    this.#control.message.settle(this.#tally);
    if (this.#control.needsFreshInstance) this.#freshInstance();
    this.#isInMessage = false;
  }

  /**
   * Moves the same state to another heap, which has the size that this one had when the message began. `marks` are from
   * that time, or later; undefined: the heap was large then.
   */
  *#shrink(marks: Uint8Array | undefined): Pieces {
    this.#control.undone();
    this.#control.message.settle(this.#tally, true);
    const wasm = this.#wasm;
    wasm.save_globals(CONTROL.GLOBALS_COPY);
    const { memory, tally, bound } = zeros(this.code, this.#bytesAtBegin / WASM_PAGE_BYTES, this.#heaps);
    const grown = this.heap();
    const heap = new Uint8Array(memory.buffer);
    const pages = Math.min(this.#freshPage, heap.length / PAGE_BYTES);
    for (let page = 0; page < pages;) {
      const end = marks === undefined ? Math.min(page + COPIED_PAGES, pages) : endOfRun(marks, page);
      if (end > page) heap.set(grown.subarray(page * PAGE_BYTES, end * PAGE_BYTES), page * PAGE_BYTES);
      tally.use(page, end);
      page = Math.max(end, page + 1);
      if (marks === undefined) yield;
    }
    // There is room for the new heap: its pages were taken when the heap grew, and nobody used them meanwhile.
    const { message } = this.#control;
    tally.settle(message.budget, message.takeUndo());
    // Undoing may leave bytes of the journal behind the old end, where they have not mattered so far.
    const { marks: grownMarks } = this.#tally;
    for (let page = pages; grownMarks !== undefined && page < grownMarks.length; page++)
      if (!isZeros(grown, page)) this.#tally.use(page, page + 1);
    this.#free(this.#control.needsFreshInstance ? undefined : wasm);
    tally.owner = this;
    this.#tally = tally;
    this.#wasShared = false;
    this.#memory = memory;
    this.#heap = heap;
    this.#words = NO_WORDS;
    this.#useExports(this.#reusable(bound) ?? this.#instantiate());
    this.#wasm.load_globals(CONTROL.GLOBALS_COPY);
    this.#isInMessage = false;
  }

  /** Gives the heap to the pool, if its used pages are known; together with the instance, if that may be used again. */
  #free(wasm: InstrumentedExports | undefined, isPoolable = true): void {
    const tally = this.#tally;
    tally.settle(this.#control.message.budget, 0);
    tally.owner = undefined;
    if (!isPoolable || this.#wasShared || this.#heaps === undefined) {
      this.#heaps?.dropped(tally.counted);
      return;
    }
    const { code } = this;
    const bound = wasm && { code, imports: this.#imports, control: this.#control, wasm };
    const pages = this.heap().length / WASM_PAGE_BYTES;
    this.#heaps.give({ ...shapeOf(code.layout, pages), memory: this.#memory, tally, bound });
  }

  /** Returns the exports of an instance that came with a heap, if this instance can use them. */
  #reusable(bound: BoundInstance | undefined): InstrumentedExports | undefined {
    if (bound?.code !== this.code || bound.imports !== this.#imports || bound.control !== this.#control)
      return undefined;
    return bound.wasm;
  }

  /** Moves the same state to a new instance: tables and segments as the module has them. */
  #freshInstance(): void {
    this.#wasm.save_globals(CONTROL.GLOBALS_COPY);
    this.#useExports(this.#instantiate());
    this.#wasm.load_globals(CONTROL.GLOBALS_COPY);
  }

  /** Returns the mutable globals' bytes as they are now. */
  saveGlobals(): Uint8Array {
    return this.viewGlobals().slice();
  }

  /** Does the same as `saveGlobals` without a copy: the bytes are valid until anything else happens in this thread. */
  viewGlobals(): Uint8Array {
    this.#wasm.save_globals(CONTROL.GLOBALS_COPY);
    return this.#control.bytes(CONTROL.GLOBALS_COPY, this.code.layout.globalsBytes);
  }

  /** Sets the mutable globals to what `saveGlobals` returned for the same module. */
  loadGlobals(bytes: Uint8Array): void {
    const { globalsBytes } = this.code.layout;
    if (bytes.length !== globalsBytes)
      throw new RangeError(`${bytes.length} bytes of globals for a module that has ${globalsBytes}`);
    this.#control.bytes(CONTROL.GLOBALS_COPY, globalsBytes).set(bytes);
    this.#wasm.load_globals(CONTROL.GLOBALS_COPY);
  }

  /**
   * Returns the interface text that `get_candid_pointer` points to, or undefined. Must run on a throw-away instance.
   */
  candidText(instructionLimit: number): string | undefined {
    if (this.#wasm.get_candid_pointer === undefined) return undefined;
    this.begin(instructionLimit);
    try {
      const pointer = this.#wasm.get_candid_pointer();
      const heap = this.heap();
      const end = heap.subarray(pointer, pointer + CANDID_TEXT_BYTES_MAX).indexOf(0);
      return end < 0 ? undefined : new TextDecoder().decode(heap.subarray(pointer, pointer + end));
    } catch {
      return undefined;
    } finally {
      this.rollback();
    }
  }
}

/** The two entries of a module, as functions that return a promise of their end. */
interface PromisingExports {
  readonly invoke: (entry: number) => Promise<void>;
  readonly callback: ((fun: number, env: number | bigint) => Promise<void>) | undefined;
}

function promisingExports({ invoke, callback }: InstrumentedExports): PromisingExports {
  return {
    invoke: WebAssembly.promising(invoke),
    callback: callback === undefined ? undefined : WebAssembly.promising(callback),
  };
}

/** Stands in for an entry point's number. */
const CALLBACK = -1;
/** Pages done between two pauses: a millisecond or two if each of them is a page fault. */
const UNDONE_PAGES = 512;
const COPIED_PAGES = 128;
const MARKED_PAGES = 4096;
const IMAGE_PAGES = 256;
const NO_WORDS: Int32Array = new Int32Array(0);
const WORD_BYTES = 4;
const SPILL_WORDS = SPILL_BYTES / WORD_BYTES;
const ZERO_PAGE = Buffer.alloc(PAGE_BYTES);
/** The mutable globals of new instances, by module. */
const globalsAtFirst = new WeakMap<InstrumentedCode, Uint8Array>();
let heapsMadeSoFar = 0;

/** Number of heaps that this thread has made so far. */
export function heapsMade(): number {
  return heapsMadeSoFar;
}

function shapeOf({ pointerWidth, heapPagesMax }: ModuleLayout, pages: number): HeapShape {
  return { pointerWidth, pages, pagesMax: Math.max(heapPagesMax, pages) };
}

/** Returns a heap of zeros: a spare one, or a new one. */
function zeros(
  code: InstrumentedCode,
  pages: number,
  heaps: HeapPool | undefined,
): Pick<SpareHeap, 'memory' | 'tally' | 'bound'> {
  const shape = shapeOf(code.layout, pages);
  const spare = heaps?.take(shape, code);
  if (spare !== undefined) return spare;
  return { memory: newHeap(shape), tally: new HeapTally(pages * WASM_PAGE_BYTES), bound: undefined };
}

function newHeap({ pointerWidth, pages, pagesMax }: HeapShape): WebAssembly.Memory {
  heapsMadeSoFar++;
  if (pointerWidth === 64)
    return new WebAssembly.Memory({ address: 'i64', initial: BigInt(pages), maximum: BigInt(pagesMax) });
  return new WebAssembly.Memory({ initial: pages, maximum: pagesMax });
}

/** Returns the end of the run of used pages that begins at `page`. */
function endOfRun(marks: Uint8Array, page: number): number {
  let end = page;
  while (marks[end] === PAGE.USED) end++;
  return end;
}

function isZeros(heap: Uint8Array, page: number): boolean {
  return ZERO_PAGE.compare(heap, page * PAGE_BYTES, (page + 1) * PAGE_BYTES) === 0;
}
