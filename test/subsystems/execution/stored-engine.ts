/** An engine whose canister is stored: what it stores ahead of a step, and with it, comes into tables of the test. */
import type { CanisterState } from '../../../subsystems/execution/engine/canister-state.ts';
import { createStores, Engine } from '../../../subsystems/execution/engine/engine.ts';
import type { CanisterSpec } from '../../../subsystems/execution/index.ts';
import { ControlMemory } from '../../../subsystems/execution/memory/control-memory.ts';
import type { PieceSizes } from '../../../subsystems/execution/persistence/piece-sizes.ts';
import { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';
import { Overlay } from '../../../subsystems/storage/overlay.ts';
import { CANISTER_ID, POLICY, STACK_BYTES } from './engine-fixture.ts';

interface StoredOptions extends Pick<CanisterSpec, 'snapshotBelowBytes'> {
  readonly pieceSizes: PieceSizes;
  /** False: an engine that has to hand over everything with the step. */
  readonly canStore: boolean;
}

export class StoredEngine {
  readonly tables = new Overlay(new MemoryTables());
  /** Bytes of the pieces that were stored ahead since the last look. */
  readonly pieces: number[] = [];
  /** Called when a piece is stored; false: the message is recalled. */
  onPiece: () => boolean = () => true;
  readonly engine: Engine;
  readonly canister: CanisterState;

  constructor({ pieceSizes, canStore, ...given }: StoredOptions) {
    this.engine = new Engine({
      policy: POLICY,
      control: new ControlMemory({ stackBytes: STACK_BYTES, journalBytesMax: 256 << 20, canSuspend: canStore }),
      shared: createStores({ stableBytesMax: 256 << 20 }),
      reportBug: (message, cause) => {
        throw new Error(`a bug of the host: ${message}`, { cause });
      },
      ahead: canStore ? { store: (changes) => this.#store(changes) } : {},
      pieceSizes,
    });
    const spec = { id: CANISTER_ID, balance: POLICY.startingCycles, controllers: [], env: new Map<string, string>() };
    this.canister = this.engine.createCanister({ ...spec, ...given });
  }

  apply(changes: readonly Uint8Array[] | undefined): void {
    for (const piece of changes ?? []) this.tables.apply(piece);
  }

  #store(changes: readonly Uint8Array[]): Promise<boolean> {
    this.pieces.push(changes.reduce((bytes, { length }) => bytes + length, 0));
    this.apply(changes);
    return Promise.resolve(this.onPiece());
  }
}
