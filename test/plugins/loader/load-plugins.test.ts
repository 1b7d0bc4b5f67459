import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { before, test } from 'node:test';
import { composePlugins, loadPlugins, type PluginsFound } from '../../../plugins/loader/index.ts';
import { OWN_MODULES } from '../../../plugins/loader/own-modules.ts';
import { builtinPlugins } from '../../../plugins/index.ts';
import packageJson from '../../../package.json' with { type: 'json' };
import { temporaryDirectory } from '../../support/temporary-directory.ts';

let directory = '';
before(async () => {
  directory = await temporaryDirectory();
});

const HEAD = "import { definePlugin, defineCapability, face, Outcalls, Storage, Logger } from 'svc/plugin';\n";
const GOOD =
  "apiVersion: 1, name: 'mine', provides: Outcalls, create: () => ({ send: () => Promise.reject(new Error('no')) })";

async function write(file: string, source: string): Promise<void> {
  const path = join(directory, file);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, source);
}

function load(capability: string, module: string, loadDeadlineMs = 10_000): Promise<PluginsFound> {
  return loadPlugins([{ capability, module }], { directory, builtin: builtinPlugins, loadDeadlineMs });
}

let modules = 0;
/** Returns the reason why a module with that source cannot be used, without the common beginning of the messages. */
async function refusal(source: string, capability = 'outcalls', loadDeadlineMs?: number): Promise<string> {
  const file = `module-${++modules}.mjs`;
  await write(file, HEAD + source);
  const { loaded, problems } = await load(capability, `./${file}`, loadDeadlineMs);
  assert.deepEqual(loaded.length, problems.length === 0 ? 1 : loaded.length);
  const start = `plugin ${capability}=./${file}: `;
  assert.ok(problems.length > 0, 'it was not refused');
  const path = join(directory, file);
  return problems
    .map((problem) => {
      assert.ok(problem.startsWith(start), problem);
      assert.ok(problem.includes(path), `names the file: ${problem}`);
      return problem.slice(start.length).replaceAll(path, 'FILE');
    })
    .join('\n');
}

test('a plugin is a module that exports it, under any name, or a function that returns it', async () => {
  await write('object.mjs', `${HEAD}export default definePlugin({ ${GOOD} });`);
  await write(
    'named.mjs',
    `${HEAD}export const something = 1; export const plugin = definePlugin({ ${GOOD} }); export default plugin;`,
  );
  await write('function.mjs', `export default ({ definePlugin, Outcalls }) => definePlugin({ ${GOOD} });`);
  await write('later.mjs', `export default async ({ Outcalls }) => ({ ${GOOD} });`);
  await write(
    'typed.ts',
    `${HEAD}const version: number = 1; export default definePlugin({ ${GOOD} }); export { version };`,
  );
  await write('common.cjs', `const { Outcalls } = require('svc/plugin'); module.exports = { ${GOOD} };`);
  for (const file of ['object.mjs', 'named.mjs', 'function.mjs', 'later.mjs', 'typed.ts', 'common.cjs']) {
    const { loaded, problems } = await load('outcalls', `./${file}`);
    assert.deepEqual(problems, [], file);
    assert.equal(loaded[0]?.definition.name, 'mine');
    assert.equal(loaded[0]?.replaces, 'outcalls');
    assert.equal(loaded[0]?.file, join(directory, file));
  }
});

test('a package is found from the working directory, by what it exports', async () => {
  await write(
    'node_modules/@team/outcalls/package.json',
    '{ "type": "module", "exports": { "import": "./lib/index.js" } }',
  );
  await write('node_modules/@team/outcalls/lib/index.js', `${HEAD}export default definePlugin({ ${GOOD} });`);
  const { loaded, problems } = await load('outcalls', '@team/outcalls');
  assert.deepEqual(problems, []);
  assert.equal(loaded[0]?.file, join(directory, 'node_modules/@team/outcalls/lib/index.js'));
  const { problems: missing } = await load('outcalls', '@team/outcals');
  assert.match(
    missing.join(),
    /^plugin outcalls=@team\/outcals: there is no such package to be found from .*: install it there \(npm install @team\/outcals\)/,
  );
  await write('plain.mjs', '');
  assert.match((await load('outcalls', 'plain.mjs')).problems.join(), /for the file, write \.\/plain\.mjs/);
});

