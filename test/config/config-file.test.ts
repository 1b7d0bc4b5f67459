import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { loadConfig, type Request } from '../../config/load.ts';
import type { ConfiguredPlugin } from '../../config/plugin-options.ts';
import { definePlugin, Outcalls, Storage } from '../../plugins/api/plugin.ts';
import { NoStorage } from '../../subsystems/storage/no-storage.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

let directory = '';
before(async () => {
  directory = await temporaryDirectory();
});

const STORAGE: ConfiguredPlugin = {
  capability: 'storage',
  module: './s.js',
  replaces: 'storage',
  wraps: false,
  definition: definePlugin({
    apiVersion: 1,
    name: 'my-storage',
    provides: Storage,
    isDurable: true,
    create: () => new NoStorage(),
    restore: () => Promise.reject(new Error('not here')),
    options: {
      url: { type: 'text', summary: 'Where.', required: true, isSecret: true, variable: 'STORAGE_URL' },
      pages: { type: 'integer', summary: 'Many.', unit: 'pages', min: 1, max: 100, default: 10 },
      mode: { type: 'choice', summary: 'How.', choices: ['safe', 'fast'], default: 'safe' },
      eager: { type: 'switch', summary: 'When.' },
    },
  }),
};
const FORWARD: ConfiguredPlugin = {
  ...STORAGE,
  module: './forward.js',
  definition: definePlugin({
    apiVersion: 1,
    name: 'forward-only',
    provides: Storage,
    isDurable: true,
    create: () => new NoStorage(),
  }),
};
const OUTCALLS: ConfiguredPlugin = {
  capability: 'outcalls',
  module: './o.js',
  replaces: 'outcalls',
  wraps: false,
  definition: definePlugin({
    apiVersion: 1,
    name: 'my-outcalls',
    provides: Outcalls,
    create: () => ({ send: () => new Promise<never>(() => undefined) }),
  }),
};

const AROUND: ConfiguredPlugin = { ...OUTCALLS, module: './around.js', wraps: true };

async function load(
  argv: readonly string[],
  { file, environment = {} }: { readonly file?: unknown; readonly environment?: Readonly<Record<string, string>> } = {},
): Promise<Request> {
  const path = join(directory, 'svc.config.json');
  if (file !== undefined) await writeFile(path, typeof file === 'string' ? file : JSON.stringify(file));
  return loadConfig({
    argv: [...(file === undefined ? [] : ['--config', 'svc.config.json']), ...argv],
    environment,
    pluginNames: ['storage', 'outcalls', 'manifest', 'metrics'],
    version: '0.1.0',
    build: 'dev',
    directory,
    loadPlugins: async (requests) => ({
      loaded: [STORAGE, FORWARD, OUTCALLS, AROUND].filter(({ module }) =>
        requests.some((each) => each.module === module),
      ),
      problems: [],
    }),
  });
}

async function problems(...given: Parameters<typeof load>): Promise<readonly string[]> {
  const request = await load(...given);
  return request.kind === 'refused' ? request.problems : [];
}

async function served(...given: Parameters<typeof load>): Promise<Extract<Request, { kind: 'serve' }>> {
  const request = await load(...given);
  assert.ok(request.kind === 'serve', request.kind === 'refused' ? request.problems.join('\n') : request.kind);
  return request;
}

test('a file has flags by their long names; the command line wins over the environment, that over the file', async () => {
  const file = {
    $schema: 'x',
    listen: '127.0.0.1:1',
    'live-cap': 7,
    cycles: '12',
    watch: true,
    state: 'state',
    manifest: false,
    outcalls: false,
  };
  const { config, disabled } = await served(['--live-cap', '9', '--no-watch'], { file });
  assert.equal(config.http.port, 1);
  assert.equal(config.scheduler.liveCap, 9);
  assert.equal(config.metering.startingCycles, 12n);
  assert.equal(config['hot-reload'].isWatching, false);
  assert.equal(config.storage.directory, join(directory, 'state'));
  assert.deepEqual([...disabled].toSorted(), ['manifest', 'outcalls']);
});

test('a file is read only when it is named', async () => {
  await writeFile(join(directory, 'svc.config.json'), '{ "listen": "127.0.0.1:1" }');
  assert.equal((await served([])).config.http.port, 7000);
});

