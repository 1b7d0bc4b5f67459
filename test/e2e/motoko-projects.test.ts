/**
 * Motoko projects as templates make them: compiler settings in `mops.toml`, blobs, principals, a clone without `mops
 * install`.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { type InProcessServer, startInProcess } from '../support/in-process-server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { wat } from '../support/wat.ts';

const require = createRequire(import.meta.url);
const bundle: unknown = JSON.parse(readFileSync(require.resolve('motoko/packages/latest/core.json'), 'utf8'));
/** Version of the library that comes with the compiler. */
const CORE = (bundle as { readonly version: string }).version.replace(/^v/u, '');
/** Principal of the first actor of a manifest. */
const FIRST = 'bkyz2-fmaaa-aaaaa-qaaaq-cai';
/** Bytes that are no text: not UTF-8, with zero and a byte order mark. */
const BYTES = Uint8Array.of(0xef, 0xbb, 0xbf, 0, 255, 128, 1, 200, 10, 13);

const TOTAL = wat(`(module
  (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
  (import "ic0" "msg_reply" (func $reply))
  (memory 1)
  (data (i32.const 0) "DIDL\\00\\01\\7b\\2a")
  (func (export "canister_query total") (call $append (i32.const 0) (i32.const 8)) (call $reply)))`);

async function write(root: string, files: Readonly<Record<string, string | Uint8Array>>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), content);
  }
}

async function call(server: InProcessServer, path: string): Promise<unknown> {
  const { status, body } = await server.post(path, '[]');
  assert.equal(status, 200, body);
  return JSON.parse(body) as unknown;
}

const DEPS = { core: CORE };
const TODAY = {
  'today/mops.toml': `[package]
name = "today"
version = "0.1.0"

[dependencies]
core = "${CORE}"

[toolchain]
moc = "1.3.0"

[moc]
args = ["--default-persistent-actors", "--implicit-package=core", "--actor-idl=src/idl", "-no-check-ir", "-A", "M0194"]
`,
  // The lock file is as in the repository; \`.mops\` is not there.
  'today/mops.lock': JSON.stringify({
    version: 3,
    mopsTomlDepsHash: createHash('sha256').update(JSON.stringify(DEPS)).digest('hex'),
    deps: DEPS,
    hashes: { [`core@${CORE}`]: {} },
  }),
  [`today/src/idl/${FIRST}.did`]: 'service : { total : () -> (nat8) query }',
  'today/src/data/bytes.bin': BYTES,
  'today/src/sub/Data.mo': 'import D "blob:file:../data/bytes.bin"; module { public let bytes : Blob = D };',
  'today/src/Main.mo': `
import IC "ic:aaaaa-aa";
import Other "ic:${FIRST}";
import Data "sub/Data";
import Note "blob:file:note.txt";
import Text "mo:core/Text";

actor Today {
  var calls = 0;
  public query func bytes() : async Blob { Data.bytes };
  public query func note() : async ?Text { Text.decodeUtf8(Note) };
  public func random() : async Text { calls += 1; (await IC.raw_rand()).size().toText() };
  public func total() : async Nat8 { await Other.total() };
  public query func transform({ response } : { context : Blob; response : IC.http_request_result }) : async IC.http_request_result {
    { response with headers = [] };
  };
  public func fetch(url : Text) : async Nat {
    let request : IC.http_request_args = {
      url;
      max_response_bytes = ?10;
      method = #get;
      headers = [];
      body = null;
      transform = ?{ function = transform; context = "" };
      is_replicated = null;
    };
    (await (with cycles = 1_000_000_000) IC.http_request(request)).status;
  };
};
`,
  'today/src/note.txt': 'hello blob',
};
const LEGACY = {
  'legacy/mops.toml':
    '[moc]\nargs = ["--legacy-actors", "--legacy-persistence", "--copying-gc", "--actor-alias", "sum", "' +
    `${FIRST}", "--actor-idl", "../today/src/idl", "--public-metadata", "candid:service"]\n`,
  'legacy/note.txt': 'hello legacy',
  'legacy/Main.mo': `
import Sum "canister:sum";
import Note "blob:file:note.txt";
actor {
  stable var kept = 1;
  var lost = 1;
  public func inc() : async [Nat] { kept += 1; lost += 1; [kept, lost] };
  public func total() : async Nat8 { await Sum.total() };
  public query func note() : async Blob { Note };
};
`,
};

