import { ServerError } from '../../kernel/index.ts';
import type { BaseStream, TakeAnswer, UnitSource } from '../archive/index.ts';

/** The units of a storage that keeps nothing, or whose units cannot be archived. */
export class NoUnits implements UnitSource {
  readonly stateFormat = 0;
  readonly durable = 0;
  readonly directory = '';

  take(): Promise<TakeAnswer> {
    return Promise.resolve({ units: undefined, isBehindGap: false });
  }

  base(): Promise<BaseStream> {
    const message = 'this server keeps no state that could be archived: start it with --state DIR';
    return Promise.reject(new ServerError('invalid', 'state-not-kept', message));
  }

  onWaiting(): void {}
  onClosing(): void {}
}
