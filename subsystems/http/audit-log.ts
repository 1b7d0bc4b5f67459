/**
 * `--audit`: who changed something, or read what is secret. Each such request is two lines: one before anything is
 * done, and one with the outcome before the answer leaves. If the first cannot be written, nothing is done. Attempts
 * that were denied are counted, and told once a second for each address. No line has an argument, a body, a query or a
 * token.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Clock, type Logger, messageOf, ServerError } from '../../kernel/index.ts';
import type { AgentChange } from '../agents/index.ts';
import { AuditFile } from './audit-file.ts';
import type { ClientAddresses } from './client-addresses.ts';
import { firstSegmentOf, readablePathOf, type RouteSpec, ROUTES } from './route-table.ts';
import type { Responder } from './responder.ts';
import type { RouteParameters, ServedCanisters } from './route.ts';
import { ServedResponse } from './served-response.ts';

const DENIED_MS = 1000;
/** Addresses that are told apart; all others are told together. */
const SOURCES_MAX = 1024;
const OTHERS = 'others';
/** Characters of an actor that is not there, as it was written. */
const ACTOR_CHARACTERS_MAX = 64;
const SEGMENTS: ReadonlySet<string> = new Set(ROUTES.map(({ path }) => firstSegmentOf(path)));

type Outcome = 'begun' | 'done' | 'failed' | 'denied';

interface AuditLine {
  /** The name of a token; `*` for the one token, and empty for who has shown none; at `/api` the sender's principal. */
  readonly who: string;
  readonly route: string;
  /** The actor's id in hex; as it was written if there is none, and empty without an actor. */
  readonly actor: string;
  readonly outcome: Outcome;
  /** Status of the answer; 0 before there is one. */
  readonly status: number;
  readonly client: string;
}

interface AuditParts {
  readonly needsToken: boolean;
  readonly canisters: Pick<ServedCanisters, 'resolveIfAny'>;
  readonly clients: ClientAddresses;
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly log: Pick<Logger, 'event' | 'error'>;
  readonly responder: Pick<Responder, 'onDenied'>;
}

/** Attempts of one address that were denied. */
interface Source {
  toldMs: number;
  untold: number;
}

export class AuditLog {
  readonly #parts: AuditParts;
  readonly #path: string | undefined;
  #file: AuditFile | undefined;
  readonly #sources = new Map<string, Source>();
  /** Requests that were answered 401 or 403. */
  denials = 0;
  /** Lines that could not be written. */
  unwritten = 0;

  /** Without a file, lines go to the log. */
  constructor(file: string | undefined, parts: AuditParts) {
    this.#parts = parts;
    this.#path = file;
    parts.responder.onDenied = (response, status) => this.#denied(response, status);
  }

  /** Opens the file, before there is a request. Throws ServerError `cannot-write-audit`. */
  open(): void {
    if (this.#path !== undefined) this.#file = new AuditFile(this.#path);
  }

  /**
   * Writes that a request begins, and the outcome before its answer leaves. Throws ServerError `audit-unwritten`, and
   * the request must not go on.
   */
  begin(request: IncomingMessage, response: ServedResponse, spec: RouteSpec, parameters: RouteParameters): void {
    this.#begin(response, {
      who: response.grant?.name ?? (this.#parts.needsToken ? '*' : ''),
      route: `${spec.method} ${readablePathOf(spec.path)}`,
      actor: this.#actorOf(parameters),
      client: this.#parts.clients.of(request),
    });
  }

  /** As `begin`, for a management call at `/api`, of which the envelope says who changes what. */
  beginChange(request: IncomingMessage, response: ServedResponse, change: AgentChange): void {
    const { sender, canister, method, actorHex } = change;
    const client = this.#parts.clients.of(request);
    this.#begin(response, { who: sender, route: `POST /api ${canister} ${method}`, actor: actorHex, client });
  }

