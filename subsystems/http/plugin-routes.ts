/**
 * Routes of plugins from outside, below `/x/<plugin>/`: the same checks, limits, counts and errors as for the
 * server's own.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Clock, type Logger, ServerError } from '../../kernel/index.ts';
import type { PluginAnswer, PluginRequest, PluginRouteSpec } from './index.ts';
import { bodyOf, bodyTooLarge } from './request-body.ts';
import { BYTES, JSON_TYPE, type Responder, TEXT } from './responder.ts';
import { GUARDED_BYTES_MAX, type RouteSpec } from './route-table.ts';
import type { Handler } from './route.ts';
import { NO_BYTES } from '../bytes/index.ts';

/** Milliseconds that a plugin's answer may still take when all else has ended: as long as its `stop` may. */
const LAST_ANSWERS_MS = 10_000;

/**
 * Answers that plugins still owe. A promise that never settles would hold up a stop for as long as its client waits.
 */
export class PluginAnswers {
  readonly #log: Pick<Logger, 'error'>;
  readonly #open = new Set<() => void>();

  constructor(log: Pick<Logger, 'error'>) {
    this.#log = log;
  }

  /** Settles as `answer` does; after `endAfter` it rejects with ServerError `route-unanswered` instead. */
  wait<T>(route: string, answer: T | Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const giveUp = (): void => {
        this.#log.error(`${route} did not answer in time: the server ends without it`);
        reject(new ServerError('unavailable', 'route-unanswered', `shutting down: ${route} has not answered`));
      };
      this.#open.add(giveUp);
      const ended = (): void => void this.#open.delete(giveUp);
      Promise.resolve(answer).then(resolve, reject).finally(ended);
    });
  }

  /** Answers with an error, when the time is over, whatever is still open. */
  endAfter(clock: Pick<Clock, 'after'>, ms = LAST_ANSWERS_MS): Disposable {
    return clock.after(ms, () => {
      for (const giveUp of this.#open) giveUp();
    });
  }
}

/** Returns a plugin's route as a row of the route table. */
export function pluginRouteSpec({ plugin, method, path, query }: PluginRouteSpec): RouteSpec {
  return {
    method,
    path: `/x/${plugin}${path}`,
    access: 'token',
    // Plugins get the headers, and may take this one at its word.
    takesCaller: true,
    ...(method !== 'GET' && { isAudited: true }),
    query: Object.fromEntries(query.map((name) => [name, undefined])),
    request: '',
    answer: '',
  };
}

export function pluginHandler(route: PluginRouteSpec, responder: Responder, answers: PluginAnswers): Handler {
  const { plugin, method, path, bodyBytesMax = GUARDED_BYTES_MAX } = route;
  const name = `${method} /x/${plugin}${path}`;
  return async (request, response, parameters, query) => {
    const answering = answerOf(route, {
      parameters: { ...parameters },
      query,
      headers: headersOf(request),
      body: async () => {
        if (Number(request.headers['content-length'] ?? 0) > bodyBytesMax) throw bodyTooLarge(bodyBytesMax);
        return bodyOf(request, bodyBytesMax);
      },
    });
    send(responder, response, await answers.wait(name, answering), name);
  };
}

/** Asks the plugin. What it throws comes as an Error that can be read, if it is one of another kind. */
async function answerOf(route: PluginRouteSpec, request: PluginRequest): Promise<PluginAnswer> {
  try {
    return await route.answer(request);
  } catch (error) {
    throw isReadable(error) ? error : new Error(`the plugin ${route.plugin} throws an object that cannot be read`);
  }
}

/** Returns false for what throws while somebody looks what it is, as a proxy or a getter may. */
function isReadable(error: unknown): boolean {
  try {
    return !(error instanceof Error) || typeof error.stack !== 'number';
  } catch {
    return false;
  }
}

function headersOf({ headers }: IncomingMessage): Readonly<Record<string, string>> {
  const plain = Object.entries(headers).map(([name, value = '']) => [
    name,
    typeof value === 'string' ? value : value.join(', '),
  ]);
  return Object.fromEntries(plain) as Record<string, string>;
}

/** Throws an Error, a bug of the plugin, for an answer that is none. */
function send(responder: Responder, response: ServerResponse, answer: PluginAnswer, route: string): void {
  const fault = faultOf(answer);
  if (fault !== undefined) throw new Error(`the answer of ${route} ${fault}`);
  const { status = 200, contentType, body, json } = answer;
  if (json !== undefined)
    responder.bytes(response, status, contentType ?? JSON_TYPE, Buffer.from(JSON.stringify(json)));
  else if (typeof body === 'string') responder.bytes(response, status, contentType ?? TEXT, Buffer.from(body));
  else responder.bytes(response, status, contentType ?? BYTES, body ?? NO_BYTES);
}

function faultOf(answer: unknown): string | undefined {
  if (typeof answer !== 'object' || answer === null) return 'is no object: return { json: … } or { body: … }';
  const { status = 200, contentType, body, json } = answer as Readonly<Record<string, unknown>>;
  if (typeof status !== 'number' || !Number.isInteger(status) || status < 200 || status > 599)
    return 'has a status that is none from 200 to 599';
  if (contentType !== undefined && (typeof contentType !== 'string' || !/^[\x20-\x7e]+$/.test(contentType)))
    return 'has a contentType that no header can carry';
  if ((status === 204 || status === 205 || status === 304) && (body !== undefined || json !== undefined))
    return `has a body, which status ${status} cannot have`;
  if (body !== undefined && typeof body !== 'string' && !(body instanceof Uint8Array))
    return 'has a body that is neither text nor a Uint8Array';
  return body !== undefined && json !== undefined ? 'has both body and json: keep one' : undefined;
}
