import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { type Clock, type Logger, type Readiness, ServerError, sleep } from '../../kernel/index.ts';
import type { Agents } from '../agents/index.ts';
import { TypeTables } from '../codec/description/index.ts';
import type { RequestTally } from '../metrics/index.ts';
import { BodyBudget } from './body-budget.ts';
import { Broadcast } from './broadcast.ts';
import { AccessLog } from './access-log.ts';
import { AGENT_ROUTES, agentHandlers, agentsOff, isAgentTarget } from './agent-routes.ts';
import { AuditLog } from './audit-log.ts';
import { BrowserGuard } from './browser-guard.ts';
import { ClientAddresses } from './client-addresses.ts';
import { CheckOrder, type Expectation } from './check-order.ts';
import { Connections } from './connections.ts';
import {
  type ConnectionBound,
  connectionBound,
  type Descriptors,
  STARTING_CONNECTIONS_MAX,
  systemDescriptors,
} from './descriptors.ts';
import { EventStreams } from './event-streams.ts';
import type { Gateway } from '../gateway/index.ts';
import type { HttpServerNeeds, HttpServerOptions, OpenableHttpServer } from './http-server-options.ts';
import { Hop } from './peers/hop.ts';
import { JobLog } from './job-log.ts';
import { createServer } from './node-http.ts';
import { OpenCalls } from './open-calls.ts';
import { OpenTarget, OpenTargets } from './open-targets.ts';
import { RefusedTokens } from './refused-tokens.ts';
import { ServedRequest } from './served-request.ts';
import { notFound } from './not-found.ts';
import { answerParserError, HEADER_BYTES_MAX } from './parser-errors.ts';
import { type ParserError, RequestFlow } from './request-flow.ts';
import { Responder } from './responder.ts';
import { PluginAnswers, pluginRouteSpec } from './plugin-routes.ts';
import { countedBy, createRouter } from './router.ts';
import type { RouteSpec } from './route-table.ts';
import { ServedResponse } from './served-response.ts';
import { showNumbers } from './shown-numbers.ts';
import { BUILT_IN, type Target, Targets } from './targets.ts';
import { Websites } from './websites.ts';
import { CallerClaims } from './x-caller.ts';
import { keepRequestsYoung } from './young-requests.ts';

const REQUEST_TIMEOUT_MS = 30_000;
/**
 * Interval of looks at requests that are late. node:http ends all that are late at once, 50 µs each: of two thousand
 * connections that were opened within a second, a quarter at a time. More looks would cost a server at rest more than
 * all else that it does.
 */
const TIMEOUT_CHECK_MS = 250;
/** Longer than the idle time of the usual proxies (60 s), so that they, not we, close first. */
const IDLE_MAX_MS = 75_000;
const SWEEP_MS = 5000;
/** Interval in which idle connections are closed, some at a time. */
const END_IDLE_MS = 20;
/**
 * Connections that the system keeps until they are taken (it may keep fewer, see somaxconn). Connections beyond that
 * are dropped, and their clients try again after a second. Node's own 511 are full at once when thousands come
 * together.
 */
const BACKLOG = 4096;
/** Milliseconds between two lines of the log about connections that had to go for others. */
const DISPLACED_LOG_MS = 60_000;
/**
 * A client that takes nothing of its answers for so long does not come back, and a backup that is sent to it holds a
 * snapshot of the state. Not shorter: a slow client's system may report some megabytes at once.
 */
const STALL_MAX_MS = 300_000;
/** While stopping: how often connections are looked at, and how long a request may still take to come in. */
const CLOSING_CHECK_MS = 20;
const RECEIVING_GRACE_MS = 1000;
/**
 * While stopping: how long connections that owe nothing stay open where other servers may be sending on them. The first
 * answer tells those that this one ends.
 */
const LINK_GRACE_MS = 100;
/** Milliseconds that a client may take nothing of its answer while the server stops. */
const CLOSING_STALL_MS = 5000;

// With the import, which is before the first plugin is made and its thread started.
keepRequestsYoung();

/** fastify routes, behind the checks of check-order.ts; the answers are written by the responder. */
export function createHttpServer(needs: HttpServerNeeds, options: HttpServerOptions): OpenableHttpServer {
  return new FastifyHttpServer(needs, options);
}

