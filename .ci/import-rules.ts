/**
 * The import table of ARCHITECTURE.md ("Rooms"), as rules; `boundaries.ts` runs them (`npm run check:boundaries`).
 * `always` applies to every import, `atRunTime` not to `import type`. Each comment says what to do instead.
 */
import type { IForbiddenRuleType } from 'dependency-cruiser';

/** Code that runs in a browser; the server knows only the file that is built from it. */
const PAGE = '^subsystems/inspector/page/';

/** The server's own plugins: files beside the rooms for plugins from outside. */
const BUILT_IN = '^plugins/[^/]+[.]ts$';

/** An example of a plugin from outside, shipped with the package. */
const POSTGRES = '^plugins/storage-postgres/';

/** Every third-party package has one owner: replacing it touches one place. */
const OWNERS: Readonly<Record<string, string>> = {
  awilix: '^kernel/registry[.]ts$',
  tsyringe: '^kernel/injection[.]ts$',
  'reflect-metadata': '^kernel/injection[.]ts$',
  '@fastify/busboy': '^subsystems/http/',
  fastify: '^subsystems/http/',
  '@dfinity/candid': '^subsystems/codec/',
  '@dfinity/principal': '^subsystems/codec/',
  motoko: '^subsystems/compiler/',
  'smol-toml': '^subsystems/compiler/mops/',
  '@noble/curves': '^subsystems/(management|certification)/',
  '@nxtedition/rocksdb': '^subsystems/storage/rocksdb-tables[.]ts$',
  jose: '^subsystems/auth/jwt/',
  pino: '^config/log-sink[.]ts$',
  'prom-client': '^subsystems/metrics/',
  undici: '^subsystems/(outcalls|cluster/link)/',
  preact: PAGE,
  pg: POSTGRES,
};

/** Faces of subsystems, and of folders inside them. */
const FACES = '^subsystems/[^/]+/index[.]ts$|^subsystems/[^/]+/[^/]+/index[.]ts$';

const TESTS = '^(test|benchmarks|[.]ci)/';

const owned = Object.entries(OWNERS).map(([name, owner]) => ({
  name: `${name.replaceAll(/[@/]/g, '-').replace(/^-/, '')}-has-one-owner`,
  comment: `The npm package ${name} is used in ${owner.replaceAll(/[\^$\\[\]]/g, '')} only: ask that place for what you need, through its face.`,
  from: { pathNot: [owner, TESTS] },
  to: { path: `^node_modules/${name}/` },
}));

