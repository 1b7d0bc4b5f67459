import assert from 'node:assert/strict';
import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { platform } from 'node:process';
import { test } from 'node:test';
import { splitAddress } from '../../config/listen.ts';
import { mopsPackages } from '../../config/cache-home.ts';
import type { ConfiguredPlugin } from '../../config/plugin-options.ts';
import { loadConfig, type LoadOptions, type Request } from '../../config/load.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

type Serve = Extract<Request, { kind: 'serve' }>;

function load(argv: readonly string[], options: Partial<LoadOptions> = {}): Promise<Request> {
  return loadConfig({
    argv,
    environment: {},
    pluginNames: ['auth', 'metering'],
    version: '0.1.0',
    build: 'dev',
    directory: '/srv',
    ...options,
  });
}

async function accepted(argv: readonly string[], options: Partial<LoadOptions> = {}): Promise<Serve> {
  const request = await load(argv, options);
  assert.ok(request.kind === 'serve', request.kind === 'refused' ? request.problems.join('\n') : request.kind);
  return request;
}

async function refused(argv: readonly string[], options: Partial<LoadOptions> = {}): Promise<string> {
  const request = await load(argv, options);
  assert.equal(request.kind, 'refused');
  return request.kind === 'refused' ? request.problems.join('\n') : '';
}

test('each plugin has its section, and nobody can change one', async () => {
  const { config, log } = await accepted([
    '-m',
    'actors/a.json',
    '-l',
    '127.0.0.1:0',
    '--cycles=7',
    '-v',
    '--memory-bytes',
    '1000000000',
    '--executors',
    '3',
  ]);
  assert.deepEqual(config.http, {
    host: '127.0.0.1',
    port: 0,
    version: '0.1.0',
    build: 'dev',
    web: undefined,
    siteHosts: false,
    browserGuard: undefined,
    refusesClaims: false,
    takesPathTokens: false,
    trustedProxies: [],
    accessLog: undefined,
    audit: undefined,
  });
  assert.deepEqual(config.metering, { isEnabled: true, startingCycles: 7n, instructionLimit: 40_000_000_000 });
  assert.deepEqual(config.execution, {
    executors: 3,
    wasmStackBytes: 4_194_304,
    cacheDirectory: undefined,
    sharedCacheDirectory: undefined,
    memoryBytes: 1_000_000_000,
  });
  assert.equal(config.manifest.file, resolve('/srv/actors/a.json'));
  assert.equal(config.canisters.forwardDebugOutput, true);
  assert.deepEqual(log, { isJson: false, isVerbose: true });
  assert.ok(Object.isFrozen(config) && Object.values(config).every(Object.isFrozen));
});

test('metering is off with --cycles 0 and with --no-metering', async () => {
  assert.equal((await accepted(['--cycles=0'])).config.metering.isEnabled, false);
  const { config, disabled } = await accepted(['--no-metering']);
  assert.equal(config.metering.isEnabled, false);
  assert.deepEqual([...disabled], ['metering']);
});

test('loopback needs no token, however it is written', async () => {
  for (const address of [
    '127.0.0.1:7000',
    '127.8.9.1:7000',
    'localhost:7000',
    '[::1]:7000',
    '[::ffff:127.0.0.1]:7000',
  ]) {
    const { config } = await accepted(['--listen', address]);
    assert.equal(config.auth.token, undefined);
  }
});

test('an address that others reach is refused without a token, with the reason and the ways out', async () => {
  for (const address of ['0.0.0.0:7000', '[::]:7000', '192.0.2.1:7000']) {
    const problem = await refused(['--listen', address]);
    assert.match(problem, /can be reached from other machines/);
    assert.match(problem, /SVC_TOKEN, --auth-token, --tokens or --jwt-issuer.*127\.0\.0\.1.*--insecure/);
    await accepted(['--listen', address, '--insecure']);
    await accepted(['--listen', address, '--auth-token=t']);
    await accepted(['--listen', address, '--tokens=tokens.json']);
    assert.match(await refused(['--listen', address, '--tokens=tokens.json', '--no-auth']), /--tokens and --no-auth/);
    await accepted(['--listen', address], { environment: { SVC_TOKEN: 't' } });
    assert.match(await refused(['--listen', address, '--no-auth']), /can be reached/);
  }
});

