import { type Canister, isInternalMethod } from '../canisters/index.ts';
import { isDry } from '../metering/index.ts';
import type { RouteHost } from './route.ts';

/** Which actors a client wants to know of. */
export interface Page {
  /** Id in hex: the actors behind it are shown. Undefined: all from the first one on. */
  readonly after: string | undefined;
  readonly limit: number;
  /** Part of the names to show, in lower case. */
  readonly name: string;
}

type SnapshotHost = Pick<RouteHost, 'canisters' | 'clock' | 'metering'>;

/** Actors as `/inspect` shows them, for one answer: texts that actors share are made once. */
export class ActorSnapshots {
  readonly #host: SnapshotHost;
  readonly #codeTexts = new Map<unknown, string>();

  constructor(host: SnapshotHost) {
    this.#host = host;
  }

  /** Yields the actors of a page in order of their ids; undefined for one that was only looked at. */
  *chosen({ after, limit, name }: Page): Iterable<Canister | undefined> {
    const canisters = this.#host.canisters.list();
    let left = limit;
    for (let at = after === undefined ? 0 : firstAfter(canisters, after); at < canisters.length; at++) {
      const canister = canisters[at];
      const isChosen = name === '' || canister?.name.toLowerCase().includes(name) === true;
      yield isChosen ? canister : undefined;
      if (isChosen && --left === 0) return;
    }
  }

  /** Returns the JSON text of an actor; undefined for one that is not shown. */
  textOf(canister: Canister | undefined): string | undefined {
    if (canister === undefined) return undefined;
    const facts = JSON.stringify(actorFacts(canister, this.#host.metering));
    return `${facts.slice(0, -1)},${this.#codeText(canister)},"idleMs":${idleMsOf(canister, this.#host.clock)}}`;
  }

  /** Returns the text that actors of one module share. */
  #codeText({ module, candid, candidProblem }: Canister): string {
    // An interface belongs to one module; where there is none, the module alone decides.
    const key = candid ?? module;
    const known = this.#codeTexts.get(key);
    if (known !== undefined) return known;
    const text = JSON.stringify({
      moduleHash: module?.hash ?? null,
      methods: Array.from(module?.methods ?? [], ([name, kind]) => ({ name, kind })).filter(
        ({ name }) => !isInternalMethod(name),
      ),
      candid: candid?.text ?? null,
      candidProblem: candidProblem ?? null,
    }).slice(1, -1);
    this.#codeTexts.set(key, text);
    return text;
  }
}

/** Facts of an actor that change with each message, for JSON. */
interface ActorFacts {
  readonly id: string;
  readonly principal: string;
  readonly name: string;
  readonly status: Canister['status'];
  readonly live: boolean;
  readonly cycles: string;
  readonly dry: boolean;
  readonly heapBytes: number;
  readonly stableBytes: number;
  readonly messages: number;
  readonly traps: number;
  readonly queued: number;
}

export function actorFacts(canister: Canister, { policy }: Pick<RouteHost['metering'], 'policy'>): ActorFacts {
  return {
    id: canister.idHex,
    principal: canister.principal,
    name: canister.name,
    status: canister.status,
    live: canister.isLive,
    // A balance may pass 2^53: decimal text, as everywhere else.
    cycles: String(canister.balance),
    dry: isDry(policy, canister.balance),
    heapBytes: canister.heapBytes,
    stableBytes: canister.stableBytes,
    messages: canister.messages,
    traps: canister.traps,
    queued: canister.queued,
  };
}

/** Returns how long ago a client had an answer of the actor, in whole ms. */
export function idleMsOf({ lastMessageMs }: Canister, clock: Pick<RouteHost['clock'], 'nowMs'>): number {
  return Math.max(0, Math.round(clock.nowMs() - lastMessageMs));
}

function firstAfter(canisters: readonly Canister[], idHex: string): number {
  let [low, high] = [0, canisters.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((canisters[middle]?.idHex ?? '') <= idHex) low = middle + 1;
    else high = middle;
  }
  return low;
}
