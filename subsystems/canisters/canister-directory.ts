/**
 * Main thread: which canisters there are, and how they are found. Knows records, names and ids; touches no executor.
 */
import { at, type Logger, ServerError, suggestionFor } from '../../kernel/index.ts';
import type { CanisterSpec } from '../execution/index.ts';
import { type CanisterIds, type GivenFacts, idOfReference } from '../ic/index.ts';
import { type Admission, TextIndex } from '../scheduler/index.ts';
import type { CanisterStore } from './canister-store.ts';
import { type CanisterIdentity, CanisterRecord, type RecordContext } from './canister-record.ts';
import { quotedName } from './index.ts';

interface CanisterDirectoryNeeds {
  readonly scheduler: Pick<Admission, 'handleOf'>;
  readonly ids: CanisterIds;
  readonly store: CanisterStore;
  readonly recordContext: RecordContext;
  readonly log: Logger;
  /** Bytes of heap up to which what a message changed is stored, above what it depended on. */
  readonly snapshotBelowBytes: number;
  /** Not all canisters may be live at once. */
  readonly hasLiveLimit: boolean;
}

/** A canister that an executor is told of. */
export interface SpecifiedCanister extends Pick<CanisterIdentity, 'id' | 'controllers' | 'environment'> {
  readonly facts?: GivenFacts;
  readonly steps: { readonly balance: bigint };
}

export class CanisterDirectory {
  readonly ids: CanisterIds;
  readonly store: CanisterStore;
  readonly #needs: CanisterDirectoryNeeds;
  readonly #byHandle: (CanisterRecord | undefined)[] = [];
  /** Canisters that have a name besides their id. */
  readonly #byName = new TextIndex((handle) => this.#byHandle[handle]?.name);

  /** The same by their names in small letters; where several differ in case only, one of them. */
  readonly #byHost = new TextIndex((handle) => this.#byHandle[handle]?.name.toLowerCase());
  /** Such names. */
  readonly #ambiguous = new Set<string>();
  /** Names of canisters that are not there, with the reasons. */
  readonly #rejected = new Map<string, string>();

  constructor(needs: CanisterDirectoryNeeds) {
    this.#needs = needs;
    this.ids = needs.ids;
    this.store = needs.store;
  }

  /** Returns the canister with these bytes as its id. */
  find(id: Uint8Array): CanisterRecord | undefined {
    const handle = this.#needs.scheduler.handleOf(id);
    return handle === undefined ? undefined : this.#byHandle[handle];
  }

  list(): readonly CanisterRecord[] {
    return this.#byHandle
      .filter((record) => record !== undefined)
      .filter(({ damage }) => damage === undefined)
      .sort((a, b) => (a.idText < b.idText ? -1 : 1));
  }

