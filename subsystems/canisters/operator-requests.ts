/**
 * Changes of an actor that the operator asks for over HTTP and canisters ask for by calls of `aaaaa-aa`: settings and
 * snapshots. The management canister checks and does them, as for everybody else.
 */
import { ServerError } from '../../kernel/index.ts';
import type { Codec } from '../codec/index.ts';
import { NS_PER_MS } from '../ic/index.ts';
import { type ManagementHooks, OperatorCalls } from '../management/index.ts';
import type { CodeLocks } from '../scheduler/index.ts';
import { type CanisterRecord, recordOf } from './canister-record.ts';
import { type Canister, type OperatorRequests, quotedName, type SnapshotInfo } from './index.ts';

interface OperatedNeeds {
  readonly codec: Pick<Codec, 'parseInterface'>;
  readonly scheduler: Pick<CodeLocks, 'lockBetweenMessages' | 'pause' | 'resume'>;
  /** Resolves when everything that has been done is durable. */
  readonly settled: () => Promise<void>;
  /** The management canister is attached after this is made. */
  readonly deployments: { readonly management: Pick<ManagementHooks, 'call'> };
}

/** A snapshot in the management canister's JSON: the id is base64 text. */
interface Snapshot {
  readonly id: string;
  readonly taken_at_timestamp: number | string;
  readonly total_size: number | string;
}

export class OperatedCanisters implements OperatorRequests {
  readonly #needs: OperatedNeeds;
  readonly #calls: OperatorCalls;

  constructor(needs: OperatedNeeds) {
    this.#needs = needs;
    this.#calls = new OperatorCalls(needs.codec, () => needs.deployments.management);
  }

  async settingsOf({ principal }: Canister): Promise<unknown> {
    const status = await this.#calls.call('canister_status', JSON.stringify({ canister_id: principal }));
    return (status as { readonly settings: unknown }).settings;
  }

  async changeSettings(canister: Canister, settings: string): Promise<unknown> {
    const id = JSON.stringify(canister.principal);
    // The text as it came: numbers in it may have more digits than those of JavaScript.
    const argument = `{"canister_id":${id},"settings":${settings},"sender_canister_version":null}`;
    await this.#calls.call('update_settings', argument);
    await this.#needs.settled();
    return await this.settingsOf(canister);
  }

  async snapshotsOf({ principal }: Canister): Promise<readonly SnapshotInfo[]> {
    const list = (await this.#calls.call(
      'list_canister_snapshots',
      JSON.stringify({ canister_id: principal }),
    )) as readonly Snapshot[];
    return list.map(infoOf);
  }

  async takeSnapshot(canister: Canister, replaced?: string): Promise<SnapshotInfo> {
    const replacedId = replaced === undefined ? null : await this.#idOf(canister, replaced);
    const argument = {
      canister_id: canister.principal,
      replace_snapshot: replacedId,
      uninstall_code: null,
      sender_canister_version: null,
    };
    const taken = await this.#calls.call('take_canister_snapshot', JSON.stringify(argument));
    await this.#needs.settled();
    return infoOf(taken as Snapshot);
  }

  async loadSnapshot(canister: Canister, id: string): Promise<void> {
    const argument = {
      canister_id: canister.principal,
      snapshot_id: await this.#idOf(canister, id),
      sender_canister_version: null,
    };
    const record = recordOf(canister);
    const { scheduler } = this.#needs;
    // An answer to a call of the present code must not come to that of the snapshot.
    const unlock = await scheduler.lockBetweenMessages(record.handle, { pauses: true });
    if (unlock === undefined) await scheduler.pause(record.handle);
    try {
      await this.#calls.call('load_canister_snapshot', JSON.stringify(argument));
    } finally {
      unlock?.();
      if (unlock === undefined) this.#resume(record);
    }
    await this.#needs.settled();
  }

  async deleteSnapshot(canister: Canister, id: string): Promise<void> {
    const argument = { canister_id: canister.principal, snapshot_id: await this.#idOf(canister, id) };
    await this.#calls.call('delete_canister_snapshot', JSON.stringify(argument));
    await this.#needs.settled();
  }

  #resume(record: CanisterRecord): void {
    if (record.isRemoved) return;
    this.#needs.scheduler.resume(record.handle);
    if (record.status === 'running') record.steps.checkMemory();
  }

  /** Returns a snapshot's id as the management canister writes it. Rejects with ServerError `snapshot-missing`. */
  async #idOf(canister: Canister, id: string): Promise<string> {
    const there = await this.snapshotsOf(canister);
    if (there.some((snapshot) => snapshot.id === id.toLowerCase())) return Buffer.from(id, 'hex').toString('base64');
    const known = there.length === 0 ? 'it has none' : `it has ${there.map((snapshot) => snapshot.id).join(', ')}`;
    throw new ServerError(
      'missing',
      'snapshot-missing',
      `${canister.name} has no snapshot ${quotedName(id)}: ${known}`,
    );
  }
}

function infoOf({ id, taken_at_timestamp: takenNs, total_size: bytes }: Snapshot): SnapshotInfo {
  return {
    id: Buffer.from(id, 'base64').toString('hex'),
    takenMs: Number(BigInt(takenNs) / BigInt(NS_PER_MS)),
    bytes: Number(bytes),
  };
}
