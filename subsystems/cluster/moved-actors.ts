/**
 * Which actors are not in the shard that their id tells, as this server knows it. Each move of an actor has a version,
 * and a later one a greater version: so whoever hears of two keeps the later one. What this server has itself is known
 * from what it does: hearsay does not bring an actor here, or take one away.
 *
 * Main thread; a map.
 */
import { idToText, shardOf } from '../ic/index.ts';

/** An actor that has moved. */
export interface MovedActor {
  readonly id: Uint8Array;
  /** The shard that has it. */
  readonly shard: number;
  /** Number of the move among all of the service. */
  readonly version: number;
}

type Place = Pick<MovedActor, 'shard' | 'version'>;

export class MovedActors {
  readonly #places = new Map<string, Place>();
  #changed: (id: Uint8Array) => void = () => undefined;

  /** `changed` is called when an actor turns out to be in another shard. To be called once. */
  attend(changed: (id: Uint8Array) => void): void {
    this.#changed = changed;
  }

  /** Returns the shard that an actor is in; undefined: the id is of none. */
  shardOf(id: Uint8Array): number | undefined {
    return this.#placeOf(id)?.shard ?? shardOf(id);
  }

  /** Returns the number of the actor's newest move; 0: it has never moved. */
  versionOf(id: Uint8Array): number {
    return this.#placeOf(id)?.version ?? 0;
  }

  #placeOf(id: Uint8Array): Place | undefined {
    // Nearly always: no text is made for nothing.
    return this.#places.size === 0 ? undefined : this.#places.get(idToText(id));
  }

  /** Takes a move, unless a later one is known. */
  moved({ id, shard, version }: MovedActor): void {
    if (version <= this.versionOf(id)) return;
    this.#places.set(idToText(id), { shard, version });
    this.#changed(id);
  }
}
