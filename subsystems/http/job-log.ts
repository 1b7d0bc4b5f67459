import { type Clock, type Logger, messageOf } from '../../kernel/index.ts';

export type JobKind =
  | 'call'
  | 'query'
  | 'install'
  | 'upgrade'
  | 'stop'
  | 'start'
  | 'delete'
  | 'candid'
  | 'types'
  | 'topup'
  | 'cycles'
  | 'logs'
  | 'list'
  | 'inspect'
  | 'history'
  | 'messages'
  | 'output'
  | 'host'
  | 'me'
  | 'settings'
  | 'change-settings'
  | 'public'
  | 'change-public'
  | 'snapshots'
  | 'take-snapshot'
  | 'load-snapshot'
  | 'delete-snapshot'
  | 'variables'
  | 'timeline'
  | 'past-state'
  | 'label'
  | 'restore'
  | 'fork'
  | 'past-query'
  | 'rehearsal'
  | 'replay'
  | 'capsule'
  | 'profile'
  | 'cluster'
  | 'drain'
  | 'move'
  | 'read-state';

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

  /** Tells that a job is done; `canister` is undefined and `method` is empty where there is none. */
  done(kind: JobKind, canister: Named | undefined, method: string, startedMs: number): void {
    this.#tell(kind, canister, method, startedMs, undefined);
  }

  /** Tells that a job has failed, and in prose the reason: an error, or the outcome of a message. */
  failed(kind: JobKind, canister: Named | undefined, method: string, startedMs: number, reason: unknown): void {
    this.#tell(kind, canister, method, startedMs, textOf(reason));
  }

  #tell(
    kind: JobKind,
    canister: Named | undefined,
    method: string,
    startedMs: number,
    failure: string | undefined,
  ): void {
    const ms = (this.#clock.nowMs() - startedMs).toFixed(3);
    const ok = failure === undefined ? 'true' : 'false';
    const actor = canister?.idHex ?? '';
    const subject = canister === undefined ? '' : ` ${canister.name === actor ? '' : `${canister.name} `}${actor}`;
    const end = failure === undefined ? `ok ${ms} ms` : `failed ${ms} ms: ${failure}`;
    this.#log.event(
      'job',
      { kind, actor, method, ok, ms },
      `${kind}${subject}${method === '' ? '' : ` ${method}`} ${end}`,
    );
  }
}

/** The part of a canister that the log names. */
interface Named {
  readonly idHex: string;
  readonly name: string;
}

/** Longest reason in a line: an actor may reject with a text of any length. */
const REASON_CHARACTERS_MAX = 200;

function textOf(reason: unknown): string {
  const hasMessage = typeof reason === 'object' && reason !== null && 'message' in reason;
  const text = hasMessage && typeof reason.message === 'string' ? reason.message : messageOf(reason);
  return text.length > REASON_CHARACTERS_MAX ? `${text.slice(0, REASON_CHARACTERS_MAX)} …` : text;
}
