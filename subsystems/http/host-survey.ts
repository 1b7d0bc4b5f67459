import type { Canister, CanisterFailure } from '../canisters/index.ts';
import { isDry } from '../metering/index.ts';
import { actorFacts, idleMsOf } from './actor-snapshots.ts';
import type { RouteHost } from './route.ts';
import { shownEntry } from './routes/history.ts';

/** States of actors as clients see them; `dry` runs with too few cycles for a message, `asleep` is not in memory. */
export const ACTOR_STATES = ['running', 'asleep', 'dry', 'stopping', 'stopped'] as const;
type ActorState = (typeof ACTOR_STATES)[number];

type SortKey = string | number | bigint;
/** Orders of actors, by the names that clients give them. */
export const SORTS = {
  id: ({ idHex }) => idHex,
  name: ({ name }) => name.toLowerCase(),
  principal: ({ principal }) => principal,
  state: (canister, host) => ACTOR_STATES.indexOf(stateOf(canister, host)),
  memory: ({ heapBytes, stableBytes }) => heapBytes + stableBytes,
  messages: ({ messages }) => messages,
  traps: ({ traps }) => traps,
  queued: ({ queued }) => queued,
  cycles: ({ balance }) => balance,
  idle: (canister, { clock }) => idleMsOf(canister, clock),
} as const satisfies Record<string, (canister: Canister, host: SurveyedHost) => SortKey>;
export type Sort = keyof typeof SORTS;

/** Which actors a client wants to see, and in which order. */
export interface ActorChoice {
  /** Part of a name, id or principal, in lower case; empty: all. */
  readonly find: string;
  readonly state: ActorState | undefined;
  readonly sort: Sort;
  readonly isDescending: boolean;
  readonly offset: number;
  readonly limit: number;
}

type SurveyedHost = Pick<RouteHost, 'canisters' | 'clock' | 'codec' | 'metering'>;

/** Facts that do not come from the actors. */
export interface HostFacts {
  readonly uptimeMs: number;
  /** Bytes of the machine's memory that the process has. */
  readonly processBytes: number;
  /** Bytes of the state on disk; null if they are not known. */
  readonly stateBytes: number | null;
}

/** Actors that one step of a survey looks at: a tenth of a millisecond. */
const STEP_ACTORS = 64;
/** Actors that are kept beyond those that may be shown, before they are sorted and the last ones dropped. */
const SPARE_ACTORS = 1_000;
const FAILURES_SHOWN_MAX = 20;

interface Candidate {
  readonly key: SortKey;
  readonly canister: Canister;
}

/**
 * Looks at every actor and returns the JSON text of the host: its figures, the chosen actors in their order, the latest
 * failures. Yields after each step, so that the caller can give others a turn. Keeps twice as many actors as may be
 * shown, however many there are; each counts as it is when its step comes.
 */
export function* surveyText(host: SurveyedHost, choice: ActorChoice, facts: HostFacts): Generator<undefined, string> {
  const total = { messages: 0, traps: 0, queued: 0, memoryBytes: 0 };
  const states: Record<ActorState, number> = { running: 0, asleep: 0, dry: 0, stopping: 0, stopped: 0 };
  const canisters = host.canisters.list();
  const keyOf = SORTS[choice.sort];
  const first = new FirstOf(choice.offset + choice.limit, choice.isDescending);
  let [actors, matching] = [0, 0];
  for (const canister of canisters) {
    if (++actors % STEP_ACTORS === 0) yield;
    const state = stateOf(canister, host);
    states[state]++;
    total.messages += canister.messages;
    total.traps += canister.traps;
    total.queued += canister.queued;
    total.memoryBytes += canister.heapBytes + canister.stableBytes;
    if ((choice.state !== undefined && state !== choice.state) || !isFound(canister, choice.find)) continue;
    matching++;
    first.add({ key: keyOf(canister, host), canister });
  }
  yield;
  const shown = first.sorted().slice(choice.offset);
  const failures = Array.from(host.canisters.latestFailures()).slice(0, FAILURES_SHOWN_MAX);
  return [
    `{"host":${JSON.stringify({ ...facts, actors, states, ...total })}`,
    `"matching":${matching}`,
    `"actors":[${shown.map(({ canister }) => rowText(canister, host)).join()}]`,
    `"failures":[${failures.map((failure) => failureText(failure, host)).join()}]}`,
  ].join();
}

/** The first of many in an order. */
class FirstOf {
  readonly #count: number;
  readonly #sign: number;
  #kept: Candidate[] = [];

  constructor(count: number, isDescending: boolean) {
    this.#count = count;
    this.#sign = isDescending ? -1 : 1;
  }

  add(candidate: Candidate): void {
    this.#kept.push(candidate);
    if (this.#kept.length >= 2 * this.#count + SPARE_ACTORS) this.#kept = [...this.sorted()];
  }

  /** Equal ones are in order of their ids, which is the order in which they came. */
  sorted(): readonly Candidate[] {
    const compared = (one: SortKey, other: SortKey): number => (one < other ? -1 : one > other ? 1 : 0);
    return this.#kept.sort((one, other) => this.#sign * compared(one.key, other.key)).slice(0, this.#count);
  }
}

function stateOf(canister: Canister, { metering }: Pick<SurveyedHost, 'metering'>): ActorState {
  if (canister.status !== 'running') return canister.status;
  if (isDry(metering.policy, canister.balance)) return 'dry';
  return canister.isLive ? 'running' : 'asleep';
}

function isFound(canister: Canister, part: string): boolean {
  if (part === '') return true;
  const { name, idHex } = canister;
  return name.toLowerCase().includes(part) || idHex.includes(part) || canister.principal.includes(part);
}

function rowText(canister: Canister, host: SurveyedHost): string {
  return JSON.stringify({ ...actorFacts(canister, host.metering), idleMs: idleMsOf(canister, host.clock) });
}

function failureText({ canister, entry }: CanisterFailure, host: SurveyedHost): string {
  return JSON.stringify({ actor: canister.idHex, name: canister.name, ...shownEntry(entry, host) });
}
