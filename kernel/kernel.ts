/**
 * The kernel: takes a list of plugins from registered to stopped and knows none of them by name.
 *
 *     registered ── start ──► starting ──► ready ── stop ──► draining ──► stopped
 *                                │                              │
 *                                └─ a plugin failed ─► failed ◄─┘ a plugin failed to stop
 *
 * Starting: every `create` in boot order, then every `open` (the listener is bound before recovery begins), then every
 * `start`, one after the other. If one fails, everything created is stopped in reverse order, and the error names the
 * plugin.
 *
 * Stopping: readiness goes off first, then every `drain` runs in reverse boot order, then every `stop` in the same
 * order, so that a plugin stops before the plugins it depends on. A `drain` has no deadline unless the plugin sets one;
 * a `stop` has its deadline. A failure is recorded, and the rest go on. Drains are a phase of their own because of the
 * listener: it is last in boot order and is the first to be told to accept nothing more, but its answers are made by
 * plugins that boot before it, and it can close only when they have ended.
 *
 * A stop that arrives while a plugin starts aborts the signal that the plugin was given, and waits for the start to
 * end: an object must not be stopped while its own start is running.
 */
import { planBoot, type PlannedPlugin } from './boot-plan.ts';
import type { Capability } from './capability.ts';
import { Clock } from './clock.ts';
import { messageOf, ServerError } from './errors.ts';
import {
  Lifecycle,
  type LifecycleState,
  OverrunError,
  reportAtGrowingGaps,
  runWithDeadline,
  SilenceWatch,
} from './lifecycle.ts';
import { Logger } from './logger.ts';
import type { Plugin, StartContext } from './plugin.ts';
import { Random } from './random.ts';
import { Readiness, ReadinessBoard } from './readiness.ts';
import { type PluginScope, Registry } from './registry.ts';

/**
 * Capabilities from outside the server: time, randomness and the log. Plugins require them like any other capability.
 */
export interface Ambient {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

export interface KernelOptions {
  /** In list order where the boot plan leaves a choice. */
  readonly plugins: readonly Plugin[];
  /** Names of plugins that were turned off with `--no-<name>`. */
  readonly disabled?: ReadonlySet<string>;
  /** One section for each plugin, by the plugin's name; a plugin without one gets an empty section. */
  readonly config?: Readonly<Record<string, unknown>>;
  readonly ambient: Ambient;
  /** Milliseconds until a slow start is first reported; further reports follow at doubling gaps. */
  readonly slowStartMs?: number;
  /** Milliseconds that a plugin that overran its stop deadline has to react to the abort. */
  readonly stopGraceMs?: number;
}

export interface Kernel {
  readonly state: LifecycleState;
  readonly readiness: Readiness;
  /** Names of the plugins in boot order. */
  readonly bootOrder: readonly string[];
  /**
   * Makes every plugin's object and opens none: what a start begins with, for whoever only wants to know. Throws a
   * `PluginError`. `stop` has to follow.
   */
  create(): void;
  /**
   * Resolves when the server takes work, or when a stop came first (`state` tells which). Rejects with a `PluginError`
   * if a plugin failed; everything created has been stopped by then.
   */
  start(): Promise<void>;
  /**
   * Stops at any time, even during the start; a second call returns the same promise. Rejects with an AggregateError of
   * every plugin that failed to drain or to stop.
   */
  stop(): Promise<void>;
  /** Returns what a plugin provides, for the composition root and tests. Throws if it has not been created yet. */
  get<T>(capability: Capability<T>): T;
}

/** A plugin failed to create, open, start, get ready, drain or stop; `cause` is its own error. */
export class PluginError extends ServerError {
  override readonly name = 'PluginError';
  readonly plugin: string;

