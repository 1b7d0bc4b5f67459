import { ServerError } from '../../kernel/index.ts';
import type { Replay } from './index.ts';

/** The replay of a server with `--no-replay`. */
export class NoReplay implements Replay {
  readonly numbers = [];

  replay(): Promise<never> {
    return Promise.reject(off());
  }

  profile(): Promise<never> {
    return Promise.reject(off());
  }

  async *capsule(): AsyncGenerator<never> {
    yield await this.replay();
  }
}

function off(): ServerError {
  return new ServerError('invalid', 'replay-off', 'this server replays no messages: start it without --no-replay');
}