test('what svc/… exports is this server, wherever the plugin lies, and the package says the same to others', async () => {
  await write(
    'own.mjs',
    "export * from 'svc/plugin'; import { definePlugin } from 'svc/plugin'; export default definePlugin({ apiVersion: 1 });",
  );
  const { problems } = await load('outcalls', './own.mjs');
  assert.match(problems.join(), /has no usable name/);
  const { ServerError } = (await import(OWN_MODULES['svc/plugin']?.href ?? '')) as Record<string, unknown>;
  const kernel: Record<string, unknown> = await import('../../../kernel/index.ts');
  assert.equal(ServerError, kernel['ServerError']);
  // The client module is the one export that is no part of the server.
  const exported = Object.entries(packageJson.exports).filter(
    ([name, target]) => typeof target === 'object' && name !== './client',
  );
  const root = new URL('../../..', import.meta.url).href;
  assert.deepEqual(
    exported.map(([name, target]) => [`svc${name.slice(1)}`, target]),
    Object.entries(OWN_MODULES).map(([name, url]) => {
      const source = url.href.slice(root.length).replace(/\.ts$/, '');
      return [name, { types: `./dist/${source}.d.ts`, default: `./dist/bundle/${source.replaceAll('/', '-')}.mjs` }];
    }),
  );
});

test('a module that is not there, or is no file, is named with where it was looked for', async () => {
  assert.equal(
    (await load('outcalls', './nowhere.js')).problems.join(),
    `plugin outcalls=./nowhere.js: there is no file ${join(directory, 'nowhere.js')}: correct the path (relative paths start at ${directory})`,
  );
  assert.match(
    (await load('outcalls', 'file://elsewhere/x.js')).problems.join(),
    /^plugin outcalls=file:\/\/elsewhere\/x\.js: .* names no file of this machine: /,
  );
  await write('folder/index.js', '');
  assert.match(
    (await load('outcalls', './folder')).problems.join(),
    /folder is not a file: name the module in it, such as \.\/folder\/index\.js$/,
  );
});

test('a plugin with routes cannot have a name below which the server has its own', async () => {
  const routes = "routes: [{ method: 'GET', path: '/it', answer: () => ({ json: 1 }) }]";
  for (const name of ['actors', 'host', 'messages', 'time']) {
    const named = GOOD.replace("'mine'", `'${name}'`);
    await write(`${name}.mjs`, `${HEAD}export default definePlugin({ ${named}, ${routes} });`);
    assert.match(
      (await load('outcalls', `./${name}.mjs`)).problems.join(),
      /: \/x\/\w+\/ is the server's own, choose another/,
    );
    await write(`${name}-without.mjs`, `${HEAD}export default definePlugin({ ${named} });`);
    assert.deepEqual((await load('outcalls', `./${name}-without.mjs`)).problems, []);
  }
});

test('a definition that throws while it is read is refused with what it throws, and where', async () => {
  assert.match(
    await refusal(`export default { ${GOOD}, get routes() { throw new RangeError('out of luck'); } };`),
    /^FILE throws while it is read: RangeError: out of luck \(FILE:2:\d+\)$/,
  );
});

