/**
 * Fuel and journal of the messages that run on one control memory.
 * Executor thread, and the module worker for an instance that is thrown away.
 */
import {
  BULK_PIECE_BYTES,
  CONTROL,
  DELTAS_BYTES,
  FUEL_MAX,
  MAP_BYTES,
  ROOM,
  SLOT_BYTES,
  STOP,
} from '../../instrument/abi/index.ts';
import { WASM_PAGE_BYTES } from '../../ic/index.ts';
import { TooLong } from '../engine/fault.ts';
import { type HeapTally, PAGE } from './heap-tally.ts';
import { copyPiece, type HostCopy } from './host-copy.ts';
import { PAGE_BYTES, type PageSink } from '../../bytes/index.ts';
import { MemoryBudget } from './memory-budget.ts';
import { FREE_PAGES, MessageMemory } from './message-memory.ts';

/** Options of a control memory. */
export interface ControlMemoryOptions {
  /** Bytes of stack a message may use (`SVC_WASM_STACK`). */
  readonly stackBytes: number;
  /** Bytes of pre-images one message may cause; beyond, it traps. */
  readonly journalBytesMax: number;
  /**
   * Called about once a millisecond while a message executes, with true if the message waits for memory. An error that
   * it throws ends the message. With `canSuspend`, a promise that it returns suspends the message until the promise
   * resolves.
   */
  readonly onYield?: (isWaiting?: boolean) => unknown;
  /** True if messages on this memory run by `Instance.runSuspendable`, and in no other way. */
  readonly canSuspend?: boolean;
  /** Budget from which memory is taken; by default an unbounded one. */
  readonly budget?: MemoryBudget;
}

/** One page less than 4 GiB, so that addresses of slots do not wrap. */
const PAGES_MAX = 65_535;
const HEADER_BYTES = 64;
/**
 * Pages of journal that a control memory has from the beginning: there may be a thousand for messages that can be
 * suspended.
 */
const FIRST_PAGES = 64;
const FIRST_PAGES_SUSPENDABLE = 4;
/** Bounds of one growth of the journal, which doubles within them. */
const GROWTH_PAGES = { MIN: 16, MAX: 64 } as const;
const MEMORY_PAGES_PER_PAGE = WASM_PAGE_BYTES / PAGE_BYTES;
/** A store may spill into the page behind its own. */
const PAGES_OF_STORE = 2;
/** As many pages as a piece that the host copies can need, for the heap and for its pre-images. */
const ROOMY_PAGES = BULK_PIECE_BYTES / PAGE_BYTES + PAGES_OF_STORE + 2 * GROWTH_PAGES.MAX * MEMORY_PAGES_PER_PAGE;
/**
 * Bounds of the journal of a message that cannot be suspended; beyond them it ends as too long, because the thread
 * keeps the memory. In bytes, and as a share of the memory that all actors may have.
 */
const SHORT_JOURNAL_BYTES_MAX = 64 * 2 ** 20;
const SHORT_JOURNAL_SHARE = 1 / 128;
/**
 * Pages that a message that can be suspended touches before it yields: a page takes up to 12 µs if the machine has to
 * provide it, and as much again for its pre-image.
 */
const YIELD_PAGES = 64;
/** A message that cannot be suspended ends as too long if it touches more pages, whatever it is charged for them. */
const SHORT_PAGES_MAX = 1024;
const FIXED_PAGES = Math.ceil(CONTROL.PRE_IMAGES / WASM_PAGE_BYTES);
const FUEL = 0;
const STACK_BYTES = (CONTROL.STACK_BYTES - CONTROL.FUEL) / 4;
const STOPPED = (CONTROL.STOP - CONTROL.FUEL) / 4;
const TOUCHED = (CONTROL.TOUCHED - CONTROL.FUEL) / 4;
const SAVED = (CONTROL.SAVED - CONTROL.FUEL) / 4;
const FRESH = (CONTROL.FRESH - CONTROL.FUEL) / 4;
const NEEDS_FRESH_INSTANCE = (CONTROL.NEEDS_FRESH_INSTANCE - CONTROL.FUEL) / 4;
const GLOBALS_SAVED = (CONTROL.GLOBALS_SAVED - CONTROL.FUEL) / 4;
const TOUCH_LIMIT = (CONTROL.TOUCH_LIMIT - CONTROL.FUEL) / 4;
const REST = (CONTROL.REST - CONTROL.FUEL) / 4;
const DELTA_INDEX = (CONTROL.DELTA_INDEX - CONTROL.FUEL) / 4;
const DELTA_SLOT = (CONTROL.DELTA_SLOT - CONTROL.FUEL) / 4;
const DELTA_ENTRIES = (CONTROL.DELTA_ENTRIES - CONTROL.FUEL) / 4;
const DELTA_BYTES = (CONTROL.DELTA_BYTES - CONTROL.FUEL) / 4;

