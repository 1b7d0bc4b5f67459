import { ServerError } from '../../kernel/index.ts';
import type { ClosureDocument, MopsClosures } from './index.ts';

/** Replaces the closures with `--no-mops-closure`. */
export class NoMopsClosures implements MopsClosures {
  closureOf(): Promise<ClosureDocument> {
    const text = 'this server runs with --no-mops-closure: start it without that flag for closures';
    return Promise.reject(new ServerError('missing', 'closure-off', text));
  }
}
