import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { createCodec } from '../../../subsystems/codec/codec.ts';
import { documentBytes } from '../../../subsystems/openapi/size-budget.ts';
import { assertExamples, assertValid, documentOf, exportsOf, operationsOf, SchemaCheck } from './support.ts';

const LEDGER = `
/// What belongs to whom.
type Account = record {
  /// Who owns it.
  owner : principal; subaccount : opt blob };
type History = opt record { newest : Account; rest : History };
type Alias = Account;
type Result = variant { ok : nat; err : Fault };
type Fault = variant {
  /// Nothing left.
  broke; too_old : record { nat64; text }; "odd tag" : float64 };
type SvcError = record { mine : text };
/// Moves money.
service : {
  /// Moves some.
  transfer : (from : Account, to : Alias, amount : nat) -> (Result);
  history : () -> (history : History, complete : bool) query;
  everything : () -> (vec Account) composite_query;
  note : (text) -> () oneway;
  odd : (func (nat) -> (Account) query, variant { ok; "a b" : nat }, opt opt nat, reserved, int64, float32, nat8, record {}, service {}) -> (SvcError);
}`;

describe('the document of an actor', () => {
  test('is valid OpenAPI 3.1, with examples that fit their schemas', async () => {
    for (const isGuarded of [true, false]) await assertValid(documentOf(LEDGER, { isGuarded }));
    assert.equal(assertExamples(documentOf(LEDGER)), 12);
    assert.deepEqual(documentOf(LEDGER), documentOf(LEDGER), 'the same interface gives the same document');
  });

  test('a validator that finds nothing would be of no use', async () => {
    const document = documentOf(LEDGER);
    const broken = { ...document, paths: { 'no-slash': { post: { responses: 5 } } } };
    await assert.rejects(assertValid(broken as never));
  });

  test('has an operation for each method and endpoint that takes it', () => {
    const operations = operationsOf(documentOf(LEDGER)).map(([path, { operationId, tags }]) => [
      path,
      operationId,
      tags[0],
    ]);
    assert.deepEqual(operations, [
      ['/call-json/ledger/transfer', 'call_transfer', 'update'],
      ['/query-json/ledger/history', 'query_history', 'query'],
      ['/call-json/ledger/history', 'call_history', 'query'],
      ['/query-json/ledger/everything', 'query_everything', 'composite_query'],
      ['/call-json/ledger/note', 'call_note', 'oneway'],
      ['/call-json/ledger/odd', 'call_odd', 'update'],
    ]);
  });

  test('the module decides which endpoint takes a method, and whether it is there at all', () => {
    const paths = Object.keys(
      documentOf('service : { a : () -> () query; b : () -> (); c : () -> (); "" : () -> (); ".." : () -> () }', {
        exports: new Map([
          ['a', 'update'],
          ['b', 'composite_query'],
          ['', 'update'],
          ['..', 'update'],
        ]),
      }).paths,
    );
    assert.deepEqual(paths, ['/call-json/ledger/a', '/query-json/ledger/b'], 'nor has it what no client could ask for');
  });

  test('schemas have the names of the definitions, and of what has none of its own', () => {
    const { schemas } = documentOf(LEDGER).components;
    const definitions = ['Account', 'Alias', 'Fault', 'History', 'Result', 'SvcError'];
    const shared = ['blob', 'float32', 'float64', 'func', 'int64', 'nat', 'nat64', 'principal', 'service'];
    const lists = ['everything', 'history', 'note', 'odd', 'transfer'].flatMap((method) => [
      `${method}_args`,
      `${method}_results`,
    ]);
    assert.deepEqual(Object.keys(schemas).toSorted(), [...definitions, ...shared, ...lists, 'SvcError_2'].toSorted());
    assert.deepEqual(schemas['Alias'], { $ref: '#/components/schemas/Account' });
    assert.match(JSON.stringify(schemas['SvcError']), /"mine"/, 'a definition keeps its name');
    assert.match(JSON.stringify(schemas['SvcError_2']), /"message"/);
  });

  test('comments are descriptions', () => {
    const { info, paths, components } = documentOf(LEDGER);
    assert.match(info.description, /^Moves money\.\n\n/);
    const { description } = paths['/call-json/ledger/transfer']?.post ?? {};
    assert.equal(description, 'Moves some.\n\nCandid: `func (from : Account, to : Alias, amount : nat) -> (Result)`');
    assert.match(
      paths['/call-json/ledger/odd']?.post.description ?? '',
      /`func \(func \(nat\) -> \(Account\) query, variant \{ ok : null; "a b" : nat \}, opt opt nat, .*\) -> \(SvcError\)`$/,
    );
    const { Account, Fault } = components.schemas;
    assert.equal(Account?.['description'], 'What belongs to whom.');
    assert.match(JSON.stringify(Account), /"owner":\{[^}]*"description":"Who owns it\."\}/);
    assert.match(JSON.stringify(Fault), /"broke":\{"type":"null","description":"Nothing left\."\}/);
  });

  test('trailing arguments that may be null may be missing; results may not', () => {
    const document = documentOf(`type Maybe = opt nat;
      service : { m : (nat, opt nat, Maybe, null, reserved) -> (nat, opt nat); all : (opt nat) -> (); inner : (opt nat, nat) -> () }`);
    const { schemas } = document.components;
    const bounds = (name: string): unknown => [schemas[name]?.['minItems'], schemas[name]?.['maxItems']];
    assert.deepEqual(['m_args', 'm_results', 'all_args', 'inner_args'].map(bounds), [
      [1, 5],
      [2, 2],
      [0, 1],
      [2, 2],
    ]);
    const bodyOf = (method: string) => document.paths[`/call-json/ledger/${method}`]?.post.requestBody;
    assert.deepEqual(
      ['m', 'all', 'inner'].map((method) => [bodyOf(method)?.required, bodyOf(method)?.description]),
      [
        [true, 'One element an argument; those behind the first 1 may be missing, the last first.'],
        [false, 'One element an argument; all may be missing, the last first.'],
        [true, 'One element an argument.'],
      ],
    );
    const check = new SchemaCheck(document);
    for (const args of [[1], [1, null], [1, 2, 3, null, 'x']]) check.assertAccepts('#/components/schemas/m_args', args);
    assert.throws(() => check.assertAccepts('#/components/schemas/m_args', []));
  });

  test('a backtick in a name does not end the code that a signature is', () => {
    const { paths } = documentOf('service : { m : ("a`b" : nat) -> (record { "``" : nat }) }');
    const { description } = paths['/call-json/ledger/m']?.post ?? {};
    assert.equal(description, 'Candid: ```func ("a`b" : nat) -> (record { "``" : nat })```');
  });

  test('every operation has the errors with their bodies, and the parameters of its endpoint', () => {
    for (const isGuarded of [true, false]) {
      const document = documentOf(LEDGER, { isGuarded });
      const { components } = document;
      for (const [path, { parameters, responses }] of operationsOf(document)) {
        const isCall = path.startsWith('/call-json/');
        const [early, late] = isGuarded ? [['401', '402'], []] : [['402'], ['403']];
        const key = isCall ? ['422'] : [];
        const statuses = ['200', '400', ...early, ...late, '404', '408', '413', ...key, '431', '500', '503'];
        assert.deepEqual(Object.keys(responses), statuses);
        const names = parameters.map(({ $ref }) => $ref.replace('#/components/parameters/', ''));
        assert.deepEqual(names, isCall ? ['lossless', 'x-caller', 'Idempotency-Key'] : ['lossless', 'x-caller']);
      }
      const error = { 'application/json': { schema: { $ref: '#/components/schemas/SvcError_2' } } };
      const text = { 'text/plain': { schema: { type: 'string' } } };
      const contentOf = (name: string): unknown => (components.responses[name] as { content: unknown }).content;
      for (const name of ['BadRequest', 'OutOfCycles', 'NotFound', 'NoReply']) assert.deepEqual(contentOf(name), error);
      for (const name of ['TooSlow', 'TooLarge', 'HeadersTooLarge', 'Unavailable'])
        assert.deepEqual(contentOf(name), { ...error, ...text }, name);
      if (isGuarded) assert.deepEqual(contentOf('Unauthorized'), text);
      else assert.deepEqual(contentOf('Forbidden'), { ...error, ...text });
    }
  });

  test('wants the token where the server has one', () => {
    const guarded = documentOf(LEDGER, { isGuarded: true });
    assert.deepEqual(guarded.security, [{ bearer: [] }]);
    assert.match(JSON.stringify(guarded.components.securitySchemes), /"type":"http","scheme":"bearer"/);
    const open = documentOf(LEDGER);
    assert.deepEqual(open.security, []);
    assert.equal(open.components.securitySchemes, undefined);
  });

  test('method names of any kind become paths that reach them and names that may stand there', async () => {
    const did =
      'service : { "a b" : () -> (); "a/b" : () -> (); "a{b}" : () -> (); "käse?#%" : () -> (); __proto__ : () -> () }';
    const document = documentOf(did);
    await assertValid(document);
    const names = operationsOf(document).map(([path, { operationId }]) => [
      decodeURIComponent(path.split('/')[3] ?? ''),
      operationId,
    ]);
    assert.deepEqual(names, [
      ['a b', 'call_a_b'],
      ['a/b', 'call_a_b_2'],
      ['a{b}', 'call_a_b_'],
      ['käse?#%', 'call_k_se___'],
      ['__proto__', 'call___proto__'],
    ]);
    assert.ok(Object.keys(document.paths).every((path) => /^\/call-json\/ledger\/[A-Za-z0-9_%.-]+$/.test(path)));
  });

  test('a type or field called __proto__ is one like any other', async () => {
    const document = documentOf(
      'type __proto__ = record { __proto__ : nat }; service : { m : (__proto__) -> (__proto__) }',
    );
    await assertValid(document);
    assert.match(JSON.stringify(document.components.schemas['proto']), /"properties":\{"__proto__":/);
  });
});

