import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { fastify, type FastifyInstance } from 'fastify';
import { type Clock, type Logger, type Readiness, ServerError } from '../../kernel/index.ts';
import type { Auth } from '../auth/index.ts';
import type { Codec } from '../codec/index.ts';
import type { Metrics, Tally } from '../metrics/index.ts';
import type { Scheduler } from '../scheduler/index.ts';
import type { Storage } from '../storage/index.ts';
import { CheckOrder } from './check-order.ts';
import { Connections } from './connections.ts';
import type { HttpServer } from './index.ts';
import { JobLog } from './job-log.ts';
import { notFound } from './not-found.ts';
import { answerParserError, HEADER_BYTES_MAX } from './parser-errors.ts';
import { endpointOf, isDisguisedTarget, isGatewayTarget } from './request-target.ts';
import { Responder } from './responder.ts';
import type { Route, RouteHost, RouteParameters, ServedCanisters } from './route.ts';
import { actorRoutes } from './routes/actors.ts';
import { backupRoutes } from './routes/backup.ts';
import { cyclesRoutes } from './routes/cycles.ts';
import { healthRoutes } from './routes/health.ts';
import { inspectRoutes } from './routes/inspect.ts';
import { installRoutes } from './routes/install.ts';
import { jsonCallRoutes } from './routes/json-calls.ts';
import { lifeCycleRoutes } from './routes/life-cycle.ts';
import { logsRoutes } from './routes/logs.ts';
import { metricsRoutes } from './routes/metrics.ts';
import { notBuiltRoutes } from './routes/not-built.ts';
import { rawCallRoutes } from './routes/raw-calls.ts';
import { upgradeRoutes } from './routes/upgrade.ts';
import { versionRoutes, type VersionInfo } from './routes/version.ts';
import { CallerClaims } from './x-caller.ts';

const REQUEST_TIMEOUT_MS = 30_000;
const TIMEOUT_CHECK_MS = 1000;
/** Longer than the idle time of the usual proxies (60 s), so that they, not we, close first. */
const IDLE_MAX_MS = 75_000;
const SWEEP_MS = 5000;
/**
 * A client that takes nothing of a streamed answer for so long does not come back, and what is sent to it holds a snapshot
 * of the state. Not shorter: a slow client's system may report some megabytes at once.
 */
const STALL_MAX_MS = 300_000;
/** While stopping: how often connections are looked at, and how long a request may still take to come in. */
const CLOSING_CHECK_MS = 20;
const RECEIVING_GRACE_MS = 1000;

export interface HttpServerNeeds {
  readonly auth: Auth;
  readonly readiness: Readiness;
  readonly canisters: ServedCanisters;
  readonly codec: Pick<Codec, 'untyped'>;
  readonly storage: Pick<Storage, 'backup'>;
  readonly metrics: Metrics;
  /** Drained when the server closes, so that queued calls are answered and only the executing ones are waited for. */
  readonly scheduler?: Pick<Scheduler, 'drain'> | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface HttpServerOptions extends VersionInfo {
  /** An address or a host name, without brackets; and a port, 0 for any free one. */
  readonly host: string;
  readonly port: number;
  /** For tests: how long a request may take to come in (30 s), and how long a connection may be idle (75 s). */
  readonly requestTimeoutMs?: number;
  readonly idleMaxMs?: number;
  /** For tests: how long a streamed answer waits for a client that takes nothing (5 minutes). */
  readonly stallMaxMs?: number;
}

/** The server with what its plugin needs to open and close it. */
export interface OpenableHttpServer extends HttpServer {
  /** Binds; resolves with the origin. Rejects with ServerError `unavailable` if the address cannot be bound. */
  listen(): Promise<string>;
  /** From now on no connection and no request is taken; what is being answered goes on. Idempotent. */
  stopAccepting(): void;
  /**
   * `stopAccepting`, and resolves when each answer that is owed has been sent and all connections are closed, however
   * long that takes; when `signal` is aborted, connections are cut.
   */
  close(options?: { readonly signal?: AbortSignal }): Promise<void>;
}

/** fastify routes, behind the contract's checks; the answers are written by the responder. */
export function createHttpServer(needs: HttpServerNeeds, options: HttpServerOptions): OpenableHttpServer {
  return new FastifyHttpServer(needs, options);
}

class FastifyHttpServer implements OpenableHttpServer {
  readonly #options: HttpServerOptions;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #responder: Responder;
  readonly #scheduler: Pick<Scheduler, 'drain'> | undefined;
  readonly #jobs: JobLog;
  readonly #metrics: Metrics;
  /** Requests that the checks have answered. */
  readonly #preflights: Tally;
  readonly #refused: Tally;
  readonly #sites: Tally;
  /** Requests for what is not there. */
  readonly #unknown: Tally;
  readonly #checks: CheckOrder;
  readonly #connections: Connections;
  readonly #routes: readonly Route[];
  readonly #app: FastifyInstance;
  readonly #server: Server;
  #origin: string | undefined;
  #sweeping: NodeJS.Timeout | undefined;
  #serverClosed: Promise<unknown> | undefined;
  #closed: Promise<void> | undefined;

