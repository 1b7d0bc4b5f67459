/** Routes of plugins from outside, below `/x/<plugin>/`: the same checks, limits, counts and errors as for the server's own. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { PluginAnswer, PluginRequest, PluginRouteSpec } from './index.ts';
import { bodyOf, bodyTooLarge } from './request-body.ts';
import { BYTES, JSON_TYPE, type Responder, TEXT } from './responder.ts';
import { GUARDED_BYTES_MAX, type RouteSpec } from './route-table.ts';
import type { Handler } from './route.ts';

const EMPTY = new Uint8Array(0);

/** As rows of the route table. */
export function pluginRouteSpec({ plugin, method, path, query }: PluginRouteSpec): RouteSpec {
  return {
    method,
    path: `/x/${plugin}${path}`,
    access: 'token',
    query: Object.fromEntries(query.map((name) => [name, undefined])),
    request: '',
    answer: '',
  };
}

export function pluginHandler(route: PluginRouteSpec, responder: Responder): Handler {
  const { plugin, method, path, bodyBytesMax = GUARDED_BYTES_MAX } = route;
  return async (request, response, parameters, query) => {
    const answer = await route.answer({
      parameters: { ...parameters },
      query,
      headers: headersOf(request),
      body: async () => {
        if (Number(request.headers['content-length'] ?? 0) > bodyBytesMax) throw bodyTooLarge(bodyBytesMax);
        return bodyOf(request, bodyBytesMax);
      },
    } satisfies PluginRequest);
    send(responder, response, answer, `${method} /x/${plugin}${path}`);
  };
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
  else responder.bytes(response, status, contentType ?? BYTES, body ?? EMPTY);
}

function faultOf(answer: unknown): string | undefined {
  if (typeof answer !== 'object' || answer === null) return 'is no object: return { json: … } or { body: … }';
  const { status = 200, contentType, body, json } = answer as Readonly<Record<string, unknown>>;
  if (typeof status !== 'number' || !Number.isInteger(status) || status < 200 || status > 599)
    return 'has a status that is none from 200 to 599';
  if (contentType !== undefined && (typeof contentType !== 'string' || !/^[\x20-\x7e]+$/.test(contentType)))
    return 'has a contentType that no header can carry';
  if (body !== undefined && typeof body !== 'string' && !(body instanceof Uint8Array))
    return 'has a body that is neither text nor a Uint8Array';
  return body !== undefined && json !== undefined ? 'has both body and json: keep one' : undefined;
}