test('each fault in a file is told with its line and column', async () => {
  const file = `{
  "lisen": "127.0.0.1:1",
  "live-cap": true,
  "watch": "yes",
  "history": "many",
  "auth-token": "hunter2",
  "help": true,
  "watch": false,
  "plugin": { "storage": 7 },
  "plugin-option": { "storage": "x", "outcalls": { "a": {} } },
  "metrics": 1,
  "check": true
}`;
  assert.deepEqual(await problems([], { file }), [
    'svc.config.json:8:3 the key "watch" is there twice: keep one',
    'svc.config.json:2:3 unknown key "lisen": did you mean listen?',
    'svc.config.json:3:15 live-cap: expected a whole number, not true',
    'svc.config.json:4:12 watch: expected true or false, not text',
    "svc.config.json:6:3 this file cannot hold the token: name the token's own file with " +
      '"auth-token-file", or set SVC_TOKEN, and take the key out',
    'svc.config.json:7:3 --help is for the command line only: take the key out',
    'svc.config.json:9:26 plugin.storage: expected text in double quotes, not a number',
    'svc.config.json:10:33 plugin-option.storage: expected an object, not text: write { "storage": { "path": "data" } }',
    'svc.config.json:10:57 plugin-option.outcalls.a: expected text, a number, true or false, not an object',
    'svc.config.json:11:14 metrics: expected true or false, not a number',
    'svc.config.json:12:3 --check is for the command line only: take the key out',
    "svc.config.json:5:14 history: 'many' is not a whole number: give a whole number of messages from 0 to 1000000, in plain digits",
  ]);
  assert.ok(!(await problems([], { file })).join().includes('hunter2'));
});

test('a file that is no JSON, no object, too large or not there is refused', async () => {
  assert.deepEqual(await problems([], { file: '{\n  // no\n}' }), [
    'svc.config.json:2:3 not JSON: comments are not allowed in JSON',
  ]);
  assert.match(
    (await problems([], { file: '{ "watch": true, }' })).join(),
    /^svc\.config\.json:1:16 not JSON: a comma before "}"/,
  );
  assert.match((await problems([], { file: '[]' })).join(), /:1:1 expected an object of flags, not an array/);
  assert.match((await problems([], { file: '' })).join(), /:1:1 not JSON: the file is empty/);
  assert.match(
    (await problems([], { file: ' '.repeat(2 ** 20 + 1) })).join(),
    /has 1048577 bytes, and no configuration has more/,
  );
  assert.match(
    (await problems(['--config', 'none.json'])).join(),
    /^--config: none\.json \(.*\) cannot be read: there is no such file/,
  );
  assert.match((await problems(['--config', '.'])).join(), /cannot be read: EISDIR/);
  assert.match((await problems(['--config', '/dev/zero'])).join(), /cannot be read: it is not a regular file/);
  const many = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`x${index}`, 1]));
  assert.equal((await problems([], { file: many })).at(-1), 'svc.config.json: 80 more problems');
});

test('options of a plugin are checked by what it declares, wherever they come from', async () => {
  const file = {
    plugin: { storage: './s.js' },
    'plugin-option': { storage: { url: 'file', pages: 20, mode: 'fast', eager: true } },
  };
  assert.deepEqual((await served([], { file })).sections, {
    'my-storage': { url: 'file', pages: 20, mode: 'fast', eager: true },
  });
  const { sections } = await served(['--plugin-option', 'storage.pages=30'], {
    file,
    environment: { STORAGE_URL: 'environment' },
  });
  assert.deepEqual(sections, { 'my-storage': { url: 'environment', pages: 30, mode: 'fast', eager: true } });
  assert.ok(Object.isFrozen(sections['my-storage']));
  const url = '--plugin-option=storage.url=postgres://u:hunter2@h/d?x=1';
  const given = await served(['--plugin=storage=./s.js', url], { environment: { STORAGE_URL: 'environment' } });
  assert.deepEqual(given.sections, {
    'my-storage': { url: 'postgres://u:hunter2@h/d?x=1', pages: 10, mode: 'safe', eager: false },
  });
});

test('options that are missing, unknown, of the wrong type, or nobody’s are refused', async () => {
  const plugin = '--plugin=storage=./s.js';
  assert.deepEqual(await problems([plugin]), [
    'the plugin needs --plugin-option storage.url=…, or STORAGE_URL in the environment',
  ]);
  assert.deepEqual(
    await problems([
      plugin,
      '--plugin-option=storage.url=',
      '--plugin-option=storage.pages=101',
      '--plugin-option=storage.mode=slow',
      '--plugin-option=storage.eager=1',
      '--plugin-option=storage.page=1',
      '--plugin-option=outcalls.x=1',
    ]),
    [
      '--plugin-option storage.url: the value is empty: give a TEXT, or leave it out',
      '--plugin-option storage.pages: 101 is out of range: give a whole number of pages from 1 to 100, in plain digits',
      "--plugin-option storage.mode: 'slow' is not one of safe, fast",
      "--plugin-option storage.eager: '1' is not one of true, false",
      "--plugin-option storage.page: plugin 'my-storage' has no option 'page': did you mean pages? (it has url, pages, mode, eager)",
      "--plugin-option outcalls.x: no plugin is loaded for 'outcalls' (loaded: storage): add --plugin outcalls=MODULE, or drop the option",
    ],
  );
  const file = { plugin: { storage: './s.js' }, 'plugin-option': { storage: { url: 'x', pages: 1.5 } } };
  assert.match(
    (await problems([], { file })).join(),
    /^svc\.config\.json:1:\d+ storage\.pages: '1\.5' is not a whole number/,
  );
  for (const [flag, said] of [
    ['--plugin=storage=', /'storage=' is not of the form CAPABILITY=MODULE/],
    ['--plugin=storage', /'storage' is not of the form CAPABILITY=MODULE/],
    ['--plugin-option=storage=1', /is not of the form CAPABILITY\.NAME=VALUE/],
  ] as const)
    assert.match((await problems([flag])).join(), said);
  assert.deepEqual(await problems(['--plugin=metrics=a', '--plugin=metrics=b']), [
    '--plugin metrics=… is given more than once: keep one',
  ]);
});