/**
 * A control memory of an executor thread: fuel, stack budget, saved globals and the undo journal of the running message
 * (layout in instrument/abi/index.ts). The instances on it share it, so one message of theirs is under way at a time.
 */
export class ControlMemory {
  readonly memory: WebAssembly.Memory;
  readonly stackBytes: number;
  /** Import `svc.yield` of instances. */
  readonly yieldImport: WebAssembly.ImportValue;
  /** Import `svc.room` of instances. */
  readonly roomImport: (what: number, amount: number) => number;
  /** Memory that the message in progress takes from the budget of all actors. */
  readonly message: MessageMemory;
  readonly #pagesMax: number;
  /** Ends a short message as too long; undefined: messages here can be suspended. */
  readonly #endShort: (() => unknown) | undefined;
  readonly #shortPagesMax: number;
  readonly #canSuspend: boolean;
  readonly #onYield: (isWaiting: boolean) => unknown;
  /** Number of touched pages at which the message asks for memory, and number at which it yields. */
  #roomPages = 0;
  #turnPages = 0;
  /** True while the host touches pages, in a function that wasm has called: the message cannot be suspended there. */
  #isHostTouching = false;
  /** The rest that a system call has to copy. */
  #rest: HostCopy | undefined;
  /** Growth of the memory, in pages of the budget. */
  #counted = 0;
  // Views, made again when wasm has grown the memory: growth sets their length to 0.
  #numbers = new Float64Array(0);
  #words = new Int32Array(0);
  #map = new Uint8Array(0);
  #list = new Int32Array(0);
  #deltas = new Uint8Array(0);
  #all: Int32Array = new Int32Array(0);
  /** True if a message has begun and not ended. */
  #isOpen = false;

  constructor(options: ControlMemoryOptions) {
    const yielded = options.onYield ?? (() => undefined);
    const onYield = (): unknown => yielded(this.message.isWaiting);
    const isSuspending = options.canSuspend === true;
    this.yieldImport = isSuspending ? (new WebAssembly.Suspending(onYield) as unknown as () => void) : onYield;
    this.roomImport = (what, amount) => this.#room(what, amount);
    this.message = new MessageMemory(options.budget ?? MemoryBudget.unbounded(), isSuspending ? 0 : FREE_PAGES);
    this.stackBytes = Math.min(options.stackBytes, 0x7fffffff);
    this.#canSuspend = isSuspending;
    this.#onYield = yielded;
    this.#endShort = isSuspending ? undefined : onYield;
    const { bytesMax } = this.message.budget;
    this.#shortPagesMax = Math.min(SHORT_JOURNAL_BYTES_MAX, bytesMax * SHORT_JOURNAL_SHARE) / WASM_PAGE_BYTES;
    const journal = Math.ceil(options.journalBytesMax / WASM_PAGE_BYTES);
    const maximum = Math.min(PAGES_MAX, FIXED_PAGES + Math.max(1, journal));
    this.#pagesMax = maximum;
    const first = isSuspending ? FIRST_PAGES_SUSPENDABLE : FIRST_PAGES;
    this.memory = new WebAssembly.Memory({ initial: Math.min(FIXED_PAGES + first, maximum), maximum });
    this.#refresh();
  }