test('a name is loopback only if everything it resolves to is, and IPv4 is bound first', async () => {
  const lookup = async (host: string) =>
    host === 'both.test'
      ? [
          { address: '::1', family: 6 },
          { address: '127.0.0.1', family: 4 },
        ]
      : [
          { address: '127.0.0.1', family: 4 },
          { address: '198.51.100.7', family: 4 },
        ];
  assert.equal((await accepted(['-l', 'both.test:1'], { lookup })).config.http.host, '127.0.0.1');
  assert.match(await refused(['-l', 'mixed.test:1'], { lookup }), /can be reached/);
});

test('a host that does not resolve is refused by name', async () => {
  const lookup = () => Promise.reject(Object.assign(new Error('getaddrinfo'), { code: 'ENOTFOUND' }));
  assert.match(
    await refused(['-l', 'nowhere.test:1'], { lookup }),
    /^--listen: 'nowhere\.test' does not resolve to an address \(ENOTFOUND\)/,
  );
  // Node's own lookup throws for this one at once.
  assert.match(await refused(['-l', 'a\0b:1']), /^--listen: 'a\0b' does not resolve to an address/);
});

test('addresses of the wrong shape are refused with the right one', () => {
  for (const text of [
    '7000',
    ':7000',
    '::1:7000',
    '[::1]',
    '[::1]7000',
    '[localhost]:1',
    'a:b',
    'a:',
    'a:65536',
    'a:-1',
    'http://a:1',
    '',
    'a:1:2',
  ]) {
    assert.throws(() => splitAddress(text), /host:port|port: give a number/, text);
  }
  assert.deepEqual(splitAddress('[fe80::1]:0'), { host: 'fe80::1', port: 0 });
});

test('a token that no header can carry is refused without being shown', async () => {
  for (const token of [' secret', 'secret ', 'sec\nret', 'sécret', 'secret\u007f']) {
    const problem = await refused([`--auth-token=${token}`]);
    assert.match(problem, /^--auth-token holds a token that no HTTP header can carry/);
    assert.ok(!problem.includes('ret'));
  }
  assert.equal((await accepted(['--auth-token', 'two words'])).config.auth.token, 'two words');
});

test('a token and --no-auth contradict each other', async () => {
  assert.match(
    await refused(['--no-auth'], { environment: { SVC_TOKEN: 't' } }),
    /^SVC_TOKEN and --no-auth contradict/,
  );
});

test('websites and their guard are told to http; what --no-gateway takes away is refused', async () => {
  const lookup = async () => [{ address: '127.0.0.1', family: 4 }];
  const argv = ['--web', 'blog', '--site-hosts', '--browser-guard', '-l', 'actors.test:7000'];
  const { config } = await accepted(argv, { lookup });
  assert.equal(config.http.web, 'blog');
  assert.equal(config.http.siteHosts, true);
  assert.deepEqual(config.http.browserGuard, { names: ['127.0.0.1', 'actors.test'] });
  const options = { pluginNames: ['gateway'] };
  assert.match(await refused(['--no-gateway', '--web=x'], options), /^--web and --no-gateway contradict/);
  assert.match(await refused(['--no-gateway', '--site-hosts'], options), /^--site-hosts and --no-gateway contradict/);
  assert.equal((await accepted(['--no-gateway', '--no-site-hosts'], options)).disabled.has('gateway'), true);
});

test('whoever asks for help or the version gets it, whatever else stands there', async () => {
  assert.deepEqual(await load(['--help', '--frobnicate', '-l', 'x']), { kind: 'help', loaded: [], problems: [] });
  assert.deepEqual(await load(['--version', '--state', 'x']), { kind: 'version' });
});

