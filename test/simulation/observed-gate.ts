/** The shipped gate under observation, and the same gate with the mistake that let a message run inside another one. */
import { CanisterGate } from '../../subsystems/execution/thread/canister-gate.ts';
import { ownWork, type Work } from '../../subsystems/execution/thread/executor-thread.ts';
import { INLINE_BYTES_MAX } from '../../subsystems/execution/wire/ring-bytes.ts';

/** Called with each piece of work as it comes; `isAdmitted`: the work need not wait. */
export type WorkSeen = (handle: number, work: Work, isAdmitted: boolean) => void;

export class ObservedGate extends CanisterGate<Work> {
  readonly #seen: WorkSeen;

  constructor(seen: WorkSeen) {
    super(ownWork);
    this.#seen = seen;
  }

  override admits(handle: number, work: Work): boolean {
    const isAdmitted = this.#admits(handle, work);
    this.#seen(handle, work, isAdmitted);
    return isAdmitted;
  }

  #admits(handle: number, work: Work): boolean {
    return this.letsIn(handle, work) || super.admits(handle, work);
  }

  /** Returns true if the work is let in without asking the shipped gate. */
  protected letsIn(_handle: number, _work: Work): boolean {
    return false;
  }
}

/** Planted: work that is too large for the ring does not wait for the message under way. */
export class LeakyGate extends ObservedGate {
  readonly #keepsOrder: boolean;
  /** Number of waiting pieces of work, by closed canister. */
  readonly #waiting = new Map<number, number>();
  /** Long messages that have begun inside others, by canister. */
  readonly #inside = new Map<number, number>();

  /**
   * `keepsOrder`: the work is let in only if nothing else waits, so that only the rule of one message at a time is
   * broken.
   */
  constructor(seen: WorkSeen, keepsOrder = false) {
    super(seen);
    this.#keepsOrder = keepsOrder;
  }

  protected override letsIn(handle: number, work: Work): boolean {
    const waiting = this.#waiting.get(handle);
    if (waiting === undefined || bytesOf(work) <= INLINE_BYTES_MAX) return false;
    return waiting === 0 || !this.#keepsOrder;
  }

  override admits(handle: number, work: Work): boolean {
    const isAdmitted = super.admits(handle, work);
    if (!isAdmitted) this.#waiting.set(handle, (this.#waiting.get(handle) ?? 0) + 1);
    return isAdmitted;
  }

  override close(handle: number): void {
    if (this.#waiting.has(handle)) {
      this.#inside.set(handle, (this.#inside.get(handle) ?? 0) + 1);
      return;
    }
    this.#waiting.set(handle, 0);
    super.close(handle);
  }

  override ended(handle: number): void {
    const inside = this.#inside.get(handle) ?? 0;
    if (inside > 0) {
      this.#inside.set(handle, inside - 1);
      return;
    }
    super.ended(handle);
    if (this.#waiting.get(handle) === 0) this.#waiting.delete(handle);
  }

  override work(begin: (work: Work) => boolean): void {
    super.work((work) => {
      this.#waiting.set(work.handle, (this.#waiting.get(work.handle) ?? 1) - 1);
      return begin(work);
    });
  }
}

/** Returns the number of bytes that a task carries. */
export function bytesOf(work: Work): number {
  if ('kind' in work) return 0;
  const { task } = work;
  switch (task.kind) {
    case 'update':
    case 'query':
    case 'transform':
    case 'inspect':
      return task.argument.length;
    case 'callback':
      return task.response.kind === 'reply' ? task.response.data.length : Buffer.byteLength(task.response.message);
    default:
      return 0;
  }
}
