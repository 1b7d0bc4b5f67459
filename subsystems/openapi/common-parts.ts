/** Parts that all operations of a document have in common, whatever the actor (docs/http.md, "Calls"). */
import type { JsonSchema } from './schemas.ts';

export const TAGS = [
  { name: 'update', description: 'Methods that may change the state of the actor.' },
  { name: 'query', description: 'Methods that change nothing. /call-json takes them, too.' },
  { name: 'composite_query', description: 'Queries that may ask other actors. /call-json does not take them.' },
  { name: 'oneway', description: 'Methods that may change the state, and have no results.' },
] as const;

export const PARAMETERS: JsonSchema = {
  lossless: {
    name: 'lossless',
    in: 'query',
    description:
      'Keeps every distinction that Candid makes, in the request and in the answer: {"$svc":"nat64","value":"5"}. ' +
      'The schemas here are those of the default encoding.',
    schema: { type: 'string', enum: ['1'] },
  },
  'x-caller': {
    name: 'x-caller',
    in: 'header',
    description: 'The principal in whose name the method is called. A claim that nobody checks; default: anonymous.',
    schema: { type: 'string', pattern: '^[a-z2-7]{1,5}(-[a-z2-7]{1,5})*$' },
    example: '2vxsx-fae',
  },
  'Idempotency-Key': {
    name: 'Idempotency-Key',
    in: 'header',
    description:
      'The same key with the same method and arguments is executed once; who repeats it gets the answer that is kept.',
    schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[!-~]+$' },
  },
};

export const SVC_ERROR: JsonSchema = {
  description: 'What went wrong, and what to do.',
  type: 'object',
  properties: {
    code: {
      description:
        'The reject code (1 to 6) where the actor or the system rejected; a trap and the instruction limit are 5. Else the HTTP status.',
      type: 'integer',
    },
    message: { type: 'string' },
    logs: {
      description: 'What a failed installation or upgrade printed.',
      type: 'array',
      items: { type: 'string' },
    },
  },
  required: ['code', 'message'],
  examples: [{ code: 404, message: 'there is no actor "x": GET /actors lists the actors' }],
};

type Content = 'json' | 'text' | 'both';

/** Name of the component, description and kind of body, by status. */
const RESPONSES: Readonly<Record<string, readonly [name: string, description: string, content: Content]>> = {
  400: ['BadRequest', 'Bad arguments, or the method trapped or rejected.', 'json'],
  401: ['Unauthorized', 'The token is missing or wrong.', 'text'],
  402: ['OutOfCycles', 'The actor is out of cycles.', 'json'],
  403: ['Forbidden', 'The request comes from a page of another site, and the server has --browser-guard.', 'both'],
  404: ['NotFound', 'There is no such actor, method or path.', 'json'],
  408: ['TooSlow', 'The request did not arrive within 30 s.', 'both'],
  413: ['TooLarge', 'The body is larger than 64 MiB; plain text if its Content-Length says so already.', 'both'],
  422: ['KeyUsedOtherwise', 'The Idempotency-Key was used with another method or other arguments.', 'json'],
  431: ['HeadersTooLarge', 'The request line and headers are larger than 16 KiB.', 'both'],
  500: ['NoReply', 'The actor did not reply.', 'json'],
  503: ['Unavailable', 'A queue is full: try again. Plain text while the server starts or stops.', 'both'],
};
const OF_CALLS_ONLY = new Set(['422']);
/** Where the server needs no token, nobody can lack it; there alone its guard against pages of other sites stands. */
const OF_GUARDED_ONLY = new Set(['401']);
const OF_OPEN_ONLY = new Set(['403']);

function responsesOf(isGuarded: boolean): [status: string, response: (typeof RESPONSES)[string]][] {
  const others = isGuarded ? OF_OPEN_ONLY : OF_GUARDED_ONLY;
  return Object.entries(RESPONSES).filter(([status]) => !others.has(status));
}

/** Returns the components; `error` is the schema of error bodies. */
export function errorResponses(error: JsonSchema, isGuarded: boolean): JsonSchema {
  return Object.fromEntries(
    responsesOf(isGuarded).map(([status, [name, description, content]]) => {
      const json = content === 'text' ? {} : { 'application/json': { schema: error } };
      const text = content === 'json' ? {} : { 'text/plain': { schema: { type: 'string' } } };
      const headers = status === '503' ? { headers: RETRY_AFTER } : {};
      return [name, { description, ...headers, content: { ...json, ...text } }];
    }),
  );
}

const RETRY_AFTER: JsonSchema = {
  'Retry-After': { description: 'Seconds to wait.', schema: { type: 'integer', minimum: 0 } },
};

/** Returns the responses of an operation besides 200. */
export function responseRefs(isCall: boolean, isGuarded: boolean): JsonSchema {
  return Object.fromEntries(
    responsesOf(isGuarded)
      .filter(([status]) => isCall || !OF_CALLS_ONLY.has(status))
      .map(([status, [name]]) => [status, { $ref: `#/components/responses/${name}` }]),
  );
}
