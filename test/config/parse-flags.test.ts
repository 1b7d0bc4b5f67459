import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FLAGS, flagsByName, variablesByName } from '../../config/flags.ts';
import { type Environment, parseFlags, type ParsedFlags } from '../../config/parse-flags.ts';

const PLUGINS = ['auth', 'scheduler', 'manifest', 'metering'];

function parse(argv: readonly string[], environment: Environment = {}): ParsedFlags {
  return parseFlags(argv, environment, PLUGINS);
}

/** Returns the only problem of a command line. */
function problem(argv: readonly string[], environment: Environment = {}): string {
  const { problems } = parse(argv, environment);
  assert.equal(problems.length, 1, problems.join('\n'));
  return problems[0] ?? '';
}

test('without flags every value is the default of the contract', () => {
  const { flags, variables, problems, disabled } = parse([]);
  assert.deepEqual(problems, []);
  assert.equal(disabled.size, 0);
  assert.equal(flags.manifest, 'actors.json');
  assert.equal(flags.listen, '127.0.0.1:7000');
  assert.equal(flags['instruction-limit'], 40_000_000_000);
  assert.equal(flags.cycles, 100_000_000_000_000n);
  assert.equal(flags['snapshot-below'], 50_000_000);
  assert.equal(flags['live-cap'], 0);
  assert.equal(flags['heartbeat-ms'], 1_000);
  assert.equal(flags['timer-ms'], 100);
  assert.equal(flags['outcall-timeout-secs'], 30);
  assert.equal(flags.history, 50);
  assert.equal(flags['upgrade-policy'], 'refuse');
  assert.equal(flags['auth-token'], undefined);
  assert.equal(flags.insecure, false);
  assert.ok(flags.executors >= 2);
  assert.equal(variables.SVC_WASM_STACK, 4_194_304);
});

test('values come after a space or an equals sign, letters stand for long names', () => {
  const { flags, problems, given } = parse(['-m', 'a.json', '--listen=[::1]:0', '-v', '--cycles', '0', '--log-json']);
  assert.deepEqual(problems, []);
  assert.deepEqual(
    [flags.manifest, flags.listen, flags.verbose, flags.cycles, flags['log-json']],
    ['a.json', '[::1]:0', true, 0n, true],
  );
  assert.ok(given.has('manifest') && !given.has('insecure'));
});

test('a flag may begin with no- itself, and is a switch like others', () => {
  const { flags, disabled, problems } = parse(['--no-claims', '--no-auth']);
  assert.deepEqual([flags['no-claims'], [...disabled], problems], [true, ['auth'], []]);
  assert.equal(parse([]).flags['no-claims'], false);
  assert.equal(parse(['--no-no-claims']).flags['no-claims'], false);
  assert.equal(problem(['--no-claims=1']), "--no-claims is a switch and takes no value: drop '=1'");
  assert.equal(problem(['--no-claims', '--no-claims']), '--no-claims is given more than once: keep one');
});

test('an equals sign in a value stays part of it', () => {
  assert.equal(parse(['--auth-token=a=b==']).flags['auth-token'], 'a=b==');
});

test('the flag wins over the variable, and the variable over the default', () => {
  const environment = { SVC_TOKEN: 'from-env', SVC_WASM_STACK: '65536' };
  assert.equal(parse(['--auth-token', 'from-flag'], environment).flags['auth-token'], 'from-flag');
  assert.equal(parse([], environment).flags['auth-token'], 'from-env');
  assert.equal(parse([], environment).variables.SVC_WASM_STACK, 65_536);
});

test('an empty token is refused wherever it comes from, unless the flag wins', () => {
  assert.equal(problem(['--auth-token=']), '--auth-token: the value is empty: give a TOKEN, or leave it out');
  assert.equal(problem([], { SVC_TOKEN: '' }), 'SVC_TOKEN: the value is empty: give a TOKEN, or leave it out');
  assert.deepEqual(parse(['--auth-token=t'], { SVC_TOKEN: '' }).problems, []);
});

test('an unknown flag is refused with the closest known one', () => {
  assert.equal(problem(['--manifets']), 'unknown flag --manifets: did you mean --manifest?');
  assert.equal(problem(['--no-shceduler']), 'unknown flag --no-shceduler: did you mean --no-scheduler?');
  assert.equal(problem(['--heartbeat']), 'unknown flag --heartbeat: did you mean --heartbeat-ms?');
  assert.equal(problem(['--frobnicate']), 'unknown flag --frobnicate');
  assert.equal(problem(['-x']), 'unknown flag -x');
  assert.equal(problem(['--m=a.json']), 'unknown flag --m');
  assert.equal(problem(['--no-listen']), 'unknown flag --no-listen: did you mean --listen?');
  assert.equal(problem(['--constructor']), 'unknown flag --constructor');
  assert.match(problem(['--no-constructor']), /^unknown flag --no-constructor/);
});

test('a repeated flag is refused, also as letter and long name or on and off', () => {
  assert.equal(problem(['--listen', 'a:1', '--listen=b:2']), '--listen is given more than once: keep one');
  assert.equal(problem(['-m', 'a', '--manifest', 'b']), '--manifest is given more than once: keep one');
  assert.equal(problem(['--insecure', '--no-insecure']), '--no-insecure is given more than once: keep one');
  assert.equal(problem(['--no-auth', '--no-auth']), '--no-auth is given more than once: keep one');
});

