import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock, Logger, Readiness } from '../../kernel/index.ts';
import type { Canisters } from '../canisters/index.ts';
import type { PastActors } from '../canisters/past/index.ts';
import type { Cluster } from '../cluster/index.ts';
import type { TypeTables } from '../codec/description/index.ts';
import type { Codec } from '../codec/index.ts';
import type { Inspector } from '../inspector/index.ts';
import type { Metering } from '../metering/index.ts';
import type { MopsClosures } from '../mops-closure/index.ts';
import type { Metrics } from '../metrics/index.ts';
import type { OpenApi } from '../openapi/index.ts';
import type { Replay } from '../replay/index.ts';
import type { Storage } from '../storage/index.ts';
import type { Timeline } from '../timeline/index.ts';
import type { Variables } from '../variables/index.ts';
import type { Broadcast } from './broadcast.ts';
import type { EventStreams } from './event-streams.ts';
import type { JobLog } from './job-log.ts';
import type { Responder } from './responder.ts';
import type { RouteKey } from './route-table.ts';
import type { CallerClaims } from './x-caller.ts';

/** Percent-decoded segments of the path; a route names the ones it has. */
export interface RouteParameters {
  readonly actor: string;
  readonly method: string;
  readonly name: string;
  readonly snapshot: string;
  readonly label: string;
  readonly message: string;
  /** The segments that match the `*` of a path: one or more. */
  readonly '*': string;
}

/**
 * Serves one route of the table. A handler answers through the host's responder, exactly once, and logs the job that
 * it did. What it throws, or rejects with, is answered as an error and logged by its caller. `query` has the
 * parameters of the route's table entry, checked.
 */
export type Handler = (
  request: IncomingMessage,
  response: ServerResponse,
  parameters: RouteParameters,
  query: ReadonlyMap<string, string>,
) => void | Promise<void>;

/** A handler for each route that this version serves; without one the compiler complains. */
export type Handlers = { readonly [K in RouteKey]: Handler };

/** The part of Canisters that HTTP uses. */
export type ServedCanisters = Pick<
  Canisters,
  | 'resolve'
  | 'resolveIfAny'
  | 'haveOpenMethods'
  | 'setOpenMethods'
  | 'list'
  | 'interfaceOf'
  | 'giveInterface'
  | 'call'
  | 'ask'
  | 'install'
  | 'upgrade'
  | 'reinstall'
  | 'stop'
  | 'start'
  | 'remove'
  | 'addCycles'
  | 'takeLogs'
  | 'watch'
  | 'historyOf'
  | 'newTrace'
  | 'messageIdOf'
  | 'messagesAround'
  | 'latestFailures'
  | 'followOutput'
  | 'outputOf'
  | 'readOutput'
  | 'operator'
>;

/** Services for the past of actors. */
export interface PastServices {
  readonly timeline: Timeline;
  readonly past: PastActors;
  readonly replay: Replay;
}

/** The part of the cluster that `GET /x/cluster` shows. */
export type ShownCluster = Pick<
  Cluster,
  'node' | 'group' | 'shard' | 'shards' | 'owners' | 'waiting' | 'isLeaving' | 'processes' | 'moving'
>;

/** Services that routes work with. */
export interface RouteHost extends PastServices {
  readonly canisters: ServedCanisters;
  readonly cluster: ShownCluster & Pick<Cluster, 'leave' | 'peerOf' | 'move'>;
  readonly codec: Pick<Codec, 'untyped' | 'previewText'>;
  readonly storage: Pick<Storage, 'backup' | 'figures'>;
  readonly metering: Metering;
  readonly metrics: Metrics;
  readonly openApi: OpenApi;
  readonly typeTables: Pick<TypeTables, 'tableOf'>;
  readonly mopsClosures: MopsClosures;
  readonly variables: Variables;
  readonly inspector: Inspector;
  readonly readiness: Readiness;
  readonly clock: Clock;
  readonly log: Logger;
  readonly responder: Responder;
  readonly jobs: JobLog;
  readonly streams: EventStreams;
  readonly broadcast: Broadcast;
  readonly callers: CallerClaims;
}
