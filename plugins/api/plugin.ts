/**
 * `svc/plugin`: the module with which plugins from outside are written; `docs/plugins.md` shows how. The faces exported
 * here document each subsystem's interface. Version 1 of this interface: exports keep their meaning.
 */
export { API_VERSION, definePlugin, type PluginDefinition, type RestoredBackup } from './definition.ts';
export type * from './options.ts';
export type * from './routes.ts';
export { around } from './around.ts';
export {
  assert,
  type Capability,
  Clock,
  type CreateContext,
  defineCapability,
  type DrainContext,
  type ErrorKind,
  face,
  type Face,
  type Granted,
  type LogFields,
  Logger,
  messageOf,
  Random,
  Readiness,
  type ReadinessReporter,
  type ReadyContext,
  type Requirements,
  ServerError,
  sleep,
  type StartContext,
  type StopContext,
} from '../../kernel/index.ts';
export { Auth, type Grant, Scopes } from '../../subsystems/auth/index.ts';
export { Canisters, ManifestActors } from '../../subsystems/canisters/index.ts';
export * from '../../subsystems/codec/index.ts';
export { Compatibility } from '../../subsystems/compatibility/index.ts';
export { Compiler } from '../../subsystems/compiler/index.ts';
export { Execution } from '../../subsystems/execution/index.ts';
export { Gateway, type SiteAnswer, type SiteOutcome, type SiteRequest } from '../../subsystems/gateway/index.ts';
export { HttpServer } from '../../subsystems/http/index.ts';
export { Inspector, type InspectorPage } from '../../subsystems/inspector/index.ts';
export { Management, ManagementBackend, type ManagementHooks } from '../../subsystems/management/index.ts';
export { Manifest, type ManifestActor } from '../../subsystems/manifest/index.ts';
export { Metering, type MeteringPolicy } from '../../subsystems/metering/index.ts';
export * from '../../subsystems/metrics/index.ts';
export { type ClosureDocument, MopsClosures } from '../../subsystems/mops-closure/index.ts';
export { type DescribedActor, OpenApi } from '../../subsystems/openapi/index.ts';
export * from '../../subsystems/outcalls/index.ts';
export { Scheduler, SchedulerSetup } from '../../subsystems/scheduler/index.ts';
export {
  type AheadReader,
  type BackupFile,
  type CommitNumbers,
  type CommitPort,
  type PackedRecords,
  Storage,
  type StorageFigures,
  type StoredCanister,
  type StoredMemory,
} from '../../subsystems/storage/index.ts';
