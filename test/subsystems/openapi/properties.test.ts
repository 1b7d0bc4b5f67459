/**
 * Random types: their documents are valid, their examples match the schemas, and so do the codec's outputs for random
 * values.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { IDL } from '@dfinity/candid';
import fc, { cases as drawn } from '../../support/properties.ts';
import { createCodec } from '../../../subsystems/codec/codec.ts';
import { typeCases } from '../codec/typed-values.ts';
import { assertExamples, assertValid, documentOf, SchemaCheck } from './support.ts';

const RUNS = drawn(100);
const VALUES_EACH = 5;
const codec = createCodec();

/** Writes the .did text of a type; parts chosen by `isNamed` become definitions. */
class DidWriter {
  readonly definitions: string[] = [];
  readonly #isNamed: () => boolean;

  constructor(isNamed: () => boolean) {
    this.#isNamed = isNamed;
  }

  write(type: IDL.Type): string {
    const text = this.#textOf(type);
    if (!this.#isNamed()) return text;
    const name = `T${this.definitions.length}`;
    this.definitions.push(`// Number ${this.definitions.length}.\ntype ${name} = ${text};`);
    return name;
  }

  #textOf(type: IDL.Type): string {
    if (type instanceof IDL.OptClass) return `opt ${this.write(type._type)}`;
    if (type instanceof IDL.VecClass) return `vec ${this.write(type._type)}`;
    if (type instanceof IDL.RecordClass) return `record { ${this.#fieldsOf(type)} }`;
    if (type instanceof IDL.VariantClass) return `variant { ${this.#fieldsOf(type)} }`;
    if (type instanceof IDL.ServiceClass) return 'service {}';
    if (type instanceof IDL.FuncClass) return 'func (nat) -> (text) query';
    return type.name;
  }

  #fieldsOf({ _fields }: IDL.RecordClass | IDL.VariantClass): string {
    return _fields.map(([label, type]) => `${labelText(label)} : ${this.write(type)}`).join('; ');
  }
}

function labelText(label: string): string {
  const id = /^_(\d+)_$/.exec(label)?.[1];
  return id ?? `"${label.replace(/["\\]/g, '\\$&')}"`;
}

const cases = fc.record({
  argument: typeCases,
  result: typeCases,
  names: fc.array(fc.boolean(), { minLength: 1, maxLength: 20 }),
});

test('documents of random types are valid, and random values fit their schemas', async () => {
  const property = fc.asyncProperty(cases, fc.integer(), async ({ argument, result, names }, seed) => {
    let at = 0;
    const writer = new DidWriter(() => names[at++ % names.length] ?? false);
    const [parameter, answer] = [writer.write(argument.type), writer.write(result.type)];
    const did = `${writer.definitions.join('\n')}\nservice : { m : (${parameter}) -> (${answer}) }`;
    const document = documentOf(did);
    await assertValid(document);
    // A variant without tags is not among the types: each type has small values.
    assertExamples(document, true);
    const check = new SchemaCheck(document);
    const method = codec.parseInterface(did).methods.get('m');
    assert.ok(method !== undefined);
    for (const [{ values, type }, ref, tuple] of [
      [argument, 'm_args', method.args],
      [result, 'm_results', method.results],
    ] as const) {
      for (const value of fc.sample(values, { numRuns: VALUES_EACH, seed })) {
        const candid = new Uint8Array(IDL.encode([type], [value]));
        const given = JSON.parse(Buffer.from(tuple.decode(candid, { lossless: false })).toString('utf8')) as unknown[];
        check.assertAccepts(`#/components/schemas/${ref}`, given);
      }
    }
    // The values of the examples can be sent.
    const { example } = document.paths['/call-json/ledger/m']?.post.requestBody.content['application/json'] ?? {};
    if (example !== undefined) method.args.encode(Buffer.from(JSON.stringify(example)), { lossless: false });
  });
  await fc.assert(property, { numRuns: RUNS });
});
