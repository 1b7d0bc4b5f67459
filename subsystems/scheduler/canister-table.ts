/** Canisters that the scheduler has, by number and by id. Main thread; a list and an index. */
import { at } from '../../kernel/index.ts';
import { idToText } from '../ic/index.ts';
import type { ScheduledCanister } from './scheduled-canister.ts';
import { TextIndex } from './text-index.ts';

export class CanisterTable implements Iterable<ScheduledCanister> {
  readonly #canisters: (ScheduledCanister | undefined)[] = [];
  readonly #byId = new TextIndex((handle) => this.#canisters[handle]?.idText);

  enter(canister: ScheduledCanister): void {
    this.#canisters[canister.handle] = canister;
    this.#byId.add(canister.handle);
  }

  leave({ handle, idText }: ScheduledCanister): void {
    this.#byId.delete(idText);
    this.#canisters[handle] = undefined;
  }

  /** Throws where there is none. */
  get(handle: number): ScheduledCanister {
    return at(this.#canisters, handle, 'canister');
  }

  ifAny(handle: number): ScheduledCanister | undefined {
    return this.#canisters[handle];
  }

  handleOf(id: Uint8Array): number | undefined {
    return this.#byId.find(idToText(id));
  }

  find(id: Uint8Array): ScheduledCanister | undefined {
    const handle = this.handleOf(id);
    return handle === undefined ? undefined : this.#canisters[handle];
  }

  *[Symbol.iterator](): Iterator<ScheduledCanister> {
    for (const canister of this.#canisters) if (canister !== undefined) yield canister;
  }
}
