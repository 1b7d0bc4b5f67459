import { ServerError } from '../../kernel/index.ts';
import type { ActorUnits, BaseStream, StoredImage, TakeAnswer, UnitSource } from '../archive/index.ts';

/** The units of a storage that keeps nothing, or whose units cannot be archived. */
export class NoUnits implements UnitSource, ActorUnits {
  readonly isKept = false;
  readonly stateFormat = 0;
  readonly durable = 0;
  readonly directory = '';

  take(): Promise<TakeAnswer> {
    return Promise.resolve({ units: undefined, isBehindGap: false });
  }

  base(): Promise<BaseStream> {
    return Promise.reject(notKept());
  }

  image(): Promise<StoredImage> {
    return Promise.reject(notKept());
  }

  module(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  onWaiting(): void {}
  onClosing(): void {}
}

function notKept(): ServerError {
  const message = 'this server keeps no state that could be archived: start it with --state DIR';
  return new ServerError('invalid', 'state-not-kept', message);
}