describe('the schemas say what the codec takes and gives', () => {
  const codec = createCodec();
  const CASES: readonly (readonly [type: string, good: readonly unknown[], bad: readonly unknown[]])[] = [
    ['nat', [0, 5, '9007199254740993'], [-1, 1.5, '05', '-1', true]],
    ['int', [-5, '-9007199254740993', '0'], ['-0', '+1', 1.5]],
    ['nat64', [1, '18446744073709551615'], [-1, 'x']],
    ['nat8', [0, 255], [256, -1, 1.5]],
    ['int16', [-32_768, 32_767], [32_768]],
    ['float64', [1.5, 'NaN', '-Infinity'], ['1.5', null]],
    ['text', ['', 'x'], [5, null]],
    ['bool', [true], [0]],
    ['null', [null], [0]],
    ['blob', ['AP8=', ''], ['*', 5]],
    ['principal', ['aaaaa-aa', '2vxsx-fae'], ['', 'A!', 5]],
    ['opt nat', [null, 5], [[], [5]]],
    ['opt opt nat', [[], [5], [null]], [null, 5, [1, 2]]],
    ['opt null', [[], [null]], [null]],
    ['opt Maybe', [[], [5]], [null, 5]],
    ['vec text', [[], ['a']], [[5], 'a']],
    ['record { a : nat; b : opt text }', [{ a: 1, b: null }, { a: 1 }], [{}, { a: 1, c: 1 }, [1]]],
    ['record { nat; text }', [[1, 'x']], [[1], [1, 'x', 2], { _0_: 1 }]],
    ['record { 7 : nat }', [{ _7_: 1 }], [{ 7: 1 }]],
    ['record {}', [{}], [null, { a: 1 }]],
    ['variant { ok : nat; err }', [{ ok: 1 }, { err: null }, 'err'], ['ok', { ok: 1, err: null }, {}, { no: 1 }, 'no']],
    ['func (nat) -> () query', [{ principal: 'aaaaa-aa', method: 'm' }], [{ principal: 'aaaaa-aa' }, 'aaaaa-aa']],
    ['service {}', ['aaaaa-aa'], [{}]],
    ['Tree', [{ leaf: null }, { node: [{ leaf: null }, 'leaf'] }], [{ node: [] }, {}]],
  ];
  const DEFINITIONS = 'type Maybe = opt nat; type Tree = variant { leaf; node : record { Tree; Tree } };';

  for (const [type, good, bad] of CASES) {
    test(type, () => {
      const did = `${DEFINITIONS} service : { m : (${type}) -> (${type}) }`;
      const check = new SchemaCheck(documentOf(did));
      const method = codec.parseInterface(did).methods.get('m');
      const takes = (value: unknown): boolean => {
        try {
          method?.args.encode(Buffer.from(JSON.stringify([value])), { lossless: false });
          return true;
        } catch (error) {
          if (error instanceof ServerError) return false;
          throw error;
        }
      };
      for (const value of good) {
        check.assertAccepts('#/components/schemas/m_args', [value]);
        assert.ok(takes(value), `the codec does not take ${JSON.stringify(value)}`);
      }
      for (const value of bad) {
        assert.ok(!check.accepts('#/components/schemas/m_args', [value]), `${JSON.stringify(value)} fits`);
        assert.ok(!takes(value), `the codec takes ${JSON.stringify(value)}`);
      }
      const mayBeMissing = /^(?:opt|Maybe|null|reserved)/.test(type);
      assert.equal(check.accepts('#/components/schemas/m_args', []), mayBeMissing, 'an argument is missing');
      assert.ok(!check.accepts('#/components/schemas/m_results', []), 'a result is missing');
    });
  }
});

