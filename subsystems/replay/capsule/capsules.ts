import { type Clock, ServerError } from '../../../kernel/index.ts';
import type { Execution } from '../../execution/index.ts';
import { codeVersion } from '../../instrument/index.ts';
import { factsOf, type ServerFacts, type Timeline } from '../../timeline/index.ts';
import type { MeteringPolicy } from '../../metering/index.ts';
import type { CapsuleAsked } from '../index.ts';

interface CapsulesNeeds {
  readonly execution: Pick<Execution, 'sharedEnvironment'>;
  readonly timeline: Pick<Timeline, 'messageAt' | 'entries'>;
  readonly clock: Pick<Clock, 'after'>;
}

/** The server that makes a capsule. */
export interface CapsuleServer {
  /** Version and build. */
  readonly version: string;
  readonly policy: MeteringPolicy;
}

/** A client that takes a capsule slowly keeps others from making one. */
const CAPSULE_MS_MAX = 600_000;
/** Digits of a hash that tell two instrumenters apart. */
const SHOWN_DIGITS = 12;

/** Returns what the course of a message may depend on besides the actor and what its capsule has. */
export function capsuleFacts({ version, policy }: CapsuleServer): ServerFacts {
  return { ...factsOf(version, policy), 'the instrumenter': codeVersion().slice(0, SHOWN_DIGITS) };
}

/** Makes capsules, one at a time: each has two states of an actor in memory. Main thread. */
export class Capsules {
  readonly #needs: CapsulesNeeds;
  readonly #server: CapsuleServer;
  #isMaking = false;
  #made = 0;

  constructor(needs: CapsulesNeeds, server: CapsuleServer) {
    this.#needs = needs;
    this.#server = server;
  }

  /** Number of capsules that were made to their end. */
  get made(): number {
    return this.#made;
  }

  /** As `Replay` has it. */
  async *make(asked: CapsuleAsked, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    if (this.#isMaking)
      throw new ServerError(
        'unavailable',
        'capsule-busy',
        'another capsule is being sent: try again when it has ended',
      );
    this.#isMaking = true;
    try {
      // Servers that make none do without its code.
      const { capsulePieces } = await import('./encode-capsule.ts');
      const limit = new AbortController();
      using _limit = this.#needs.clock.after(CAPSULE_MS_MAX, () => limit.abort(late()));
      const { policy } = this.#server;
      const needs = { ...this.#needs, facts: capsuleFacts(this.#server), policy };
      yield* capsulePieces(needs, asked, AbortSignal.any([signal, limit.signal]));
      this.#made++;
    } finally {
      this.#isMaking = false;
    }
  }
}

function late(): ServerError {
  const text = `the client took longer than ${CAPSULE_MS_MAX / 1000} s to take the capsule`;
  return new ServerError('unavailable', 'capsule-late', text);
}
