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

/** The version of this interface. A plugin says for which it was written, and a server with another refuses it by name. */
export const API_VERSION = 1;

/** What came of putting a backup into a store. */
export interface RestoredBackup {
  readonly entries: number;
  readonly bytes: number;
}

/**
 * A plugin from outside: what `--plugin <capability>=<module>` loads. `P` is what it promises, `T` what `create` makes.
 *
 * The server calls, for all plugins in the order that their requirements make: every `create`, then every `open`, then each
 * `start`, then, once it takes work, every `ready`; at the end each `drain` and each `stop` in reverse order. What was created
 * is drained and stopped, once, also where its own `open` or `start`, or another plugin's, has failed.
 */
export interface PluginDefinition<
  P = unknown,
  T extends P = P,
  R extends Requirements = Requirements,
  O extends OptionSpecs = OptionSpecs,
> {
  /** `API_VERSION` of the interface that it was written for, as a number: not imported, or it says nothing. */
  readonly apiVersion: number;
  /** Small letters, digits and `-`; its routes are below `/x/<name>/`. */
  readonly name: string;
  readonly provides: Capability<P>;
  /** Further faces of what is made, where the plugin that it replaces has them. */
  readonly alsoProvides?: readonly Face<T>[];
  /** What `create` is granted, by the names that it has here. */
  readonly requires?: R;
  readonly options?: O;
  readonly routes?: readonly PluginRoute<T>[];
  /** Of a storage: what it has committed outlives the process. Then it takes the place of `--state`. */
  readonly isDurable?: boolean;
  /** Cheap and synchronous: builds the object. What has to wait waits in `open` or `start`. */
  create(granted: Granted<R>, context: CreateContext<OptionValues<O>>): T;
  /**
   * Of a durable storage, with `--restore FILE`: called before `start`. Puts what the backup has into the store, which must
   * be empty, wholly or not at all. Rejects with ServerError `restore-not-empty` where it is not.
   */
  restore?(made: T, backup: BackupFile, context: StartContext): Promise<RestoredBackup>;
  /** Listens, connects: for all plugins before the first `start`. */
  open?(made: T, context: StartContext): Promise<void> | void;
  start?(made: T, context: StartContext): Promise<void> | void;
  /** The server takes work from now on. */
  ready?(made: T, context: ReadyContext): void;
  /** Takes no more work, and lets end what has begun. */
  drain?(made: T, context: DrainContext): Promise<void> | void;
  stop?(made: T, context: StopContext): Promise<void> | void;
  /** Milliseconds that `open`, `restore` and `start` may each take without a call of `readiness.waiting`; default 60,000. */
  readonly startSilenceMs?: number;
  /** Milliseconds that `drain` and `stop` may each take; default 10,000. */
  readonly stopDeadlineMs?: number;
}

/** Types a plugin; what comes out is what went in. The server checks it when it is loaded. */
export function definePlugin<
  P,
  T extends P,
  const O extends OptionSpecs = Readonly<Record<string, never>>,
  R extends Requirements = Readonly<Record<string, never>>,
>(definition: PluginDefinition<P, T, R, O>): PluginDefinition<P, T, R, O> {
  return Object.freeze(definition);
}
