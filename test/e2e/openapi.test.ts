/** `GET /openapi/<ACTOR>` as seen by authors of clients. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { registerHooks } from 'node:module';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { typeDeclarations } from '../../subsystems/openapi/type-declarations.ts';
import { type InProcessServer, startInProcess } from '../support/in-process-server.ts';
import { compileMotoko } from '../support/motoko.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { assertExamples, assertValid, type Document, SchemaCheck } from '../subsystems/openapi/support.ts';

// openapi-typescript writes types with TypeScript 5's factory; `typescript` here is 7, which has none.
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === 'typescript' && context.parentURL?.includes('/node_modules/openapi-typescript/') === true
      ? next('typescript-classic', context)
      : next(specifier, context),
});

const TSC = fileURLToPath(new URL('../../node_modules/typescript/bin/tsc', import.meta.url));
const run = promisify(execFile);
const FLAGS = [
  '--noEmit',
  '--strict',
  '--target',
  'es2024',
  '--module',
  'nodenext',
  '--lib',
  'es2024,dom',
  '--types',
  '',
  '--allowImportingTsExtensions',
];

const LEDGER = `
  import Map "mo:core/Map";
  import Text "mo:core/Text";
  persistent actor class Ledger(init : { symbol : Text }) {
    public type Account = { owner : Text; sub : ?Blob };
    public type Fault = { #broke : { balance : Nat }; #unknown; #closed };
    public type Tree = { #leaf; #node : { left : Tree; value : Int; right : Tree } };
    let balances = Map.empty<Text, Nat>();
    public func mint(to : Account, amount : Nat) : async Nat {
      let balance = (switch (balances.get(to.owner)) { case null 0; case (?b) b }) + amount;
      balances.add(to.owner, balance);
      balance
    };
    public func burn(from : Account, amount : Nat) : async { #ok : Nat; #err : Fault } {
      switch (balances.get(from.owner)) {
        case null #err(#unknown);
        case (?balance) {
          if (balance < amount) return #err(#broke { balance });
          balances.add(from.owner, balance - amount : Nat);
          #ok(balance - amount)
        }
      }
    };
    public query func symbol() : async Text { init.symbol };
    public query func find(owner : Text) : async (account : ?Account, balance : Nat) {
      switch (balances.get(owner)) { case null (null, 0); case (?b) (?{ owner; sub = null }, b) }
    };
    public query func echo(tree : Tree, pair : (Nat8, Float), bytes : Blob) : async (Tree, (Nat8, Float), Blob) { (tree, pair, bytes) };
    public composite query func all() : async [Text] { ["a"] };
    public func note(text : Text) { ignore text };
    public func fail() : async () { assert false };
  }`;

/** A client for any document: its requests and answers have the types of the operation. */
const CLIENT = `
  import type { components, paths } from './ledger.ts';
  declare const process: { argv: readonly string[] };
  type Post<P extends keyof paths> = paths[P] extends { post: infer O } ? O : never;
  type Sent<O> = O extends { requestBody?: { content: { 'application/json': infer B } } } ? B : never;
  type Got<O> = O extends { responses: { 200: { content: { 'application/json': infer B } } } } ? B : never;
  type Refused = components['schemas']['SvcError'];
  /** What an operation's errors have as JSON; a client that asks for JSON gets plain text with 401 and 503 alone. */
  type Failure<O> = O extends { responses: infer R }
    ? { [S in Exclude<keyof R, 200>]: R[S] extends { content: { 'application/json': infer B } } ? B : never }[Exclude<keyof R, 200>]
    : never;
  const origin = process.argv[2];
  async function post<P extends keyof paths>(path: P, body: Sent<Post<P>>): Promise<Got<Post<P>> | Refused> {
    const headers = { authorization: 'Bearer secret', 'content-type': 'application/json' };
    const response = await fetch(origin + path, { method: 'POST', headers, body: JSON.stringify(body) });
    return await response.json() as Got<Post<P>> | Refused;
  }
  function got<T>(answer: T | Refused): T {
    if (typeof answer === 'object' && answer !== null && 'message' in answer) throw new Error(answer.message);
    return answer as T;
  }
`;
const USE = `
  const ada: components['schemas']['Account'] = { owner: 'Ada', sub: null };
  const [minted]: [number | string] = got(await post('/call-json/ledger/mint', [ada, 5]));
  await post('/call-json/ledger/mint', [{ owner: 'Bob' }, '9007199254740993']);
  const [burnt] = got(await post('/call-json/ledger/burn', [ada, 7]));
  let fault: string | number = 'none';
  if ('err' in burnt && typeof burnt.err === 'object' && 'broke' in burnt.err) fault = burnt.err.broke.balance;
  const [account, balance] = got(await post('/query-json/ledger/find', ['Bob']));
  const owner: string | undefined = account?.owner;
  const [tree, [small, float], bytes] = got(await post('/query-json/ledger/echo', [
    { node: { left: 'leaf', value: -3, right: { leaf: null } } }, [7, 'NaN'], 'AP8=']));
  const value = typeof tree === 'object' && 'node' in tree ? tree.node.value : undefined;
  const [all] = got(await post('/query-json/ledger/all', []));
  const noted = got(await post('/call-json/ledger/note', ['x']));
  const failed = await post('/call-json/ledger/fail', []);
  const failure: Failure<Post<'/call-json/ledger/fail'>> = failed as Refused;
  const code: number = failure.code;
  if (code !== 5) throw new Error(failure.message);
  console.log(JSON.stringify({ minted, fault, owner, balance, value, small, float, bytes, all, noted, failed }));
`;
/** Mistakes that the types have to find. */
const MISTAKES = [
  `const wrong: string = ({} as Failure<Post<'/call-json/ledger/mint'>>).code;`,
  `await post('/call-json/ledger/mintt', [{ owner: 'Ada' }, 5]);`,
  `await post('/call-json/ledger/mint', [{ owner: 'Ada' }]);`,
  `await post('/call-json/ledger/mint', [{ owner: 5 }, 5]);`,
  `await post('/call-json/ledger/mint', [{ owner: 'Ada', more: 1 }, 5]);`,
  `await post('/query-json/ledger/echo', [{ leaf: null, node: null }, [7, 1], '']);`,
  `const [minted]: [boolean] = got(await post('/call-json/ledger/mint', [{ owner: 'Ada' }, 5]));`,
];

