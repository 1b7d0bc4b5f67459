import { ServerError } from '../../kernel/index.ts';
import type { Variables } from './index.ts';

/** Variables of a server that runs with `--no-variables`. */
export class NoVariables implements Variables {
  list(): Promise<Uint8Array> {
    return Promise.reject(off());
  }

  valueAt(): Promise<Uint8Array> {
    return Promise.reject(off());
  }
}

function off(): ServerError {
  return new ServerError('missing', 'variables-off', 'the server runs with --no-variables: no variables are read');
}