describe('an interface that would be endless or too much', () => {
  const pairs = Array.from({ length: 60 }, (_, at) => `type T${at + 1} = record { T${at}; T${at} };`).join('');

  test('types without a finite value, or with none that is small, have schemas and no example', async () => {
    const document = documentOf(`
      type Endless = record { again : Endless };
      type Round = record { There }; type There = variant { back : Round };
      type T0 = nat; ${pairs}
      service : { a : (Endless) -> (Round); b : (T60) -> (empty); c : (variant {}) -> (opt Endless, vec There, opt empty) }`);
    await assertValid(document);
    assert.equal(assertExamples(document, true), 1);
    assert.deepEqual(
      document.paths['/call-json/ledger/c']?.post.responses['200']?.content['application/json'].example,
      [null, [], null],
    );
  });

  test('examples of large types stay small', () => {
    const fields = Array.from({ length: 35 }, (_, at) => `f${at} : opt vec Deep`).join(';');
    const document = documentOf(`type Deep = record { ${fields} }; type List = opt record { head : nat; tail : List };
      service : { m : (Deep) -> (List) }`);
    assert.equal(assertExamples(document), 2);
    assert.ok(JSON.stringify(document.paths).length < 10_000);
  });

  test('thousands of types and methods make a document', async () => {
    const types = Array.from(
      { length: 5000 },
      (_, at) => `type T${at} = record { next : opt T${(at + 1) % 5000}; value : nat };`,
    );
    const methods = Array.from({ length: 1000 }, (_, at) => `m${at} : (T${at}) -> (vec T${at}) query;`);
    const document = documentOf(`${types.join('\n')} service : { ${methods.join('\n')} }`);
    assert.equal(operationsOf(document).length, 2000);
    assert.equal(Object.keys(document.components.schemas).length, 5000 + 2000 + 2);
    await assertValid(document);
  });

  test('a chain of ten thousand names, and types nested as deep as may be', async () => {
    const chain = Array.from({ length: 9998 }, (_, at) => `type T${at} = T${at + 1};`).join('\n');
    await assertValid(documentOf(`${chain} type T9998 = nat; service : { m : (T0) -> (T5000) }`));
    const nested = 'record { a : opt vec '.repeat(80) + 'nat' + ' }'.repeat(80);
    await assertValid(documentOf(`service : { m : (${nested}) -> () }`));
    await assertValid(documentOf(`type F = func (F) -> (F); service : { m : (F) -> (${'opt '.repeat(250)}F) }`));
  });

  test('a large type that thousands of methods share is refused before it is written for each', () => {
    const fields = Array.from({ length: 10_000 }, (_, at) => `f${at} : nat`).join(';');
    const methods = Array.from({ length: 1000 }, (_, at) => `m${at} : F`).join(';');
    assert.throws(
      () => documentOf(`type F = func (record { ${fields} }) -> (); service : { ${methods} }`),
      (error) =>
        error instanceof ServerError &&
        error.code === 'openapi-too-large' &&
        error.message.includes('give large types'),
    );
    const named = `type Large = record { ${fields} }; type F = func (Large) -> (); service : { ${methods} }`;
    assert.equal(operationsOf(documentOf(named, { exports: exportsOf(named) })).length, 1000, 'as the message advises');
  });

  const long = 'x'.repeat(100_000);
  /** Methods that share `func (type) -> ()`. */
  const shared = (type: string, count: number, definitions = ''): string =>
    `${definitions} type F = func (${type}) -> (); service : { ${Array.from({ length: count }, (_, at) => `m${at} : F`).join(';')} }`;
  const isTooLarge = (error: unknown): boolean => error instanceof ServerError && error.code === 'openapi-too-large';

  for (const [what, did] of [
    ['examples with long labels', shared('R', 90, `type R = record { ${long} : nat };`)],
    ['more of them than a text can have', shared('R', 2000, `type R = record { ${long.repeat(3)} : nat };`)],
    ['references to a long name', shared(long, 90, `type ${long} = nat;`)],
    // There is no example, since no value exists.
    ['labels, each written twice', shared(`record { ${long} : empty }`, 50)],
    ['letters that JSON escapes', shared(`record { "${'\\01'.repeat(100_000)}" : opt empty }`, 15)],
  ] as const) {
    test(`${what} are refused before they are written`, () => {
      assert.throws(() => documentOf(did), isTooLarge);
    });
  }

  test('the finished text is measured, too', () => {
    assert.deepEqual(documentBytes({ a: 'ä' }, 10), new TextEncoder().encode('{"a":"ä"}'));
    assert.throws(() => documentBytes({ a: 'äö' }, 10), isTooLarge);
    const endless = { toJSON: () => 'x'.repeat(2 ** 30) };
    assert.throws(() => documentBytes(endless, 10), isTooLarge, 'a text longer than any may be');
    const broken = { toJSON: () => assert.fail('a bug') };
    assert.throws(() => documentBytes(broken, 10), /a bug/);
  });
});