/** Rules for every import. */
export const always: readonly IForbiddenRuleType[] = [
  {
    name: 'kernel-stands-alone',
    comment:
      'The kernel knows no subsystem, no plugin and no flag by name. Define a capability in the subsystem and let the plugin hand it over.',
    from: { path: '^kernel/' },
    to: { path: '^(subsystems|plugins|config)/' },
  },
  {
    name: 'kernel-has-one-face',
    comment: 'Import kernel/index.ts; only kernel/injection.ts is imported by its own name, by those who need it.',
    from: { pathNot: ['^kernel/', TESTS] },
    to: { path: '^kernel/', pathNot: '^kernel/(index|injection)[.]ts$' },
  },
  {
    name: 'subsystem-has-one-face',
    comment: "Import the other subsystem's index.ts; if it does not offer what you need, extend that face.",
    from: { path: '^subsystems/([^/]+)/' },
    to: { path: '^subsystems/[^/]+/', pathNot: ['^subsystems/$1/', FACES] },
  },
  {
    name: 'subsystem-is-not-wired',
    comment:
      'A subsystem does not know who wires or configures it: take what you need as an argument, and let the plugin pass it.',
    from: { path: '^subsystems/' },
    to: { path: '^(plugins|config)/' },
  },
  {
    name: 'plugin-wires-one-subsystem',
    comment: 'plugins/x.ts may use every file of subsystems/x, and only the index.ts of others.',
    from: { path: '^plugins/([^/]+)[.]ts$' },
    to: { path: '^subsystems/[^/]+/', pathNot: ['^subsystems/$1/', FACES] },
  },
  {
    name: 'plugin-is-thin',
    comment:
      'A plugin wires; it knows neither flags nor packages. Its configuration is the section it is handed, and packages belong to subsystems.',
    from: { path: BUILT_IN },
    to: { path: '^(config|node_modules)/' },
  },
  {
    name: 'plugins-do-not-know-each-other',
    comment: 'Require the capability instead; only plugins/index.ts lists plugins.',
    from: { path: BUILT_IN, pathNot: '^plugins/index[.]ts$' },
    to: { path: '^plugins/' },
  },
  {
    name: 'postgres-is-a-plugin-from-outside',
    comment:
      'plugins/storage-postgres proves what svc/plugin and svc/plugin/storage offer: it imports these two, and pg. What it lacks, others lack, too: extend the API.',
    from: { path: POSTGRES },
    to: {
      pathNot: [
        POSTGRES,
        '^plugins/api/(plugin|storage)[.]ts$',
        '^node_modules/(@types/)?pg/',
        '^node:',
        '^(crypto|os|timers/promises)$',
      ],
    },
  },
  {
    name: 'postgres-is-asked-for',
    comment: 'It is loaded by --plugin storage=svc/storage-postgres and knows nobody: nobody imports it.',
    from: { pathNot: [POSTGRES, TESTS] },
    to: { path: POSTGRES },
  },
  {
    name: 'api-is-made-of-faces',
    comment:
      'What plugins from outside are written with (plugins/api/) are faces and the kernel; only its storage.ts and contracts/ show what a storage, or a test of one, is made of.',
    from: { path: '^plugins/api/', pathNot: '^plugins/api/(storage[.]ts|contracts/)' },
    to: { path: '^(subsystems|plugins|config)/', pathNot: ['^plugins/api/', FACES] },
  },
  {
    name: 'api-knows-no-wiring',
    comment: 'The API is below whoever loads, wires and configures plugins.',
    from: { path: '^plugins/api/' },
    to: { path: '^(plugins|config)/', pathNot: '^plugins/api/' },
  },
  {
    name: 'loader-knows-faces-only',
    comment:
      'The loader judges plugins from outside by plugins/api/ and the faces; which plugins there are, it is told.',
    from: { path: '^plugins/loader/' },
    to: { path: '^(subsystems|plugins|config)/', pathNot: ['^plugins/(api|loader)/', FACES] },
  },
  {
    name: 'loader-and-api-are-asked-for',
    comment:
      'The server knows nothing of plugins from outside: only config/main.ts and config/make-kernel.ts load them, ' +
      'and config/ knows their types.',
    from: { path: ['^(kernel|subsystems)/', BUILT_IN] },
    to: { path: '^plugins/(api|loader)/' },
  },
  {
    name: 'log-and-flags-know-the-kernel-only',
    comment: 'The logger and the flags stand below every subsystem: hand them what they need as an argument.',
    from: { path: '^config/(log|parse-flags)[.]ts$' },
    to: { path: '^(subsystems|plugins)/' },
  },
  {
    name: 'nothing-imports-tests',
    comment: 'Move what both need into a room of the server.',
    from: { pathNot: TESTS },
    to: { path: TESTS },
  },
  {
    name: 'no-undeclared-packages',
    comment: 'Add the package to package.json, and its owner to OWNERS in this file.',
    // Benchmarks have a package.json of their own, for the servers they compare with.
    from: { pathNot: '^benchmarks/' },
    to: { dependencyTypes: ['npm-no-pkg', 'npm-unknown'] },
  },
  {
    name: 'no-package-without-owner',
    comment: 'Say in OWNERS in this file which place owns the package.',
    from: { pathNot: TESTS },
    to: {
      dependencyTypes: ['npm', 'npm-optional'],
      pathNot: [...Object.keys(OWNERS).map((name) => `^node_modules/${name}/`), '^node_modules/@types/'],
    },
  },
  {
    name: 'no-unresolvable',
    comment: 'There is no such file or package: imports name the file with its ending .ts.',
    from: { pathNot: '^benchmarks/macro/workerd/' },
    to: { couldNotResolve: true },
  },
  {
    name: 'ground-floor-imports-the-kernel-only',
    comment: 'ic, bytes and figures are what all rooms share: they stand on the kernel, and know no room above them.',
    from: { path: '^subsystems/(ic|bytes|figures)/' },
    to: { path: '^subsystems/', pathNot: '^subsystems/(ic|bytes|figures)/' },
  },
  {
    name: 'page-runs-in-the-browser',
    comment:
      "The inspector's page is bundled beforehand (npm run build:inspector): the server serves subsystems/inspector/page.html and imports nothing of what it is made of.",
    from: { pathNot: [PAGE, TESTS] },
    to: { path: PAGE },
  },
  {
    name: 'page-imports-nothing-of-the-server',
    comment: 'The page knows the server by its routes: what both need is asked for with HTTP.',
    from: { path: PAGE },
    to: { path: '^(kernel|subsystems|plugins|config)/', pathNot: PAGE },
  },
  {
    name: 'client-stands-alone',
    comment:
      'svc/client is one file for browsers and Node: it knows the server by its routes, and imports neither packages nor modules of Node.',
    from: { path: '^client/' },
    to: { pathNot: '^client/' },
  },
  {
    name: 'client-is-for-others',
    comment: 'Programs of others import svc/client; the server has no use for it.',
    from: { pathNot: ['^client/', TESTS] },
    to: { path: '^client/' },
  },
  {
    name: 'no-circles',
    comment:
      'Files that import each other, be it for types, cannot be read apart: move what both need into a third, or pass it as an argument.',
    from: {},
    to: { circular: true },
  },
  ...owned,
];

