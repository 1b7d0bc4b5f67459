/**
 * Makes the OpenAPI 3.1 document of an actor's JSON endpoints: an operation for each method and endpoint that accepts
 * it, schemas of its types, and the common parts. Runs in a separate thread (openapi-worker.ts).
 */
import { createHash } from 'node:crypto';
import { describeInterface, type DescribedMethod } from '../codec/description/index.ts';
import type { MethodKind } from '../ic/index.ts';
import { errorResponses, PARAMETERS, responseRefs, SVC_ERROR, TAGS } from './common-parts.ts';
import { Examples } from './examples.ts';
import { FreeNames } from './free-names.ts';
import { type JsonSchema, requiredCount, Schemas } from './schemas.ts';
import { signatureOf } from './signature.ts';
import { SizeBudget } from './size-budget.ts';

/** Subject of a description; plain data, because it crosses to a thread. */
export interface DocumentRequest {
  /** Default: the OpenAPI document. */
  readonly form?: 'types';
  /** Actor as written in paths. */
  readonly actor: string;
  readonly did: string;
  /** Methods that the module exports, and their kinds, which decide the endpoints of each method. */
  readonly exports: ReadonlyMap<string, MethodKind>;
  /** True if the server requires a bearer token. */
  readonly isGuarded: boolean;
  /** Requests may say `x-caller`. */
  readonly takesCaller: boolean;
}

type Endpoint = 'call-json' | 'query-json';

const ENDPOINTS: Readonly<Record<MethodKind, readonly Endpoint[]>> = {
  update: ['call-json'],
  query: ['query-json', 'call-json'],
  composite_query: ['query-json'],
};

/** Names that every client would interpret as a part of the path. */
const UNREACHABLE = new Set(['', '.', '..']);
const SAFE_NAME_CHARACTERS_MAX = 64;

const CALLER = 'x-caller';

const ABOUT =
  'Methods of this actor with JSON: a request is an array of arguments, an answer one of results. ' +
  'Schemas are those of the default encoding of Candid values; with lossless=1 values describe themselves instead.';

/** Makes the document. Throws ServerError `bad-interface` or `openapi-too-large`. */
export function openApiDocument(request: DocumentRequest): JsonSchema {
  const { actor, did, exports, isGuarded } = request;
  const described = describeInterface(did);
  const methods = described.methods.filter(({ name }) => exports.has(name) && !UNREACHABLE.has(name));
  const budget = new SizeBudget();
  const schemas = new Schemas(budget);
  // Types come first: their names have precedence over names made here.
  const lists = methods.map((method) => ({
    method,
    args: schemas.argumentsOf(method.parameters, `The arguments of ${method.name}.`),
    results: schemas.resultsOf(method.results, `The results of ${method.name}.`),
  }));
  const examples = new Examples(
    methods.flatMap(({ parameters, results }) => [...parameters, ...results].map(({ type }) => type)),
  );
  const operations = new Operations(budget, request);
  const error = schemas.add('SvcError', SVC_ERROR);
  for (const { method, args, results } of lists) {
    const safeName = safe(method.name);
    operations.add(actor, exports.get(method.name) ?? 'update', {
      method,
      safeName,
      args: withExample(schemas.add(`${safeName}_args`, args), examples.listOf(method.parameters)),
      results: withExample(schemas.add(`${safeName}_results`, results), examples.listOf(method.results)),
    });
  }
  const { doc } = described;
  return {
    openapi: '3.1.0',
    info: {
      title: actor,
      description: doc === undefined ? ABOUT : `${doc}\n\n${ABOUT}`,
      version: createHash('sha256').update(did).digest('hex').slice(0, 12),
    },
    servers: [{ url: '/' }],
    security: isGuarded ? [{ bearer: [] }] : [],
    tags: TAGS.filter(({ name }) => operations.tags.has(name)),
    paths: Object.fromEntries(operations.paths),
    components: {
      schemas: schemas.components(),
      parameters: operations.parameters,
      responses: errorResponses(error, isGuarded),
      ...(isGuarded
        ? { securitySchemes: { bearer: { type: 'http', scheme: 'bearer', description: 'The token of the server.' } } }
        : {}),
    },
  };
}

