/** Flags whose part of the server is replaced or off: each is either obeyed, or refused with the reason. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { suite, test } from 'node:test';
import type { Flag } from '../../config/flag.ts';
import { FLAG_READERS, type FlagReader } from '../../config/flag-readers.ts';
import { flagsByName, variablesByName } from '../../config/flags.ts';
import { loadConfig, type Request } from '../../config/load.ts';
import type { ConfiguredPlugin } from '../../config/plugin-options.ts';
import type { PluginDefinition } from '../../plugins/api/definition.ts';
import { builtinPlugins } from '../../plugins/index.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const ROWS = Object.entries(FLAG_READERS);
const PARTS = builtinPlugins.map(({ name }) => name);
const OPTIONAL = builtinPlugins.filter(({ neededBecause }) => neededBecause === undefined).map(({ name }) => name);
const SETTINGS: ReadonlyMap<string, Flag<unknown>> = new Map([...flagsByName, ...variablesByName]);

/** The one flag whose file is read before anything starts. */
const TOKEN_FILE = join(await temporaryDirectory(), 'token');
await writeFile(TOKEN_FILE, 'token', { mode: 0o600 });
const KEY = 'a key of thirty-two characters, or more';
const KEY_FILE = join(await temporaryDirectory(), 'key');
await writeFile(KEY_FILE, KEY, { mode: 0o600 });

/** Returns a valid value of the flag other than its default. */
function anotherValueOf(name: string): string {
  const flag = SETTINGS.get(name) ?? assert.fail(name);
  if (name === 'auth-token-file') return TOKEN_FILE;
  if (name === 'cluster-key-file') return KEY_FILE;
  if (name === 'cluster-listen') return '127.0.0.1:0';
  if (name === 'agent-creators') return 'anonymous';
  if (name === 'profile') return 'flame.svg';
  const candidates = [
    '127.0.0.1:0',
    'off',
    'warn',
    'sqlite',
    '123456789',
    '77',
    '65536',
    'a=b',
    'a.b=c',
    '127.0.0.1',
    'unit:7',
    'guarded',
  ];
  const usable = candidates.find((text) => {
    try {
      const value = flag.parse(text);
      return value !== flag.defaultValue && (name === 'listen' || text !== '127.0.0.1:0');
    } catch {
      return false;
    }
  });
  return usable ?? assert.fail(`no value for ${name}`);
}

