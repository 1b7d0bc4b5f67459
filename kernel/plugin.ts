import type { Capability } from './capability.ts';
import type { Logger } from './logger.ts';

/** Named requirements of a plugin: the capabilities whose values it is given. */
export type Requirements = Readonly<Record<string, Capability<unknown>>>;
export type Granted<R extends Requirements> = { readonly [K in keyof R]: R[K] extends Capability<infer T> ? T : never };

/** Reports what a plugin is waiting for while it starts. */
export interface ReadinessReporter {
  /** Sets the note on what this plugin is doing now; `/health/ready` shows the newest note. */
  waiting(note: string): void;
}

export interface CreateContext<C> {
  /** This plugin's own section of the configuration, frozen. */
  readonly config: C;
  readonly log: Logger;
  /**
   * Keeps a private part of the plugin until the plugin has stopped, then passes it to `dispose`. For parts that `stop`
   * does not reach. All parts are disposed of at once, so they must not depend on each other.
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

/** A view of the object that a plugin creates, through a capability besides the one it provides. */
export interface Face<T> {
  readonly capability: Capability<unknown>;
  /** Returns the part of the object that the capability promises. */
  of(made: T): unknown;
  /** Returns what the capability promises if the plugin is turned off; without this the capability is absent then. */
  readonly turnedOff?: () => unknown;
}

/** Shows a plugin's object through a narrow capability, for the few plugins that need more than the main capability. */
export function face<F, T>(
  capability: Capability<F>,
  of: (made: T) => NoInfer<F>,
  turnedOff?: () => NoInfer<F>,
): Face<T> {
  return Object.freeze({ capability, of, ...(turnedOff && { turnedOff }) });
}

/**
 * The wiring of one subsystem, as two types: `P` is the interface that other plugins get, `T` is the object that
 * `create` makes. Life-cycle methods belong to `T`, which only the plugin sees. `disabled` returns only a `P`, so the
 * compiler knows that there is nothing to open, start or stop.
 *
 * The kernel calls, for all plugins in boot order: every `create`, then every `open`, then each `start`, then, once the
 * server takes work, every `ready`. At the end it calls each `drain` in reverse order, and, when all have ended, each
 * `stop` in reverse order.
 *
 * A created object is drained and stopped, once, even if its `open` or `start` failed or was never reached because
 * another plugin failed: `drain` and `stop` must cope with an object that has only been created.
 */
export interface Plugin<P = unknown, T extends P = P, R extends Requirements = Requirements, C = unknown> {
  readonly name: string;
  /** The module that the plugin was loaded from, for messages; undefined: the plugin is part of the server. */
  readonly origin?: string;
  readonly provides: Capability<P>;
  /** Further faces of the object that `create` makes. */
  readonly alsoProvides?: readonly Face<T>[];
  readonly requires: R;
  /**
   * Reason why the server needs the plugin (`every message goes through it`); undefined: `--no-<name>` may turn it off.
   */
  readonly neededBecause?: string;
  /** Builds the object. Must be cheap and synchronous. */
  create(granted: Granted<R>, context: CreateContext<C>): T;
  /**
   * Returns the replacement that `--no-<name>` provides: a real object whose methods refuse. Without `disabled` the
   * capability is absent. The kernel never opens, starts or stops the replacement.
   */
  disabled?(granted: Granted<R>, context: CreateContext<C>): NoInfer<P>;
  /**
   * Runs when everything is created and before anything starts. Binds the listener, or passes a port to a plugin that
   * could not require it because the port's owner requires that plugin (a ring of two is closed here).
   */
  open?(value: T, context: StartContext): Promise<void>;
  start?(value: T, context: StartContext): Promise<void>;
  /** Announces that the server takes work from this moment on. */
  ready?(value: T, context: ReadyContext): void;
  /**
   * Called when the server ends: take no more work, and let running work end. Plugins that bring work are drained
   * before the plugins that do it, and all plugins are still there meanwhile, so work that ends can be answered. There
   * is no deadline unless the plugin sets one. If only others can end what is left (the listener's answers), resolve at
   * once and close in `stop`.
   */
  drain?(value: T, context: DrainContext): Promise<void>;
  stop?(value: T, context: StopContext): Promise<void>;
  /**
   * Milliseconds that `open` and `start` may each take without a report: each `readiness.waiting` restarts the count. A
   * longer silence fails the start; undefined: no limit.
   */
  readonly startSilenceMs?: number;
  /** Milliseconds that `drain` may take; the consequences are those of `stopDeadlineMs`. */
  readonly drainDeadlineMs?: number;
  /**
   * Milliseconds that `stop` may take; a longer stop is named in the log and fails the exit code. Undefined: no limit.
   */
  readonly stopDeadlineMs?: number;
}

/** Types a plugin literal; returns it frozen. */
export function definePlugin<P, T extends P, R extends Requirements, C>(
  plugin: Plugin<P, T, R, C>,
): Plugin<P, T, R, C> {
  return Object.freeze(plugin);
}
