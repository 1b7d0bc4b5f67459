/**
 * The image without its making, which `npm run prove -- image` does: what `Dockerfile` and `compose.yaml` say is
 * compared with the package and with what create-svc writes, and the image's command runs in a sandbox as process 1, on
 * a read-only root.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, lstatSync, readFileSync } from 'node:fs';
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import packageJson from '../../package.json' with { type: 'json' };
import { freePort } from '../support/free-port.ts';
import { compileCounter } from '../support/motoko.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const START_DEADLINE_MS = 120_000;
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8');

/** Instructions of a Dockerfile, each with its words in one line. */
class Instructions {
  readonly #all: readonly (readonly [string, string])[];

  constructor(file: string) {
    const joined = read(file)
      .replaceAll(/^#.*\n/gm, '')
      .replaceAll(/\\\n\s*/g, '');
    const lines = joined.split('\n').filter((line) => line !== '');
    this.#all = lines.map((line) => [line.split(' ')[0] ?? '', line.slice(line.indexOf(' ') + 1)]);
  }

  /** Returns what the last instruction of a kind says. */
  last(kind: string): string {
    return this.#all.findLast(([each]) => each === kind)?.[1] ?? assert.fail(`there is no ${kind}`);
  }

  /** Returns the words of the last instruction of a kind that is written as a list. */
  list(kind: string): readonly string[] {
    const said = this.last(kind);
    return JSON.parse(said.slice(said.indexOf('['))) as readonly string[];
  }

  /** Returns the default of an argument. */
  argument(name: string): string | undefined {
    const said = this.#all.filter(([kind]) => kind === 'ARG').map(([, words]) => words);
    return said.find((words) => words.startsWith(`${name}=`))?.slice(name.length + 1);
  }
}

const image = new Instructions('Dockerfile');
const project = new Instructions('packages/create-svc/common/Dockerfile');

test('Containerfile is Dockerfile, which says what the package says', () => {
  assert.ok(lstatSync(join(ROOT, 'Containerfile')).isSymbolicLink());
  assert.equal(read('Containerfile'), read('Dockerfile'));
  assert.equal(image.argument('VERSION'), packageJson.version);
  const labels = image.last('LABEL');
  assert.ok(labels.includes(`image.licenses="${packageJson.license}"`));
  assert.ok(labels.includes(`image.description="${packageJson.description}"`));
  assert.match(image.last('USER'), /^[1-9]\d*:[1-9]\d*$/, 'an orchestrator sees by its number that it is not root');
});

test('the image of a project of create-svc is run as this one is', () => {
  for (const kind of ['HEALTHCHECK', 'VOLUME', 'EXPOSE', 'ENV'])
    assert.equal(project.last(kind), image.last(kind), kind);
  assert.deepEqual(project.list('ENTRYPOINT').slice(3), image.list('ENTRYPOINT').slice(3));
  const [ours, theirs] = ['compose.yaml', 'packages/create-svc/common/compose.yaml'].map(read);
  const lines = ['read_only: true', 'tmpfs: [/tmp]', 'cap_drop: [ALL]', "security_opt: ['no-new-privileges:true']"];
  for (const line of [
    ...lines,
    'secrets: [token]',
    'stop_grace_period: 10m',
    'file: secrets/token',
    'mkdir -m 700 secrets',
  ])
    assert.ok(ours?.includes(line) === true && theirs?.includes(line) === true, line);
  const recipe = /^#? *(mkdir -m 700 secrets && .*)$/m;
  const texts = [ours, theirs, read('packages/create-svc/common/README.md'), read('docs/running.md')];
  assert.equal(new Set(texts.map((text = '') => recipe.exec(text)?.[1])).size, 1, 'all write the token in one way');
});

test('compose.yaml mounts what there is, and its Prometheus differs from the shipped one by the address', async () => {
  const mounts = [...read('compose.yaml').matchAll(/- \.\/(config\/\S+?):/g)].map(([, file = '']) => file);
  assert.equal(mounts.length, 5);
  for (const file of mounts) assert.ok(existsSync(join(ROOT, file)), file);
  const body = (file: string): string => read(`config/observability/${file}`).replaceAll(/^#.*\n/gm, '');
  assert.equal(body('prometheus-compose.yml'), body('prometheus.yml').replace('127.0.0.1:7000', 'svc:7000'));
  const directory = await temporaryDirectory();
  await cp(join(ROOT, 'config/observability'), directory, { recursive: true });
  await writeFile(join(directory, 'svc-token'), 'sesame');
  execFileSync('promtool', ['check', 'config', join(directory, 'prometheus-compose.yml')], { stdio: 'pipe' });
});

test('the recipe of the token makes one line without an end, closed to other users', async () => {
  const directory = await temporaryDirectory();
  const recipe = /^# {3}(mkdir -m 700 secrets .*)$/m.exec(read('compose.yaml'))?.[1] ?? assert.fail();
  execFileSync('sh', ['-ec', recipe], { cwd: directory });
  const token = readFileSync(join(directory, 'secrets/token'), 'utf8');
  assert.match(token, /^[\w+/]{32}$/);
  const modes = ['secrets', 'secrets/token'].map((name) => lstatSync(join(directory, name)).mode & 0o777);
  assert.deepEqual(modes, [0o700, 0o444]);
});

test('its command, as process 1 on a read-only root, serves, is healthy, stops in order and goes on', async (t) => {
  const work = await temporaryDirectory();
  for (const name of ['state', 'app', 'secrets']) await mkdir(join(work, name));
  await writeFile(join(work, 'app/counter.wasm'), await compileCounter());
  await writeFile(join(work, 'app/actors.json'), '{ "actors": { "counter": { "wasm": "counter.wasm" } } }');
  await writeFile(join(work, 'secrets/token'), 'sesame', { mode: 0o444 });
  const [user = '', group = ''] = image.last('USER').split(':');
  const sandbox =
    `--ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --tmpfs /home --tmpfs /opt --tmpfs /run --tmpfs /mnt
    --unshare-user --uid ${user} --gid ${group} --unshare-pid --as-pid-1 --cap-drop ALL --die-with-parent
    --ro-bind ${ROOT} /opt/tree --dir /opt/svc/node_modules/.bin
    --symlink /opt/tree/config/svc /opt/svc/node_modules/.bin/svc
    --bind ${work}/state /mnt/state --ro-bind ${work}/app /mnt/app --ro-bind ${work}/secrets /run/secrets
    --remount-ro / --chdir /mnt/app --clearenv --setenv PATH /usr/bin:/bin`.split(/\s+/);
  const environment = image.last('ENV').replace('=', ' ').split(' ');
  for (const expected of ['[1]', '[2]']) {
    const port = await freePort();
    // Neither folder can be made in this machine's root.
    const command = image
      .list('ENTRYPOINT')
      .map((word) => word.replace('0.0.0.0:7000', `127.0.0.1:${port}`).replace(/^\/(?=app|state)/, '/mnt/'));
    const args = [...sandbox, '--setenv', ...environment, ...command];
    const child = spawn('bwrap', args, { stdio: ['ignore', 'pipe', 'pipe'] });
    t.after(() => void child.kill('SIGKILL'));
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (part: string) => (output += part));
    for (const deadline = Date.now() + START_DEADLINE_MS; !/^ready: 1/m.test(output);) {
      assert.ok(child.exitCode === null && Date.now() < deadline, output);
      await new Promise((done) => setTimeout(done, 20));
    }
    const [program = '', ...check] = image.list('HEALTHCHECK').map((word) => word.replace(':7000/', `:${port}/`));
    assert.equal(program, 'node');
    execFileSync(process.execPath, check);
    assert.throws(() =>
      execFileSync(
        process.execPath,
        check.map((word) => word.replace('/health/ready', '/nothing')),
        { stdio: 'pipe' },
      ),
    );
    const headers = { authorization: 'Bearer sesame' };
    const call = { method: 'POST', body: '[]', headers } as const;
    assert.equal(await (await fetch(`http://127.0.0.1:${port}/call-json/counter/inc`, call)).text(), expected);
    const [inner = ''] = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim().split(' ');
    assert.match(readFileSync(`/proc/${inner}/status`, 'utf8'), /^NSpid:\t\d+\t1$/m);
    const closed = once(child, 'close');
    process.kill(Number(inner), 'SIGTERM');
    assert.deepEqual(await closed, [0, null], output);
    assert.match(output, /^shutdown: 1 actor\(s\) checkpointed$/m);
  }
});
