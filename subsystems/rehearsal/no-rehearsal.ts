import { ServerError } from '../../kernel/index.ts';
import type { Rehearsal, RehearsalVerdict } from './index.ts';

/** The rehearsal of a server with `--no-rehearsal`. */
export class NoRehearsal implements Rehearsal {
  rehearse(): Promise<never> {
    return Promise.reject(
      new ServerError('invalid', 'rehearsal-off', 'this server rehearses nothing: start it without --no-rehearsal'),
    );
  }

  judge(): RehearsalVerdict {
    return { refusal: undefined, warnings: [] };
  }
}
