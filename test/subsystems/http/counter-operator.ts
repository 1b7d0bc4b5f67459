import { ServerError } from '../../../kernel/index.ts';
import type { Canister, OperatorRequests, SnapshotInfo } from '../../../subsystems/canisters/index.ts';

interface Counting {
  count: number;
}

/** Settings and snapshots of counters. */
export class CounterOperator implements OperatorRequests {
  readonly #counterOf: (canister: Canister) => Counting;
  readonly #settings = new WeakMap<Canister, object>();
  readonly #taken = new WeakMap<Canister, (SnapshotInfo & Counting)[]>();
  #next = 1;

  constructor(counterOf: (canister: Canister) => Counting) {
    this.#counterOf = counterOf;
  }

  async settingsOf(canister: Canister): Promise<unknown> {
    return this.#settings.get(canister) ?? { freezing_threshold: '2592000', log_visibility: { controllers: null } };
  }

  async changeSettings(canister: Canister, settings: string): Promise<unknown> {
    const changed = JSON.parse(settings) as object;
    if ('controllers' in changed && !Array.isArray(changed.controllers))
      throw new ServerError('invalid', 'bad-arguments', 'args[0].settings.controllers: expected an array');
    this.#settings.set(canister, { ...((await this.settingsOf(canister)) as object), ...changed });
    return await this.settingsOf(canister);
  }

  async snapshotsOf(canister: Canister): Promise<readonly SnapshotInfo[]> {
    return this.#of(canister).map(({ id, takenMs, bytes }) => ({ id, takenMs, bytes }));
  }

  async takeSnapshot(canister: Canister, replaced?: string): Promise<SnapshotInfo> {
    const snapshot = { id: (this.#next++).toString(16).padStart(2, '0'), takenMs: 0, bytes: 8 };
    if (replaced !== undefined) await this.deleteSnapshot(canister, replaced);
    this.#of(canister).push({ ...snapshot, count: this.#counterOf(canister).count });
    return snapshot;
  }

  async loadSnapshot(canister: Canister, id: string): Promise<void> {
    this.#counterOf(canister).count = this.#find(canister, id).count;
  }

  async deleteSnapshot(canister: Canister, id: string): Promise<void> {
    const list = this.#of(canister);
    list.splice(list.indexOf(this.#find(canister, id)), 1);
  }

  #find(canister: Canister, id: string): SnapshotInfo & Counting {
    const found = this.#of(canister).find((snapshot) => snapshot.id === id);
    if (found === undefined)
      throw new ServerError('missing', 'snapshot-missing', `${canister.name} has no snapshot ${id}`);
    return found;
  }

  #of(canister: Canister): (SnapshotInfo & Counting)[] {
    const list = this.#taken.get(canister) ?? [];
    this.#taken.set(canister, list);
    return list;
  }
}