test('a plugin that wraps a part leaves the part its flags, and the part cannot be turned off beside it', async () => {
  const args = ['--plugin', 'outcalls=./around.js', '--outcalls-record', 'calls', '--outcalls-deny-private'];
  const { config } = await served(args);
  assert.deepEqual(config.outcalls, {
    denyPrivate: true,
    recordFile: join(directory, 'calls'),
    replayFile: undefined,
  });
  assert.deepEqual(await problems(['--plugin', 'outcalls=./around.js', '--no-outcalls']), [
    '--no-outcalls and --plugin outcalls=./around.js contradict each other: drop one of them',
  ]);
});

test('a durable storage from outside counts as --state, and what only the server’s own part reads contradicts it', async () => {
  const plugin = ['--plugin=storage=./s.js', '--plugin-option=storage.url=x'];
  const { config, restore } = await served([
    ...plugin,
    '--live-cap=5',
    '--live-bytes=9',
    '--snapshot-below=0',
    '--restore=a.backup',
  ]);
  assert.equal(config.storage.directory, undefined);
  assert.equal(config.scheduler.liveCap, 5);
  assert.deepEqual(restore, { file: join(directory, 'a.backup'), directory: undefined });
  const contradiction = "contradict each other: only the server's own storage reads it; drop one of them";
  assert.deepEqual(await problems([...plugin, '--state=s', '--fsync=off', '--no-storage']), [
    `--state and --plugin storage=./s.js ${contradiction}`,
    `--fsync and --plugin storage=./s.js ${contradiction}`,
    '--no-storage and --plugin storage=./s.js contradict each other: drop one of them',
  ]);
  assert.match(
    (await problems(['--plugin=outcalls=./o.js', '--outcalls-record=f'])).join(),
    /^--outcalls-record and --plugin outcalls=\.\/o\.js contradict/,
  );
  assert.match((await problems(['--plugin=outcalls=./o.js', '--live-cap=5'])).join(), /needs --state DIR/);
  assert.deepEqual(await problems(['--plugin=storage=./forward.js', '--restore=a.backup']), [
    "--restore: plugin 'forward-only' cannot restore backups: start without --restore",
  ]);
});

test('--print-config shows each value and where it comes from, and no secret', async () => {
  const file = {
    'live-cap': 7,
    plugin: { storage: './s.js' },
    'plugin-option': { storage: { pages: 20 } },
    metrics: false,
  };
  const request = await load(['--print-config', '--watch', '--plugin-option=storage.url=postgres://u:hunter2@h/d'], {
    file,
    environment: { SVC_TOKEN: 'hunter2', SVC_WASM_STACK: '100000' },
  });
  assert.ok(request.kind === 'print');
  const rows = new Map(
    request.text
      .trimEnd()
      .split('\n')
      .map((line) => line.split(/ {2,}/))
      .map(([name = '', ...rest]) => [name, rest]),
  );
  assert.deepEqual(rows.get('watch'), ['true', '--watch']);
  assert.deepEqual(rows.get('live-cap'), ['7', 'svc.config.json:1:13']);
  assert.deepEqual(rows.get('listen'), ['"127.0.0.1:7000"', 'default']);
  assert.deepEqual(rows.get('state'), ['-', 'default']);
  assert.deepEqual(rows.get('auth-token'), ['(secret)', 'SVC_TOKEN']);
  assert.deepEqual(rows.get('SVC_WASM_STACK'), ['100000', 'SVC_WASM_STACK']);
  assert.deepEqual(rows.get('plugin storage'), ['"./s.js"', 'svc.config.json:1:35']);
  assert.deepEqual(rows.get('plugin-option storage.url'), ['(secret)', '--plugin-option']);
  assert.deepEqual(rows.get('plugin-option storage.pages')?.[0], '20');
  assert.deepEqual(rows.get('plugin-option storage.mode'), ['"safe"', 'default']);
  assert.match(rows.get('metrics')?.join(' ') ?? '', /^false svc\.config\.json:1:/);
  assert.ok(!request.text.includes('hunter2'));
});

test('--print-config shows the agents that a website leaves', async () => {
  for (const [args, file, value, source] of [
    [[], {}, 'guarded', 'default'],
    [['--web=shop'], {}, 'off', 'default'],
    [[], { web: 'shop' }, 'off', 'default'],
    [['--web=shop', '--agents=guarded'], {}, 'guarded', '--agents'],
    [['--agents=open'], {}, 'open', '--agents'],
  ] as const) {
    const request = await load(['--print-config', ...args], { file });
    assert.ok(request.kind === 'print');
    assert.match(request.text, new RegExp(`^agents +"${value}" +${source}$`, 'm'), args.join(' '));
  }
});
