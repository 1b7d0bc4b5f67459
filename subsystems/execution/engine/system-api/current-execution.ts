/**
 * The message that is being executed, as the system API sees it.
 *
 * There is one object of this class for each engine, used again for every message: the imports are closures over it,
 * shared by all instances of the engine, since closures of their own would cost every live canister about eighty
 * objects. An engine has one message under way at a time, so one object is enough.
 *
 * A message's effects on the world outside its memory (answer, cycles, certified data, later calls and timers) are kept
 * here, and the engine applies them only if the execution returns.
 *
 * Executor thread; touched by the imports and by the engine that it belongs to.
 */
import { copyBytes, NameCache, sliceBytes, NO_BYTES } from '../../../bytes/index.ts';
import { BULK_PIECE_BYTES } from '../../../instrument/abi/index.ts';
import { slotOf, type ContextView, type OutgoingCall, type StoredAs } from '../../../ic/index.ts';
import { chargeOf, type MeteringPolicy } from '../../../metering/index.ts';
import type { CanisterState } from '../canister-state.ts';
import { MODES, type Mode } from './contexts.ts';
import { DebugOutput } from './debug-output.ts';
import { ContractViolation, HostTrap, TooLong } from '../fault.ts';
import type { Instance } from '../instance.ts';
import { NO_CALLS, OutgoingDraft } from './outgoing-draft.ts';

/** The part of a live instance that the system API uses. */
type GuestMemory = Pick<Instance, 'heap' | 'touch' | 'charge' | 'instructionsUsed' | 'control'>;

/** Kind of answer that an execution gave to its call. */
type Answer = 'none' | 'reply' | 'reject';

const FIRST_REPLY_CAPACITY = 1 << 16;

/** Balance that canisters see while metering is off: the balance with which the replica starts canisters. */
const UNMETERED_BALANCE = 100_000_000_000_000n;

/** Most bytes of method names and payloads that one execution may send; beyond them, `call_perform` answers 2. */
const CALLS_BYTES_MAX = 256 * 1024 * 1024;

/** Most stable memory one execution may write, in granules: 2 GiB, 8 GiB and 1 GiB, the replica's limits. */
const STABLE_GRANULES_MAX = { message: 2 ** 19, install: 2 ** 21, query: 2 ** 18 } as const;
const NAMES = new NameCache();

export class CurrentExecution {
  mode: Mode = 's';
  isReplicated = true;
  /** The bit of `mode`; 0 while nothing executes, so that every import refuses. */
  modeBit = 0;

  /** Set by `begin`; reading these fields while nothing executes is a bug. */
  #memory: GuestMemory | undefined;
  #canister: CanisterState | undefined;
  #context: ContextView | undefined;

  /** The argument; in a reply callback, the reply. */
  argument: Uint8Array = NO_BYTES;
  #nowMs = 0;
  #timeNs: bigint | undefined;
  #isCharged = false;
  instructionLimit = 0;
  #spendable: bigint | undefined;

  // The response of a callback, and the method of an inspection; read only in their contexts.
  rejectCode = 0;
  rejectMessage: Uint8Array = NO_BYTES;
  cyclesRefunded = 0n;
  methodName: Uint8Array = NO_BYTES;

  // Effects, applied on success.
  answer: Answer = 'none';
  reply: Uint8Array = new Uint8Array(FIRST_REPLY_CAPACITY);
  replyLength = 0;
  /** Where the reply is stored already. */
  replyStoredAs: StoredAs | undefined = undefined;
  rejectText = '';
  isAccepted = false;
  /** Cycles accepted from the call, less those burned or put on calls. */
  cyclesGained = 0n;
  cyclesAccepted = 0n;
  certifiedData: Uint8Array | undefined = undefined;
  /** Timer as set by this execution, ns since 1970; 0: off. */
  timerNs: bigint | undefined = undefined;
  /** Calls performed, in order; already counted as open at their canister. */
  calls: readonly OutgoingCall[] = NO_CALLS;
  #performed: OutgoingCall[] = [];
  #callBytes = 0;
  /** The call under construction, while `isOpen` is true. */
  readonly draft = new OutgoingDraft();
  /** Instructions that the call context used before this execution. */
  instructionsBefore = 0;

