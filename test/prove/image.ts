/**
 * The image of `Dockerfile`: `npm run prove -- image [KILLS]`. It is built by buildah on a root of Debian's packages,
 * from the package that `npm run package` makes, and run by runc as docker would run it with a read-only root: as its
 * own user, without any right, with a volume, a token in a file, and SIGTERM to its process 1. Then what goes wrong:
 * a volume that cannot be written, 64 MiB of memory, a clock in 1970, no token.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, cpSync, globSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import packageJson from '../../package.json' with { type: 'json' };
import { makeDebianRoot } from '../support/debian-root.ts';
import { freePort } from '../support/free-port.ts';
import { compileCounter } from '../support/motoko.ts';
import { INSTALL, packServer, plainEnvironment } from '../support/packages.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/** Commands that this needs, with the Debian package of each. */
const COMMANDS = [
  ['mmdebstrap', 'mmdebstrap'],
  ['buildah', 'buildah'],
  ['runc', 'runc'],
  ['faketime', 'faketime'],
] as const;
const ROOT = resolve(import.meta.dirname, '../..');
const MIB = 2 ** 20;
const COMPRESSED_BYTES_MAX = 150e6;
const UNPACKED_BYTES_MAX = 400e6;
const USER = 65_532;
const TOKEN = 'sesame';
const KILLS = Number(process.argv[2] ?? 3);
const CLIENTS = 4;
/** Time in which a container serves, or ends with a reason. */
const START_MS_MAX = 60_000;

interface ImageConfig {
  readonly User: string;
  readonly Env: readonly string[];
  readonly Entrypoint: readonly string[];
  readonly WorkingDir: string;
  readonly Volumes: Readonly<Record<string, unknown>>;
  readonly Labels: Readonly<Record<string, string>>;
  readonly Healthcheck: { readonly Test: readonly string[] };
}

interface Settings {
  /** The volume's folder. */
  readonly state: string;
  readonly memoryBytes?: number;
  readonly environment?: readonly string[];
  /** True if the container gets no token. */
  readonly isOpen?: boolean;
}

interface Container {
  readonly origin: string;
  readonly printed: () => string;
  /** Resolves to the exit code, when the container has ended. */
  readonly ended: Promise<number | null>;
  /** Runs a command in the container; returns its exit code. */
  run(command: readonly string[]): number | null;
  signal(name: 'TERM' | 'KILL'): void;
}

const missing = COMMANDS.filter(([command]) => spawnSync('which', [command]).status !== 0);
assert.deepEqual(missing, [], `install ${missing.map(([, name]) => name).join(', ')} (apt-get install)`);
const work = await temporaryDirectory();
const storage = ['--root', join(work, 'storage'), '--runroot', join(work, 'run')];
let containers = 0;
try {
  const config = await build();
  const rootfs = buildah('mount', buildah('from', '--pull-never', 'svc-image'));
  measure(rootfs);
  await provideApp();
  await proveService(rootfs, config);
  await proveFaults(rootfs, config);
} finally {
  for (const args of [
    ['rm', '--all'],
    ['rmi', '--all', '--force'],
  ])
    spawnSync('buildah', [...storage, ...args]);
}

function say(line: string): void {
  process.stdout.write(`  ${line}\n`);
}

/** Runs buildah on a storage of its own; returns what it printed. */
function buildah(...args: readonly string[]): string {
  const options = { encoding: 'utf8', maxBuffer: 16 * MIB } as const;
  const { status, stdout, stderr } = spawnSync('buildah', [...storage, ...args], options);
  assert.equal(status, 0, `buildah ${args.join(' ')}:\n${stdout}\n${stderr}`);
  return stdout.trim();
}

