import assert from 'node:assert/strict';
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import type { MethodKind } from '../../../subsystems/ic/index.ts';
import { describeInterface } from '../../../subsystems/codec/description/index.ts';
import { type DocumentRequest, openApiDocument } from '../../../subsystems/openapi/document.ts';

/** The parts of a document that tests look at. */
export interface Document {
  readonly openapi: string;
  readonly info: { readonly title: string; readonly description: string; readonly version: string };
  readonly security: readonly unknown[];
  readonly paths: Readonly<Record<string, { readonly post: Operation }>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>;
    readonly responses: Readonly<Record<string, unknown>>;
    readonly parameters: Readonly<Record<string, unknown>>;
    readonly securitySchemes?: unknown;
  };
}
interface Operation {
  readonly operationId: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly parameters: readonly { readonly $ref: string }[];
  readonly requestBody: { readonly required: boolean; readonly description: string; readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly $ref?: string; readonly content: Content }>>;
}
interface Content {
  readonly 'application/json': { readonly schema: { readonly $ref: string }; readonly example?: unknown };
}
type Schema = Readonly<Record<string, unknown>>;

/** Returns the document as clients get it: JSON. By default, methods are exported as the interface has them. */
export function documentOf(did: string, request: Partial<DocumentRequest> = {}): Document {
  const text = JSON.stringify(
    openApiDocument({ actor: 'ledger', did, exports: exportsOf(did), isGuarded: false, takesCaller: true, ...request }),
  );
  return JSON.parse(text) as Document;
}

export function exportsOf(did: string): Map<string, MethodKind> {
  return new Map(
    describeInterface(did).methods.map(({ name, kind }) => [name, kind === 'oneway' ? 'update' : kind] as const),
  );
}

/** Validator that compiles the schema of OpenAPI once. */
const validator = new Validator();

/** Asserts that an independent validator accepts the document as OpenAPI 3.1. */
export async function assertValid(document: Document): Promise<void> {
  const { valid, errors } = await validator.validate(structuredClone({ ...document }));
  assert.ok(valid, JSON.stringify(errors, undefined, 1)?.slice(0, 2000));
  assert.equal(validator.version, '3.1');
}

/** Checks values by schemas of a document, according to JSON Schema 2020-12. */
export class SchemaCheck {
  readonly #ajv: Ajv2020;

  constructor({ components }: Document) {
    // Not strict: `examples` and `contentEncoding` are for readers, and tuples are closed by `items: false`.
    this.#ajv = new Ajv2020({ strict: false, validateSchema: true });
    this.#ajv.addSchema({ $id: 'document', components });
  }

  of(ref: string): ValidateFunction {
    return this.#ajv.compile({ $ref: `document${ref}` });
  }

  accepts(ref: string, value: unknown): boolean {
    return this.of(ref)(value);
  }

  assertAccepts(ref: string, value: unknown): void {
    const check = this.of(ref);
    assert.ok(check(value), `${JSON.stringify(value)}: ${JSON.stringify(check.errors)}`);
  }
}

export function operationsOf({ paths }: Document): (readonly [path: string, operation: Operation])[] {
  return Object.entries(paths).map(([path, { post }]) => [path, post] as const);
}

/**
 * Asserts that examples of all operations are there (unless `mayLack`) and match their schemas; returns their number.
 */
export function assertExamples(document: Document, mayLack = false): number {
  const check = new SchemaCheck(document);
  let count = 0;
  for (const [path, { requestBody, responses }] of operationsOf(document)) {
    for (const content of [requestBody.content, responses['200']?.content]) {
      assert.ok(content !== undefined);
      const media = content['application/json'];
      if (media.example === undefined) {
        assert.ok(mayLack, `${path} has no example`);
        continue;
      }
      check.assertAccepts(media.schema.$ref, media.example);
      count++;
    }
  }
  return count;
}