  constructor(needs: HttpServerNeeds, options: HttpServerOptions) {
    const { auth, readiness, canisters, codec, storage, metrics, clock, log } = needs;
    this.#scheduler = needs.scheduler;
    this.#options = options;
    this.#clock = clock;
    this.#log = log;
    this.#responder = new Responder(options.version, log, { stallMaxMs: options.stallMaxMs ?? STALL_MAX_MS });
    this.#checks = new CheckOrder(auth, readiness, this.#responder);
    this.#connections = new Connections(options.idleMaxMs ?? IDLE_MAX_MS);
    this.#jobs = new JobLog(clock, log);
    this.#metrics = metrics;
    this.#preflights = metrics.requestsOf('preflight');
    this.#refused = metrics.requestsOf('refused');
    this.#sites = metrics.requestsOf('site');
    this.#unknown = metrics.requestsOf('unknown');
    const callers = new CallerClaims();
    const host: RouteHost = {
      canisters,
      codec,
      storage,
      metrics,
      readiness,
      clock,
      log,
      responder: this.#responder,
      jobs: this.#jobs,
      callers,
    };
    this.#routes = [
      ...rawCallRoutes(host),
      ...jsonCallRoutes(host),
      ...actorRoutes(host),
      ...installRoutes(host),
      ...upgradeRoutes(host),
      ...lifeCycleRoutes(host),
      ...cyclesRoutes(host),
      ...logsRoutes(host),
      ...inspectRoutes(host),
      ...backupRoutes(host),
      ...metricsRoutes(host),
      ...healthRoutes(host),
      ...versionRoutes(host, options),
      ...notBuiltRoutes(),
    ];
    this.#server = this.#createServer();
    this.#app = this.#createRouter();
  }

  get origin(): string | undefined {
    return this.#origin;
  }