/** Builds the image `svc-image` as the Dockerfile says, on bases of this machine's packages. */
async function build(): Promise<ImageConfig> {
  const root = join(work, 'base.tar');
  const suite = makeDebianRoot({ target: root, packages: ['libstdc++6', 'libatomic1'], variant: 'essential' });
  const base = buildah('from', 'scratch');
  buildah('add', base, root, '/');
  buildah('config', '--env', 'PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin', base);
  buildah('commit', base, 'svc-base');
  const npm = resolve(
    execFileSync('readlink', ['-f', execFileSync('which', ['npm']).toString().trim()]).toString(),
    '../..',
  );
  buildah('copy', base, process.execPath, '/usr/local/bin/node');
  buildah('copy', base, npm, '/usr/local/lib/node_modules/npm');
  buildah(
    'run',
    '--isolation',
    'chroot',
    base,
    '--',
    'ln',
    '-s',
    '../lib/node_modules/npm/bin/npm-cli.js',
    '/usr/local/bin/npm',
  );
  buildah('commit', base, 'svc-npm');
  say(`a base of Debian ${suite}: ${megabytes(statSync(root).size)}`);

  const context = join(work, 'context');
  mkdirSync(context);
  const tarball = await packServer(context);
  for (const name of ['Dockerfile', '.dockerignore']) cpSync(join(ROOT, name), join(context, name));
  // Fills npm's cache, so that the build has no use for the network.
  const warm = join(work, 'warm');
  mkdirSync(warm);
  execFileSync('npm', [...INSTALL, '--omit=dev', tarball], { cwd: warm, env: plainEnvironment(), stdio: 'pipe' });
  const [cache, registry] = ['cache', 'registry'].map((key) =>
    execFileSync('npm', ['config', 'get', key], { encoding: 'utf8', env: plainEnvironment() }).trim(),
  );
  const given = {
    BASE: 'localhost/svc-base',
    NPM: 'localhost/svc-npm',
    NPM_FLAGS: `--offline --cache=/cache --registry=${registry}`,
  };
  const args = Object.entries(given).flatMap(([name, value]) => ['--build-arg', `${name}=${value}`]);
  const how = ['--isolation', 'chroot', '--format', 'docker', '--pull-never', '--volume', `${cache}:/cache`];
  buildah('bud', ...how, ...args, '-t', 'svc-image', context);
  const { Docker } = JSON.parse(buildah('inspect', '--type', 'image', 'svc-image')) as {
    readonly Docker: { readonly config: ImageConfig };
  };
  const { config } = Docker;
  assert.equal(config.User, `${USER}:${USER}`);
  assert.deepEqual(Object.keys(config.Volumes), ['/state']);
  assert.equal(config.Labels['org.opencontainers.image.version'], packageJson.version);
  return config;
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1e6)} MB`;
}

/** Prints the image's sizes: as a registry sends it, and unpacked. */
function measure(rootfs: string): void {
  const pushed = join(work, 'pushed');
  buildah('push', 'svc-image', `oci:${pushed}:latest`);
  const compressed = globSync('blobs/sha256/*', { cwd: pushed }).reduce(
    (sum, file) => sum + statSync(join(pushed, file)).size,
    0,
  );
  const unpacked = Number(execFileSync('du', ['-sb', rootfs], { encoding: 'utf8' }).split('\t')[0]);
  say(`the image has ${megabytes(compressed)} compressed, ${megabytes(unpacked)} unpacked`);
  assert.ok(compressed <= COMPRESSED_BYTES_MAX && unpacked <= UNPACKED_BYTES_MAX);
  assert.ok(compressed > 50e6 && unpacked > 200e6, 'they are the sizes of something else');
}

/** Writes what is mounted: the actors, and the token as secrets are. */
async function provideApp(): Promise<void> {
  mkdirSync(join(work, 'app'));
  writeFileSync(join(work, 'app/counter.wasm'), await compileCounter());
  writeFileSync(join(work, 'app/actors.json'), '{ "actors": { "counter": { "wasm": "counter.wasm" } } }');
  writeFileSync(join(work, 'token'), `${TOKEN}\n`, { mode: 0o444 });
}

function volume(name: string, owner = USER, mode = 0o700): string {
  const directory = join(work, name);
  mkdirSync(directory);
  chmodSync(directory, mode);
  chownSync(directory, owner, owner);
  return directory;
}

/** Starts a container, with its port on this machine's own 127.0.0.1. */
async function start(rootfs: string, config: ImageConfig, settings: Settings): Promise<Container> {
  const { state, memoryBytes, environment = [], isOpen = false } = settings;
  const id = `svc-prove-${process.pid}-${++containers}`;
  const bundle = join(work, id);
  mkdirSync(bundle);
  execFileSync('runc', ['spec'], { cwd: bundle });
  const port = await freePort();
  const spec = JSON.parse(readFileSync(join(bundle, 'config.json'), 'utf8')) as {
    readonly mounts: readonly unknown[];
    readonly linux: { readonly namespaces: readonly { readonly type: string }[] };
  };
  const bind = (source: string, destination: string, ...options: readonly string[]) => ({
    destination,
    source,
    type: 'bind',
    options: ['bind', ...options],
  });
  const memory = memoryBytes === undefined ? {} : { memory: { limit: memoryBytes, swap: memoryBytes } };
  const made = {
    ...spec,
    root: { path: rootfs, readonly: true },
    process: {
      user: { uid: USER, gid: USER },
      args: config.Entrypoint.map((word) => word.replace('0.0.0.0:7000', `127.0.0.1:${port}`)),
      env: [...config.Env, ...environment],
      cwd: config.WorkingDir,
      noNewPrivileges: true,
      capabilities: {},
      rlimits: [{ type: 'RLIMIT_NOFILE', hard: 20_000, soft: 20_000 }],
    },
    mounts: [
      // The control groups are among them, where the server finds its limit.
      ...spec.mounts,
      { destination: '/tmp', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'nodev', 'mode=1777', 'size=64m'] },
      bind(state, '/state', 'rw'),
      bind(join(work, 'app'), '/app', 'ro'),
      ...(isOpen ? [] : [bind(join(work, 'token'), '/run/secrets/token', 'ro')]),
      ...globSync('/usr/lib/*/faketime/libfaketime.so.1')
        .map((path) => bind(path, '/opt/libfaketime.so.1', 'ro'))
        .slice(0, environment.length > 0 ? 1 : 0),
    ],
    linux: {
      ...spec.linux,
      namespaces: spec.linux.namespaces.filter(({ type }) => type !== 'network'),
      resources: { ...memory },
    },
  };
  writeFileSync(join(bundle, 'config.json'), JSON.stringify(made));
  const child = spawn('runc', ['run', '--bundle', bundle, id], { stdio: ['ignore', 'pipe', 'pipe'] });
  let printed = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (printed += text));
  const ended = once(child, 'close').then(([code]) => code as number | null);
  return {
    origin: `http://127.0.0.1:${port}`,
    printed: () => printed,
    ended,
    run: (command) => spawnSync('runc', ['exec', id, ...command]).status,
    signal: (name) => void execFileSync('runc', ['kill', id, name]),
  };
}