test('a module that cannot be loaded says what it throws, and where', async () => {
  assert.match(
    await refusal("throw new RangeError('out of luck');"),
    /^FILE throws while it is loaded: RangeError: out of luck \(FILE:2:7\)$/,
  );
  assert.match(
    await refusal("import './not-there.mjs';"),
    /^FILE throws while it is loaded: Error: Cannot find module/,
  );
  assert.match(
    await refusal('export default {{;'),
    /^FILE throws while it is loaded: SyntaxError: [^(]+ \(node --check FILE shows where\)$/,
  );
  assert.doesNotMatch(await refusal("import './not-there.mjs';"), /\/modules\//);
  assert.match(await refusal("import { Storge } from 'svc/plugin'; export default Storge;"), /SyntaxError: .*'Storge'/);
  assert.equal(
    await refusal('await new Promise(() => undefined);', 'outcalls', 50),
    'FILE has not finished loading: does it wait at its top level for what never comes? Wait in start instead (given up after 50 ms)',
  );
});

test('a module without a plugin, with two, or with something else is refused', async () => {
  assert.equal(await refusal(''), 'FILE exports nothing: export default definePlugin({ apiVersion: 1, … })');
  assert.match(
    await refusal('export const a = 1, b = 2;'),
    /^FILE exports no plugin, only a, b: export default definePlugin/,
  );
  assert.match(await refusal('export default 7;'), /^FILE exports no plugin, only default/);
  assert.match(
    await refusal(`export const a = definePlugin({ ${GOOD} }), b = definePlugin({ ${GOOD} });`),
    /^FILE exports 2 plugins \(a, b\): export one/,
  );
  assert.match(
    await refusal('export default class Mine {}'),
    /^FILE exports a class: export default defineClassPlugin\(\{ made: Mine, … \}\)/,
  );
  assert.match(
    await refusal('export default () => 7;'),
    /^the function that FILE exports returned a value of type number, not a plugin/,
  );
  assert.match(
    await refusal('export default () => { throw new Error("no"); };'),
    /^the function that FILE exports throws: Error: no/,
  );
  assert.match(
    await refusal('export default () => new Promise(() => undefined);', 'outcalls', 50),
    /has not returned a plugin after 50 ms/,
  );
});

test('a plugin of another API version is refused by that alone', async () => {
  const of = (version: string): Promise<string> =>
    refusal(`export default { ${GOOD.replace('apiVersion: 1', version)}, typo: 1 };`);
  assert.equal(
    await of('apiVersion: 2'),
    'FILE is written for version 2 of the plugin API, and this server has version 1: use a newer svc, or a release of the plugin for version 1',
  );
  assert.match(await of('apiVersion: 0'), /version 0 .*: use a newer release of the plugin/);
  assert.match(
    await of("apiVersion: '1'"),
    /has an apiVersion that is a value of type string: this server's is the number 1/,
  );
  assert.match(
    await of('version: 1'),
    /does not say for which version of the plugin API it was written: add apiVersion: 1/,
  );
});

test('a plugin for another capability is refused, and so is one for what cannot be replaced', async () => {
  assert.equal(
    await refusal(`export default definePlugin({ ${GOOD} });`, 'storage'),
    "FILE provides 'outcalls', and not 'storage': write --plugin outcalls=… instead of storage=…, or correct the plugin",
  );
  assert.match(
    await refusal(`export default definePlugin({ ${GOOD} });`, 'outcals'),
    /provides 'outcalls', and not 'outcals'/,
  );
  await write('http.mjs', `${HEAD}export default definePlugin({ ${GOOD} });`);
  assert.match(
    (await load('http', './http.mjs')).problems.join(),
    /the server's own 'http' cannot be replaced: routes are added by a plugin \(routes: \[…\]\), .*; these can be replaced: auth, /,
  );
  for (const capability of ['canisters', 'compatibility', 'compiler', 'management', 'management-backend'])
    assert.match(
      (await load(capability, './http.mjs')).problems.join(),
      /cannot be replaced: no contract suite says yet what another one would have to do; these can be replaced: auth, codec, /,
    );
});

test('every mistake in a definition is named, with what to write', async () => {
  const said =
    await refusal(`export default definePlugin({ apiVersion: 1, name: 'No Name', provides: 'outcalls', requries: {}, requires: { log: 7 },
    create: 1, start: true, stopDeadlineMs: -1, isDurable: 1 });`);
  for (const part of [
    /a key 'requries' that no plugin has: did you mean requires\?/,
    /no usable name/,
    /does not say which capability it provides/,
    /has no create/,
    /a start that is a value of type boolean: make it a function/,
    /a stopDeadlineMs that is no number of milliseconds/,
    /requires under 'log' .* instead of a capability/,
    /isDurable that is neither true nor false/,
  ])
    assert.match(said, part);
  assert.match(
    await refusal(`export default definePlugin({ ${GOOD}, isDurable: true });`),
    /says isDurable, which only a storage can be/,
  );
  const option = (spec: string): Promise<string> =>
    refusal(`export default definePlugin({ ${GOOD}, options: { size: ${spec} } });`);
  assert.match(
    await option("{ type: 'intger', summary: '' }"),
    /an option 'size' that has no type that there is: did you mean integer\?/,
  );
  assert.match(await option("{ type: 'integer', summary: '' }"), /has no unit/);
  assert.match(await option("{ type: 'integer', summary: '', unit: 'ms', min: 5, max: 1 }"), /has no bounds/);
  assert.match(
    await option("{ type: 'integer', summary: '', unit: 'ms', min: 1, max: 5, default: 9 }"),
    /default beyond its bounds/,
  );
  assert.match(
    await option("{ type: 'choice', summary: '', choices: ['a'], default: 'b' }"),
    /default that is none of its choices/,
  );
  assert.match(await option("{ type: 'text' }"), /has no summary/);
  const route = (spec: string): Promise<string> =>
    refusal(`export default definePlugin({ ${GOOD}, routes: [${spec}] });`);
  assert.match(await route("{ method: 'PATCH', path: '/a', answer() {} }"), /a route 1 that has no method/);
  assert.match(await route("{ method: 'GET', path: 'a', answer() {} }"), /has no path like/);
  assert.match(await route("{ method: 'GET', path: '/a' }"), /has no answer/);
  assert.match(
    await route("{ method: 'GET', path: '/:a', answer() {} }, { method: 'GET', path: '/:b', answer() {} }"),
    /a route 2 that is there already/,
  );
  assert.match(
    await route("{ method: 'GET', path: '/a/../../health', answer() {} }"),
    /has '\.' or '\.\.' in its path/,
  );
  assert.match(await route("{ method: 'GET', path: '/:a/:a', answer() {} }"), /names a parameter of \/:a\/:a twice/);
  assert.match(
    await route("...Array.from({ length: 1001 }, (_, i) => ({ method: 'GET', path: `/${i}`, answer() {} }))"),
    /has 1001 routes, more than 1000/,
  );
});

test('a plugin that requires what nothing provides is refused before anything starts', async () => {
  assert.equal(
    await refusal(
      `export default definePlugin({ ${GOOD}, requires: { log: Logger, clok: defineCapability('clok') } });`,
    ),
    "FILE requires 'clok', which nothing provides: did you mean clock?: take it out of requires, or load a plugin that provides it (--plugin clok=…)",
  );
});

test('one that replaces the scheduler has its narrow capability, too, unless it wraps it or provides that itself', async () => {
  const scheduler = "apiVersion: 1, name: 'mine', provides: Scheduler, create: () => ({})";
  const head = "import { definePlugin, face, Scheduler, SchedulerSetup } from 'svc/plugin';\n";
  for (const [more, inherited] of [
    ['', ['scheduler-setup']],
    [', requires: { own: Scheduler }', []],
    [', alsoProvides: [face(SchedulerSetup, (made) => made)]', []],
  ] as const) {
    await write(
      `scheduler${inherited.length}${more.length}.mjs`,
      `${head}export default definePlugin({ ${scheduler}${more} });`,
    );
    const { loaded, problems } = await load('scheduler', `./scheduler${inherited.length}${more.length}.mjs`);
    assert.deepEqual(problems, []);
    assert.deepEqual(
      loaded[0]?.inherits.map(({ capability }) => capability.name),
      inherited,
    );
  }
});

test('one that requires what it replaces wraps it: it cannot have the name of what runs below it, nor be durable itself', async () => {
  const wrapping = `requires: { own: Outcalls }, ${GOOD}`;
  await write('wraps.mjs', `${HEAD}export default definePlugin({ ${wrapping} });`);
  const { loaded, problems } = await load('outcalls', './wraps.mjs');
  assert.deepEqual(problems, []);
  assert.deepEqual([loaded[0]?.replaces, loaded[0]?.wraps], ['outcalls', true]);
  assert.match(
    await refusal(`export default definePlugin({ ${wrapping.replace("'mine'", "'outcalls'")} });`),
    /is called 'outcalls', as one of the server's own plugins is/,
  );
  assert.match(
    await refusal(
      "export default definePlugin({ apiVersion: 1, name: 'mine', provides: Storage, isDurable: true, " +
        'requires: { own: Storage }, create: ({ own }) => own });',
      'storage',
    ),
    /says isDurable, and requires 'storage' itself: with --state that one is durable, so take isDurable out/,
  );
});

test('two plugins for one place, or of one name, are refused', async () => {
  await write('one.mjs', `${HEAD}export default definePlugin({ ${GOOD} });`);
  await write('two.mjs', `${HEAD}export default definePlugin({ ${GOOD.replace("'mine'", "'other'")} });`);
  await write('http-name.mjs', `${HEAD}export default definePlugin({ ${GOOD.replace("'mine'", "'http'")} });`);
  const both = await loadPlugins(
    [
      { capability: 'outcalls', module: './one.mjs' },
      { capability: 'outcalls', module: './two.mjs' },
    ],
    { directory, builtin: builtinPlugins },
  );
  assert.match(both.problems.join(), /two\.mjs takes the place of 'outcalls', as .*one\.mjs does: drop one of them/);
  assert.match(
    (await load('outcalls', './http-name.mjs')).problems.join(),
    /is called 'http', as one of the server's own plugins is/,
  );
});

test('one that replaces a part stands in its place, one that adds something before the listener', async () => {
  await write('one.mjs', `${HEAD}export default definePlugin({ ${GOOD} });`);
  await write(
    'added.mjs',
    `${HEAD}export default definePlugin({ apiVersion: 1, name: 'added', provides: defineCapability('added'), create: () => ({}) });`,
  );
  const { loaded, problems } = await loadPlugins(
    [
      { capability: 'outcalls', module: './one.mjs' },
      { capability: 'added', module: './added.mjs' },
    ],
    { directory, builtin: builtinPlugins },
  );
  assert.deepEqual(problems, []);
  const { plugins } = composePlugins({ builtin: builtinPlugins, loaded });
  const names = builtinPlugins.map(({ name }) => (name === 'outcalls' ? 'mine' : name));
  assert.deepEqual(
    plugins.map(({ name }) => name),
    [...names.slice(0, -1), 'added', ...names.slice(-1)],
  );
});