class FastifyHttpServer implements OpenableHttpServer {
  readonly #options: HttpServerOptions;
  readonly #requestTimeoutMs: number;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #responder: Responder;
  readonly #jobs: JobLog;
  /** Requests that the checks have answered. */
  readonly #preflights: RequestTally;
  readonly #refused: RequestTally;
  readonly #sites: RequestTally;
  /** Requests for what is not there. */
  readonly #unknown: RequestTally;
  readonly #gateway: Gateway;
  readonly #targets: Targets;
  readonly #websites: Websites;
  readonly #openTargets: OpenTargets;
  readonly #openCalls: OpenCalls;
  readonly #checks: CheckOrder;
  readonly #connections: Connections;
  readonly #streams: EventStreams;
  readonly #typeTables = new TypeTables();
  readonly #flow = new RequestFlow();
  readonly #descriptors: Descriptors;
  readonly #readiness: Readiness;
  readonly #clients: ClientAddresses;
  readonly #refusedTokens: RefusedTokens;
  /** Undefined if nobody has asked for it. */
  #accessLog: AccessLog | undefined;
  #displacedLoggedMs = Number.NEGATIVE_INFINITY;
  /** Displaced connections that the log has told of. */
  #displacedLogged = 0;
  readonly #audit: AuditLog | undefined;
  /** Undefined: this server is a service by itself. */
  readonly #hop: Hop | undefined;
  readonly #agents: Agents;
  /** Routes of plugins from outside, and of agents. */
  readonly #addedSpecs: readonly RouteSpec[];
  readonly #pluginAnswers: PluginAnswers;
  readonly #app: FastifyInstance;
  readonly #server: Server;
  #origin: string | undefined;
  #sweeping: Disposable | undefined;
  /** Resolves when no connection is left. */
  #serverClosed: Promise<void> | undefined;
  #closed: Promise<void> | undefined;

