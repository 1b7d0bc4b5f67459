import type { Capability } from './capability.ts';
import type { Logger } from './logger.ts';

/** Named requirements of a plugin: what it will be handed, by capability. */
export type Requirements = Readonly<Record<string, Capability<unknown>>>;
export type Granted<R extends Requirements> = { readonly [K in keyof R]: R[K] extends Capability<infer T> ? T : never };

/** Where a plugin says what it is waiting for while it starts. */
export interface ReadinessReporter {
  /** What this plugin is doing now; `/health/ready` shows the newest note. */
  waiting(note: string): void;
}

export interface CreateContext<C> {
  /** This plugin's own section of the configuration, frozen. */
  readonly config: C;
  readonly log: Logger;
  /**
   * Keeps a private part of the plugin until the plugin has stopped, then hands it to `dispose`. For parts that
   * `stop` does not reach; everything owned is disposed of at once, so the parts must not depend on each other.
   */
  readonly owns: <P>(part: P, dispose: (part: P) => void | Promise<void>) => P;
}
export interface StartContext {
  readonly readiness: ReadinessReporter;
  readonly log: Logger;
  /** Aborted when the server is told to stop while this plugin still starts. */
  readonly signal: AbortSignal;
}
export interface ReadyContext {
  readonly log: Logger;
}
export interface DrainContext {
  readonly log: Logger;
}
export interface StopContext {
  readonly log: Logger;
  /** Aborted when the plugin's stop deadline has passed. */
  readonly signal: AbortSignal;
}

/** What a plugin makes, seen through one capability more than the one it provides. */
export interface Face<T> {
  readonly capability: Capability<unknown>;
  /** The part of what was made that the capability promises. */
  of(made: T): unknown;
}

/** Shows what a plugin made through a narrow capability, for the few who need more than everybody is granted. */
export function face<F, T>(capability: Capability<F>, of: (made: T) => NoInfer<F>): Face<T> {
  return Object.freeze({ capability, of });
}

/**
 * The wiring of one subsystem, as two types: `P` is what it promises to whoever requires it, `T` is what `create` made.
 * Life-cycle methods belong to `T`, which only the plugin sees. What `disabled` gives has the promise alone, so the
 * compiler knows that there is nothing to open, start or stop.
 *
 * The kernel calls, for all plugins in boot order: every `create`, then every `open`,
 * then each `start`, then, once the server takes work, every `ready`. At the end it calls each `drain` in reverse order,
 * and, when all have ended, each `stop` in reverse order.
 *
 * What was created is drained and stopped, once, even if its `open` or `start` failed or was never reached because
 * another plugin's did: both must cope with an object that has only been created.
 */
export interface Plugin<P = unknown, T extends P = P, R extends Requirements = Requirements, C = unknown> {
  readonly name: string;
  /** The module it was loaded from, for messages; undefined: it is part of the server. */
  readonly origin?: string;
  readonly provides: Capability<P>;
  /** Further faces of what `create` makes. When the plugin is turned off, nobody provides them. */
  readonly alsoProvides?: readonly Face<T>[];
  readonly requires: R;
  /** Why the server cannot run without it (`every message goes through it`), or undefined when `--no-<name>` may turn it off. */
  readonly neededBecause?: string;
  /** Cheap and synchronous: builds the object. */
  create(granted: Granted<R>, context: CreateContext<C>): T;
  /**
   * What `--no-<name>` provides instead: a real object whose methods refuse. Without it the capability is simply
   * gone. The kernel never opens, starts or stops it.
   */
  disabled?(granted: Granted<R>, context: CreateContext<C>): NoInfer<P>;
  /**
   * When everything is created and before anything starts: bind the listener; hand a port to whoever was created without
   * it, because it is required itself by the one that has the port (a ring of two is closed here).
   */
  open?(value: T, context: StartContext): Promise<void>;
  start?(value: T, context: StartContext): Promise<void>;
  /** The server takes work from this moment on: say so. */
  ready?(value: T, context: ReadyContext): void;
  /**
   * The server ends: take no more work, and let what has begun end. Whoever brings work is drained before whoever does
   * it, and all plugins are still there meanwhile, so work that ends can be answered. There is no deadline unless the plugin
   * has one: resolve at once where only others can end what is left (the listener's answers), and close in `stop`.
   */
  drain?(value: T, context: DrainContext): Promise<void>;
  stop?(value: T, context: StopContext): Promise<void>;
  /**
   * Milliseconds that `open` and `start` may each take without a word: each `readiness.waiting` begins them anew. Passing them
   * fails the start; undefined: no limit.
   */
  readonly startSilenceMs?: number;
  /** Milliseconds `drain` may take; as with `stopDeadlineMs`. */
  readonly drainDeadlineMs?: number;
  /** Milliseconds `stop` may take before it is named in the log and fails the exit code; undefined: no limit. */
  readonly stopDeadlineMs?: number;
}

/** Types a plugin literal; the identity at run time. */
export function definePlugin<P, T extends P, R extends Requirements, C>(
  plugin: Plugin<P, T, R, C>,
): Plugin<P, T, R, C> {
  return Object.freeze(plugin);
}
