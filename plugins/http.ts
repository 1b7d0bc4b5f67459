import { Clock, definePlugin, Logger, Readiness } from '../kernel/index.ts';
import { Agents } from '../subsystems/agents/index.ts';
import { Auth } from '../subsystems/auth/index.ts';
import { Canisters } from '../subsystems/canisters/index.ts';
import { PastActors } from '../subsystems/canisters/past/index.ts';
import { Cluster } from '../subsystems/cluster/index.ts';
import { Codec } from '../subsystems/codec/index.ts';
import { Gateway } from '../subsystems/gateway/index.ts';
import { createHttpServer } from '../subsystems/http/http-server.ts';
import type { HttpServerOptions } from '../subsystems/http/http-server-options.ts';
import { HttpServer } from '../subsystems/http/index.ts';
import { Inspector } from '../subsystems/inspector/index.ts';
import { Metering } from '../subsystems/metering/index.ts';
import { Metrics } from '../subsystems/metrics/index.ts';
import { MopsClosures } from '../subsystems/mops-closure/index.ts';
import { OpenApi } from '../subsystems/openapi/index.ts';
import { Replay } from '../subsystems/replay/index.ts';
import { Storage } from '../subsystems/storage/index.ts';
import { Timeline } from '../subsystems/timeline/index.ts';
import { Variables } from '../subsystems/variables/index.ts';

export const httpPlugin = definePlugin({
  name: 'http',
  provides: HttpServer,
  requires: {
    agents: Agents,
    auth: Auth,
    cluster: Cluster,
    readiness: Readiness,
    canisters: Canisters,
    codec: Codec,
    gateway: Gateway,
    storage: Storage,
    metering: Metering,
    metrics: Metrics,
    openApi: OpenApi,
    variables: Variables,
    timeline: Timeline,
    past: PastActors,
    replay: Replay,
    mopsClosures: MopsClosures,
    inspector: Inspector,
    clock: Clock,
    log: Logger,
  },
  neededBecause: 'it is how the server is reached',
  create: (granted, { config }: { readonly config: HttpServerOptions }) => createHttpServer(granted, config),
  async open(http, { log }) {
    const origin = await http.listen();
    if (origin !== undefined) log.announce(`listening on ${origin}`);
  },
  ready: (http) => http.serve(),
  // Open requests are answered until the scheduler has drained, which happens after this.
  drain: async (http) => http.stopAccepting(),
  stop: (http, { signal }) => http.close({ signal }),
});