  constructor({ name, origin }: Pick<Plugin, 'name' | 'origin'>, did: string, cause: unknown) {
    const from = origin === undefined ? '' : ` (${origin})`;
    super('unavailable', 'plugin-failed', `plugin '${name}'${from} ${did}: ${messageOf(cause)}`, { cause });
    this.plugin = name;
  }
}

const SLOW_START_MS = 5_000;
const STOP_GRACE_MS = 1_000;

interface LivePlugin {
  readonly plugin: Plugin;
  readonly value: unknown;
  readonly scope: PluginScope;
  readonly isEnabled: boolean;
}

class PluginKernel implements Kernel {
  readonly readiness: ReadinessBoard;
  readonly #options: KernelOptions;
  readonly #plan: readonly PlannedPlugin[];
  readonly #log: Logger;
  readonly #lifecycle = new Lifecycle();
  readonly #registry = new Registry();
  readonly #abortStart = new AbortController();
  /** In boot order. */
  readonly #live: LivePlugin[] = [];
  /** The plugin whose `open` or `start` is under way. */
  #beingStarted: string | undefined;
  #starting: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;

  constructor(options: KernelOptions) {
    const { clock, random, logger } = options.ambient;
    this.#options = options;
    this.#log = logger;
    this.readiness = new ReadinessBoard(clock);
    this.#plan = planBoot({
      plugins: options.plugins,
      disabled: options.disabled ?? new Set(),
      ambient: [Clock, Random, Logger, Readiness],
    });
    this.#registry.publish(Clock, clock);
    this.#registry.publish(Random, random);
    this.#registry.publish(Logger, logger);
    this.#registry.publish<Readiness>(Readiness, this.readiness);
  }

  get state(): LifecycleState {
    return this.#lifecycle.state;
  }

  get bootOrder(): readonly string[] {
    return this.#plan.map(({ plugin }) => plugin.name);
  }

  get<T>(capability: Capability<T>): T {
    return this.#registry.get(capability);
  }

  create(): void {
    if (this.#live.length > 0) return;
    for (const planned of this.#plan) this.#create(planned);
  }

  start(): Promise<void> {
    this.#starting ??= this.#start();
    return this.#starting;
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #start(): Promise<void> {
    if (this.#stopping !== undefined) return;
    this.#lifecycle.enter('starting');
    const { clock } = this.#options.ambient;
    const startedMs = clock.nowMs();
    const slowMs = this.#options.slowStartMs ?? SLOW_START_MS;
    using _slow = reportAtGrowingGaps(clock, slowMs, () => this.#reportSlow(startedMs));
    try {
      await this.#bringUp();
    } catch (error) {
      if (this.#stopping !== undefined) {
        // A start that was told to stop may fail for that reason: this is no failure of the server.
        this.#log.info(`the start was cut short: ${messageOf(error)}`);
        return;
      }
      await this.#giveUp();
      throw error;
    }
  }

  async #bringUp(): Promise<void> {
    this.create();
    const enabled = this.#live.filter(({ isEnabled }) => isEnabled);
    for (const live of enabled) await this.#run(live, 'open');
    for (const live of enabled) await this.#run(live, 'start');
    if (this.#abortStart.signal.aborted) return;
    this.#lifecycle.enter('ready');
    this.readiness.becomeReady();
    for (const { plugin, value } of enabled) {
      attempt(plugin, 'failed when the server became ready', () => plugin.ready?.(value, { log: this.#log }));
    }
  }

  #create({ plugin, isEnabled }: PlannedPlugin): void {
    const scope = this.#registry.createScope();
    const config = this.#options.config?.[plugin.name] ?? Object.freeze({});
    const context = { config, log: this.#log, owns: scope.owns };
    const value = attempt(plugin, 'could not be created', () => {
      const granted = this.#registry.grant(plugin.requires);
      return isEnabled ? plugin.create(granted, context) : plugin.disabled?.(granted, context);
    });
    this.#live.push({ plugin, value, scope, isEnabled });
    this.#registry.publish(plugin.provides, value);
    for (const each of plugin.alsoProvides ?? []) {
      const make = isEnabled ? () => each.of(value) : each.turnedOff;
      if (make !== undefined) this.#registry.publish(each.capability, attempt(plugin, 'could not be created', make));
    }
  }

  async #run({ plugin, value }: LivePlugin, phase: 'open' | 'start'): Promise<void> {
    const { signal } = this.#abortStart;
    if (signal.aborted || plugin[phase] === undefined) return;
    using silence = new SilenceWatch(this.#options.ambient.clock, plugin.startSilenceMs);
    const waiting = (note: string): void => {
      silence.heard();
      if (!signal.aborted) this.readiness.waiting(plugin.name, note);
    };
    const context: StartContext = { log: this.#log, signal, readiness: { waiting } };
    waiting('starting');
    this.#beingStarted = plugin.name;
    try {
      await silence.unlessSilent(plugin[phase](value, context));
    } catch (error) {
      throw new PluginError(plugin, phase === 'open' ? 'could not open' : 'could not start', error);
    } finally {
      this.#beingStarted = undefined;
    }
    this.readiness.done(plugin.name);
  }

  #reportSlow(startedMs: number): void {
    const nowMs = this.#options.ambient.clock.nowMs();
    const seconds = (sinceMs: number): string => ((nowMs - sinceMs) / 1000).toFixed(1);
    if (this.#abortStart.signal.aborted) {
      // Plugins that are being stopped report their own progress; this line is for a start that does not end at once.
      if (this.#beingStarted !== undefined)
        this.#log.info(
          `stopping: waiting for ${this.#beingStarted}, which is still starting after ${seconds(startedMs)} s`,
        );
      return;
    }
    const waiting = this.readiness.notes.map(
      ({ plugin, note, sinceMs }) => `${plugin} (${note}, ${seconds(sinceMs)} s)`,
    );
    this.#log.info(`still starting after ${seconds(startedMs)} s: ${waiting.join(', ')}`);
  }

  /** Stops everything after a failed start. Errors here are only logged: the error to report is that of the start. */
  async #giveUp(): Promise<void> {
    this.#abortStart.abort();
    // A later stop only waits for this one.
    this.#stopping = this.#stopAll().then(() => undefined);
    await this.#stopping;
    this.#lifecycle.enter('failed');
  }

  async #stop(): Promise<void> {
    this.#lifecycle.enter('draining');
    this.readiness.shutDown();
    this.#abortStart.abort();
    await this.#starting?.catch(() => undefined);
    const failures = await this.#stopAll();
    this.#lifecycle.enter(failures.length === 0 ? 'stopped' : 'failed');
    if (failures.length > 0) {
      throw new AggregateError(failures, failures.map(messageOf).join('\n'));
    }
  }

  async #stopAll(): Promise<readonly PluginError[]> {
    this.readiness.shutDown();
    const log = this.#log;
    const { clock } = this.#options.ambient;
    const graceMs = this.#options.stopGraceMs ?? STOP_GRACE_MS;
    const failures: PluginError[] = [];
    const attemptEnd = async (
      { plugin }: LivePlugin,
      did: 'drain' | 'stop',
      end: () => Promise<void> | undefined,
    ): Promise<void> => {
      try {
        await end();
      } catch (error) {
        const failure = new PluginError(
          plugin,
          error instanceof OverrunError ? `did not ${did} in time` : `failed to ${did}`,
          error,
        );
        failures.push(failure);
        log.error(failure.message, error);
      }
    };
    const reversed = this.#live.toReversed();
    for (const live of reversed) {
      const { plugin, value, isEnabled } = live;
      if (!isEnabled || plugin.drain === undefined) continue;
      const options = { clock, deadlineMs: plugin.drainDeadlineMs, graceMs };
      await attemptEnd(live, 'drain', () => runWithDeadline(() => plugin.drain?.(value, { log }), options));
    }
    for (const live of reversed) {
      const { plugin, value, scope, isEnabled } = live;
      const options = { clock, deadlineMs: plugin.stopDeadlineMs, graceMs };
      const stop = (signal: AbortSignal): Promise<void> | undefined =>
        isEnabled ? plugin.stop?.(value, { log, signal }) : undefined;
      for (const step of [stop, () => scope.dispose()]) {
        await attemptEnd(live, 'stop', () => runWithDeadline(step, options));
      }
    }
    return failures;
  }
}

function attempt<T>(plugin: Plugin, did: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new PluginError(plugin, did, error);
  }
}

/** Plans the boot; nothing runs yet. Throws a ServerError (`plugin-needed`, `boot-plan`) that names every problem. */
export function createKernel(options: KernelOptions): Kernel {
  return new PluginKernel(options);
}

/** Plans the boot and starts everything. */
export async function startKernel(options: KernelOptions): Promise<Kernel> {
  const kernel = createKernel(options);
  await kernel.start();
  return kernel;
}
