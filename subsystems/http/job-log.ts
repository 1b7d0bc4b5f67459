import type { Clock, Logger } from '../../kernel/index.ts';

export type JobKind =
  | 'call'
  | 'query'
  | 'install'
  | 'upgrade'
  | 'stop'
  | 'start'
  | 'delete'
  | 'candid'
  | 'topup'
  | 'cycles'
  | 'logs'
  | 'list'
  | 'inspect'
  | 'history';

/** Tells the log of each piece of work that a client asked for: the `job` events of docs/running.md. */
export class JobLog {
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #log: Logger;

  constructor(clock: Pick<Clock, 'nowMs'>, log: Logger) {
    this.#clock = clock;
    this.#log = log;
  }

  nowMs(): number {
    return this.#clock.nowMs();
  }

  /** `actor` is an id in hex; `actor` and `method` are empty where there is none. */
  ended(kind: JobKind, actor: string, method: string, isOk: boolean, startedMs: number): void {
    const ms = (this.#clock.nowMs() - startedMs).toFixed(3);
    const ok = isOk ? 'true' : 'false';
    this.#log.event(
      'job',
      { kind, actor, method, ok, ms },
      `${kind} ${actor} ${method} ${isOk ? 'ok' : 'failed'} ${ms} ms`,
    );
  }
}
