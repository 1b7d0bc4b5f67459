import { CALL_KINDS } from './books.ts';
import { INLINE_BYTES_MAX } from '../../subsystems/execution/wire/ring-bytes.ts';

/** Kinds of data that are carried from thread to thread. */
const PAYLOADS = ['argument', 'reply', 'reject', 'trap', 'call', 'debug', 'changes'] as const;
type Payload = (typeof PAYLOADS)[number];

const BURSTS = ['calls', 'bytes'] as const;
/** Events that come while calls of a message are being sent. */
export const AMID = ['crash', 'death', 'deletion', 'stop', 'change', 'drain'] as const;

/** Counts of events, to show that seeds are not all alike and that a simulation does what it claims. */
export class Tally {
  /** Tasks and commands that executors have begun. */
  entries = 0;
  /** Messages above one slice, those that take hundreds of slices, and those that were begun again because of that. */
  long = 0;
  endless = 0;
  tooLong = 0;
  /** Messages that were suspended, and those of them that were so while another was in the same thread. */
  suspended = 0;
  suspendedTogether = 0;
  /** Work that waited at the gate, and the part of it that came by the port; then commands that waited. */
  waited = 0;
  waitedLarge = 0;
  readonly command: Record<string, number> = {};
  deaths = 0;
  /** Deaths of executors and crashes of the host while messages were suspended. */
  diedSuspended = 0;
  crashes = 0;
  evictions = 0;
  wakeUps = 0;
  /** Wakes from the state that the executor had kept. */
  roused = 0;
  /** Wakes that ran a log. */
  replays = 0;
  captures = 0;
  restores = 0;
  checkpoints = 0;
  /** Tasks that came back without having begun, and messages under way that a deletion has ended. */
  takenBack = 0;
  endedByForce = 0;
  /** Upgrades that found calls open and had to wait. */
  pauses = 0;
  /** Changes of code by operators. */
  upgrades = 0;
  reinstalls = 0;
  /** Calls and callbacks of one instance that came to another, since a canister had changed code. */
  across = 0;
  /** Composite queries that waited when code was changed. */
  framesLost = 0;
  /** Calls, by kind, that were open when code was changed: ended with it, and surviving it. */
  readonly ended = counters(CALL_KINDS);
  readonly survived = counters(CALL_KINDS);
  /** Messages at the limit of one turn, by number of calls or by their size. */
  readonly bursts = counters(BURSTS);
  /** Messages whose calls were sent in several turns; then the events that came meanwhile. */
  inTurns = 0;
  readonly amid = counters(AMID);
  /** Seeds that ended because a thread would have had to wait for the main thread. */
  cutShort = 0;
  /** Payloads by kind: above the bound, within two bytes of it, empty. */
  readonly large = counters(PAYLOADS);
  readonly atBound = counters(PAYLOADS);
  readonly empty = counters(PAYLOADS);

  /** Counts a command that waited for a canister. */
  commandWaited(kind: string): void {
    this.command[kind] = (this.command[kind] ?? 0) + 1;
  }

  payload(kind: Payload, bytes: number): void {
    if (bytes > INLINE_BYTES_MAX) this.large[kind]++;
    if (Math.abs(bytes - INLINE_BYTES_MAX) <= 2) this.atBound[kind]++;
    if (bytes === 0) this.empty[kind]++;
  }

  add(other: Tally): void {
    const theirs = other.flat();
    const own = this.flat();
    for (const [name, count] of Object.entries(theirs)) this.#set(name, count + (own[name] ?? 0));
  }

  /** Returns each count by name, such as `large reply`. */
  flat(): Record<string, number> {
    const flat: Record<string, number> = {};
    for (const [name, value] of Object.entries(this) as [string, number | Record<string, number>][]) {
      if (typeof value === 'number') flat[name] = value;
      else for (const [kind, count] of Object.entries(value)) flat[`${name} ${kind}`] = count;
    }
    return flat;
  }

  #set(name: string, count: number): void {
    const [group = '', kind] = name.split(' ');
    const own = this as unknown as Record<string, number | Record<string, number>>;
    if (kind === undefined) own[group] = count;
    else (own[group] as Record<string, number>)[kind] = count;
  }
}

function counters<K extends string>(kinds: readonly K[]): Record<K, number> {
  return Object.fromEntries(kinds.map((kind) => [kind, 0])) as Record<K, number>;
}
