/**
 * `npm run package -- [--name @scope/name]`: builds, and packs what a server needs, under any name. The tarball is
 * whole: `npm publish FILE` sends it as it is. With `--create` it packs create-svc, whose projects ask for the server
 * by that name.
 *
 * The package is put together in a folder of its own, because the clone's package.json is not the package's: scripts
 * and development packages are left out, and so is every package that the bundle contains.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, globSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import packageJson from '../package.json' with { type: 'json' };

const ROOT = resolve(import.meta.dirname, '..');
const FILES = [
  'dist',
  'config/svc',
  'config/svc-network-launcher',
  'config/examples',
  'config/manifest.schema.json',
  'config/observability',
  'config/proxies',
  'config/systemd',
  'README.md',
  'CHANGELOG.md',
  'LICENSE',
];
/** Compiled examples: below `dist`, the server looks for them there. */
const EXAMPLES_BUILD = 'config/examples/build';
/** Name that npm accepts for a new package, as its own check has it. */
const NAME = /^(?:@[a-z0-9~-][a-z0-9._~-]*\/)?[a-z0-9~-][a-z0-9._~-]*$/;

const USAGE = `npm run package -- [--name NAME] [--to FOLDER] [--create]
  --name NAME    name of the package, such as @scope/svc; default: ${packageJson.name}
  --to FOLDER    folder for the tarball; default: this one
  --create       packs create-svc, whose projects ask for the server by that name
`;

await main();

async function main(): Promise<void> {
  let values;
  try {
    ({ values } = parseArgs({
      options: {
        name: { type: 'string', default: packageJson.name },
        to: { type: 'string', default: '.' },
        create: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    }));
  } catch (error) {
    refuse(`${(error as Error).message.split('. ', 1)[0]}\n${USAGE}`);
    return;
  }
  const { name, to, create, help } = values;
  if (help) process.stdout.write(USAGE);
  else if (NAME.test(name)) await (create ? packCreate : packServer)(name, resolve(to));
  else refuse(`--name ${name}: npm takes small letters, digits and - . _ ~, such as @scope/svc\n`);
}

function refuse(reason: string): void {
  process.stderr.write(reason);
  process.exitCode = 2;
}

async function packServer(name: string, directory: string): Promise<void> {
  run(process.execPath, [join(import.meta.dirname, 'build.ts')], ROOT);
  // The last is only for `npm run build`.
  const left = [EXAMPLES_BUILD, 'dist/.built-from'].map((path) => join(ROOT, path));
  const isWanted = (path: string): boolean => !left.includes(path);
  await pack(directory, async (folder) => {
    for (const file of FILES) cpSync(join(ROOT, file), join(folder, file), { recursive: true, filter: isWanted });
    // Projects of create-svc begin with the examples' sources, and --capacity measures the counter.
    cpSync(join(ROOT, EXAMPLES_BUILD), join(folder, 'dist', EXAMPLES_BUILD), { recursive: true });
    for (const file of globSync('docs/*.md', { cwd: ROOT })) cpSync(join(ROOT, file), join(folder, file));
    const { shellFiles } = await import('./shell-files.ts');
    for (const [path, text] of shellFiles(packageJson.version)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), text);
    }
    return manifestOf(name, folder);
  });
}

/** Packs create-svc: its templates get their sources from the examples. */
async function packCreate(name: string, directory: string): Promise<void> {
  const { version } = packageJson;
  await pack(directory, async (folder) => {
    // Leaves out what refuses `npm pack` and `npm publish` of the folder itself.
    const isWanted = (path: string): boolean => basename(path) !== '.npmrc';
    cpSync(join(ROOT, 'packages/create-svc'), folder, { recursive: true, filter: isWanted });
    cpSync(join(ROOT, 'LICENSE'), join(folder, 'LICENSE'));
    for (const template of readdirSync(join(folder, 'templates')))
      for (const file of globSync('*.mo', { cwd: join(ROOT, 'config/examples', template) }))
        cpSync(join(ROOT, 'config/examples', template, file), join(folder, 'templates', template, 'src', file));
    const text = readFileSync(join(folder, 'package.json'), 'utf8');
    const { publishConfig: _refusal, scripts: _scripts, ...manifest } = JSON.parse(text) as Record<string, unknown>;
    return { ...manifest, version, config: { server: `npm:${name}@^${version}` } };
  });
}

/** Packs a folder that `fill` has put together, with the package.json that it returns. */
async function pack(
  directory: string,
  fill: (folder: string) => Promise<Readonly<Record<string, unknown>>>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-package-'));
  try {
    writeFileSync(join(folder, 'package.json'), `${JSON.stringify(await fill(folder), undefined, 2)}\n`);
    run('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', directory], folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Returns the package's own package.json: dependencies are those that its files name. */
async function manifestOf(name: string, folder: string): Promise<Readonly<Record<string, unknown>>> {
  const { EXTERNAL } = await import('./build-bundle.ts');
  const { version, description, license, type, engines, bin, exports, optionalDependencies } = packageJson;
  const declarations = globSync('dist/**/*.d.ts', { cwd: folder }).map((file) =>
    readFileSync(join(folder, file), 'utf8'),
  );
  const isNeeded = (dependency: string): boolean =>
    EXTERNAL.includes(dependency) ||
    declarations.some((text) => text.includes(`from '${dependency}'`) || text.includes(`import '${dependency}'`));
  const dependencies = Object.fromEntries(Object.entries(packageJson.dependencies).filter(([each]) => isNeeded(each)));
  const kept = { version, description, license, type, engines, bin, man: ['share/man/svc.1'], exports };
  return { name, ...kept, dependencies, optionalDependencies };
}

function run(command: string, args: readonly string[], cwd: string): void {
  const { status, error } = spawnSync(command, args, { cwd, stdio: 'inherit' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${error?.message ?? `ended with code ${status}`}`);
}
