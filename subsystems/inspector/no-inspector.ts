import { ServerError } from '../../kernel/index.ts';
import type { Inspector, InspectorPage } from './index.ts';

/** Replaces the inspector with `--no-inspector`: there is no page. */
export class NoInspector implements Inspector {
  page(): InspectorPage {
    throw new ServerError('missing', 'inspector-off', 'the inspector page is turned off (--no-inspector)');
  }
}
