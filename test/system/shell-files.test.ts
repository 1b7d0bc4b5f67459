/** Completions and the manual page, read by the programs that they are for. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { before, test } from 'node:test';
import { shellFiles } from '../../.ci/shell-files.ts';
import { flagsByName, variablesByName } from '../../config/flags.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

let directory: string;
const fileOf = (name: string): string => join(directory, 'share/completions', name);

before(async () => {
  directory = await temporaryDirectory();
  for (const [path, text] of shellFiles('0.1.0')) {
    await mkdir(dirname(join(directory, path)), { recursive: true });
    await writeFile(join(directory, path), text);
  }
  await writeFile(join(directory, 'my actors.json'), '{}');
});

function run(program: string, ...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd: directory, encoding: 'utf8' });
  assert.deepEqual([status, stderr], [0, ''], `${program} ${args.join(' ')}`);
  return stdout;
}

function inBash(...words: readonly string[]): readonly string[] {
  const script =
    'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _svc; printf "%s\\n" "${COMPREPLY[@]}"';
  return run('bash', '-c', script, 'bash', fileOf('svc.bash'), 'svc', ...words)
    .trim()
    .split('\n');
}

test('bash completes flags, files, folders and choices', () => {
  assert.deepEqual(inBash('--auth'), ['--auth-token', '--auth-token-file']);
  assert.deepEqual(inBash('--manifest', 'my'), ['my actors.json']);
  assert.deepEqual(inBash('-s', 'sh'), ['share']);
  assert.deepEqual(inBash('--fsync', ''), ['always', 'off']);
  assert.deepEqual(inBash('--fsync', '=', 'o'), ['off']);
  assert.deepEqual(inBash('--listen', ''), ['']);
  const all = inBash('--');
  for (const name of flagsByName.keys()) assert.ok(all.includes(`--${name}`), name);
  assert.ok(all.includes('--no-gateway') && !all.includes('--no-scheduler'));
});

test('fish completes the same, each flag with what it does', () => {
  const inFish = (line: string): readonly string[] =>
    run('fish', '--no-config', '-c', `source ${fileOf('svc.fish')}; complete -C '${line}'`)
      .trim()
      .split('\n');
  assert.deepEqual(
    inFish('svc --auth').map((line) => line.split('\t')[0]),
    ['--auth-token', '--auth-token-file'],
  );
  assert.match(inFish('svc --auth-token-f')[0] ?? '', /\tFile that holds the bearer token/);
  const choices = inFish('svc --fsync ').map((line) => line.split('\t')[0] ?? '');
  assert.deepEqual(choices.toSorted(), ['always', 'off']);
  assert.match(inFish('svc --manifest my').join(), /my.*actors\.json/);
  assert.equal(inFish('svc --').filter((line) => line.startsWith('--')).length >= flagsByName.size, true);
});

test('zsh completes the same', () => {
  const script = `
    zmodload zsh/zpty
    zpty shell zsh -f -i
    typeset -g out= part=
    wait_for() {
      local k
      for k in {1..400}; do
        while zpty -r -t shell part; do out+=$part; done
        [[ $out == *$1* ]] && return 0
        sleep 0.05
      done
      return 1
    }
    zpty -w shell 'PS1=; fpath=('${directory}'/share/completions $fpath); autoload -Uz compinit; compinit -u -D; echo is-set-up'
    wait_for 'is-set-up' || exit 1
    zpty -w -n shell $'svc --auth-token-f\\t'
    wait_for '--auth-token-file' || { print -r -- "$out"; exit 2; }
    zpty -d shell`;
  run('zsh', '-f', '-c', script);
  run('zsh', '-n', fileOf('_svc'));
});

test('the manual page is one for man, and has every flag and variable', () => {
  const page = join(directory, 'share/man/svc.1');
  const { status, stdout, stderr } = spawnSync('man', ['--warnings', '-l', page], {
    encoding: 'utf8',
    env: { ...process.env, MANWIDTH: '100', LC_ALL: 'C.UTF-8' },
  });
  assert.deepEqual([status, stderr], [0, '']);
  const text = stdout.replaceAll(/.\u0008/g, '').replaceAll('‐', '-');
  for (const name of flagsByName.keys()) assert.match(text, new RegExp(`--${name}\\b`), name);
  for (const name of variablesByName.keys()) assert.ok(text.includes(name), name);
  assert.match(text, /^EXIT STATUS/m);
});