test('what templates of today say of the compiler is taken, and the programs do what they say', async (t) => {
  const root = await temporaryDirectory();
  const actors = {
    total: { wasm: 'total.wasm' },
    today: { main: 'today/src/Main.mo' },
    legacy: { main: 'legacy/Main.mo' },
  };
  await write(root, { ...TODAY, ...LEGACY, 'total.wasm': TOTAL, 'actors.json': JSON.stringify({ actors }) });
  const args = ['--project', root];
  // There is no state directory, so modules are kept from run to run.
  const server = await startInProcess(t, { manifestFile: join(root, 'actors.json'), args });

  assert.deepEqual(await call(server, '/query-json/today/bytes'), [Buffer.from(BYTES).toString('base64')]);
  assert.deepEqual(await call(server, '/query-json/today/note'), ['hello blob']);
  assert.deepEqual(await call(server, '/call-json/today/random'), ['32']);
  assert.deepEqual(await call(server, '/call-json/today/total'), [42]);
  assert.deepEqual(await call(server, '/call-json/legacy/inc'), [[2, 2]]);
  assert.deepEqual(await call(server, '/call-json/legacy/total'), [42]);

  await t.test('and the closure has all that they are made of', async () => {
    const { body } = await server.get('/mops/closure/today/src/Main.mo');
    const document = JSON.parse(body) as {
      readonly files: readonly { readonly path: string; readonly base64: string; readonly package: string | null }[];
    };
    const own = document.files.filter(({ package: name }) => name === null);
    assert.deepEqual(
      own.map(({ path }) => path),
      ['Main.mo', 'data/bytes.bin', `idl/${FIRST}.did`, 'note.txt', 'sub/Data.mo'].map((path) => `today/src/${path}`),
    );
    assert.equal(own[1]?.base64, Buffer.from(BYTES).toString('base64'));
    // The whole library is there, whatever is imported of it.
    assert.ok(document.files.some(({ path }) => path === `core@${CORE}/PriorityQueue.mo`));
    const { missing, unusable, external, warnings } = JSON.parse(body) as Readonly<Record<string, unknown>>;
    const from = 'today/src/Main.mo';
    assert.deepEqual([missing, unusable, warnings], [[], [], []]);
    assert.deepEqual(external, [
      { import: 'ic:aaaaa-aa', from },
      { import: `ic:${FIRST}`, from },
    ]);
  });

  await t.test('and a blob that changes makes another module', async () => {
    const note = async (): Promise<string> => {
      const [base64] = (await call(server, '/query-json/legacy/note')) as [string];
      return Buffer.from(base64, 'base64').toString();
    };
    assert.equal(await note(), 'hello legacy');
    await write(root, { 'legacy/note.txt': 'another' });
    const { status, body } = await server.post('/upgrade/legacy', '');
    assert.equal(status, 200, body);
    assert.equal(await note(), 'another');
  });
});

test('a chain of migrations brings the state along, from whichever link it has', async (t) => {
  const root = await temporaryDirectory();
  const toml = '[moc]\nargs = ["--default-persistent-actors", "--enhanced-migration=migrations"]\n';
  const migration = (old: string, now: string, made: string): string =>
    `import H "../src/Help"; module { public func migration(old : { ${old} }) : { ${now} } { { ${made} } } };`;
  const program = (variables: string, more = ''): string =>
    `actor { ${variables} public func inc() : async Nat { n += 1; n }; ${more} };`;
  await write(root, {
    'mops.toml': toml,
    'src/Help.mo': 'module { public let word = "w" };',
    'src/Main.mo': program('var n : Nat;'),
    'migrations/1_init.mo': migration('', 'var n : Nat', 'var n = 5'),
    // The flag holds for its own project alone.
    'plain/mops.toml': '',
    'plain/Main.mo': 'persistent actor { var n = 1; public func inc() : async Nat { n += 1; n } };',
    'actors.json': JSON.stringify({ actors: { chain: { main: 'src/Main.mo' }, plain: { main: 'plain/Main.mo' } } }),
  });
  const server = await startInProcess(t, { manifestFile: join(root, 'actors.json'), args: ['--project', root] });
  assert.deepEqual(await call(server, '/call-json/chain/inc'), [6]);
  assert.deepEqual(await call(server, '/call-json/plain/inc'), [2]);
  const closure = JSON.parse((await server.get('/mops/closure/src/Main.mo')).body) as { files: { path: string }[] };
  const paths = ['migrations/1_init.mo', 'src/Help.mo', 'src/Main.mo'];
  assert.deepEqual(
    closure.files.map(({ path }) => path),
    paths,
  );
  await write(root, {
    'src/Main.mo': program('var n : Nat; var words : [Text];', 'public query func all() : async [Text] { words };'),
    'migrations/2_words.mo': migration(
      'var n : Nat',
      'var n : Nat; var words : [Text]',
      'var n = old.n + 100; var words = [H.word]',
    ),
  });
  const upgraded = await server.post('/upgrade/chain', '');
  assert.equal(upgraded.status, 200, upgraded.body);
  assert.deepEqual(await call(server, '/call-json/chain/inc'), [107]);
  assert.deepEqual(await call(server, '/query-json/chain/all'), [['w']]);
  // Without a link that the state has been through, variables would be lost.
  await write(root, { 'src/Main.mo': program('var n : Nat; var words : [Text];') });
  await rm(join(root, 'migrations/2_words.mo'));
  const lost = await server.post('/upgrade/chain', '');
  assert.equal(lost.status, 400, lost.body);
  assert.match(lost.body, /does not take over its stable variables/);
  assert.deepEqual(await call(server, '/call-json/chain/inc'), [108]);
});