  readonly debug = new DebugOutput();

  readonly #policy: MeteringPolicy;

  readonly #payloadBytesMax: number;

  /**
   * `payloadBytesMax`: bytes of payloads that are stored with their message; one that has more is to begin again where
   * it can store them ahead. Infinity: it can be here.
   */
  constructor(policy: MeteringPolicy, payloadBytesMax = Infinity) {
    this.#policy = policy;
    this.#payloadBytesMax = payloadBytesMax;
  }

  /**
   * Sets everything up for one execution. `isCharged`: the canister pays, so the price of `instructionLimit` is kept
   * back from the cycles that it may spend. (A list of parameters, not an object: this is called for every message.)
   */
  begin(
    mode: Mode,
    memory: GuestMemory,
    canister: CanisterState,
    context: ContextView,
    argument: Uint8Array,
    nowMs: number,
    isCharged: boolean,
    instructionLimit: number,
  ): void {
    this.enterMode(mode);
    this.#memory = memory;
    this.#canister = canister;
    this.#context = context;
    this.instructionsBefore = context.instructions;
    this.argument = argument;
    this.#nowMs = nowMs;
    this.#isCharged = isCharged;
    this.instructionLimit = instructionLimit;
    this.#timeNs = undefined;
    this.forgetEffects();
  }

  /** Starts with no effects: at the beginning, and when a cleanup follows a callback that was undone. */
  forgetEffects(): void {
    this.#spendable = undefined;
    this.answer = 'none';
    this.replyLength = 0;
    this.replyStoredAs = undefined;
    this.isAccepted = false;
    if (this.cyclesGained !== 0n) this.cyclesGained = 0n;
    if (this.cyclesAccepted !== 0n) this.cyclesAccepted = 0n;
    this.certifiedData = undefined;
    this.timerNs = undefined;
    this.calls = NO_CALLS;
    this.draft.isOpen = false;
  }

  /** Continues with the cleanup of a callback that was undone after `instructions`. */
  beginCleanup(mode: 'C' | 'CC', instructions: number): void {
    this.enterMode(mode);
    this.forgetEffects();
    this.argument = NO_BYTES;
    this.instructionsBefore += instructions;
  }

  /** Continues in another mode: from the start function to the init hook. */
  enterMode(mode: Mode): void {
    this.mode = mode;
    this.isReplicated = MODES[mode].isReplicated;
    this.modeBit = MODES[mode].bit;
  }

  /** Lets go of all objects that the message referred to, including a large reply buffer. */
  end(): void {
    this.modeBit = 0;
    this.#memory = undefined;
    this.#canister = undefined;
    this.#context = undefined;
    this.argument = NO_BYTES;
    if (this.calls !== NO_CALLS) this.#endCalls();
    if (this.rejectText !== '') this.rejectText = '';
    if (this.reply.length > 1 << 20) this.reply = new Uint8Array(FIRST_REPLY_CAPACITY);
  }

  get memory(): GuestMemory {
    return this.#memory ?? nothingExecutes();
  }
  get canister(): CanisterState {
    return this.#canister ?? nothingExecutes();
  }
  get context(): ContextView {
    return this.#context ?? nothingExecutes();
  }

  /** Performs the call under construction. Returns false if it cannot be queued, and takes its cycles back. */
  performDraft(): boolean {
    const { draft } = this;
    const bytes = this.#callBytes + draft.size;
    const slot = bytes <= CALLS_BYTES_MAX && this.#canPayForResponse ? this.canister.openCalls.raise(draft.callee) : 0;
    if (slot === 0) {
      this.discardDraft();
      return false;
    }
    if (this.calls === NO_CALLS) this.calls = this.#performed = [];
    this.#performed.push(draft.finish(slot));
    this.#callBytes = bytes;
    return true;
  }