  /** Yields names of canisters that can be called, in no order. */
  *names(): Iterable<string> {
    for (const record of this.#byHandle) if (record?.damage === undefined && record !== undefined) yield record.name;
  }

  /** Yields canisters that have a name besides their id, whatever their state is, in no order. */
  *named(): Iterable<CanisterRecord> {
    for (const record of this.#byHandle) if (record?.isNamed === true) yield record;
  }

  /** Returns a canister by name, hex id or textual principal, whatever its state is; a name wins. */
  findByName(reference: string): CanisterRecord | undefined {
    const named = this.#byName.find(reference);
    if (named !== undefined) return this.#byHandle[named];
    const id = idOfReference(reference);
    return id === undefined ? undefined : this.find(id);
  }

  /** The same of one that can be called. Throws ServerError `actor-rejected`. */
  resolveIfAny(reference: string): CanisterRecord | undefined {
    const found = this.findByName(reference);
    const reason = found === undefined ? this.#rejected.get(reference) : found.damage;
    if (reason !== undefined) throw rejected(reference, reason);
    return found;
  }

  /** Throws ServerError `missing`, with the reason. */
  resolve(reference: string): CanisterRecord {
    const found = this.resolveIfAny(reference);
    if (found !== undefined) return found;
    throw new ServerError(
      'missing',
      'actor-missing',
      `there is no actor ${quotedName(reference)}${suggestionFor(reference, this.names()) || ': GET /actors lists the actors'}`,
    );
  }

  /** The name of the canister whose alone it is in small letters, or the principal if that is a canister's. */
  referenceOfHost(label: string): string | undefined {
    const handle = this.#byHost.find(label);
    if (handle !== undefined && !this.#ambiguous.has(label)) return this.#byHandle[handle]?.name;
    const id = label.includes('-') ? idOfReference(label) : undefined;
    return id === undefined || this.find(id) === undefined ? undefined : label;
  }

  /** Returns a canister by the handle that executors and the scheduler know. */
  get(handle: number): CanisterRecord {
    return at(this.#byHandle, handle, 'canister');
  }

  /** The same; undefined: it is gone. */
  ifAny(handle: number): CanisterRecord | undefined {
    return this.#byHandle[handle];
  }

  get hasLiveLimit(): boolean {
    return this.#needs.hasLiveLimit;
  }

  /** Returns the facts that an executor gets about a canister at the beginning. */
  specOf({ id, steps, controllers, environment, facts }: SpecifiedCanister): CanisterSpec {
    const snapshotBelowBytes = this.store.isDurable ? this.#needs.snapshotBelowBytes : undefined;
    return { id, balance: steps.balance, controllers, env: environment, ...(facts && { facts }), snapshotBelowBytes };
  }

  /** Makes the record of a canister that executors have, or will have. `isUnfinished`: it is there with its code. */
  recordFor(handle: number, identity: CanisterIdentity, isUnfinished?: boolean): CanisterRecord {
    return new CanisterRecord(handle, identity, this.#needs.recordContext, isUnfinished);
  }

  /** Makes the canister findable by its name; by its id it is found when the scheduler has it. */
  enter(record: CanisterRecord): void {
    this.#byHandle[record.handle] = record;
    if (!record.isNamed) return;
    this.#byName.add(record.handle);
    const hostName = record.name.toLowerCase();
    const other = this.#byHost.find(hostName);
    if (other !== undefined && other !== record.handle) this.#ambiguous.add(hostName);
    this.#byHost.add(record.handle);
  }

  /** Nobody finds the canister any more. */
  leave(record: CanisterRecord): void {
    if (this.#byName.find(record.name) === record.handle) {
      this.#byName.delete(record.name);
      this.#leaveHost(record);
    }
    this.#byHandle[record.handle] = undefined;
  }

  #leaveHost(record: CanisterRecord): void {
    const hostName = record.name.toLowerCase();
    if (!this.#ambiguous.has(hostName)) {
      this.#byHost.delete(hostName);
      return;
    }
    // Hardly ever: so all are looked through, instead of keeping for each name who has it.
    const others = this.#byHandle.filter(
      (other) => other !== undefined && other !== record && other.isNamed && other.name.toLowerCase() === hostName,
    );
    const [other] = others;
    if (other !== undefined) this.#byHost.add(other.handle);
    if (others.length < 2) this.#ambiguous.delete(hostName);
  }

  /** A canister whose stored state cannot be used: it stays as it is, and nobody finds it. */
  quarantine(record: Pick<CanisterRecord, 'name' | 'damage'>, reason: string): void {
    record.damage = reason;
    this.#needs.log.announce(`REJECTED ${record.name} ${reason}`);
  }

  /** There is no such canister, for this reason. */
  reject(name: string, reason: string): void {
    this.#rejected.set(name, reason);
    this.#needs.log.announce(`REJECTED ${name} ${reason}`);
  }

  isRejected(name: string): boolean {
    return this.#rejected.has(name);
  }

  /** There is such a canister by now. */
  accept(name: string): void {
    this.#rejected.delete(name);
  }
}

export function rejected(reference: string, reason: string): ServerError {
  return new ServerError('missing', 'actor-rejected', `actor ${reference} was rejected: ${reason}`);
}
