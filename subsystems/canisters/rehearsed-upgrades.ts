/** Upgrades are tried on copies of actors before they are done, where the manifest or a request asks for it. */
import type { CodeChange } from '../execution/index.ts';
import type { Rehearsal, RehearsalReport, RehearsalVerdict } from '../rehearsal/index.ts';
import type { CanisterRecord, RecordedCode } from './canister-record.ts';
import type { StateCopies } from './state-copies.ts';

interface RehearsedUpgradesNeeds {
  readonly rehearsal: Rehearsal;
  readonly copies: Pick<StateCopies, 'filled' | 'specOfCopy'>;
}

/** An upgrade that is about to be done. */
export interface NextUpgrade {
  readonly code: RecordedCode;
  readonly change: Extract<CodeChange, { readonly mode: 'upgrade' }>;
}

export class RehearsedUpgrades {
  readonly #needs: RehearsedUpgradesNeeds;
  /** Messages by the names of actors whose manifest asks for a rehearsal. */
  readonly #asked = new Map<string, number>();

  constructor(needs: RehearsedUpgradesNeeds) {
    this.#needs = needs;
  }

  /** Notes what the manifest asks for; undefined: no rehearsal. */
  ask(name: string, messages: number | undefined): void {
    if (messages === undefined) this.#asked.delete(name);
    else this.#asked.set(name, messages);
  }

  /** Returns the number of messages that the manifest asks for; 0: no rehearsal. */
  askedOf(name: string): number {
    return this.#asked.get(name) ?? 0;
  }

  /** Rejects as `Rehearsal` does. */
  rehearse(
    record: CanisterRecord,
    { code, change }: NextUpgrade,
    messages: number,
    signal: AbortSignal,
  ): Promise<RehearsalReport> {
    const { rehearsal, copies } = this.#needs;
    const { id, name, code: from } = record;
    const specOfCopy = (): ReturnType<StateCopies['specOfCopy']> => copies.specOfCopy(record);
    const copyOfNow = (): Promise<number> => copies.filled(record, (from ?? code).module, specOfCopy());
    return rehearsal.rehearse({ id, name, from, to: code, change, specOfCopy, copyOfNow }, messages, signal);
  }

  judge(name: string, report: RehearsalReport, isForced: boolean): RehearsalVerdict {
    return this.#needs.rehearsal.judge(name, report, isForced);
  }
}