  #begin(response: ServedResponse, about: Omit<AuditLine, 'outcome' | 'status'>): void {
    try {
      this.#write({ ...about, outcome: 'begun', status: 0 });
    } catch (error) {
      const text = `nothing was done: the line of the audit cannot be written: ${messageOf(error)}`;
      throw new ServerError('unavailable', 'audit-unwritten', text, { cause: error });
    }
    const writeHead = response.writeHead.bind(response) as (...values: unknown[]) => ServedResponse;
    response.writeHead = (status: number, ...more: unknown[]): ServedResponse => {
      this.#tell({ ...about, outcome: status < 400 ? 'done' : 'failed', status });
      return writeHead(status, ...more);
    };
  }

  /** Looks at an answer that the checks before the router have given. */
  answered(response: ServerResponse): void {
    const { statusCode } = response;
    if (statusCode === 401 || statusCode === 403) this.#denied(response, statusCode);
  }

  /** Counts an answer of 401 or 403, and writes it unless one of the same address was written just now. */
  #denied(response: ServerResponse, status: number): void {
    const { method = '', url = '', headers, socket } = response.req;
    const grant = response instanceof ServedResponse ? response.grant : undefined;
    this.denials++;
    const nowMs = this.#parts.clock.nowMs();
    const client = this.#parts.clients.of({ headers, socket });
    const [name, source] = this.#sourceOf(client, nowMs);
    if (nowMs - source.toldMs < DENIED_MS) {
      source.untold++;
      return;
    }
    const attempts = source.untold + 1;
    source.untold = 0;
    source.toldMs = nowMs;
    const segment = firstSegmentOf(url);
    const route = `${method} ${SEGMENTS.has(segment) ? `/${segment}` : '(no route)'}`;
    this.#tell({ who: grant?.name ?? '', route, actor: '', outcome: 'denied', status, client: name }, attempts);
  }

  #sourceOf(client: string, nowMs: number): readonly [string, Source] {
    const name = this.#sources.has(client) || this.#sources.size < SOURCES_MAX || this.#forget(nowMs) ? client : OTHERS;
    let source = this.#sources.get(name);
    if (source === undefined) {
      source = { toldMs: Number.NEGATIVE_INFINITY, untold: 0 };
      this.#sources.set(name, source);
    }
    return [name, source];
  }

  /** Forgets addresses of which all has been told; returns false if there is none such. */
  #forget(nowMs: number): boolean {
    const before = this.#sources.size;
    for (const [name, { toldMs, untold }] of this.#sources)
      if (untold === 0 && nowMs - toldMs >= DENIED_MS) this.#sources.delete(name);
    return this.#sources.size < before;
  }

  /** Opens the file again and writes that tokens were read again, if they were; undefined: there are none. */
  reread(isRead: boolean | undefined): void {
    try {
      this.#file?.reopen();
    } catch (error) {
      this.#parts.log.error(`${messageOf(error)}; the file that was open goes on`);
    }
    if (isRead === undefined) return;
    const outcome = isRead ? 'done' : 'failed';
    this.#tell({ who: '', route: 'SIGHUP --tokens', actor: '', outcome, status: 0, client: '' });
  }

  close(): void {
    this.#file?.close();
  }

  #actorOf({ actor = '', name = '' }: Partial<RouteParameters>): string {
    const reference = actor === '' ? name : actor;
    try {
      return this.#parts.canisters.resolveIfAny(reference)?.idHex ?? reference.slice(0, ACTOR_CHARACTERS_MAX);
    } catch {
      return reference.slice(0, ACTOR_CHARACTERS_MAX);
    }
  }

  /** Writes a line about what has been decided already: a failure is only told. */
  #tell(line: AuditLine, attempts = 1): void {
    try {
      this.#write(line, attempts);
    } catch (error) {
      this.unwritten++;
      this.#parts.log.error(`--audit: a line could not be written: ${messageOf(error)}; ${textOf(line)}`);
    }
  }

  #write(line: AuditLine, attempts = 1): void {
    const fields = { ...line, attempts };
    if (this.#file === undefined) this.#parts.log.event('audit', fields, textOf(line));
    else this.#file.append(JSON.stringify({ ts: Math.round(this.#parts.clock.nowMs()), event: 'audit', ...fields }));
  }
}

/** Returns a line of prose; texts of clients are quoted. */
function textOf({ who, route, actor, outcome, status, client }: AuditLine): string {
  const subject = actor === '' ? '' : ` ${JSON.stringify(actor)}`;
  return `audit ${outcome} ${status} ${route}${subject} by ${who === '' ? 'nobody known' : who} from ${client}`;
}
