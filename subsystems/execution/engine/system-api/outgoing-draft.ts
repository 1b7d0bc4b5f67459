/** Executor thread: the call that a message is putting together. Touched by its imports alone. */
import { copyBytes, sliceBytes, NO_BYTES } from '../../../bytes/index.ts';
import { payloadSlice } from '../../wire/ring-bytes.ts';
import { CallbackBuffer, REJECT, REPLY, type OutgoingCall } from '../../../ic/index.ts';

export const NO_CALLS: readonly OutgoingCall[] = Object.freeze([]);

/** Most bytes of a call's method name and payload together: the limit of messages between canisters of one subnet. */
export const CALL_BYTES_MAX = 10 * 1024 * 1024;
const FIRST_CAPACITY = 4096;
const KEPT_CAPACITY = 1 << 20;

/** The call under construction. One object for all calls of an engine's messages. */
export class OutgoingDraft {
  /** True between `call_new` and `call_perform`. */
  isOpen = false;
  readonly callbacks = new CallbackBuffer();
  cycles = 0n;
  timeoutSeconds: number | undefined = undefined;
  #callee: Uint8Array = NO_BYTES;
  #method = '';
  #methodBytes = 0;
  #payload = new Uint8Array(FIRST_CAPACITY);
  #payloadLength = 0;

  open(
    callee: Uint8Array,
    method: string,
    methodBytes: number,
    replyFun: number,
    replyEnv: number | bigint,
    rejectFun: number,
    rejectEnv: number | bigint,
  ): void {
    this.isOpen = true;
    this.#callee = callee;
    this.#method = method;
    this.#methodBytes = methodBytes;
    this.#payloadLength = 0;
    if (this.cycles !== 0n) this.cycles = 0n;
    this.timeoutSeconds = undefined;
    this.callbacks.clear();
    this.callbacks.set(REPLY, replyFun, replyEnv);
    this.callbacks.set(REJECT, rejectFun, rejectEnv);
  }

  get callee(): Uint8Array {
    return this.#callee;
  }

  /** Bytes of name and payload. */
  get size(): number {
    return this.#methodBytes + this.#payloadLength;
  }

  append(source: Uint8Array, at: number, length: number): void {
    const end = this.#payloadLength + length;
    if (end > this.#payload.length) {
      const larger = new Uint8Array(Math.min(Math.max(end, this.#payload.length * 2), CALL_BYTES_MAX));
      larger.set(this.#payload.subarray(0, this.#payloadLength));
      this.#payload = larger;
    }
    copyBytes(source, at, this.#payload, this.#payloadLength, length);
    this.#payloadLength = end;
  }

  /** Returns the finished call; `slot` is where it is counted as open. */
  finish(slot: number): OutgoingCall {
    this.isOpen = false;
    this.callbacks.slot = slot;
    return {
      callee: this.#callee,
      method: this.#method,
      payload: this.#finishPayload(),
      cycles: this.cycles,
      timeoutSeconds: this.timeoutSeconds,
      callbacks: this.callbacks.write(),
    };
  }

  #finishPayload(): Uint8Array {
    // The management canister decodes texts, which shared bytes do not allow.
    const slice = this.#callee.length > 0 ? payloadSlice : sliceBytes;
    return slice(this.#payload, 0, this.#payloadLength);
  }

  /** Lets go of a large payload's buffer. */
  shrink(): void {
    if (this.#payload.length > KEPT_CAPACITY) this.#payload = new Uint8Array(FIRST_CAPACITY);
  }
}
