import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { PARTS } from '../../config/parts.ts';
import { builtinPlugins } from '../../plugins/index.ts';

test('the list of parts is that of the plugins', () => {
  assert.deepEqual(
    PARTS,
    builtinPlugins.map(({ name, neededBecause }) => ({ name, isOptional: neededBecause === undefined })),
  );
});

/** Prints, when the process ends, the modules of this server that it has loaded. */
const LOADED = `import { registerHooks } from 'node:module';
const loaded = [];
registerHooks({ load: (url, context, next) => { loaded.push(url); return next(url, context); } });
process.on('exit', () => process.stderr.write(loaded.join('\\n')));`;

test('a help text and a refusal load no plugin', () => {
  const main = resolve(import.meta.dirname, '../../config/main.ts');
  for (const [argv, status] of [
    [['--help'], 0],
    [['--frobnicate'], 2],
    [['--print-config'], 0],
  ] as const) {
    const hook = `data:text/javascript,${encodeURIComponent(LOADED)}`;
    const ended = spawnSync(process.execPath, ['--import', hook, main, ...argv], { encoding: 'utf8' });
    assert.equal(ended.status, status, ended.stderr);
    assert.match(ended.stderr, argv[0] === '--help' ? /\/config\/help\.ts/ : /\/config\/load\.ts/);
    assert.doesNotMatch(ended.stderr, /\/(?:plugins|subsystems)\//);
    // Help needs flags, and not what reads them.
    assert.equal(/\/kernel\//.test(ended.stderr), argv[0] !== '--help');
  }
});