test('a client whose types are generated compiles, finds mistakes, and calls a real actor', async (t) => {
  const { wasm } = await compileMotoko(LEDGER);
  const server = await startInProcess(t, { args: ['--auth-token', 'secret'] });
  const authorization = 'Bearer secret';
  const form = new FormData();
  form.set('wasm', new Blob([new Uint8Array(wasm)]), 'ledger.wasm');
  form.set('args', '(record { symbol = "T" })');
  const installed = await server.fetch('/install/ledger', { method: 'POST', body: form, headers: { authorization } });
  assert.equal(installed.status, 200, await installed.text());
  assert.equal((await server.get('/openapi/ledger')).status, 401);

  const answer = await server.fetch('/openapi/ledger', { headers: { authorization } });
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8');
  const document = (await answer.json()) as Document;
  await assertValid(document);
  assertExamples(document);
  assert.deepEqual(document.security, [{ bearer: [] }]);
  assert.ok(!Object.keys(document.paths).some((path) => path.includes('__motoko')));

  const folder = await temporaryDirectory();
  const { default: generate, astToString } = await import('openapi-typescript');
  const types = astToString(await generate(JSON.stringify(document)));
  assert.match(types, /mint_args: \[\s+components\["schemas"\]\["Account"\],\s+components\["schemas"\]\["nat"\]\s+\]/);
  await writeFile(join(folder, 'ledger.ts'), types);
  await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  await writeFile(join(folder, 'client.ts'), CLIENT + USE);
  const mistakes = MISTAKES.map((line) => `  ${line}`).join('\n');
  await writeFile(join(folder, 'mistakes.ts'), `${CLIENT}{\n${mistakes.replaceAll('\n', '\n}{\n')}\n}`);
  const compile = (file: string) => run(process.execPath, [TSC, ...FLAGS, join(folder, file)], { cwd: folder });
  await compile('client.ts');
  const firstLine = CLIENT.split('\n').length + 1;
  await assert.rejects(compile('mistakes.ts'), ({ stdout }: { stdout: string }) => {
    const lines = [...stdout.matchAll(/mistakes\.ts\((\d+),/g)].map(([, line]) => Number(line));
    const expected = MISTAKES.map((_, at) => firstLine + 2 * at);
    assert.deepEqual([...new Set(lines)], expected, stdout);
    return true;
  });

  const { stdout } = await run(process.execPath, [join(folder, 'client.ts'), server.origin]);
  const { failed, ...results } = JSON.parse(stdout) as { failed: { code: number; message: string } };
  assert.deepEqual(results, {
    minted: 5,
    fault: 5,
    owner: 'Bob',
    balance: '9007199254740993',
    value: -3,
    small: 7,
    float: 'NaN',
    bytes: 'AP8=',
    all: ['a'],
    noted: [],
  });
  assert.equal(failed.code, 5);
  new SchemaCheck(document).assertAccepts('#/components/schemas/SvcError', failed);
});

/** The snippet of docs/http.md, with the server's address in front of its path. */
async function documentedCall(): Promise<string> {
  const page = await readFile(new URL('../../docs/http.md', import.meta.url), 'utf8');
  const [, section = ''] = page.split('## Types of TypeScript\n');
  const [, snippet = ''] = /^```ts\n(.*?)^```$/ms.exec(section) ?? [];
  return snippet.replace('fetch(`/', 'fetch(`${process.argv[2]}/');
}
const USE_TYPES = `
  declare const process: { argv: readonly string[] };
  const [minted]: [number | string] = await call('mint', { owner: 'Ada' }, 5);
  const [burnt] = await call('burn', { owner: 'Ada', sub: null }, 7);
  let fault: string | number = 'none';
  if ('err' in burnt && typeof burnt.err === 'object' && 'broke' in burnt.err) fault = burnt.err.broke.balance;
  const [account, balance] = await call('find', 'Ada');
  const owner: string | undefined = account?.owner;
  const [tree, [small, float], bytes] = await call(
    'echo', { node: { left: 'leaf', value: -3, right: { leaf: null } } }, [7, 'NaN'], 'AP8=',
  );
  const value = typeof tree === 'object' && 'node' in tree ? tree.node.value : undefined;
  const refused = await call('fail').catch((error: Error) => error.message);
  console.log(JSON.stringify([minted, fault, owner, balance, value, small, float, bytes, await call('note', 'x'), refused]));
`;
/** Starts a server that has the ledger. */
async function startLedger(t: TestContext): Promise<InProcessServer> {
  const { wasm } = await compileMotoko(LEDGER);
  const server = await startInProcess(t);
  const form = new FormData();
  form.set('wasm', new Blob([new Uint8Array(wasm)]));
  form.set('args', '[{"symbol":"T"}]');
  assert.equal((await server.fetch('/install/ledger', { method: 'POST', body: form })).status, 200);
  return server;
}

const WRONG_TYPES = [
  `await call('mintt', { owner: 'Ada' }, 5);`,
  `await call('mint', { owner: 'Ada' });`,
  `await call('mint', { owner: 5 }, 5);`,
  `await call('echo', { leaf: null, more: null }, [7, 1], '');`,
  `const [minted]: [boolean] = await call('mint', { owner: 'Ada' }, 5);`,
];

test('a client with the types of the server compiles, finds mistakes, and calls a real actor', async (t) => {
  const server = await startLedger(t);
  const answer = await server.fetch('/x/actors/ledger/types');
  assert.deepEqual([answer.status, answer.headers.get('content-type')], [200, 'text/plain; charset=utf-8']);
  const folder = await temporaryDirectory();
  const call = await documentedCall();
  await writeFile(join(folder, 'ledger.d.mts'), await answer.text());
  await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  await writeFile(join(folder, 'client.ts'), call + USE_TYPES);
  const wrong = WRONG_TYPES.map((line) => `{\n${line}\n}\n`).join('');
  await writeFile(join(folder, 'wrong.ts'), `${call}declare const process: { argv: readonly string[] };\n${wrong}`);
  const compile = (file: string) => run(process.execPath, [TSC, ...FLAGS, join(folder, file)], { cwd: folder });
  await compile('client.ts');
  const firstLine = call.split('\n').length + 2;
  await assert.rejects(compile('wrong.ts'), ({ stdout }: { stdout: string }) => {
    const lines = [...stdout.matchAll(/wrong\.ts\((\d+),/g)].map(([, line]) => Number(line));
    assert.deepEqual(
      [...new Set(lines)],
      WRONG_TYPES.map((_, at) => firstLine + 3 * at),
      stdout,
    );
    return true;
  });
  const { stdout } = await run(process.execPath, [join(folder, 'client.ts'), server.origin]);
  const results = JSON.parse(stdout) as unknown[];
  assert.match(String(results.pop()), /trap/);
  assert.deepEqual(results, [5, 5, 'Ada', 5, -3, 7, 'NaN', 'AP8=', []]);
  assert.equal((await server.get('/x/actors/nobody/types')).status, 404);
});

test('types of odd interfaces compile: names that TypeScript has, recursion, comments that try to end', async () => {
  const did = `
    // an end */ of a comment
    type string = record { "a b" : nat; 7 : opt string; __proto__ : text };
    type Actor = variant { ok; "*/ x" : vec opt nat; constructor : empty };
    type List = opt record { List; opt List };
    type Deep = vec Deep; type Void = variant {}; type Unit = record {};
    service : {
      "a-b" : (class : string, Actor, from : opt List) -> (Deep, Void) query;
      constructor : (first : string, function : opt nat, last : reserved) -> (Unit, func (nat) -> (), service {}, principal);
      hidden : () -> () oneway;
    }`;
  const text = typeDeclarations({
    actor: 'odd',
    did,
    exports: new Map([
      ['a-b', 'query'],
      ['constructor', 'update'],
    ]),
    isGuarded: false,
    takesCaller: true,
  });
  const folder = await temporaryDirectory();
  await writeFile(join(folder, 'odd.ts'), text);
  await writeFile(
    join(folder, 'use.ts'),
    `import type { Actor } from './odd.ts';
     export const shortest: Actor['constructor']['args'] = [{ 'a b': 1, __proto__: 'x' }];
     export const longest: Actor['constructor']['args'] = [{ 'a b': '1', _7_: null, __proto__: 'x' }, null, { any: 1 }];
     export const kinds: [Actor['a-b']['kind'], Actor['constructor']['kind']] = ['query', 'update'];
     export const tags: Actor['a-b']['args'][1][] = ['ok', { ok: null }, { '*/ x': [null, 5] }];`,
  );
  await run(process.execPath, [TSC, ...FLAGS, join(folder, 'use.ts')], { cwd: folder });
  assert.ok(!text.includes('hidden'));
});

test('every example of a document can be sent as it is', async (t) => {
  const server = await startLedger(t);
  const document = JSON.parse((await server.get('/openapi/ledger')).body) as Document;
  assert.deepEqual(document.security, []);
  const check = new SchemaCheck(document);
  for (const [path, { post }] of Object.entries(document.paths)) {
    if (path.endsWith('/fail')) continue;
    const { example } = post.requestBody.content['application/json'];
    const { status, body } = await server.post(path, JSON.stringify(example));
    assert.equal(status, 200, `${path}: ${body}`);
    const content = post.responses['200']?.content['application/json'];
    assert.ok(content !== undefined);
    check.assertAccepts(content.schema.$ref, JSON.parse(body));
  }
});
