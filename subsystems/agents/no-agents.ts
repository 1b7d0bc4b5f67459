import { ServerError } from '../../kernel/index.ts';
import type { Agents } from './index.ts';

/** No agent interface: the routes are not there. */
export class NoAgents implements Agents {
  readonly mode = 'off';
  readonly bodyBytesMax = 0;

  status(): Promise<Uint8Array> {
    return refused();
  }

  answer(): Promise<never> {
    return refused();
  }
}

function refused(): Promise<never> {
  const text = 'the agent interface is off: start the server with --agents guarded (docs/agents.md)';
  return Promise.reject(new ServerError('missing', 'agents-off', text));
}
