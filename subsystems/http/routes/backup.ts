import { ServerError } from '../../../kernel/index.ts';
import { BYTES } from '../responder.ts';
import type { Handlers, RouteHost } from '../route.ts';

/**
 * `GET /backup`: a consistent copy of the whole state, while serving. One at a time: each holds a snapshot of the
 * tables.
 */
export function backupHandlers({ storage, clock, log, responder }: RouteHost): Pick<Handlers, 'GET /backup'> {
  let isRunning = false;
  return {
    async 'GET /backup'(_request, response) {
      if (isRunning) {
        throw new ServerError(
          'unavailable',
          'backup-busy',
          'another backup is being sent: try again when it has ended',
        );
      }
      isRunning = true;
      try {
        // `2026-11-21T083000Z`: no colons, which some file systems refuse.
        const date = new Date(clock.nowMs()).toISOString().replace(/\.\d+/, '').replaceAll(':', '');
        const more = ['content-disposition', `attachment; filename="svc-${date}.backup"`];
        const bytes = await responder.stream(response, BYTES, storage.backup(), { more });
        log.info(`a backup of ${bytes} bytes was sent`);
      } finally {
        isRunning = false;
      }
    },
  };
}