  #refresh(): void {
    const { buffer } = this.memory;
    this.#numbers = new Float64Array(buffer, CONTROL.FUEL, 1);
    this.#words = new Int32Array(buffer, CONTROL.FUEL, HEADER_BYTES / 4);
    this.#map = new Uint8Array(buffer, 0, MAP_BYTES);
    this.#list = new Int32Array(buffer, CONTROL.LIST, MAP_BYTES);
    this.#deltas = new Uint8Array(buffer, CONTROL.DELTAS, DELTAS_BYTES);
  }

  #room(what: number, amount: number): number {
    const { message } = this;
    if (what === ROOM.HEAP) return message.grow(amount);
    if (what === ROOM.JOURNAL) return this.#growJournal();
    if (what === ROOM.NOT_GROWN) {
      message.notGrown();
      return ROOM.REFUSED;
    }
    return what === ROOM.PAGE ? this.#roomForPage(amount) : this.#copyRest();
  }

  #roomForPage(page: number): number {
    const touched = this.touchedCount;
    if (touched >= this.#roomPages) {
      const more = this.message.touch(page, this.#mayYieldFor(PAGES_OF_STORE));
      if (more === 0) return ROOM.LATER;
      this.#roomPages = touched + more;
    }
    let answer: number = ROOM.GRANTED;
    if (touched >= this.#turnPages) {
      this.#endShort?.();
      this.#turnPages = touched + this.#pagesAtOnce;
      if (this.#canSuspend && !this.#isHostTouching) answer = ROOM.LATER;
    }
    this.#current()[TOUCH_LIMIT] = Math.min(this.#roomPages, this.#turnPages);
    return answer;
  }

  /**
   * Returns true if wasm may be told to yield for `pages` pages. A short message ends where it would block its thread
   * instead.
   */
  #mayYieldFor(pages: number): boolean {
    if (!this.#isHostTouching) return true;
    if (this.message.budget.pagesLeft < pages) this.#endShort?.();
    return false;
  }

  get #pagesAtOnce(): number {
    return this.#canSuspend ? YIELD_PAGES : SHORT_PAGES_MAX;
  }

  /**
   * Touches bytes of the heap that the host is about to write; `touchRange` belongs to the instance whose message runs.
   */
  touch(touchRange: (address: number, length: number) => void, address: number, length: number): void {
    // Any error thrown here ends the message.
    this.#isHostTouching = true;
    touchRange(address, length);
    this.#isHostTouching = false;
  }

  /** True if a piece of the host's need not be asked for (`hasRoomToTouch`), as nearly always. */
  get isRoomy(): boolean {
    return !this.#canSuspend || this.message.budget.pagesLeft >= ROOMY_PAGES;
  }

  /**
   * Returns true if the host may `touch` these bytes now, false if the message is to yield before. True is no promise:
   * other threads take memory, too, and if nobody can give any, the touch ends the message.
   */
  hasRoomToTouch(address: number, length: number): boolean {
    const { message } = this;
    if (this.isRoomy) return true;
    const words = this.#current();
    const map = this.#map;
    // A store may spill into the page behind the last.
    const end = Math.floor((address + length - 1) / PAGE_BYTES) + PAGES_OF_STORE;
    let pages = 0;
    for (let page = Math.floor(address / PAGE_BYTES); page < end; page++) if (map[page] === 0) pages++;
    const slotBytes = (wordAt(words, SAVED) + pages) * SLOT_BYTES;
    const had = this.#journalPages;
    let journal = had;
    for (let more = 1; more > 0 && journal * WASM_PAGE_BYTES < slotBytes; journal += more)
      more = this.#growthOf(journal);
    const unasked = this.#roomPages - wordAt(words, TOUCHED);
    return message.hasRoom(Math.max(0, pages - unasked) + (journal - had) * MEMORY_PAGES_PER_PAGE);
  }

  /**
   * Calls `copy` for all of `size` bytes, a piece at a time, each when `hasRoom` returns true. Only the first piece is
   * copied here, the others when the system call has returned (`ROOM.REST`).
   */
  copyInPieces(size: number, copy: HostCopy['copy'], hasRoom: HostCopy['hasRoom']): void {
    const isPiece = size <= BULK_PIECE_BYTES;
    // The copy would use up the message's slice.
    if (!isPiece) this.#endShort?.();
    else if (hasRoom(0, size)) {
      copy(0, size);
      return;
    }
    this.#rest = { copy, hasRoom, size, from: 0 };
    if (isPiece) this.#current()[REST] = 1;
    else this.#copyRest();
  }

  #copyRest(): number {
    const rest = this.#rest;
    this.#rest = undefined;
    const answer = rest === undefined ? ROOM.GRANTED : copyPiece(rest);
    if (answer === ROOM.LATER) this.#rest = rest;
    // Looked up now: the copy may have grown the journal, and then the words are elsewhere.
    this.#current()[REST] = Number(answer === ROOM.LATER);
    return answer;
  }

  /**
   * Lets other work run between two pieces of the host's own work for the message, if the message can be suspended.
   * `isWaiting`: that work waits for memory. An error that would end the message in wasm does not end it here: half a
   * rollback is useless, so the rest is done at once. Returns false then: the message does not get another turn, and
   * whoever waits for others must end.
   */
  async pause(isWaiting = false): Promise<boolean> {
    if (!this.#canSuspend) return true;
    try {
      await this.#onYield(isWaiting);
      return true;
    } catch (error) {
      if (!(error instanceof TooLong)) throw error;
      return false;
    }
  }

  get #journalPages(): number {
    return this.memory.buffer.byteLength / WASM_PAGE_BYTES - FIXED_PAGES;
  }

  /** Returns the pages by which a journal of `journal` pages grows next; 0: it must not. */
  #growthOf(journal: number): number {
    const wanted = Math.min(Math.max(journal, GROWTH_PAGES.MIN), GROWTH_PAGES.MAX);
    return Math.min(wanted, this.#pagesMax - FIXED_PAGES - journal);
  }

  #growJournal(): number {
    const { memory, message } = this;
    const journal = this.#journalPages;
    if (journal >= this.#shortPagesMax) this.#endShort?.();
    const more = this.#growthOf(journal);
    if (more <= 0) return ROOM.REFUSED;
    const counted = more * MEMORY_PAGES_PER_PAGE;
    const answer = message.take(counted, 'the message cannot keep what it changes', this.#mayYieldFor(counted));
    if (answer === ROOM.LATER) return answer;
    try {
      memory.grow(more);
    } catch {
      message.budget.free(counted);
      throw message.stop('the message cannot keep what it changes: the machine has no memory left');
    }
    this.#counted += counted;
    return ROOM.GRANTED;
  }

  /** Bytes by which the pre-images have enlarged the memory. */
  get grownBytes(): number {
    return this.#counted * PAGE_BYTES;
  }

  /** Ends the use of the memory; returns the pages that the budget counts for it. */
  release(): number {
    const counted = this.#counted;
    this.#counted = 0;
    return counted;
  }

  #current(): Int32Array {
    if (this.#words.length === 0) this.#refresh();
    return this.#words;
  }

  /**
   * Sets the header words for a new message. Pages from `freshPage` on are all zeros, and after `touchLimit` pages the
   * message asks for room. The message has to end with `seal` or `undone` on this memory: its changes are in the
   * journal on which it began, and nowhere else.
   */
  begin(instructions: number, freshPage: number, touchLimit: number): void {
    if (this.#numbers.length === 0) this.#refresh();
    // Pages that an earlier message left touched would not be saved for this one.
    if (this.#isOpen || this.#words[TOUCHED] !== 0)
      throw new Error('a message begins before the one before it was committed or rolled back');
    this.#isOpen = true;
    this.#numbers[FUEL] = Math.max(0, Math.min(instructions, FUEL_MAX));
    const words = this.#words;
    words[STACK_BYTES] = this.stackBytes;
    words[STOPPED] = STOP.NONE;
    words[TOUCHED] = 0;
    words[SAVED] = 0;
    words[FRESH] = freshPage;
    words[NEEDS_FRESH_INSTANCE] = 0;
    words[GLOBALS_SAVED] = 0;
    words[REST] = 0;
    this.#roomPages = touchLimit;
    this.#turnPages = this.#pagesAtOnce;
    words[TOUCH_LIMIT] = Math.min(touchLimit, this.#turnPages);
    this.#isHostTouching = false;
    this.#rest = undefined;
  }

  /** Sets new instructions for the message in progress. */
  refuel(instructions: number): void {
    if (this.#numbers.length === 0) this.#refresh();
    this.#numbers[FUEL] = Math.max(0, Math.min(instructions, FUEL_MAX));
    this.#words[STOPPED] = STOP.NONE;
  }

  get areGlobalsSaved(): boolean {
    if (this.#words.length === 0) this.#refresh();
    return this.#words[GLOBALS_SAVED] !== 0;
  }

  /** Notes that the globals' place holds them as they were when the message began. */
  setGlobalsSaved(): void {
    if (this.#words.length === 0) this.#refresh();
    this.#words[GLOBALS_SAVED] = 1;
  }

  /** Instructions left as wasm last stored them; negative if a charge did not fit. */
  get instructionsLeft(): number {
    if (this.#numbers.length === 0) this.#refresh();
    return fuelOf(this.#numbers);
  }

  /** Takes instructions away while wasm is inside a system call; returns the rest. */
  charge(instructions: number): number {
    if (this.#numbers.length === 0) this.#refresh();
    return (this.#numbers[FUEL] = fuelOf(this.#numbers) - instructions);
  }

  /** Reason why wasm stopped itself, one of STOP; valid after `settle`. */
  get stop(): number {
    if (this.#words.length === 0) this.#refresh();
    return wordAt(this.#words, STOPPED);
  }

  get needsFreshInstance(): boolean {
    if (this.#words.length === 0) this.#refresh();
    return this.#words[NEEDS_FRESH_INSTANCE] !== 0;
  }

  /** Number of pages that the running message has touched. */
  get touchedCount(): number {
    return wordAt(this.#current(), TOUCHED);
  }

  /** Returns the pages touched by the running message, in order of touching; a view, valid until wasm runs again. */
  touchedPages(): Int32Array {
    if (this.#words.length === 0) this.#refresh();
    return this.#list.subarray(0, this.#words[TOUCHED]);
  }

  /** Starts the entries that `nextDeltas` makes of the touched pages; returns true if there are such pages. */
  beginDeltas(): boolean {
    const words = this.#current();
    words[DELTA_INDEX] = 0;
    words[DELTA_SLOT] = 0;
    return wordAt(words, TOUCHED) > 0;
  }

  /**
   * Makes entries of at most 64 KiB with `delta` of the instance whose message runs. Returns true if there are more.
   */
  nextDeltas(delta: () => void, sink: PageSink): boolean {
    const words = this.#words;
    delta();
    const entries = wordAt(words, DELTA_ENTRIES);
    if (entries > 0) sink(entries, this.#deltas.subarray(0, words[DELTA_BYTES]));
    return wordAt(words, DELTA_INDEX) < wordAt(words, TOUCHED);
  }

  /** Counts in the tally the pages that the running message has touched, before they are undone. */
  markTouched(tally: HeapTally): void {
    const { marks } = tally;
    if (marks === undefined) return;
    const count = wordAt(this.#current(), TOUCHED);
    const list = this.#list;
    for (let k = 0; k < count; k++) {
      const page = wordAt(list, k);
      if (marks[page] === PAGE.UNTOUCHED || marks[page + 1] === PAGE.UNTOUCHED) tally.touch(page, PAGE.ZEROS);
    }
  }

  /**
   * Forgets the pages touched by the running message and counts them as used in the tally. Returns the largest of them,
   * or −1.
   */
  seal(tally?: HeapTally): number {
    this.#close();
    if (this.#words.length === 0) this.#refresh();
    const count = wordAt(this.#words, TOUCHED);
    const map = this.#map;
    const list = this.#list;
    const marks = tally?.marks;
    let largest = -1;
    for (let k = 0; k < count; k++) {
      const page = wordAt(list, k);
      map[page] = 0;
      // Nearly all of the pages have been used before, and so have the pages behind them.
      if (marks !== undefined && (marks[page] !== PAGE.USED || marks[page + 1] !== PAGE.USED))
        tally?.touch(page, PAGE.USED);
      if (page > largest) largest = page;
    }
    this.#words[TOUCHED] = 0;
    this.#words[SAVED] = 0;
    return largest;
  }

  /** Ends a message that was undone with its journal. */
  undone(): void {
    this.#close();
  }

  #close(): void {
    if (!this.#isOpen) throw new Error('a message ends on a journal that it has not begun on');
    this.#isOpen = false;
  }

  /** Returns the whole memory in words of 4 bytes; valid until wasm runs again. */
  words(): Int32Array {
    if (this.#all.length === 0) this.#all = new Int32Array(this.memory.buffer);
    return this.#all;
  }

  /** Returns a view of `length` bytes at `from`. */
  bytes(from: number, length: number): Uint8Array {
    return new Uint8Array(this.memory.buffer, from, length);
  }
}

/**
 * Does the same as `numberAt` of the kernel, for one kind of array: `numberAt` sees so many kinds that V8 looks each of
 * them up, which a message of a microsecond would feel.
 */
function wordAt(words: Int32Array, place: number): number {
  const word = words[place];
  if (word === undefined) throw new Error(`no word ${place} of the control memory`);
  return word;
}

function fuelOf(numbers: Float64Array): number {
  const fuel = numbers[FUEL];
  if (fuel === undefined) throw new Error('no fuel in the control memory');
  return fuel;
}