  async listen(): Promise<string> {
    const { host, port } = this.#options;
    await this.#app.ready();
    try {
      this.#server.listen({ host, port });
      await once(this.#server, 'listening');
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      const reason = code === 'EADDRINUSE' ? 'the address is already in use' : String(code ?? error);
      throw new ServerError('unavailable', 'cannot-listen', `cannot listen on ${host} port ${port}: ${reason}`, {
        cause: error,
      });
    }
    this.#server.on('error', (error) => this.#log.error('the listener reported an error', error));
    const address = this.#server.address() as AddressInfo;
    const printed = address.family === 'IPv6' ? `[${address.address}]` : address.address;
    this.#origin = `http://${printed}:${address.port}`;
    this.#sweeping = setInterval(
      () => this.#connections.sweep(this.#clock.nowMs()),
      Math.min(SWEEP_MS, this.#options.idleMaxMs ?? IDLE_MAX_MS),
    ).unref();
    return this.#origin;
  }

  stopAccepting(): void {
    if (this.#serverClosed !== undefined) return;
    this.#responder.isClosing = true;
    this.#serverClosed = this.#server.listening ? once(this.#server, 'close') : Promise.resolve();
    this.#server.close();
    clearInterval(this.#sweeping);
  }

  close({ signal }: { readonly signal?: AbortSignal } = {}): Promise<void> {
    signal?.addEventListener('abort', () => this.#server.closeAllConnections(), { once: true });
    if (signal?.aborted === true) this.#server.closeAllConnections();
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.stopAccepting();
    void this.#scheduler?.drain(); // its plugin awaits it; here it is about the answers
    const startedMs = this.#clock.nowMs();
    const looking = setInterval(() => {
      this.#server.closeIdleConnections();
      const isGraceOver = this.#clock.nowMs() - startedMs > RECEIVING_GRACE_MS;
      if (isGraceOver) this.#connections.closeUnless((request) => request.complete);
    }, CLOSING_CHECK_MS);
    await this.#serverClosed;
    clearInterval(looking);
    await this.#app.close();
  }

  #createServer(): Server {
    const requestTimeoutMs = this.#options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS;
    const server = createServer({
      requestTimeout: requestTimeoutMs,
      headersTimeout: requestTimeoutMs,
      connectionsCheckingInterval: Math.min(TIMEOUT_CHECK_MS, requestTimeoutMs),
      maxHeaderSize: HEADER_BYTES_MAX,
      keepAliveTimeout: 0, // idle connections are swept, see Connections
      requireHostHeader: false, // checked with the rest, so that the refusal has our headers
      noDelay: true,
    });
    // The size of the header bounds their number; node:http would drop those beyond its own limit without a word.
    server.maxHeadersCount = 0;
    server.on('connection', (socket: Socket) => this.#connections.opened(socket, this.#clock.nowMs()));
    server.on('request', (request, response) => this.#dispatch(request, response, false));
    server.on('checkContinue', (request, response) => this.#dispatch(request, response, true));
    server.on('checkExpectation', (_request, response) => {
      this.#refused.value++;
      this.#responder.refuseUnread(response, 417, 'the only expectation that can be met is 100-continue');
    });
    server.on('connect', (_request, socket) =>
      this.#responder.raw(socket as Socket, 400, 'Bad Request', 'this is not a proxy'),
    );
    server.on('clientError', (error, socket) =>
      answerParserError(error, socket as Socket, this.#connections, this.#responder, requestTimeoutMs),
    );
    return server;
  }

  #dispatch(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void {
    this.#connections.began(request, response);
    if (!this.#checks.admit(request, response)) {
      const tally = response.statusCode === 204 ? this.#preflights : this.#refused;
      tally.value++;
      return;
    }
    if (isDisguisedTarget(request.url ?? '')) {
      this.#notFound(request, response);
      return;
    }
    if (expectsContinue) response.writeContinue();
    this.#app.routing(request, response);
  }

  #notFound(request: IncomingMessage, response: ServerResponse): void {
    const tally = isGatewayTarget(request.url ?? '') ? this.#sites : this.#unknown;
    tally.value++;
    this.#responder.error(response, notFound(request, this.#routes));
  }

  #createRouter(): FastifyInstance {
    const app = fastify({
      logger: false,
      serverFactory: () => this.#server,
      exposeHeadRoutes: false,
      requestIdHeader: false,
      genReqId: () => '',
      routerOptions: {
        maxParamLength: HEADER_BYTES_MAX,
        querystringParser: () => ({}), // routes that take a query read it from the target, strictly
        defaultRoute: (request: IncomingMessage, response: ServerResponse) => this.#notFound(request, response),
        onBadUrl: (path: string, _request: IncomingMessage, response: ServerResponse) => {
          this.#unknown.value++;
          const error = new ServerError(
            'invalid',
            'bad-path',
            `the path ${JSON.stringify(path.slice(0, 80))} is not valid percent-encoded UTF-8`,
          );
          this.#responder.error(response, error);
        },
      },
    });
    for (const route of this.#routes) this.#register(app, route);
    return app;
  }

  /**
   * A route is served from its `onRequest` hook: fastify has routed by then, but has not looked at the content type
   * (which here may be anything, even malformed) nor touched the body.
   */
  #register(app: FastifyInstance, route: Route): void {
    const requests = this.#metrics.requestsOf(endpointOf(route.path));
    const failed = (response: ServerResponse, error: unknown): void => {
      this.#responder.error(response, error);
      if (route.job !== undefined) this.#jobs.ended(route.job, '', '', false, this.#jobs.nowMs());
    };
    app.route({
      method: route.method,
      url: route.path,
      onRequest: (request, reply) => {
        reply.hijack();
        requests.value++;
        const response = reply.raw;
        try {
          const handled = route.handle(request.raw, response, request.params as RouteParameters);
          if (handled !== undefined) handled.catch((error: unknown) => failed(response, error));
        } catch (error) {
          failed(response, error);
        }
      },
      handler: () => {
        throw new Error('unreachable: routes answer in onRequest');
      },
    });
  }
}
