import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { defineCapability, definePlugin } from '../../../plugins/api/plugin.ts';
import { faultText, type LoadedPlugin } from '../../../plugins/loader/index.ts';
import { inNameOf } from '../../../plugins/loader/whose-fault.ts';
import { ServerError } from '../../../kernel/index.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

let home = '';
let root = '';
before(async () => {
  home = await temporaryDirectory();
  root = join(home, 'node_modules/svc');
  for (const folder of [root, join(home, 'node_modules/packed/lib')]) await mkdir(folder, { recursive: true });
  for (const folder of [home, root, join(home, 'node_modules/packed')])
    await writeFile(join(folder, 'package.json'), '{}');
});

function loaded(name: string, file: string): LoadedPlugin {
  const definition = definePlugin({
    apiVersion: 1,
    name,
    provides: defineCapability(name),
    create: () => ({}),
  });
  return {
    capability: name,
    module: file,
    file: join(home, file),
    definition,
    replaces: undefined,
    wraps: false,
    inherits: [],
  };
}

/** Makes an error whose stack has these places, from where it was thrown. */
function thrownAt(places: readonly string[], cause?: Error): Error {
  const error = new Error('no luck', { cause });
  error.stack = ['Error: no luck', ...places.map((place) => `    at work (${place}:1:2)`)].join('\n');
  return error;
}

function textOf(error: unknown, plugins: readonly LoadedPlugin[]): string {
  return faultText({ error, origin: 'uncaughtException' }, { loaded: plugins, root });
}

const at = (path: string): string => pathToFileURL(join(home, path)).href;
const by = (...names: string[]): RegExp =>
  new RegExp(
    `^the server ends because of a bug of ${names.map((name) => `plugin '${name}' \\(\\S+\\)`).join(' or ')}: `,
  );
const NOBODYS = /^the server ends because of a bug: nobody catches the exception: Error: no luck$/;

test('the first place that is of a plugin, its file or what lies beside it, names it', () => {
  const plugins = [loaded('mine', 'mine.js'), loaded('packed', 'node_modules/packed/lib/index.js')];
  assert.match(textOf(thrownAt(['node:events', at('mine.js')]), plugins), by('mine'));
  assert.match(textOf(thrownAt([at('deep/down/help.js')]), plugins), by('mine'));
  assert.match(textOf(thrownAt([join(home, 'common.cjs')]), plugins), by('mine'));
  assert.match(textOf(thrownAt([`${at('mine.js')}?v=2`]), plugins), by('mine'));
  assert.match(textOf(thrownAt([at('node_modules/packed/other.js'), at('mine.js')]), plugins), by('packed'));
  assert.match(textOf(thrownAt([at('node_modules/svc/kernel/x.js'), at('mine.js')]), plugins), by('mine'));
  assert.match(textOf(thrownAt(['node:net'], thrownAt([at('mine.js')])), plugins), by('mine'), 'a cause counts');
});

test('of two in one folder the one is named whose file it is, or who has begun it, or both', () => {
  const plugins = [loaded('one', 'one.js'), loaded('two', 'two.js')];
  assert.match(textOf(thrownAt([at('two.js')]), plugins), by('two'));
  const shared = thrownAt([at('shared.js')]);
  assert.match(textOf(shared, plugins), by('one', 'two'));
  const [, second] = plugins;
  assert.ok(second !== undefined);
  assert.match(
    inNameOf(second, () => textOf(shared, plugins)),
    by('two'),
  );
});

test('a bug of the server is not laid at the door of a plugin that lies above it, nor one of a package beside it', () => {
  const plugins = [loaded('mine', 'mine.js')];
  const own = thrownAt([at('node_modules/fastify/reply.js'), at('node_modules/svc/subsystems/http/x.js')]);
  assert.match(textOf(own, plugins), NOBODYS);
  const [mine] = plugins;
  assert.ok(mine !== undefined);
  assert.match(
    inNameOf(mine, () => textOf(own, plugins)),
    /^the server ends because of a bug in what plugin 'mine' \(\S+\) has begun: /,
  );
});

test('where nothing tells, all that are loaded are named', () => {
  const plugins = [loaded('one', 'one.js'), loaded('two', 'two.js')];
  assert.match(
    textOf('a text', plugins),
    /: 'a text' was thrown; nothing says whose it is, and loaded from outside is plugin 'one' \(\S+\) or plugin 'two' /,
  );
  const full = new ServerError('unavailable', 'full', 'the disk is full');
  full.stack = '';
  assert.equal(textOf(full, plugins), 'the server ends: the disk is full');
});