  /** True if payloads of the message are kept with it: its canister is kept, and so is what it does. */
  get keepsPayloads(): boolean {
    const { mode } = this;
    const isKept = mode === 'U' || mode === 'T' || mode === 'Ry' || mode === 'Rt';
    const isAnswerKept = mode === 'RQ' && (this.context.number ?? 0) > 0;
    return (isKept || isAnswerKept) && this.canister.persistence?.isReplaying === false;
  }

  /** The call under construction is to have so many bytes more. Ends the message if they cannot be stored here. */
  callGrows(bytes: number): void {
    if (this.draft.callee.length > 0) this.#carries(this.#callBytes + this.draft.size + bytes);
  }

  /** The same of the reply, which is to have so many bytes. */
  replyGrows(bytes: number): void {
    if (this.context.keepsAnswer === true) this.#carries(bytes);
  }

  #carries(bytes: number): void {
    if (bytes > this.#payloadBytesMax && this.keepsPayloads) throw new TooLong();
  }

  /** Bytes of method names and payloads of the performed calls. */
  get callBytes(): number {
    return this.#callBytes;
  }

  /** Gives up the call under construction, if there is one, and takes its cycles back. */
  discardDraft(): void {
    const { draft } = this;
    if (!draft.isOpen) return;
    draft.isOpen = false;
    if (draft.cycles !== 0n) this.cyclesGained += draft.cycles;
  }

  /** Takes the performed calls back: they are not sent. */
  withdrawCalls(): void {
    if (this.calls === NO_CALLS) return;
    const { openCalls } = this.canister;
    for (const { callbacks } of this.calls) openCalls.lower(slotOf(callbacks));
    this.#endCalls();
  }

  /** True if the canister will have the price of the smallest message after this one. */
  get #canPayForResponse(): boolean {
    if (!this.#policy.isEnabled || !this.#isCharged) return true;
    const { account } = this.canister;
    if (account.isAmple && this.cyclesGained >= 0n) return true;
    const price = chargeOf(this.#policy, this.memory.instructionsUsed()) + this.#policy.cyclesPerMessage;
    return account.balance + this.cyclesGained >= BigInt(price);
  }

  #endCalls(): void {
    this.calls = NO_CALLS;
    this.#performed = [];
    this.#callBytes = 0;
    this.draft.shrink();
  }

  /** The message's instant, ms since 1970. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /** The message's instant, ns since 1970, in steps of a microsecond. */
  get timeNs(): bigint {
    this.#timeNs ??= BigInt(Math.trunc(this.#nowMs * 1000)) * 1000n;
    return this.#timeNs;
  }

  /** The balance that the canister sees and may spend: without the most that this execution may cost. */
  get spendableCycles(): bigint {
    this.#spendable ??= this.#spendableAtStart();
    return this.#spendable + this.cyclesGained;
  }