/** Rules for imports that load code. */
export const atRunTime: readonly IForbiddenRuleType[] = [
  {
    name: 'main-thread-runs-no-guest',
    comment:
      'execution/pool runs in the main thread, engine/, persistence/ and thread/ in executors and module workers: send a message (wire/).',
    from: { path: '^subsystems/execution/(pool/|index[.]ts$)' },
    to: { path: '^subsystems/execution/(thread|engine|persistence|memory)/', pathNot: '-budget[.]ts$' },
  },
  {
    name: 'executors-know-no-pool',
    comment: "What both sides need is in execution/wire; the pool is the main thread's.",
    from: { path: '^subsystems/execution/(wire|thread|engine|memory|persistence)/' },
    to: { path: '^subsystems/execution/pool/' },
  },
  {
    name: 'config-is-data',
    comment:
      'Only config/main.ts, config/make-kernel.ts, config/serve.ts, config/check.ts, config/capacity.ts and ' +
      'config/replay-file.ts compose the server (config/log.ts implements its Logger, ' +
      'config/parse-flags.ts and config/plugin-options.ts take suggestions from the kernel, ' +
      'config/config-file.ts reads JSON as the manifest does, config/agents.ts reads principals); ' +
      'the rest of config imports types at most.',
    from: {
      path: '^config/',
      pathNot:
        '^config/(main|make-kernel|serve|check|capacity|replay-file|log|agents|parse-flags|config-file|plugin-options)[.]ts$',
    },
    to: { path: '^(kernel|subsystems|plugins|api|loader)/' },
  },
  {
    name: 'no-development-packages',
    comment:
      'The server runs without devDependencies: move the package to dependencies in package.json, or do without it.',
    from: { pathNot: [PAGE, TESTS] },
    to: { dependencyTypes: ['npm-dev'], pathNot: '^node_modules/@types/' },
  },
];
