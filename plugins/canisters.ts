import { Clock, definePlugin, face, Logger } from '../kernel/index.ts';
import { CanisterService, type CanisterServiceOptions } from '../subsystems/canisters/canister-service.ts';
import { ManifestCheck } from '../subsystems/canisters/check-manifest.ts';
import { Canisters, ManifestActors } from '../subsystems/canisters/index.ts';
import { CanisterMoves } from '../subsystems/canisters/moves/index.ts';
import { PastActors } from '../subsystems/canisters/past/index.ts';
import { ServiceStore } from '../subsystems/cluster/index.ts';
import { Codec } from '../subsystems/codec/index.ts';
import { Compatibility } from '../subsystems/compatibility/index.ts';
import { Compiler } from '../subsystems/compiler/index.ts';
import { Execution } from '../subsystems/execution/index.ts';
import { ManagementBackend } from '../subsystems/management/index.ts';
import { Manifest } from '../subsystems/manifest/index.ts';
import { Metering } from '../subsystems/metering/index.ts';
import { Rehearsal } from '../subsystems/rehearsal/index.ts';
import { Scheduler, SchedulerSetup } from '../subsystems/scheduler/index.ts';
import { Storage } from '../subsystems/storage/index.ts';

export const canistersPlugin = definePlugin({
  name: 'canisters',
  provides: Canisters,
  alsoProvides: [
    face(ManagementBackend, (canisters: CanisterService) => canisters.backend),
    face(ManifestActors, (canisters: CanisterService) => canisters.started),
    face(ManifestCheck, (canisters: CanisterService) => canisters.started),
    face(CanisterMoves, (canisters: CanisterService) => canisters.moving),
    face(PastActors, (canisters: CanisterService) => canisters.past),
  ],
  requires: {
    execution: Execution,
    scheduler: Scheduler,
    schedulerSetup: SchedulerSetup,
    metering: Metering,
    codec: Codec,
    manifest: Manifest,
    compiler: Compiler,
    compatibility: Compatibility,
    rehearsal: Rehearsal,
    storage: Storage,
    service: ServiceStore,
    clock: Clock,
    log: Logger,
  },
  neededBecause: 'it knows the actors by name',
  create: (granted, { config }: { readonly config: CanisterServiceOptions }) => new CanisterService(granted, config),
  open: async (canisters) => canisters.open(),
  start: (canisters, { readiness, signal }) => canisters.started.install((note) => readiness.waiting(note), signal),
  // Runs in the background: its reports are for the operator.
  ready: (canisters) => {
    canisters.started.finishStart();
    void canisters.started.compare();
  },
  drain: async (canisters) => canisters.started.drain(),
});