interface Setting {
  readonly argv: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

function settingOf(name: string): Setting {
  if (name === 'SVC_CLUSTER_KEY') return { argv: ['--cluster-listen=127.0.0.1:0'], environment: { [name]: KEY } };
  if (!flagsByName.has(name)) return { argv: [], environment: { [name]: anotherValueOf(name) } };
  const flag = flagsByName.get(name);
  const argv = flag?.placeholder === undefined ? [`--${name}`] : [`--${name}`, anotherValueOf(name)];
  // Flags for JWTs need each other.
  if (name.startsWith('jwt-')) {
    const group = {
      'jwt-issuer': 'https://a.example',
      'jwt-audience': 'a',
      'jwt-may': 'inspect',
      [name]: 'https://b.example',
    };
    return { argv: Object.entries(group).map(([each, value]) => `--${each}=${value}`), environment: {} };
  }
  // An address for other servers needs a key, and all else an address.
  if (name.startsWith('cluster-')) {
    const key = name === 'cluster-key-file' ? [] : [`--cluster-key-file=${KEY_FILE}`];
    const address = name === 'cluster-listen' ? [] : ['--cluster-listen=127.0.0.1:0'];
    return { argv: [...argv, ...key, ...address], environment: {} };
  }
  return { argv, environment: {} };
}

function load(argv: readonly string[], environment = {}, plugins: readonly ConfiguredPlugin[] = []): Promise<Request> {
  return loadConfig({
    argv: [...argv, ...plugins.flatMap(({ capability, module }) => ['--plugin', `${capability}=${module}`])],
    environment,
    pluginNames: PARTS,
    version: '0.1.0',
    build: 'dev',
    directory: '/srv',
    loadPlugins: async () => ({ loaded: plugins, problems: [] }),
  });
}

/** Some flags need a state directory, which external storages do not have. */
const baseOf = (name: string, part?: string): readonly string[] =>
  name === 'state' || part === 'storage' ? [] : ['--state', '/state'];

function inPlaceOf(part: string, wraps: boolean): ConfiguredPlugin {
  const definition = { name: 'mine', isDurable: part === 'storage', restore: () => undefined } as unknown;
  return { capability: part, module: './mine.js', definition: definition as PluginDefinition, replaces: part, wraps };
}

async function problemsOf(argv: readonly string[], environment = {}, plugins: readonly ConfiguredPlugin[] = []) {
  const request = await load(argv, environment, plugins);
  return request.kind === 'refused' ? request.problems : [];
}

suite('the part that reads a flag', () => {
  test('is one whose section changes with the flag; the program’s own change none', async () => {
    for (const [name, { part }] of ROWS) {
      const { argv, environment } = settingOf(name);
      const [before, after] = await Promise.all([load(baseOf(name)), load([...baseOf(name), ...argv], environment)]);
      assert.ok(before.kind === 'serve');
      if (after.kind !== 'serve') {
        // A command that asks for help, or for something that does not exist, starts no server.
        assert.equal(part, undefined, `${name}: ${JSON.stringify(after)}`);
        continue;
      }
      const sections = Object.keys(before.config) as (keyof typeof before.config)[];
      const changed = sections.filter((section) => {
        try {
          assert.deepEqual(after.config[section], before.config[section]);
          return false;
        } catch {
          return true;
        }
      });
      if (part === undefined) assert.deepEqual(changed, [], name);
      else
        assert.ok(changed.includes(part), `${name} is said to be read by ${part}, and changes ${changed.join(', ')}`);
    }
  });

  test('is replaced: the flag is refused with the reason; beside any other replaced part it is not', async () => {
    for (const [name, { part }] of ROWS) {
      const { argv, environment } = settingOf(name);
      if (part === undefined && (await load(argv, environment)).kind !== 'serve') continue;
      for (const other of PARTS) {
        const problems = await problemsOf([...baseOf(name, other), ...argv], environment, [inPlaceOf(other, false)]);
        const shown = flagsByName.has(name) ? `--${name}` : name;
        const told =
          `${shown} and --plugin ${other}=./mine.js contradict each other: ` +
          `only the server's own ${other} reads it; drop one of them`;
        assert.equal(problems.includes(told), other === part, `${name} beside ${other}: ${problems.join('; ')}`);
        const wrapped = await problemsOf([...baseOf(name, other), ...argv], environment, [inPlaceOf(other, true)]);
        assert.ok(!wrapped.some((problem) => problem.includes("only the server's own")), `${name}, wrapped`);
      }
    }
  });

  test('is off: the flag is refused with the reason, or is one that holds all the same', async () => {
    for (const [name, reader] of ROWS as readonly (readonly [string, FlagReader])[]) {
      const { argv, environment } = settingOf(name);
      if (reader.part === undefined && (await load(argv, environment)).kind !== 'serve') continue;
      for (const off of OPTIONAL) {
        const problems = await problemsOf([...baseOf(name, off), ...argv, `--no-${off}`], environment);
        const isRefused = problems.some((problem) => problem.includes(`and --no-${off} contradict each other`));
        const isRead = (reader.part === off && reader.holdsWhenOff !== true) || reader.needs === off;
        assert.equal(isRefused, isRead, `${name} with --no-${off}: ${problems.join('; ')}`);
      }
    }
  });

  test('needs members that an object may lack: they are known of each flag that is given, and of no other', async () => {
    const neededBy = async (...argv: readonly string[]) => {
      const request = await load(['--state', '/state', ...argv]);
      assert.ok(request.kind === 'serve');
      return request.needed.map(({ part, member, flag }) => `${flag}: ${part}.${member}`);
    };
    assert.deepEqual(await neededBy(), []);
    assert.deepEqual(await neededBy('--timeline=0', '--no-agent-certificates'), []);
    assert.deepEqual(await neededBy('--timeline=5', '--agent-certificates', '--tokens=tokens.json'), [
      '--tokens: auth.grantOf',
      '--tokens: auth.reread',
      '--agent-certificates: execution.certifiedBy',
      '--timeline: storage.actorUnits',
    ]);
    const keys = ['--jwt-issuer=https://a.example', '--jwt-audience=a', '--jwt-may=inspect', '--jwt-keys=keys.json'];
    assert.deepEqual(await neededBy(...keys), [
      '--jwt-issuer: auth.grantOf',
      '--jwt-issuer: auth.prove',
      '--jwt-keys: auth.reread',
    ]);
  });

  test('a part that is replaced and off at once is refused, and a switch that is off asks for nothing', async () => {
    assert.deepEqual(await problemsOf(['--no-metering'], {}, [inPlaceOf('metering', false)]), [
      '--no-metering and --plugin metering=./mine.js contradict each other: drop one of them',
    ]);
    assert.deepEqual(await problemsOf(['--no-outcalls-deny-private', '--no-outcalls']), []);
    assert.deepEqual(await problemsOf(['--no-outcalls-deny-private'], {}, [inPlaceOf('outcalls', false)]), []);
  });
});

suite('a real server', () => {
  const MAIN = resolve(import.meta.dirname, '../../config/svc.js');

  test('refuses --instruction-limit beside a metering of another’s, with exit code 2', async () => {
    const file = join(await temporaryDirectory(), 'free.mjs');
    const policy =
      '{ isEnabled: false, startingCycles: 1n, cyclesPerMessage: 0, cyclesPer10Instructions: 0, instructionLimit: 9 }';
    await writeFile(
      file,
      `import { definePlugin, Metering } from 'svc/plugin';
       export default definePlugin({ apiVersion: 1, name: 'free', provides: Metering, create: () => ({ policy: ${policy} }) });`,
    );
    const args = [MAIN, '--plugin', `metering=${file}`, '--instruction-limit', '5', '--listen', '127.0.0.1:0'];
    const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 120_000 });
    assert.equal(status, 2, stderr);
    assert.match(stderr, /^svc: --instruction-limit and --plugin metering=.* only the server's own metering reads it/);
  });

  test('does not start where a plugin that wraps a part hides what a flag needs of it; as around does it, it starts', async () => {
    const file = join(await temporaryDirectory(), 'plain.mjs');
    const definition = (made: string) =>
      `import { around, Auth, definePlugin } from 'svc/plugin';
       export default definePlugin({
         apiVersion: 1,
         name: 'plain',
         provides: Auth,
         requires: { own: Auth },
         create: ({ own }) => ${made},
       });`;
    const tokens = join(await temporaryDirectory(), 'tokens.json');
    await writeFile(tokens, '{}', { mode: 0o600 });
    // A manifest that is not there ends the start behind the plugins.
    const args = [
      MAIN,
      '--plugin',
      `auth=${file}`,
      '--tokens',
      tokens,
      '-m',
      '/nowhere.json',
      '--listen',
      '127.0.0.1:0',
    ];
    const start = () => spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 120_000 });
    await writeFile(file, definition('({ needsToken: true, allows: (header) => own.allows(header) })'));
    const hidden = start();
    assert.equal(hidden.status, 1, hidden.stderr);
    assert.match(hidden.stderr, /plugin 'plain' .* lacks grantOf, which --tokens needs of 'auth'/);
    await writeFile(file, definition('around(own, {})'));
    assert.match(start().stderr, /cannot start: .*nowhere\.json/);
  });
});