  constructor(needs: HttpServerNeeds, options: HttpServerOptions) {
    const { agents, auth, gateway, ...granted } = needs;
    this.#agents = agents;
    const { readiness, metrics, clock, log } = granted;
    this.#options = options;
    this.#requestTimeoutMs = options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS;
    this.#clock = clock;
    this.#log = log;
    this.#responder = new Responder(options.version, log, {
      clock,
      stallMaxMs: options.stallMaxMs ?? STALL_MAX_MS,
      untakenBytesMax: options.untakenBytesMax,
    });
    // Where a token is asked for, a client that sends it is let in.
    const { browserGuard } = options;
    const guard = browserGuard === undefined || auth.needsToken ? undefined : new BrowserGuard(browserGuard.names);
    this.#openTargets = new OpenTargets(needs.canisters);
    this.#checks = new CheckOrder(auth, readiness, this.#responder, this.#openTargets, guard, needs.agents.mode);
    this.#gateway = gateway;
    this.#pluginAnswers = new PluginAnswers(log);
    const agentSpecs = agents.mode === 'off' ? [] : AGENT_ROUTES;
    this.#addedSpecs = [...(options.pluginRoutes ?? []).map(pluginRouteSpec), ...agentSpecs];
    this.#clients = new ClientAddresses(options.trustedProxies ?? []);
    this.#hop = this.#hopOver(needs);
    const takesPathTokens = options.takesPathTokens === true && agents.mode !== 'off';
    const hosts = this.#hop?.hostsOf(gateway) ?? gateway;
    this.#targets = new Targets(hosts, readiness, { ...options, takesPathTokens }, this.#addedSpecs);
    this.#refusedTokens = new RefusedTokens(this.#clients, log);
    const audited = { ...needs, needsToken: auth.needsToken, clients: this.#clients, responder: this.#responder };
    this.#audit = options.audit && new AuditLog(options.audit.file, audited);
    this.#readiness = readiness;
    this.#connections = new Connections({
      idleMaxMs: options.idleMaxMs ?? IDLE_MAX_MS,
      stallMaxMs: options.stallMaxMs ?? STALL_MAX_MS,
      receivingMaxMs: this.#requestTimeoutMs,
    });
    this.#descriptors = options.descriptors ?? systemDescriptors();
    this.#jobs = new JobLog(clock, log);
    const bodies = new BodyBudget(options.siteBodyBytesMax);
    this.#websites = new Websites({ gateway, responder: this.#responder, jobs: this.#jobs, log, bodies });
    this.#preflights = metrics.requestsOf('preflight');
    this.#refused = metrics.requestsOf('refused');
    this.#sites = metrics.requestsOf('site');
    this.#unknown = metrics.requestsOf('unknown');
    this.#streams = new EventStreams(this.#responder, clock, this.#connections, options.untakenBytesMax);
    const answers = {
      responder: this.#responder,
      jobs: this.#jobs,
      streams: this.#streams,
      broadcast: new Broadcast(clock),
      callers: new CallerClaims(options.refusesClaims),
      typeTables: this.#typeTables,
    };
    this.#responder.isStranger = ({ req }) => this.#connections.of(req.socket)?.isKnown !== true;
    showNumbers(metrics, this.#connections, this.#streams, this.#openTargets, this.#audit);
    const host = { ...granted, ...answers };
    this.#openCalls = new OpenCalls(host, bodies, options.refusesClaims);
    this.#server = this.#createServer();
    this.#app = createRouter({
      server: this.#server,
      host,
      options,
      agentRoutes: agents.mode === 'off' ? [] : agentHandlers(host, agents, bodies, this.#audit, auth),
      pluginAnswers: this.#pluginAnswers,
      audit: this.#audit,
      unknown: this.#unknown,
      notFound: (request, response) => this.#notFound(request, response),
      parserStopped: (error, socket) => this.#parserStopped(error, socket),
    });
  }

  /** Requests of other servers come over their links, and requests for actors of others go there. */
  #hopOver({ cluster, canisters, metrics, clock, readiness }: HttpServerNeeds): Hop | undefined {
    if (!cluster.isShared) return undefined;
    for (const number of cluster.numbers) metrics.show(number);
    const forwarded = metrics.requestsOf('forwarded');
    const { ownerWaitMs } = this.#options;
    const [responder, clients] = [this.#responder, this.#clients];
    const parts = { cluster, canisters, clock, readiness, forwarded, responder, clients, ownerWaitMs };
    const hop = new Hop(parts);
    this.#openTargets.isElsewhere = (request) => hop.isElsewhere(request);
    cluster.serve((socket) => {
      hop.link(socket);
      this.#server.emit('connection', socket);
      // Nothing was read since its beginning.
      socket.resume();
      const connection = this.#connections.of(socket);
      if (connection !== undefined) this.#connections.know(connection);
    });
    return hop;
  }

  get origin(): string | undefined {
    return this.#origin;
  }

  reread(isRead: boolean | undefined): void {
    this.#audit?.reread(isRead);
  }

  async listen(): Promise<string | undefined> {
    const { accessLog: file } = this.#options;
    await this.#app.ready();
    this.#audit?.open();
    if (file !== undefined) {
      const parts = { file, clients: this.#clients, clock: this.#clock, log: this.#log };
      this.#accessLog = await AccessLog.open(parts);
    }
    this.#bindConnections();
    if (this.#options.isHidden !== true) this.#origin = await this.#bind();
    const sweepMs = Math.min(SWEEP_MS, this.#options.idleMaxMs ?? IDLE_MAX_MS);
    this.#sweeping = this.#clock.every(sweepMs, () => this.#sweep());
    return this.#origin;
  }

  /** Binds the address; resolves with the origin. */
  async #bind(): Promise<string> {
    const { host, port } = this.#options;
    try {
      this.#server.listen({ host, port, backlog: BACKLOG });
      await once(this.#server, 'listening');
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      const reason =
        code === 'EADDRINUSE'
          ? 'another process listens there: stop it, or choose another port (--listen)'
          : String(code ?? error);
      throw new ServerError('unavailable', 'cannot-listen', `cannot listen on ${host} port ${port}: ${reason}`, {
        cause: error,
      });
    }
    this.#server.on('error', (error) => this.#log.error('the listener reported an error', error));
    const address = this.#server.address() as AddressInfo;
    const printed = address.family === 'IPv6' ? `[${address.address}]` : address.address;
    return `http://${printed}:${address.port}`;
  }

  serve(): void {
    const { connectionsMax, reason, isTight } = this.#bindConnections();
    const line = `at most ${connectionsMax} connections at once: ${reason}`;
    if (isTight) this.#log.warn(`${line}; that is not enough: raise the limit (ulimit -n)`);
    else this.#log.info(line);
    this.#checkWeb();
  }

  /** An actor may come later; but mostly its name is misspelt. */
  #checkWeb(): void {
    const { web } = this.#options;
    if (web === undefined) return;
    try {
      this.#gateway.find(web);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      this.#log.warn(`--web ${web}: ${error.message}; until there is one its pages are answered 404`);
    }
  }

  #bindConnections(): ConnectionBound {
    const bound = connectionBound(this.#descriptors, this.#connections.size);
    const { isReady } = this.#readiness;
    this.#connections.max = isReady ? bound.connectionsMax : Math.min(bound.connectionsMax, STARTING_CONNECTIONS_MAX);
    return bound;
  }

  #endIdle(): void {
    if (this.#connections.endIdle(this.#clock.nowMs())) this.#clock.after(END_IDLE_MS, () => this.#endIdle());
  }

  #sweep(): void {
    const nowMs = this.#clock.nowMs();
    const { reason } = this.#bindConnections();
    this.#connections.sweep(nowMs);
    this.#endIdle();
    this.#refusedTokens.tell(nowMs);
    this.#connections.cutVoid();
    const { max } = this.#connections;
    const displaced = this.#connections.displaced - this.#displacedLogged;
    if (displaced === 0 || nowMs - this.#displacedLoggedMs < DISPLACED_LOG_MS) return;
    this.#displacedLoggedMs = nowMs;
    this.#displacedLogged += displaced;
    this.#log.warn(`${displaced} connections were closed to make room for others: at most ${max} at once: ${reason}`);
  }

  stopAccepting(): void {
    if (this.#serverClosed !== undefined) return;
    this.#responder.isClosing = true;
    this.#responder.isNewest = (response) => {
      const newest = this.#connections.of(response.req.socket)?.response;
      return newest === undefined || newest === response;
    };
    this.#streams.endAll();
    this.#connections.hurry(CLOSING_STALL_MS);
    const isOpen = this.#server.listening || this.#hop !== undefined;
    this.#serverClosed = isOpen ? this.#closeConnections() : Promise.resolve();
    // Not node:http's, which would close connections whose last answer is still on its way.
    NetServer.prototype.close.call(this.#server);
    this.#sweeping?.[Symbol.dispose]();
  }

  /** Looks again and again until all are closed: one whose answer has been sent owes none. */
  async #closeConnections(): Promise<void> {
    const startedMs = this.#clock.nowMs();
    const closeSome = (): void => {
      const closingMs = this.#clock.nowMs() - startedMs;
      const isGraceOver = closingMs > RECEIVING_GRACE_MS;
      const isLinkGrace = this.#hop !== undefined && closingMs < LINK_GRACE_MS;
      const isUntaken = this.#connections.lookForUntaken();
      if (isGraceOver) this.#connections.closeUnless((request) => request.complete);
      else if (!isUntaken && !isLinkGrace) this.#server.closeIdleConnections();
    };
    closeSome();
    using _looking = this.#clock.every(CLOSING_CHECK_MS, closeSome);
    if (this.#server.listening) await new Promise((resolve) => this.#server.once('close', resolve));
    // The listener does not count those of other servers.
    while (this.#hop !== undefined && this.#connections.size > 0) await sleep(this.#clock, CLOSING_CHECK_MS);
  }

  close({ signal }: { readonly signal?: AbortSignal } = {}): Promise<void> {
    signal?.addEventListener('abort', () => this.#server.closeAllConnections(), { once: true });
    if (signal?.aborted === true) this.#server.closeAllConnections();
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.stopAccepting();
    using _ending = this.#pluginAnswers.endAfter(this.#clock);
    await this.#serverClosed;
    await Promise.all([this.#app.close(), this.#typeTables.close(), this.#accessLog?.close()]);
    this.#refusedTokens.tell(Number.POSITIVE_INFINITY);
    this.#audit?.close();
  }

  #createServer(): Server {
    const requestTimeoutMs = this.#requestTimeoutMs;
    const server = createServer<typeof IncomingMessage, typeof ServedResponse>({
      IncomingMessage: ServedRequest,
      ServerResponse: ServedResponse,
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
    server.on('connection', (socket: Socket) => this.#connected(socket));
    server.on('request', (request, response) => this.#dispatch(request, response, 'nothing'));
    server.on('checkContinue', (request, response) => this.#dispatch(request, response, 'continue'));
    server.on('checkExpectation', (request, response) => this.#dispatch(request, response, 'unknown'));
    server.on('connect', (_request, socket) => this.#refuseTunnel(socket as Socket));
    return server;
  }

  #refuseTunnel(socket: Socket): void {
    // An answer that is still owed comes first: this one would be taken for it.
    if (this.#connections.pendingAnswerOf(socket) !== undefined) socket.destroy();
    else this.#responder.raw(socket, 400, 'Bad Request', 'this server is not a proxy');
  }

  /** Handles what node:http calls errors of a client; some of them are stops that this server made. */
  #parserStopped(error: ParserError, socket: Socket): void {
    const connection = this.#connections.of(socket);
    if (connection !== undefined) {
      if (this.#flow.stopped(connection, error)) return;
      const isLate = error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
      if (isLate && this.#connections.forgives(connection, this.#clock.nowMs())) return;
    }
    answerParserError(error, socket, this.#connections, this.#responder, this.#requestTimeoutMs);
  }

  #connected(socket: Socket): void {
    // node:http takes its own listener away when it hands a socket over (CONNECT): a client that resets it then must
    // not end the process.
    socket.on('error', () => socket.destroy());
    const connection = this.#connections.opened(socket, this.#clock.nowMs());
    if (connection !== undefined) this.#flow.watch(connection);
    else {
      const text = `all ${this.#connections.max} connections of this server are in use: try again later`;
      this.#responder.rawAtOnce(socket, 503, 'Service Unavailable', text);
    }
  }

  #dispatch(request: IncomingMessage, response: ServedResponse, expectation: Expectation): void {
    response.startedMs = this.#clock.nowMs();
    const connection = this.#connections.of(request.socket);
    if (connection !== undefined) this.#flow.began(connection, response);
    this.#accessLog?.began(request, response);
    const target = this.#targets.read(request);
    if (this.#hop === undefined) this.#prove(request, response, expectation, target);
    else this.#hop.arrived(request, response, target, () => this.#prove(request, response, expectation, target));
  }

  #prove(
    request: IncomingMessage,
    response: ServedResponse,
    expectation: Expectation,
    target: Target | undefined,
  ): void {
    const proof = this.#checks.prove(request, response, target);
    if (proof === undefined) this.#judge(request, response, expectation, target);
    else void proof.then(() => this.#judge(request, response, expectation, target));
  }

  #judge(
    request: IncomingMessage,
    response: ServedResponse,
    expectation: Expectation,
    target: Target | undefined,
  ): void {
    const connection = this.#connections.of(request.socket);
    const admitted = this.#checks.admit(request, response, expectation, target);
    if (connection?.isKnown === false && this.#checks.showsToken(request, response, target))
      this.#connections.know(connection);
    if (admitted === undefined) {
      if (response.statusCode === 401) this.#refusedTokens.note(request);
      this.#audit?.answered(response);
      const tally = response.statusCode === 204 ? this.#preflights : this.#refused;
      tally.value++;
      tally.answered(response.statusCode, this.#clock.nowMs() - response.startedMs);
      return;
    }
    if (admitted === BUILT_IN && this.#targets.isDisguised(request.url ?? '')) {
      this.#notFound(request, response);
      return;
    }
    if (expectation === 'continue') response.writeContinue();
    if (this.#hop?.take(request, response, admitted) === true) return;
    if (admitted === BUILT_IN) this.#app.routing(request, response);
    else if (admitted instanceof OpenTarget) this.#openCalls.serve(request, response, admitted);
    else {
      countedBy(this.#sites, response);
      this.#websites.serve(request, response, admitted);
    }
  }

  #notFound(request: IncomingMessage, response: ServerResponse): void {
    countedBy(this.#unknown, response);
    const isOff = this.#agents.mode === 'off' && isAgentTarget(request.url ?? '');
    this.#responder.error(response, isOff ? agentsOff() : notFound(request, this.#addedSpecs));
  }
}