/** Resolves when the container's server is ready; rejects if the container ends, or takes too long. */
async function ready({ printed, ended }: Container): Promise<void> {
  let isOver = false;
  void ended.then(() => (isOver = true));
  for (const deadline = Date.now() + START_MS_MAX; !/^ready: /m.test(printed()); await sleep(50))
    assert.ok(!isOver && Date.now() < deadline, `the container is not ready:\n${printed()}`);
}

async function increment({ origin }: Container, token = TOKEN): Promise<string> {
  const headers = { authorization: `Bearer ${token}` };
  const response = await fetch(`${origin}/call-json/counter/inc`, { method: 'POST', body: '[]', headers });
  return `${response.status} ${await response.text()}`;
}

/** Resolves to the exit code of a container that has to end by itself; one that hangs is ended, and fails. */
async function endOf(container: Container): Promise<number | null> {
  const end = await Promise.race([container.ended, sleep(START_MS_MAX, 'hangs' as const, { ref: false })]);
  if (end !== 'hangs') return end;
  container.signal('KILL');
  throw new Error(`the container neither serves nor ends:\n${container.printed()}`);
}

async function proveService(rootfs: string, config: ImageConfig): Promise<void> {
  const state = volume('state');
  const first = await start(rootfs, config, { state });
  await ready(first);
  assert.match(await increment(first, 'wrong'), /^401 /);
  assert.equal(await increment(first), '200 [1]');
  const port = new URL(first.origin).port;
  const [kind, ...check] = config.Healthcheck.Test.map((word) => word.replace(':7000/', `:${port}/`));
  assert.deepEqual([kind, first.run(check)], ['CMD', 0]);
  assert.equal(first.run(check.map((word) => word.replace(`:${port}/`, ':1/'))), 1);
  assert.notEqual(first.run(['touch', '/app/x']), 0);
  assert.notEqual(first.run(['touch', '/opt/svc/x']), 0);
  say('a container without rights, on a read-only root, serves and is healthy');

  let [running, answered] = [first, 1];
  for (let kill = 1; kill <= KILLS; kill++) {
    const clients = Array.from({ length: CLIENTS }, async () => {
      let highest = 0;
      for (;;) {
        const answer = await increment(running).catch(() => undefined);
        if (answer === undefined) return highest;
        highest = Number(/^200 \[(\d+)\]$/.exec(answer)?.[1] ?? assert.fail(answer));
      }
    });
    await sleep(500);
    running.signal('KILL');
    assert.equal(await running.ended, 137);
    const before = Math.max(answered, ...(await Promise.all(clients)));
    running = await start(rootfs, config, { state });
    await ready(running);
    answered = Number(/^200 \[(\d+)\]$/.exec(await increment(running))?.[1]);
    // Kept without an answer: what was under way at the kill.
    assert.ok(
      answered > before && answered <= before + 1 + CLIENTS,
      `${before} were answered, and ${answered} is next`,
    );
  }
  say(`killed ${KILLS} times, it has lost none of ${answered} increments`);
  running.signal('TERM');
  assert.equal(await endOf(running), 0, running.printed());
  assert.match(running.printed(), /^shutdown: 1 actor\(s\) checkpointed$/m);
  say('SIGTERM to its process 1 stops it in order');
}

