import { defineCapability } from './capability.ts';
import type { Clock } from './clock.ts';

/** State of the server for health checks: ready for work, or waiting for something. */
export interface Readiness {
  readonly isReady: boolean;
  /** Current step of start-up (`reading the manifest`), or `shutting down`; the newest note wins. */
  readonly note: string;
}
export const Readiness = defineCapability<Readiness>('readiness');

/** A plugin that waits, the reason, and the time since when. */
export interface ReadinessNote {
  readonly plugin: string;
  readonly note: string;
  readonly sinceMs: number;
}

/** The kernel's own readiness: a list of notes, of which `/health/ready` shows the newest. */
export class ReadinessBoard implements Readiness {
  readonly #clock: Pick<Clock, 'nowMs'>;
  /** Notes in order of their last change: the last one is the newest. */
  readonly #notes = new Map<string, ReadinessNote>();
  #state: 'starting' | 'ready' | 'shutting down' = 'starting';

  constructor(clock: Pick<Clock, 'nowMs'>) {
    this.#clock = clock;
  }

  get isReady(): boolean {
    return this.#state === 'ready';
  }

  get note(): string {
    if (this.#state !== 'starting') return this.#state;
    return this.notes.findLast((note) => note.note !== 'starting')?.note ?? 'starting';
  }

  /** Notes on everything that is still waited for, oldest first. */
  get notes(): readonly ReadinessNote[] {
    return [...this.#notes.values()];
  }

  waiting(plugin: string, note: string): void {
    this.#notes.delete(plugin);
    this.#notes.set(plugin, { plugin, note, sinceMs: this.#clock.nowMs() });
  }

  done(plugin: string): void {
    this.#notes.delete(plugin);
  }

  becomeReady(): void {
    this.#notes.clear();
    this.#state = 'ready';
  }

  shutDown(): void {
    this.#notes.clear();
    this.#state = 'shutting down';
  }
}