test('--restore needs --state, and both become absolute paths', async () => {
  assert.match(await refused(['--restore', 'kept.backup']), /^--restore needs --state DIR: /);
  assert.equal((await accepted([])).restore, undefined);
  assert.equal((await accepted(['--state', 'kept'])).restore, undefined);
  assert.deepEqual((await accepted(['--state', 'kept', '--restore=../a.backup'])).restore, {
    file: resolve('/srv/../a.backup'),
    directory: resolve('/srv/kept'),
  });
});

test('flags of the state directory: what makes no sense is refused, and named', async () => {
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [['--live-cap', '-1'], /--live-cap/],
    [['--live-cap', '1e9'], /--live-cap/],
    [['--live-cap', '99999999999999999999'], /--live-cap/],
    [['--live-cap', 'two'], /--live-cap/],
    [['--live-cap='], /--live-cap/],
    [['--live-cap', '2.5'], /--live-cap/],
    [['--live-bytes', '-5'], /--live-bytes/],
    [['--live-bytes', '0x10'], /--live-bytes/],
    [['--snapshot-below', '-1'], /--snapshot-below/],
    [['--snapshot-below', 'all'], /--snapshot-below/],
    [['--snapshot-below', '99999999999999999999'], /--snapshot-below/],
    [['--fsync', 'sometimes'], /--fsync.*always/],
    [['--replay-budget-secs', '0'], /--replay-budget-secs/],
  ];
  for (const [argv, message] of cases) assert.match(await refused(['--state', 'kept', ...argv]), message);
  for (const [flag, value] of Object.entries({
    'live-cap': '2',
    'live-bytes': '2',
    fsync: 'off',
  })) {
    assert.match(await refused([`--${flag}`, value]), new RegExp(`--${flag} needs --state DIR`));
    await accepted(['--state', 'kept', `--${flag}`, value]);
  }
});

test('a flag of a service on several machines is refused where there is one, also with its default', async () => {
  for (const flag of ['--cluster-processes=4', '--cluster-spares=1'])
    assert.equal(
      await refused([flag]),
      `${flag.slice(0, -2)} does nothing without --cluster-listen: add that, or drop it`,
    );
  assert.match(await refused(['--cluster-key-file=key']), /a key of the cluster does nothing without --cluster-listen/);
});

test('principals of --agent-creators are warned of where no agent creates anything', async () => {
  const told = '--agent-creators names principals, who may create canisters with --agents open alone';
  const warnings = async (...argv: readonly string[]): Promise<readonly string[]> => (await accepted(argv)).warnings;
  const principal = 'rrkah-fqaaa-aaaaa-aaaaq-cai';
  assert.deepEqual(await warnings('--agents', 'guarded', '--agent-creators', principal), [told]);
  assert.deepEqual(await warnings('--agents', 'open', '--auth-token', 't', '--agent-creators', principal), []);
  assert.deepEqual(await warnings('--agents', 'guarded', '--agent-creators', 'anonymous'), []);
  assert.deepEqual(await warnings('--agents', 'guarded', '--agent-creators', `anonymous,${principal}`), [told]);
});

test('beside a storage that is not durable a refused flag names the plugin', async () => {
  const definition = { name: 'mine' };
  const plugin = { capability: 'storage', module: './mine.js', definition, replaces: 'storage' };
  const withStorage = (wraps: boolean): Partial<LoadOptions> => ({
    loadPlugins: async () => ({ loaded: [{ ...plugin, wraps } as unknown as ConfiguredPlugin], problems: [] }),
  });
  const argv = ['--plugin', 'storage=./mine.js', '--live-cap', '5'];
  assert.match(await refused(argv, withStorage(false)), /^--live-cap: plugin 'mine' is the storage and .*isDurable/);
  assert.match(await refused(argv, withStorage(true)), /^--live-cap needs --state DIR/);
});