async function proveFaults(rootfs: string, config: ImageConfig): Promise<void> {
  for (const mode of [0o755, 0o700]) {
    const unwritable = await start(rootfs, config, { state: volume(`unwritable-${mode}`, 0, mode) });
    assert.equal(await endOf(unwritable), 1);
    say(`a volume that belongs to another user, ${mode.toString(8)}: ${lastLineOf(unwritable)}`);
    assert.match(unwritable.printed(), /\/state\S* cannot be (?:written|read): .*EACCES/);
  }

  const open = await start(rootfs, config, { state: volume('open'), isOpen: true });
  assert.notEqual(await endOf(open), 0);
  say(`no token: ${lastLineOf(open)}`);
  assert.match(open.printed(), /\/run\/secrets\/token/);

  // Serving is fine, and so is being ended by the system, if the log has said why.
  const small = await start(rootfs, config, { state: volume('small'), memoryBytes: 64 * MIB });
  const serving = ready(small).then(() => 'serves');
  const how = await Promise.race([serving, endOf(small).then((code) => `ends with ${code}`)]);
  serving.catch(() => undefined);
  assert.match(small.printed(), /warning: 64 MiB of memory may be used here, .* raise the limit of the container/);
  assert.match(how, /^(?:serves|ends with 137)$/);
  say(`64 MiB of memory: the log says that it is too little, and the server ${how}`);
  if (how === 'serves') small.signal('KILL');

  const environment = [
    'LD_PRELOAD=/opt/libfaketime.so.1',
    'FAKETIME=@1970-01-02 00:00:00',
    'FAKETIME_DONT_FAKE_MONOTONIC=1',
  ];
  const early = await start(rootfs, config, { state: volume('early'), environment });
  await ready(early);
  assert.equal(await increment(early), '200 [1]');
  assert.equal(await increment(early), '200 [2]');
  early.signal('TERM');
  assert.equal(await endOf(early), 0, early.printed());
  say('a clock in 1970: it serves');
}

function lastLineOf({ printed }: Container): string {
  return printed().trim().split('\n').at(-1) ?? '';
}