  #spendableAtStart(): bigint {
    if (!this.#policy.isEnabled) return UNMETERED_BALANCE;
    const { balance } = this.canister.account;
    if (!this.#isCharged) return balance;
    const reserved = BigInt(chargeOf(this.#policy, this.instructionLimit));
    return balance > reserved ? balance - reserved : 0n;
  }

  /** Most granules of stable memory this execution may write. */
  get stableGranulesMax(): number {
    if (this.mode === 's' || this.mode === 'I' || this.mode === 'G') return STABLE_GRANULES_MAX.install;
    return this.isReplicated ? STABLE_GRANULES_MAX.message : STABLE_GRANULES_MAX.query;
  }

  /**
   * Traps unless `[address, address + size)` lies within the heap. Sums are exact: no number here passes 2^53 and still
   * fits.
   */
  checkHeapRange(name: string, heap: Uint8Array, address: number, size: number): void {
    if (address + size > heap.length)
      throw new HostTrap(
        `ic0.${name}: ${size} bytes at address ${address} lie beyond the heap of ${heap.length} bytes`,
      );
  }

  /**
   * Serves the `…_copy` imports but `msg_arg_data_copy`: copies `source[offset, offset + size)` to the heap at
   * `destination`, at once. None has more than a few megabytes.
   */
  copyOut(name: string, source: Uint8Array, destination: number, offset: number, size: number): void {
    this.#chargeCopy(name, source, destination, offset, size);
    if (size === 0) return;
    this.memory.touch(destination, size);
    copyBytes(source, offset, this.memory.heap(), destination, size);
  }

  /** Serves `msg_arg_data_copy`. */
  copyArgument(destination: number, offset: number, size: number): void {
    const { memory, argument } = this;
    this.#chargeCopy('msg_arg_data_copy', argument, destination, offset, size);
    if (size === 0) return;
    // Most messages copy little, and make no functions for it.
    if (size <= BULK_PIECE_BYTES && memory.control.isRoomy) {
      memory.touch(destination, size);
      copyBytes(argument, offset, memory.heap(), destination, size);
      return;
    }
    this.copyToHeap(destination, size, (from, length) =>
      copyBytes(argument, offset + from, memory.heap(), destination + from, length),
    );
  }

  /**
   * Calls `copy` for all bytes that a system call writes to the heap at `destination`, a piece at a time, each when
   * there is memory for it. Only for imports that may leave work (instrument/system-calls.ts).
   */
  copyToHeap(destination: number, size: number, copy: (from: number, length: number) => void): void {
    const { memory } = this;
    memory.control.copyInPieces(
      size,
      (from, length) => {
        memory.touch(destination + from, length);
        copy(from, length);
      },
      (from, length) => memory.control.hasRoomToTouch(destination + from, length),
    );
  }

  /** Checks the bounds of a copy to the heap, and charges for it. */
  #chargeCopy(name: string, source: Uint8Array, destination: number, offset: number, size: number): void {
    if (offset + size > source.length)
      throw new HostTrap(
        `ic0.${name}: ${size} bytes at offset ${offset} lie beyond the ${source.length} bytes there are`,
      );
    this.checkHeapRange(name, this.memory.heap(), destination, size);
    this.memory.charge(size);
  }

  /** Returns a copy of `[address, address + size)` of the heap, at most `sizeMax` bytes, and charges for it. */
  copyIn(name: string, address: number, size: number, sizeMax: number): Uint8Array {
    return sliceBytes(this.#chargeRead(name, address, size, sizeMax), address, size);
  }

  /** Does the same as `copyIn` for a text; bytes that are not UTF-8 become U+FFFD. */
  textIn(name: string, address: number, size: number, sizeMax: number): string {
    return NAMES.textOf(this.#chargeRead(name, address, size, sizeMax), address, size);
  }

  #chargeRead(name: string, address: number, size: number, sizeMax: number): Uint8Array {
    if (size > sizeMax) throw new HostTrap(`ic0.${name}: ${size} bytes are more than the ${sizeMax} allowed`);
    const memory = this.memory;
    const heap = memory.heap();
    this.checkHeapRange(name, heap, address, size);
    memory.charge(size);
    return heap;
  }

  /** Writes a 128-bit amount, little endian, at `destination`. */
  writeAmount(name: string, destination: number, amount: bigint): void {
    const memory = this.memory;
    const heap = memory.heap();
    this.checkHeapRange(name, heap, destination, 16);
    memory.touch(destination, 16);
    let rest = amount;
    for (let i = 0; i < 16; i++) {
      heap[destination + i] = Number(rest & 0xffn);
      rest >>= 8n;
      if (rest === 0n) {
        heap.fill(0, destination + i + 1, destination + 16);
        break;
      }
    }
  }
}

/** Returns the error of a call that the canister must not make, in the replica's words. */
export function contractViolation(what: string): ContractViolation {
  return new ContractViolation(`Canister violated contract: ${what}`);
}

function nothingExecutes(): never {
  throw new Error('an import was called while no message executes');
}
