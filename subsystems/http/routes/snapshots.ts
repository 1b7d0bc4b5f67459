import type { SnapshotInfo } from '../../canisters/index.ts';
import type { Handlers, RouteHost } from '../route.ts';
import { operatedHandler } from './operated.ts';

type SnapshotRoute =
  | 'GET /x/actors/:actor/snapshots'
  | 'POST /x/actors/:actor/snapshots'
  | 'POST /x/actors/:actor/snapshots/:snapshot/load'
  | 'DELETE /x/actors/:actor/snapshots/:snapshot';

/**
 * Snapshots of an actor, below `/x/actors/<ACTOR>/snapshots`: listed, taken, loaded, deleted. They are those of the
 * management canister: what a canister takes is listed here, and the other way round.
 */
export function snapshotHandlers(host: RouteHost): Pick<Handlers, SnapshotRoute> {
  const { operator } = host.canisters;
  return {
    'GET /x/actors/:actor/snapshots': operatedHandler(host, 'snapshots', async ({ canister }) =>
      (await operator.snapshotsOf(canister)).map(shown),
    ),
    'POST /x/actors/:actor/snapshots': operatedHandler(host, 'take-snapshot', async ({ canister, query }) =>
      shown(await operator.takeSnapshot(canister, query.get('replace'))),
    ),
    'POST /x/actors/:actor/snapshots/:snapshot/load': operatedHandler(
      host,
      'load-snapshot',
      async ({ canister, parameters }) => {
        await operator.loadSnapshot(canister, parameters.snapshot);
        return 'loaded';
      },
    ),
    'DELETE /x/actors/:actor/snapshots/:snapshot': operatedHandler(
      host,
      'delete-snapshot',
      async ({ canister, parameters }) => {
        await operator.deleteSnapshot(canister, parameters.snapshot);
        return 'deleted';
      },
    ),
  };
}

function shown({ id, takenMs, bytes }: SnapshotInfo): {
  readonly id: string;
  readonly time: string;
  readonly bytes: number;
} {
  return { id, time: new Date(takenMs).toISOString(), bytes };
}
