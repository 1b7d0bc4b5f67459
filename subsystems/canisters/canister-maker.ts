import type { CanisterLifecycle } from '../execution/index.ts';
import type { Metering } from '../metering/index.ts';
import type { Admission } from '../scheduler/index.ts';
import type { CanisterDirectory } from './canister-directory.ts';
import type { CanisterRecord, NewRecord } from './canister-record.ts';

interface CanisterMakerNeeds {
  readonly execution: Pick<CanisterLifecycle, 'create'>;
  readonly scheduler: Pick<Admission, 'admit'>;
  readonly metering: Metering;
  readonly directory: CanisterDirectory;
}

/** Makes canisters known to all who have to know them: executor, directory, scheduler. */
export class CanisterMaker {
  readonly #needs: CanisterMakerNeeds;

  constructor(needs: CanisterMakerNeeds) {
    this.#needs = needs;
  }

  /** Makes an empty canister. It is stored with what its maker gives it next: its code, or its settings. */
  make(spec: NewRecord): CanisterRecord {
    const { execution, scheduler, metering, directory } = this.#needs;
    const id = spec.id ?? directory.ids.next();
    const balance = metering.policy.isEnabled ? (spec.balance ?? metering.policy.startingCycles) : 0n;
    const identity = { ...spec, id, balance };
    const handle = execution.create(directory.specOf({ ...identity, steps: { balance } }));
    const record = directory.recordFor(handle, identity, spec.isInstalled);
    // Before it is admitted: the scheduler asks for its size then.
    directory.enter(record);
    scheduler.admit(handle, record.idText);
    return record;
  }
}
