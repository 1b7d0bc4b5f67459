import type {
  Capability,
  CreateContext,
  DrainContext,
  Face,
  Granted,
  ReadyContext,
  Requirements,
  StartContext,
  StopContext,
} from '../../kernel/index.ts';
import type { BackupFile } from '../../subsystems/storage/index.ts';
import type { OptionSpecs, OptionValues } from './options.ts';
import type { PluginRoute } from './routes.ts';

/**
 * Version of this interface. A plugin states the version it was written for, and a server with another one refuses it.
 */
export const API_VERSION = 1;

/** Result of restoring a backup into a store. */
export interface RestoredBackup {
  readonly entries: number;
  readonly bytes: number;
}

/**
 * A plugin from outside: the export that `--plugin <capability>=<module>` loads. `P` is the interface that it provides,
 * `T` the object that `create` makes.
 *
 * The server calls, for all plugins in the order of their requirements: every `create`, then every `open`, then each
 * `start`, then, once it takes work, every `ready`; at the end each `drain` and each `stop` in reverse order. A created
 * object is drained and stopped, once, even if its own `open` or `start`, or another plugin's, has failed.
 */
export interface PluginDefinition<
  P = unknown,
  T extends P = P,
  R extends Requirements = Requirements,
  O extends OptionSpecs = OptionSpecs,
> {
  /**
   * `API_VERSION` of the interface that the plugin was written for, as a literal number: an imported one would always
   * match.
   */
  readonly apiVersion: number;
  /** Name of lower-case letters, digits and `-`; the plugin's routes are below `/x/<name>/`. */
  readonly name: string;
  readonly provides: Capability<P>;
  /** Further faces of the object, if the plugin that it replaces has them. */
  readonly alsoProvides?: readonly Face<T>[];
  /** Capabilities that `create` is granted, under the names that they have here. */
  readonly requires?: R;
  readonly options?: O;
  readonly routes?: readonly PluginRoute<T>[];
  /** True for a storage whose committed data outlives the process. It then takes the place of `--state`. */
  readonly isDurable?: boolean;
  /** Builds the object. Must be cheap and synchronous; work that waits belongs in `open` or `start`. */
  create(granted: Granted<R>, context: CreateContext<OptionValues<O>>): T;
  /**
   * Puts the backup's data into a durable storage, which must be empty, either wholly or not at all. Called with
   * `--restore FILE`, before `start`. Rejects with ServerError `restore-not-empty` if the storage is not empty.
   */
  restore?(made: T, backup: BackupFile, context: StartContext): Promise<RestoredBackup>;
  /** Listens or connects; called for all plugins before the first `start`. */
  open?(made: T, context: StartContext): Promise<void> | void;
  start?(made: T, context: StartContext): Promise<void> | void;
  /** Called when the server begins to take work. */
  ready?(made: T, context: ReadyContext): void;
  /** Takes no more work, and lets running work end. */
  drain?(made: T, context: DrainContext): Promise<void> | void;
  stop?(made: T, context: StopContext): Promise<void> | void;
  /**
   * Milliseconds that `open`, `restore` and `start` may each take without a call of `readiness.waiting`; default
   * 60,000.
   */
  readonly startSilenceMs?: number;
  /** Milliseconds that `drain` and `stop` may each take; default 10,000. */
  readonly stopDeadlineMs?: number;
}

/** Types a plugin and returns it unchanged. The server checks the plugin when it is loaded. */
export function definePlugin<
  P,
  T extends P,
  const O extends OptionSpecs = Readonly<Record<string, never>>,
  R extends Requirements = Readonly<Record<string, never>>,
>(definition: PluginDefinition<P, T, R, O>): PluginDefinition<P, T, R, O> {
  return Object.freeze(definition);
}
