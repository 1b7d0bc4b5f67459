/**
 * Calls between canisters of different shards, as the way between two servers sees them: messages that it takes from
 * one side and gives to the other, in order. A way may end at any time, with whatever is on it; the next one begins
 * with all that the other side has not said to have.
 *
 *     sender ── call ──────► callee    stored by the sender; sent when that is durable
 *            ◄─ accepted ──            the callee has stored it, and it is durable: not sent again
 *            ◄─ response ──            stored by the callee; sent when that is durable
 *            ── done ──────►           the sender has stored it, and it is durable: the callee forgets the call
 *
 * A call to an actor that is in another shard by now is not accepted, but answered:
 *
 *            ◄─ moved ──────           nothing of the call is here: the actor is in that shard
 *
 * Main thread; types.
 */
import type { Response } from '../../ic/index.ts';

/** Name of a call. No other call has it, whatever becomes of either server. */
export interface CallName {
  /** Principal bytes of the canister that calls. */
  readonly sender: Uint8Array;
  /** Id of the process in which it was made: another one for each owner of the sender's shard. */
  readonly node: string;
  /** Number that no other call of that process has. It grows. */
  readonly number: number;
}

/** Numbers of the newest moves of a call's caller and callee; 0: it has never moved. */
export interface CallPlaces {
  readonly sender: number;
  readonly callee: number;
}

export type LinkMessage =
  | {
      readonly kind: 'call';
      readonly name: CallName;
      readonly callee: Uint8Array;
      readonly method: string;
      readonly argument: Uint8Array;
      readonly cycles: bigint;
      /** Milliseconds for which the caller waits yet; undefined: for ever. */
      readonly leftMs: number | undefined;
      /** Left out: neither has moved. */
      readonly places?: CallPlaces;
    }
  | { readonly kind: 'accepted'; readonly name: CallName }
  | { readonly kind: 'response'; readonly name: CallName; readonly response: Response; readonly refunded: bigint }
  | { readonly kind: 'done'; readonly name: CallName }
  | { readonly kind: 'moved'; readonly name: CallName; readonly shard: number; readonly version: number };

/** One end of a way. */
export interface Conversation {
  /** Returns the next message for the other side; undefined: nothing now, and `wake` is called when there is. */
  next(): LinkMessage | undefined;
  /** Takes a message of the other side. Throws ServerError `link-refused` for what it cannot have said. */
  took(message: LinkMessage): void;
  /** True while much of what was taken is not durable: nothing more should come; `wake` is called afterwards. */
  readonly isBusy: boolean;
}

/** Place of a way among those of one shard: later ones have a greater epoch, or the same and a greater number. */
export interface WayNumber {
  /** Epoch of the shard's owner that has opened it. */
  readonly epoch: number;
  readonly number: number;
}

/** Hands out calls to other shards and takes theirs. For each shard, one way in each direction is in use. */
export interface CallExchange {
  /** False until everything that another process has left was taken over: no way may begin. */
  readonly isOpen: boolean;
  /** Begins a way for calls to that shard, in place of the one before. */
  callTo(shard: number, wake: () => void): Conversation;
  /**
   * Begins a way for calls from that shard, in place of the one before; undefined: it is older than one that has begun
   * already, so what it brings may be long over.
   */
  callsFrom(shard: number, way: WayNumber, wake: () => void): Conversation | undefined;
}
