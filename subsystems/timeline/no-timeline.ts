import { ServerError } from '../../kernel/index.ts';
import type { ScheduledExecution } from '../scheduler/index.ts';
import type { Timeline } from './index.ts';

/** The timeline of a server without `--timeline`: nothing is noted, and nothing can be asked. */
export class NoTimeline implements Timeline {
  readonly isOn = false;
  readonly numbers = [];
  readonly #reason: string;

  /** `reason`: what is to be done to have one. */
  constructor(reason = 'start it with --timeline SECONDS, which needs --state DIR') {
    this.#reason = reason;
  }

  noting(execution: ScheduledExecution): ScheduledExecution {
    return execution;
  }

  entries(): Promise<never> {
    return this.#refused();
  }

  placeOf(): Promise<never> {
    return this.#refused();
  }

  stateAt(): Promise<never> {
    return this.#refused();
  }

  messageAt(): Promise<never> {
    return this.#refused();
  }

  label(): Promise<never> {
    return this.#refused();
  }

  unlabel(): Promise<never> {
    return this.#refused();
  }

  restored(): void {}

  #refused(): Promise<never> {
    return Promise.reject(new ServerError('invalid', 'timeline-off', `this server keeps no timeline: ${this.#reason}`));
  }
}