interface Operation {
  readonly method: DescribedMethod;
  readonly safeName: string;
  /** Media type objects. */
  readonly args: JsonSchema;
  readonly results: JsonSchema;
}

class Operations {
  readonly paths = new Map<string, JsonSchema>();
  readonly tags = new Set<string>();
  readonly #ids = new FreeNames();
  readonly #budget: SizeBudget;

  readonly #isGuarded: boolean;
  readonly #takesCaller: boolean;

  constructor(budget: SizeBudget, { isGuarded, takesCaller }: Pick<DocumentRequest, 'isGuarded' | 'takesCaller'>) {
    this.#budget = budget;
    this.#isGuarded = isGuarded;
    this.#takesCaller = takesCaller;
  }

  /** Descriptions of the parameters that operations refer to. */
  get parameters(): JsonSchema {
    return Object.fromEntries(Object.entries(PARAMETERS).filter(([name]) => this.#takesCaller || name !== CALLER));
  }

  add(actor: string, kind: MethodKind, operation: Operation): void {
    const { method } = operation;
    const tag = method.kind === 'oneway' ? 'oneway' : kind;
    this.tags.add(tag);
    for (const endpoint of ENDPOINTS[kind]) {
      const path = `/${endpoint}/${actor}/${encodeURIComponent(method.name)}`;
      const post = this.#operation(endpoint, tag, operation);
      // Spent in full: examples have names, too, and each endpoint has its own copy.
      this.#budget.spendJson([path, { post }]);
      this.paths.set(path, { post });
    }
  }

  #parametersOf(isCall: boolean): readonly string[] {
    return ['lossless', ...(this.#takesCaller ? [CALLER] : []), ...(isCall ? ['Idempotency-Key'] : [])];
  }

  #operation(endpoint: Endpoint, tag: string, { method, safeName, args, results }: Operation): JsonSchema {
    const { name, doc, parameters, kind } = method;
    const isCall = endpoint === 'call-json';
    const required = requiredCount(parameters);
    const annotation = kind === 'update' ? undefined : kind;
    const candid = `Candid: ${codeSpan(signatureOf({ parameters, results: method.results, annotation }))}`;
    return {
      operationId: this.#ids.take(`${isCall ? 'call' : 'query'}_${safeName}`),
      summary: `${isCall ? 'Call' : 'Query'} ${name}`,
      description: doc === undefined ? candid : `${doc}\n\n${candid}`,
      tags: [tag],
      parameters: this.#parametersOf(isCall).map((parameter) => ({
        $ref: `#/components/parameters/${parameter}`,
      })),
      requestBody: {
        description: aboutArguments(parameters.length, required),
        required: required > 0,
        content: { 'application/json': args },
      },
      responses: {
        200: {
          description: kind === 'oneway' ? 'The message was executed; it has no results.' : 'One element a result.',
          content: { 'application/json': results },
        },
        ...responseRefs(isCall, this.#isGuarded),
      },
    };
  }
}

function aboutArguments(count: number, required: number): string {
  if (count === 0) return 'No arguments: an empty array, or no body.';
  if (required === count) return 'One element an argument.';
  return `One element an argument; ${required === 0 ? 'all' : `those behind the first ${required}`} may be missing, the last first.`;
}

function withExample(schema: JsonSchema, example: readonly unknown[] | undefined): JsonSchema {
  return example === undefined ? { schema } : { schema, example };
}

/**
 * Returns a safe form of a method's name, which may be anything: letters, digits and `_`, as in names of operations and
 * components.
 */
function safe(name: string): string {
  return name.replace(/[^A-Za-z0-9_]/g, '_').slice(0, SAFE_NAME_CHARACTERS_MAX);
}

/** Returns code for Markdown, in enough backticks. `code` neither begins nor ends with one. */
function codeSpan(code: string): string {
  const longest = (code.match(/`+/g) ?? []).reduce((most, { length }) => Math.max(most, length), 0);
  const fence = '`'.repeat(longest + 1);
  return `${fence}${code}${fence}`;
}
