import { type Clock, type Logger, messageOf, ServerError } from '../../kernel/index.ts';
import type { ManifestActors } from '../canisters/index.ts';
import { WatchedFiles } from './watched-files.ts';

/** An editor saves in several steps, a build writes several files: what comes within so long is one change. */
const SETTLE_MS = 50;

export interface ReloaderOptions {
  /** Otherwise it does nothing. */
  readonly isWatching: boolean;
}

export interface ReloaderNeeds {
  readonly actors: ManifestActors;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Keeps the manifest's actors as their files are: when the source, an import of it, the module or the interface changes, the
 * actor is upgraded and keeps its state. What does not compile or does not fit is told, and the code before serves on. One
 * after the other: the compiler does one at a time, too.
 */
export class Reloader {
  readonly #isWatching: boolean;
  readonly #actors: ManifestActors;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #files: WatchedFiles;
  /** Actors to be looked at, each with the file whose change was seen first; undefined: none was, the server starts. */
  readonly #dirty = new Map<string, string | undefined>();
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

  /** Begins to watch, and takes up what is different already. */
  start(): void {
    if (!this.#isWatching) return;
    for (const name of this.#actors.names()) this.#dirty.set(name, undefined);
    this.#log.announce(`watching the files of ${this.#dirty.size} actor(s)`);
    this.#work();
  }

  /** Resolves when what is being taken up has been, and nothing more will be. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#settling?.[Symbol.dispose]();
    this.#files[Symbol.dispose]();
    await this.#working;
  }

  #changed(actor: string, path: string): void {
    if (this.#isStopped) return;
    if (this.#dirty.get(actor) === undefined) this.#dirty.set(actor, path);
    this.#settling?.[Symbol.dispose]();
    this.#settling = this.#clock.after(SETTLE_MS, () => this.#work());
  }

  #work(): void {
    this.#settling = undefined;
    this.#working ??= this.#takeUpAll().finally(() => {
      this.#working = undefined;
      // What changed since the last one was looked at waits for nothing else.
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
    try {
      // Before the files are read: what changes from now on is seen.
      await this.#files.set(name, await this.#actors.filesOf(name));
      const what = await this.#actors.reload(name);
      if (what === 'same') return;
      const seconds = ((this.#clock.nowMs() - startMs) / 1000).toFixed(2);
      this.#log.announce(`${what} ${name} in ${seconds} s: ${path ?? 'its files are other than its state'}`);
    } catch (error) {
      if (error instanceof ServerError) {
        this.#log.announce(`WARNING ${name} was not reloaded, nothing has changed: ${messageOf(error)}`);
      } else this.#log.error(`a reload of ${name} failed unexpectedly: ${messageOf(error)}`, error);
    }
  }
}
