import { type Clock, type Logger, messageOf, ServerError } from '../../kernel/index.ts';
import type { ManifestActors } from '../canisters/index.ts';
import { WatchedFiles } from './watched-files.ts';

/** An editor saves in several steps, a build writes several files: changes within this time count as one. */
const SETTLE_MS = 50;
/**
 * A reload that the server could not do at that moment (`unavailable`: memory is short) is tried again so often, at
 * this interval.
 */
const RETRIES_MAX = 12;
const RETRY_MS = 5_000;

interface ReloaderOptions {
  /** False: the reloader does nothing. */
  readonly isWatching: boolean;
}

interface ReloaderNeeds {
  readonly actors: ManifestActors;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Keeps the manifest's actors equal to their files: when the source, an import of it, the module or the interface
 * changes, the actor is upgraded and keeps its state. Code that does not compile or does not fit is reported, and the
 * old code runs on; what the server could not do at that moment is tried again. Actors are upgraded one after the
 * other, like compilations.
 */
export class Reloader {
  readonly #isWatching: boolean;
  readonly #actors: ManifestActors;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #files: WatchedFiles;
  /** Actors to be checked, each with the file whose change was seen first; undefined: the server is starting. */
  readonly #dirty = new Map<string, string | undefined>();
  /** Actors whose reload is tried again: the next try, and how many are left behind it. */
  readonly #retries = new Map<string, { readonly timer: Disposable; readonly left: number }>();
  #settling: Disposable | undefined;
  #working: Promise<void> | undefined;
  #isStopped = false;

  constructor({ actors, clock, log }: ReloaderNeeds, { isWatching }: ReloaderOptions) {
    this.#isWatching = isWatching;
    this.#actors = actors;
    this.#clock = clock;
    this.#log = log;
    this.#files = new WatchedFiles(log, (actor, path) => this.#changed(actor, path));
  }

  /** Begins to watch, and upgrades actors that differ already. */
  start(): void {
    if (!this.#isWatching) return;
    for (const name of this.#actors.names()) this.#dirty.set(name, undefined);
    this.#log.announce(`watching the files of ${this.#dirty.size} actor(s)`);
    this.#work();
  }

  /** Resolves when the current upgrade has ended; no other one begins. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#settling?.[Symbol.dispose]();
    for (const { timer } of this.#retries.values()) timer[Symbol.dispose]();
    this.#files[Symbol.dispose]();
    await this.#working;
  }

  #changed(actor: string, path: string): void {
    if (this.#isStopped) return;
    if (this.#dirty.get(actor) === undefined) this.#dirty.set(actor, path);
    this.#forgetRetry(actor);
    this.#settling?.[Symbol.dispose]();
    this.#settling = this.#clock.after(SETTLE_MS, () => this.#work());
  }

  #work(): void {
    this.#settling = undefined;
    this.#working ??= this.#takeUpAll().finally(() => {
      this.#working = undefined;
      // Changes seen during the last check need no further wait.
      if (this.#dirty.size > 0 && this.#settling === undefined && !this.#isStopped) this.#work();
    });
  }

  async #takeUpAll(): Promise<void> {
    for (const [name, path] of this.#dirty) {
      if (this.#isStopped || this.#settling !== undefined) return;
      this.#dirty.delete(name);
      await this.#takeUp(name, path);
    }
  }

  async #takeUp(name: string, path: string | undefined): Promise<void> {
    const startMs = this.#clock.nowMs();
    const left = this.#retries.get(name)?.left;
    this.#forgetRetry(name);
    try {
      // Watches before the files are read, so that later changes are seen.
      await this.#files.set(name, await this.#actors.filesOf(name));
      const what = await this.#actors.reload(name);
      if (what === 'same') return;
      const seconds = ((this.#clock.nowMs() - startMs) / 1000).toFixed(2);
      this.#log.announce(`${what} ${name} in ${seconds} s: ${path ?? 'its files are other than its state'}`);
    } catch (error) {
      if (error instanceof ServerError) {
        const isRetried = error.kind === 'unavailable' && this.#retry(name, path, left ?? RETRIES_MAX);
        if (isRetried && left !== undefined) return;
        const next = isRetried ? `; it is tried again every ${RETRY_MS / 1000} s` : '';
        this.#log.announce(`WARNING ${name} was not reloaded, nothing has changed: ${messageOf(error)}${next}`);
      } else this.#log.error(`a reload of ${name} failed unexpectedly: ${messageOf(error)}`, error);
    }
  }

  /** Returns true if the reload is tried again. */
  #retry(name: string, path: string | undefined, left: number): boolean {
    if (left === 0 || this.#isStopped || this.#dirty.has(name)) return false;
    const timer = this.#clock.after(RETRY_MS, () => {
      this.#dirty.set(name, path);
      this.#work();
    });
    this.#retries.set(name, { timer, left: left - 1 });
    return true;
  }

  #forgetRetry(name: string): void {
    this.#retries.get(name)?.timer[Symbol.dispose]();
    this.#retries.delete(name);
  }
}
