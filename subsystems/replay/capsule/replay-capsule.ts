/** Replays the messages of a capsule, as a server replays those of its timeline. */
import { type Clock, ServerError } from '../../../kernel/index.ts';
import type { Codec } from '../../codec/index.ts';
import type { Execution } from '../../execution/index.ts';
import { differences, type TimelineEntry } from '../../timeline/index.ts';
import type { MessageProfile, ReplayVerdict } from '../index.ts';
import { collectGarbage } from '../../threads/index.ts';
import { CALL_UNTOLD, MessageReplays } from '../message-replays.ts';
import { capsuleFacts, type CapsuleServer } from './capsules.ts';
import { CapsuleTimeline } from './capsule-timeline.ts';
import type { Capsule } from './decode-capsule.ts';

interface CapsuleReplayNeeds {
  readonly execution: Execution;
  readonly codec: Pick<Codec, 'untyped' | 'parseInterfaceAnySize'>;
  readonly clock: Clock;
  /** This server, with the prices and limits of the capsule. */
  readonly server: CapsuleServer;
}

/** A message of a capsule that was executed again. */
export interface CapsuleReplay {
  readonly entry: TimelineEntry;
  /** `none`: it executes nothing, so there is nothing to compare; `failed`: it could not be executed. */
  readonly verdict: ReplayVerdict | { readonly kind: 'none' | 'failed'; readonly why: string };
}

/** Bytes of states after which those that nobody refers to are freed: to V8, shared bytes are small objects. */
const COLLECTED_BYTES = 64 * 2 ** 20;
const NOT_THERE =
  'the call that it works for began before the capsule, so nobody knows how many instructions it had taken';

/** Replays of one capsule: its variables become those of all copies. */
export class CapsuleReplays {
  readonly #execution: Execution;
  readonly #capsule: Capsule;
  readonly #replays: MessageReplays;
  readonly #signal = new AbortController().signal;
  /** Facts that are others here than where the capsule was made; undefined: none. */
  readonly otherServer: string | undefined;

  constructor({ execution, codec, clock, server }: CapsuleReplayNeeds, capsule: Capsule) {
    this.#execution = execution;
    this.#capsule = capsule;
    const other = differences(capsule.head.facts, capsuleFacts(server));
    this.otherServer = other.length === 0 ? undefined : other.join(', ');
    const timeline = new CapsuleTimeline(capsule, this.otherServer);
    this.#replays = new MessageReplays({ execution, codec, clock, timeline }, server);
    execution.shareEnvironment(capsule.head.variables);
  }

  /** Yields the messages that the capsule was asked for, in order, each as soon as it has been executed again. */
  async *messages(): AsyncGenerator<CapsuleReplay> {
    const { head, parts } = this.#capsule;
    let stateBytes = 0;
    for (const { entry, before } of parts) {
      if (entry.seq < head.from) continue;
      stateBytes += before.heapBytes + before.stableBytes;
      if (stateBytes >= COLLECTED_BYTES) {
        stateBytes = 0;
        collectGarbage('full');
        await this.#execution.trim();
      }
      yield { entry, verdict: await this.#verdictOf(entry) };
    }
  }

  async #verdictOf({ seq, note: { kind } }: TimelineEntry): Promise<CapsuleReplay['verdict']> {
    const { id, actor: name, hasCalls } = this.#capsule.head;
    if (kind === 'restore' || kind === 'fork')
      return { kind: 'none', why: `a ${kind} puts a state in place, and executes nothing` };
    try {
      const asked = { id, name, seq, whatIf: undefined, isProfiled: false };
      const { verdict } = await this.#replays.replay(asked, this.#signal);
      if (verdict === undefined) throw new Error('a replay without changes has a verdict');
      const isUntold = verdict.kind === 'unsure' && verdict.why === CALL_UNTOLD;
      return isUntold && !hasCalls ? { ...verdict, why: NOT_THERE } : verdict;
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      return { kind: 'failed', why: error.message };
    }
  }

  /**
   * Resolves with the functions in which these messages spent their instructions. Rejects with ServerError
   * `replay-none` where none of them has a profile, and as copies do.
   */
  async profile(): Promise<MessageProfile> {
    const { head, parts } = this.#capsule;
    const messages = (parts.at(-1)?.entry.seq ?? 0) - head.from + 1;
    return (await this.#replays.profile({ id: head.id, span: { messages } }, this.#signal)).profile;
  }
}
