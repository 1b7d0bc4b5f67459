/** `config/manifest.schema.json` shows editors the manifests that the reader accepts: the two must agree. */
import { principalToText } from '../../../subsystems/ic/index.ts';
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc, { cases } from '../../support/properties.ts';
import { ServerError } from '../../../kernel/index.ts';
import { checkManifest } from '../../../subsystems/manifest/manifest-check.ts';

const schemaFile = new URL('../../../config/manifest.schema.json', import.meta.url);
const schema = JSON.parse(await readFile(schemaFile, 'utf8')) as Record<string, unknown>;
const matches = new Ajv2020({ strict: true, strictRequired: false, allowUnionTypes: true }).compile(schema);

/** One value for each key, good or bad; all files that are named exist. */
const VALUES: Readonly<Record<string, readonly unknown[]>> = {
  main: ['Main.mo', 'sub/../Main.mo', 'x.wasm', '', 5, null, '\0.mo'],
  wasm: ['x.wasm', 'x', 'Main.mo', '', ['x.wasm'], 'a\0'],
  candid: ['x', '', 7],
  args: [[], [1, { a: null }], '(5)', '', 5, null, true, {}],
  argsHex: ['', '4449', 'aBcD', '0x', 'abc', 'zz', 5],
  cycles: [
    0,
    5,
    1e12,
    5.0,
    '0',
    '340282366920938463463374607431768211455',
    -1,
    1.5,
    1e39,
    '',
    '01',
    '-1',
    '1e3',
    null,
    true,
  ],
  env: [
    {},
    { A: 'b', 'C D': '' },
    { A: 5 },
    { '': 'x' },
    { A: 'x'.repeat(129) },
    { ['n'.repeat(129)]: '' },
    { 'PUBLIC_CANISTER_ID:x': '' },
    [],
    'A=b',
  ],
  certificate: ['placeholder', 'signed', true],
  assets: ['dist', 'nowhere/at all', '', 5, null, 'a\0', ['dist']],
  public: [[], ['get'], ['get', 'put'], ['get', 'get'], ['get', 5], 'get', null, {}],
  controllers: [
    [],
    ['aaaaa-aa', '2vxsx-fae'],
    ['aaaaa-aa', 'aaaaa-aa'],
    Array.from({ length: 10 }, (_, index) => principalToText(Uint8Array.of(index, 1))),
    [5],
    'aaaaa-aa',
    null,
  ],
  unknown: [1],
};
const many = Object.fromEntries(Array.from({ length: 21 }, (_, index) => [`V${index}`, 'x']));

test('schema and reader agree on good and bad manifests', async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'svc-schema-'));
  t.after(() => rm(root, { recursive: true, force: true }));
  await Promise.all(['Main.mo', 'x.wasm', 'x'].map((name) => writeFile(join(root, name), '')));
  await mkdir(join(root, 'sub'));

  const accepts = async (manifest: unknown): Promise<boolean> => {
    const text = JSON.stringify(manifest);
    try {
      await checkManifest({ file: join(root, 'actors.json'), displayName: 'actors.json', text });
      return true;
    } catch (error) {
      assert.ok(error instanceof ServerError, String(error));
      return false;
    }
  };
  const counts = { good: 0, bad: 0 };
  const agree = async (manifest: unknown): Promise<void> => {
    const expected = await accepts(manifest);
    counts[expected ? 'good' : 'bad'] += 1;
    assert.equal(matches(manifest), expected, `${JSON.stringify(manifest)}: ${JSON.stringify(matches.errors)}`);
  };

  for (const manifest of [
    null,
    [],
    {},
    { actors: null },
    { actors: {} },
    { actors: {}, $schema: 1 },
    { actors: {}, $schema: '' },
    { actors: {}, x: 1 },
  ]) {
    await agree(manifest);
  }
  for (const name of [
    'a',
    '_',
    'A-b_9',
    'a'.repeat(64),
    'a'.repeat(65),
    '',
    '9',
    '-a',
    'a b',
    'é',
    'a.b',
    'constructor',
  ]) {
    await agree({ actors: { [name]: { wasm: 'x' } } });
  }
  for (const [key, values] of Object.entries(VALUES)) {
    for (const value of values) {
      await agree({ actors: { a: { wasm: 'x', [key]: value } } });
      await agree({ actors: { a: { [key]: value } } });
      await agree({ actors: { good: { main: 'Main.mo' }, a: { main: 'Main.mo', [key]: value } } });
    }
  }
  await agree({ actors: { a: { wasm: 'x', env: many } } });

  const definition = fc.record(
    Object.fromEntries(Object.entries(VALUES).map(([key, values]) => [key, fc.constantFrom(...values)])),
    { requiredKeys: [] },
  );
  await fc.assert(
    fc.asyncProperty(definition, definition, (a, b) => agree({ actors: { a, b } })),
    { numRuns: cases(300) },
  );
  assert.ok(counts.good > 20 && counts.bad > 50, JSON.stringify(counts));
});

test('every key of the schema is described', () => {
  const definitions = schema['$defs'] as Record<string, { properties: Record<string, { description?: string }> }>;
  for (const [key, { description }] of Object.entries(definitions['actor']?.properties ?? {})) {
    assert.ok((description ?? '').length > 20, key);
  }
});
