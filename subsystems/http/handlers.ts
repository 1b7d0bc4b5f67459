import { assert } from '../../kernel/index.ts';
import type { Handler, Handlers, RouteHost } from './route.ts';
import { routeKeyOf, type RouteSpec, ROUTES } from './route-table.ts';
import { actorHandlers } from './routes/actors.ts';
import { backupHandlers } from './routes/backup.ts';
import { callHandlers } from './routes/calls.ts';
import { candidHandlers } from './routes/candid.ts';
import { clusterHandlers } from './routes/cluster.ts';
import { cyclesHandlers } from './routes/cycles.ts';
import { eventsHandlers } from './routes/events.ts';
import { healthHandlers } from './routes/health.ts';
import { historyHandlers } from './routes/history.ts';
import { hostHandlers } from './routes/host.ts';
import { inspectHandlers } from './routes/inspect.ts';
import { inspectorHandlers } from './routes/inspector.ts';
import { installHandlers } from './routes/install.ts';
import { lifeCycleHandlers } from './routes/life-cycle.ts';
import { logsHandlers } from './routes/logs.ts';
import { meHandlers } from './routes/me.ts';
import { timelineHandlers } from './routes/timeline.ts';
import { typesHandlers } from './routes/types.ts';
import { metricsHandlers } from './routes/metrics.ts';
import { mopsClosureHandlers } from './routes/mops-closure.ts';
import { openApiHandlers } from './routes/openapi.ts';
import { outputHandlers } from './routes/output.ts';
import { pastHandlers } from './routes/past.ts';
import { publicHandlers } from './routes/public.ts';
import { replayHandlers } from './routes/replay.ts';
import { settingsHandlers } from './routes/settings.ts';
import { snapshotHandlers } from './routes/snapshots.ts';
import { upgradeHandlers } from './routes/upgrade.ts';
import { variablesHandlers } from './routes/variables.ts';
import { watchHandlers } from './routes/watch.ts';
import { versionHandlers, type VersionInfo } from './routes/version.ts';

/** Every route of the table with its handler, in the table's order. */
export function servedRoutes(host: RouteHost, info: VersionInfo): readonly (readonly [RouteSpec, Handler])[] {
  const handlers: Handlers = {
    ...callHandlers(host),
    ...actorHandlers(host),
    ...installHandlers(host),
    ...upgradeHandlers(host),
    ...lifeCycleHandlers(host),
    ...cyclesHandlers(host),
    ...logsHandlers(host),
    ...eventsHandlers(host),
    ...historyHandlers(host),
    ...inspectHandlers(host),
    ...hostHandlers(host),
    ...candidHandlers(host),
    ...openApiHandlers(host),
    ...mopsClosureHandlers(host),
    ...backupHandlers(host),
    ...watchHandlers(host),
    ...meHandlers(host),
    ...typesHandlers(host),
    ...metricsHandlers(host),
    ...inspectorHandlers(host),
    ...healthHandlers(host),
    ...outputHandlers(host),
    ...settingsHandlers(host),
    ...publicHandlers(host),
    ...snapshotHandlers(host),
    ...variablesHandlers(host),
    ...timelineHandlers(host),
    ...pastHandlers(host),
    ...replayHandlers(host),
    ...clusterHandlers(host),
    ...versionHandlers(host, info),
  };
  const handlerByKey: ReadonlyMap<string, Handler> = new Map(Object.entries(handlers));
  return ROUTES.map((spec: RouteSpec) => {
    const handler = handlerByKey.get(routeKeyOf(spec));
    assert(handler !== undefined, `the route ${routeKeyOf(spec)} has no handler`);
    return [spec, handler];
  });
}