test('a flag of the contract that has no effect beside the others is warned of, and the server starts', async () => {
  const options = { pluginNames: ['outcalls', 'storage'] };
  const warned = async (argv: readonly string[]) => (await accepted(argv, options)).warnings;
  const all = ['--snapshot-below=0', '--outcall-timeout-secs=5'];
  assert.deepEqual(await warned([...all, '--no-outcalls']), [
    '--snapshot-below has no effect without --state DIR: everything lives in memory',
    '--outcall-timeout-secs has no effect beside --no-outcalls: every outcall is refused',
  ]);
  assert.deepEqual(await warned([...all, '--state=kept']), []);
  assert.deepEqual(await warned([...all, '--state=kept', '--replay-budget-secs=9']), [
    '--replay-budget-secs has no effect beside --snapshot-below 0: only the log is kept',
  ]);
  assert.deepEqual(await warned(['--state=kept', '--replay-budget-secs=9']), []);
  assert.deepEqual(await warned(['--no-outcalls']), []);
  assert.deepEqual(await warned(['--outcalls-deny-private', '--outcalls-replay=calls.jsonl']), [
    '--outcalls-deny-private has no effect beside --outcalls-replay: nothing is sent',
  ]);
  assert.deepEqual(await warned(['--outcalls-deny-private', '--outcalls-record=calls.jsonl']), []);
  for (const token of ['--auth-token=t', '--tokens=tokens.json'])
    assert.deepEqual(await warned(['--browser-guard', token]), [
      '--browser-guard has no effect where requests need a token: no page of another site has it',
    ]);
  assert.deepEqual(await warned(['--browser-guard']), []);
  assert.match(await refused(['--no-outcalls', '--outcalls-deny-private'], options), /contradict/);
});

test('a variable that is nearly one of the server or of a plugin is warned of; of unlike ones nobody speaks', async () => {
  const definition = { name: 'mine', options: { url: { type: 'text', summary: '', variable: 'SVC_STORE_URL' } } };
  const plugin = { capability: 'mine', module: './mine.js', definition, replaces: undefined, wraps: false };
  const loadPlugins = async () => ({ loaded: [plugin as unknown as ConfiguredPlugin], problems: [] });
  const environment = {
    SVC_TOKNE: 'a',
    SVC_TOKEN_FIEL: 'a',
    svc_bin: 'moc',
    SVC_WASM: '65536',
    SVC_STORE_URI: 'x',
    // Kubernetes sets these for a service of that name; others are of the client, and of scripts.
    SVC_PORT: 'tcp://10.0.0.1:80',
    SVC_SERVICE_HOST: '10.0.0.1',
    SVC_URL: 'http://127.0.0.1:7000',
    SVC_FLAGS: '',
    SVC_STATE: 'state',
    TOKEN: 'a',
  };
  const { warnings } = await accepted(['--plugin', 'mine=./mine.js'], { environment, loadPlugins });
  const slips = [
    ['SVC_TOKNE', 'SVC_TOKEN'],
    ['SVC_TOKEN_FIEL', 'SVC_TOKEN_FILE'],
    ['svc_bin', 'SVC_BIN'],
    ['SVC_WASM', 'SVC_WASM_STACK'],
    ['SVC_STORE_URI', 'SVC_STORE_URL'],
  ];
  const told = slips.map(
    ([slip, meant]) => `the variable ${slip} has no effect, since nothing reads it: did you mean ${meant}?`,
  );
  assert.deepEqual(warnings, told);
  const exact = { SVC_WASM_STACK: '65536', SVC_STORE_URL: 'x' };
  const fine = await accepted(['--plugin', 'mine=./mine.js'], { environment: exact, loadPlugins });
  assert.deepEqual(fine.warnings, []);
});

