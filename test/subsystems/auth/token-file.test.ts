import assert from 'node:assert/strict';
import { chmod, mkdir, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { spawnSync } from 'node:child_process';
import { ServerError } from '../../../kernel/index.ts';
import { readTokenFile } from '../../../subsystems/auth/token-file.ts';
import { sha256Of } from '../../support/token-file.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

const HASH = sha256Of('one');
const OTHER = sha256Of('two');
const folder = await temporaryDirectory();

async function fileWith(text: string | Uint8Array, mode = 0o600): Promise<string> {
  const file = join(folder, `${Math.random()}.json`);
  await writeFile(file, text);
  await chmod(file, mode);
  return file;
}

function faultOf(file: string): string {
  try {
    readTokenFile(file);
  } catch (error) {
    assert.ok(error instanceof ServerError, String(error));
    assert.deepEqual([error.kind, error.code], ['invalid', 'bad-tokens']);
    return error.message;
  }
  return assert.fail('it was taken');
}

suite('the file of tokens', () => {
  test('is read: names, hashes, scopes and callers', async () => {
    const text = JSON.stringify({
      grafana: { sha256: HASH, may: ['metrics'] },
      shop: { sha256: OTHER, may: ['call:shop', 'watch:shop'], caller: 'bkyz2-fmaaa-aaaaa-qaaaq-cai' },
    });
    const { lines, warnings } = readTokenFile(await fileWith(text));
    assert.deepEqual(warnings, []);
    assert.deepEqual(
      lines.map(({ name, sha256, scopes, caller }) => [
        name,
        sha256,
        scopes.texts,
        caller && Buffer.from(caller).toString('hex'),
      ]),
      [
        ['grafana', HASH, ['metrics'], undefined],
        ['shop', OTHER, ['call:shop', 'watch:shop'], '80000000001000010101'],
      ],
    );
  });

  test('without a token, and one whose token may nothing, are none wrong: so tokens are taken back', async () => {
    assert.deepEqual(readTokenFile(await fileWith('{}')).lines, []);
    const nothing = JSON.stringify({ a: { sha256: HASH, may: [] } });
    assert.deepEqual(readTokenFile(await fileWith(nothing)).lines[0]?.scopes.texts, []);
  });

  const line = (more: object): string => JSON.stringify({ a: { sha256: HASH, may: [], ...more } });
  const SECRET = 'svc_4Yt-this-is-the-secret-itself-0123456789AB';
  const WRONG: Readonly<Record<string, readonly [text: string, fault: RegExp]>> = {
    'a name twice': [
      `{"a":{"sha256":"${HASH}","may":[]},\n "a":{"sha256":"${OTHER}","may":[]}}`,
      /line 2, column 2: .*twice/,
    ],
    'a key twice': [`{"a":{"sha256":"${HASH}","may":[],"may":["*"]}}`, /column \d+: "a" has a key twice/],
    'a hash twice': [
      `{"a":{"sha256":"${HASH}","may":[]},"b":{"sha256":"${HASH}","may":[]}}`,
      /"b" has the sha256 of "a"/,
    ],
    'a secret instead of a hash': [
      line({ sha256: SECRET }),
      /"sha256" of "a" is not 64 hex digits.*svc --make-token a/,
    ],
    'a secret of 64 characters': [line({ sha256: 'Z'.repeat(64) }), /not 64 hex digits/],
    'a hash in capitals': [line({ sha256: HASH.toUpperCase() }), /small letters/],
    'no hash': ['{"a":{"may":[]}}', /"a" lacks "sha256"/],
    'the hash of nothing': [line({ sha256: sha256Of('') }), /empty text/],
    'a hash that is a number': [line({ sha256: 5 }), /not 64 hex digits/],
    'no scopes': [`{"a":{"sha256":"${HASH}"}}`, /"may" of "a" is an array of scopes/],
    'scopes that are no array': [line({ may: 'metrics' }), /"may" of "a" is an array of scopes/],
    'a scope that is no text': [line({ may: [1] }), /"may" of "a" is an array of scopes/],
    'a scope that does not exist': [
      line({ may: ['metric'] }),
      /"a": scope "metric" is no scope; known are \*, metrics/,
    ],
    'a scope without its actor': [line({ may: ['call'] }), /"call" lacks its actor: write "call:<ACTOR>"/],
    'a scope with an actor too many': [line({ may: ['metrics:shop'] }), /metrics is of the whole host/],
    'an actor that is none': [line({ may: ['call:a b'] }), /names no actor/],
    'two actors in one': [line({ may: ['call:a:b'] }), /names no actor/],
    'a scope twice': [line({ may: ['metrics', 'metrics'] }), /"metrics" is there twice/],
    'too many scopes': [
      line({ may: Array.from({ length: 257 }, (_, at) => `call:a${at}`) }),
      /257 scopes are too many/,
    ],
    'a secret among the scopes': [line({ may: [SECRET] }), /"a": scope a text is no scope/],
    'a caller that is none': [line({ caller: 'me' }), /"caller" of "a" is no principal/],
    'a caller that is a number': [line({ caller: 7 }), /"caller" of "a" is no principal/],
    'everything and a caller': [line({ may: ['*'], caller: 'aaaaa-aa' }), /may do everything/],
    'an unknown key': [line({ secret: SECRET }), /"a" has a key that is not known; known are sha256, may, caller/],
    'a bad name': [JSON.stringify({ 'a b': { sha256: HASH, may: [] } }), /a name is a letter or _/],
    'the secret as the name': [
      JSON.stringify({ [`${SECRET}=/`]: { sha256: HASH, may: [] } }),
      /a name is a letter or _/,
    ],
    'an empty name': [JSON.stringify({ '': { sha256: HASH, may: [] } }), /a name is a letter or _/],
    'a list': ['[]', /the file is no JSON object/],
    'a line that is none': ['{"a":null}', /"a" is no JSON object/],
    'no JSON': [`{"a":{"sha256":${SECRET}}}`, /is not JSON, in line 1, column \d+$/],
    nothing: ['', /is not JSON, in line 1, column 1/],
    'deep nesting': ['['.repeat(100_000), /is not JSON/],
    'too many tokens': [
      JSON.stringify(Object.fromEntries(Array.from({ length: 4097 }, (_, at) => [`a${at}`, { sha256: '0', may: [] }]))),
      /has 4097 tokens, and at most 4096 are taken/,
    ],
  };
  for (const [name, [text, fault]] of Object.entries(WRONG))
    test(`is refused with its place: ${name}`, async () => {
      const file = await fileWith(text);
      const told = faultOf(file);
      assert.match(told, fault);
      assert.ok(told.startsWith(`--tokens: ${file} `), told);
      assert.doesNotMatch(told, /this-is-the-secret/, 'the log would have it');
      assert.ok(told.length < 800, `${told.length} characters`);
    });

  test('is refused where it is no file that can be read', async () => {
    assert.match(faultOf(join(folder, 'none.json')), /there is no such file/);
    const directory = join(folder, 'directory');
    await mkdir(directory);
    assert.match(faultOf(directory), /is no regular file/);
    const pipe = join(folder, 'pipe');
    assert.equal(spawnSync('mkfifo', [pipe]).status, 0);
    assert.match(faultOf(pipe), /is no regular file/);
    assert.match(faultOf(await fileWith(Buffer.from([0x7b, 0xff, 0x7d]))), /is not UTF-8/);
  });

  test('is refused when it is huge, and no more of it is read than it may have', async () => {
    const file = await fileWith('{}');
    await truncate(file, 2 ** 34);
    assert.match(faultOf(file), /has 17179869184 bytes, and at most 1048576 are read/);
  });

  test('is taken and warned of when others can read it, and refused when they can write it', async () => {
    const { lines, warnings } = readTokenFile(await fileWith(line({}), 0o644));
    assert.equal(lines.length, 1);
    assert.match(warnings[0] ?? '', /can be read by every user of this machine \(mode 644\): chmod 600/);
    assert.match(faultOf(await fileWith(line({}), 0o646)), /can be written by every user .*\(mode 646\): chmod 600/);
  });
});