test('a missing value is refused with what belongs there', () => {
  assert.equal(problem(['--listen']), '--listen needs a value: --listen ADDR');
  assert.equal(
    problem(['--manifest', '--insecure']),
    "--manifest needs a value, but '--insecure' looks like a flag: write --manifest=--insecure if it is the value",
  );
});

test('no problem shows a token, or the value of a plugin’s option', () => {
  const secret = '-Xsecret';
  const lines: readonly (readonly string[])[] = [
    ['--auth-token', secret],
    ['--auth-tokn', secret.slice(1)],
    ['--auth-token=', secret.slice(1)],
    ['auth-token=secret'],
    ['--plugin-option', 'storage-url=postgres://u:secret@h/db'],
    ['--plugin-option', 'storage.url:postgres://u:secret@h/db?ssl=1'],
    ['--plugin-option', '-storage.url=secret'],
    ['--plugin-option', 'storage.url', 'secret'],
    ['-plugin-option', 'storage.url=secret'],
  ];
  for (const line of lines) {
    const { problems } = parse(line);
    assert.ok(problems.length > 0, line.join(' '));
    assert.doesNotMatch(problems.join('\n'), /secret/, line.join(' '));
  }
  assert.equal(
    problem(['--auth-token', secret]),
    '--auth-token needs a value, but what follows looks like a flag: write --auth-token=TOKEN if it is the value',
  );
  assert.match(problem(['--plugin-option', 'storage-url=a']), /: 'storage-url=…' is not of the form/);
  const { problems } = parse(['--listn', '--insecur']);
  assert.equal(problems.length, 2, 'flags behind a wrong one are told');
});

test('a switch takes no value, and can be turned off', () => {
  assert.equal(problem(['--insecure=yes']), "--insecure is a switch and takes no value: drop '=yes'");
  assert.equal(parse(['--no-insecure']).flags.insecure, false);
  assert.equal(problem(['--no-auth=1']), "--no-auth takes no value: drop '=1'");
});

test('what is no flag is refused: there are no subcommands', () => {
  assert.match(problem(['serve']), /^'serve' is not a flag: svc takes flags only/);
  assert.match(problem(['./actors.json']), /^'\.\/actors\.json' is not a flag/);
  assert.match(problem(['--', '--insecure']), /^'--insecure' is not a flag/);
});

test('a time between two beats is one that Node has a timer for', () => {
  for (const flag of ['--heartbeat-ms', '--timer-ms']) {
    assert.equal(parse([flag, '2147483647']).flags[flag === '--timer-ms' ? 'timer-ms' : 'heartbeat-ms'], 2_147_483_647);
    assert.match(problem([flag, '2147483648']), /from 0 to 2147483647/);
  }
});

test('numbers are whole, in range and in plain digits', () => {
  for (const value of [
    '-5',
    '1.5',
    '1e9',
    '0x10',
    '4_000',
    '',
    ' 7',
    'NaN',
    '٣',
    '9007199254740992',
    '9'.repeat(5_000),
  ]) {
    const text = problem([`--instruction-limit=${value}`]);
    assert.match(text, /give a whole number of instructions from 1 to 9007199254740991, in plain digits$/, value);
    assert.ok(text.length < 250);
  }
  assert.match(problem(['--cycles', '-5']), /^--cycles: -5 is negative: give a whole number of cycles from 0 to /);
  assert.match(problem(['--executors', '0']), /out of range: give a whole number of threads from 1 to 256/);
  assert.equal(parse([`--cycles=${2n ** 128n - 1n}`]).flags.cycles, 2n ** 128n - 1n);
  assert.match(problem([`--cycles=${2n ** 128n}`]), /out of range/);
  assert.match(problem([], { SVC_WASM_STACK: '1' }), /^SVC_WASM_STACK: 1 is out of range: .* from 65536 to 67108864/);
});

test('every problem is told at once', () => {
  assert.equal(
    parse(['--cycles=x', '--frobnicate', 'now', '--plugin=a'], { SVC_WASM_STACK: 'big' }).problems.length,
    5,
  );
});

test('a plugin is turned off by its name, also one that shares it with a flag', () => {
  const { disabled, problems, flags } = parse(['--no-auth', '--no-manifest', '--manifest=x.json']);
  assert.deepEqual(problems, []);
  assert.deepEqual([...disabled], ['auth', 'manifest']);
  assert.equal(flags.manifest, 'x.json');
});

test('every flag of the contract is declared', () => {
  const contract =
    'manifest listen state snapshot-below instruction-limit cycles live-cap heartbeat-ms timer-ms ' +
    'outcall-timeout-secs auth-token insecure web project history log-json verbose upgrade-policy';
  for (const name of contract.split(' ')) assert.ok(flagsByName.has(name), name);
  assert.deepEqual(
    [FLAGS.manifest.short, FLAGS.listen.short, FLAGS.state.short, FLAGS.verbose.short],
    ['m', 'l', 's', 'v'],
  );
  assert.equal(FLAGS['auth-token'].variable, 'SVC_TOKEN');
  for (const name of ['SVC_WASM_STACK', 'SVC_BIN']) assert.ok(variablesByName.has(name), name);
});
