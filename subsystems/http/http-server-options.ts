/** The http server: capabilities that it needs, what configures it, and what its plugin opens and closes. */
import type { Clock, Logger, Readiness } from '../../kernel/index.ts';
import type { Agents } from '../agents/index.ts';
import type { Auth } from '../auth/index.ts';
import type { Cluster } from '../cluster/index.ts';
import type { Codec } from '../codec/index.ts';
import type { Gateway } from '../gateway/index.ts';
import type { Inspector } from '../inspector/index.ts';
import type { Metering } from '../metering/index.ts';
import type { Metrics } from '../metrics/index.ts';
import type { MopsClosures } from '../mops-closure/index.ts';
import type { OpenApi } from '../openapi/index.ts';
import type { Storage } from '../storage/index.ts';
import type { Variables } from '../variables/index.ts';
import type { AddressRange } from './client-addresses.ts';
import type { Descriptors } from './descriptors.ts';
import type { HttpServer, PluginRouteSpec } from './index.ts';
import type { PastServices, ServedCanisters } from './route.ts';
import type { VersionInfo } from './routes/version.ts';
import type { TargetOptions } from './targets.ts';

export interface HttpServerNeeds extends PastServices {
  readonly agents: Agents;
  readonly auth: Auth;
  readonly cluster: Cluster;
  readonly readiness: Readiness;
  readonly canisters: ServedCanisters;
  readonly codec: Pick<Codec, 'untyped' | 'previewText'>;
  readonly gateway: Gateway;
  readonly storage: Pick<Storage, 'backup' | 'figures'>;
  readonly metering: Metering;
  readonly metrics: Metrics;
  readonly openApi: OpenApi;
  readonly variables: Variables;
  readonly mopsClosures: MopsClosures;
  readonly inspector: Inspector;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface HttpServerOptions extends VersionInfo, TargetOptions {
  /** An address or a host name, without brackets; and a port, 0 for any free one. */
  readonly host: string;
  readonly port: number;
  /** True if no address is bound: other servers alone reach this one, over their links. */
  readonly isHidden?: boolean;
  /** Keeps pages of other sites out; the names that mean this server besides loopback's (`--browser-guard`). */
  readonly browserGuard?: { readonly names: readonly string[] } | undefined;
  /** True if no request may claim a caller (`--no-claims`). */
  readonly refusesClaims?: boolean;
  /** Reverse proxies whose word about a client's address counts (`--trust-proxy`). */
  readonly trustedProxies?: readonly AddressRange[];
  /** File that gets a line for each request (`--access-log`). */
  readonly accessLog?: string | undefined;
  /** Tells who changes something (`--audit`), in the file if one is named, else in the log. */
  readonly audit?: { readonly file: string | undefined } | undefined;
  /** Routes of plugins from outside. */
  readonly pluginRoutes?: readonly PluginRouteSpec[];
  /** For tests: how long a request may take to come in (30 s), and how long a connection may be idle (75 s). */
  readonly requestTimeoutMs?: number;
  readonly idleMaxMs?: number;
  /** For tests: how long an answer waits for a client that takes nothing (5 minutes). */
  readonly stallMaxMs?: number;
  /** For tests: how many bytes of answers may wait for clients, of event streams as many (256 MiB). */
  readonly untakenBytesMax?: number;
  /** For tests: how long a request waits for the next owner of a shard (5 s). */
  readonly ownerWaitMs?: number;
  /** For tests: how many bytes of website requests' bodies may be in hand (256 MiB). */
  readonly siteBodyBytesMax?: number;
  /** For tests: descriptors from which the number of connections follows, instead of the system's. */
  readonly descriptors?: Descriptors;
}

/** The server with what its plugin needs to open and close it. */
export interface OpenableHttpServer extends HttpServer {
  /**
   * Binds; resolves with the origin, or undefined if the server is hidden. Rejects with ServerError `unavailable` if
   * the address cannot be bound.
   */
  listen(): Promise<string | undefined>;
  /**
   * Takes as many connections from now on as there is room for beside what is open. To be called when recovery is over.
   */
  serve(): void;
  /**
   * Takes no connection and no request from now on. Answers under way go on; connections that owe no answer are closed,
   * and soon those whose request has not fully arrived. Idempotent.
   */
  stopAccepting(): void;
  /**
   * `stopAccepting`, and resolves when each answer that is owed has been sent and all connections are closed, however
   * long that takes: whoever makes the answers has to be drained by then, or meanwhile. When `signal` is aborted,
   * connections are cut.
   */
  close(options?: { readonly signal?: AbortSignal }): Promise<void>;
}