test('a compiler that cannot be run is warned of at the start, and so is a moc beside the server', async () => {
  const directory = await temporaryDirectory();
  const at = (name: string): string => join(directory, name);
  for (const name of ['fine', 'plain', 'moc']) await writeFile(at(name), '#!/bin/sh\n');
  await writeFile(at('empty'), '');
  await mkdir(at('folder'));
  await symlink('gone', at('link'));
  await chmod(at('fine'), 0o755);
  const warned = async (SVC_BIN: string): Promise<readonly string[]> =>
    (await accepted([], { environment: { SVC_BIN }, directory })).warnings;
  assert.deepEqual(await warned('fine'), []);
  for (const [name, fault] of [
    ['gone', 'is not there'],
    ['link', 'is not there'],
    ['fine/moc', 'is not there'],
    ['folder', 'is a folder'],
    ['empty', 'is empty'],
    ['plain', 'may not be run by this process'],
  ] as const) {
    const [warning = '', ...others] = await warned(name);
    assert.deepEqual(others, []);
    assert.ok(warning.startsWith(`SVC_BIN (${at(name)}) ${fault}: let it name a Motoko compiler (moc), or unset it; `));
  }
  const beside = await accepted([], { root: directory });
  assert.match(
    beside.warnings.join(),
    /^the moc beside the server \(.*\/moc\) may not be run by this process: chmod \+x/u,
  );
  await chmod(at('moc'), 0o755);
  assert.deepEqual((await accepted([], { root: directory })).warnings, []);
});

test("the cache of mops is where mops has it: by system, XDG_CACHE_HOME, and the network's name", () => {
  const HOME = '/users/ada';
  for (const [environment, system, folder] of [
    [{ HOME }, 'linux', '/users/ada/.cache/mops/packages'],
    [{ HOME }, 'darwin', '/users/ada/Library/Caches/mops/packages'],
    [{ HOME, XDG_CACHE_HOME: '/cache' }, 'darwin', '/cache/mops/packages'],
    [{ HOME, XDG_CACHE_HOME: 'cache' }, 'linux', '/users/ada/.cache/mops/packages'],
    [{ HOME, MOPS_NETWORK: 'ic' }, 'linux', '/users/ada/.cache/mops/packages'],
    [{ HOME, MOPS_NETWORK: 'local' }, 'linux', '/users/ada/.cache/mops/local/packages'],
    [{ HOME, MOPS_NETWORK: '../..' }, 'linux', undefined],
    [{}, 'linux', undefined],
  ] as const)
    assert.equal(mopsPackages(environment, system), folder);
});

test('the project is told to mops-closure as an absolute path, the cache of mops to the compiler', async () => {
  const options = { pluginNames: ['mops-closure'] };
  const environment = { HOME: '/users/ada', MOPS_ENV: 'test' };
  const { config } = await accepted(['--project=shop'], { ...options, environment });
  assert.equal(config['mops-closure'].project, resolve('/srv', 'shop'));
  assert.deepEqual(config.compiler.mops, { stores: [mopsPackages(environment, platform)], environment: 'test' });
  const elsewhere = await accepted([], { environment: { XDG_CACHE_HOME: '/cache' } });
  assert.deepEqual(elsewhere.config.compiler.mops, { stores: ['/cache/mops/packages'], environment: 'local' });
  assert.equal((await accepted([], options)).config['mops-closure'].project, undefined);
  assert.match(
    await refused(['--no-mops-closure', '--project=shop'], options),
    /^--project and --no-mops-closure contradict/,
  );
});

test('proxies that are trusted and the file for requests reach the HTTP section', async () => {
  const { config } = await accepted(['--trust-proxy', '127.0.0.1,10.0.0.0/8', '--access-log', 'logs/access.log']);
  assert.deepEqual(config.http.trustedProxies, [
    { address: '127.0.0.1', prefix: 32 },
    { address: '10.0.0.0', prefix: 8 },
  ]);
  assert.equal(config.http.accessLog, resolve('/srv/logs/access.log'));
  assert.match(await refused(['--trust-proxy', 'nginx']), /--trust-proxy: 'nginx' is not an IP address or range/);
});
