/** `npm run bench -- scheduler-live-cap`: its options, its messages, and the output of a small run. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { before, after, suite, test } from 'node:test';
import { lineChart } from '../../benchmarks/line-chart.ts';
import { load } from '../../benchmarks/macro/load.ts';
import { copiesOf } from '../../benchmarks/macro/live-cap/hosting.ts';
import { HELP, liveCapOptions } from '../../benchmarks/macro/live-cap/options.ts';
import { csvOf, jsonOf, type Row } from '../../benchmarks/macro/live-cap/results.ts';
import { messagesOf, type Target, trafficOf, UNIFORM } from '../../benchmarks/macro/live-cap/traffic.ts';
import { Refusal } from '../../benchmarks/options.ts';
import { commandsOf, listingsOf } from '../support/doc-listings.ts';
import { CACHE_HOME } from '../support/caches.ts';
import { compileCounter } from '../support/motoko.ts';
import { startServer } from '../support/server.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const BENCH = join(ROOT, 'benchmarks/macro/scheduler-live-cap.bench.ts');
/** Options of a run that only shows that the benchmark works; its figures mean nothing. */
const SMALL = '--live-cap 2 --ratios 2 --seconds 1 --rounds 1 --wakes 4 --connections 4 --think 20'.split(' ');

let folder = '';
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-live-cap-'));
});
after(() => rm(folder, { recursive: true, force: true }));

function run(args: readonly string[], cwd = ROOT): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((done) => {
    execFile(
      process.execPath,
      [BENCH, ...args],
      { cwd, env: { ...process.env, XDG_CACHE_HOME: CACHE_HOME } },
      (error, stdout, stderr) => done({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr }),
    );
  });
}

suite('the command line', () => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ['--frob 1', /Unknown option '--frob'; there are .*--live-cap/],
    ['surplus', /Unexpected argument 'surplus'/],
    ['--method', /'--method <value>' argument missing/],
    ['--seconds abc', /--seconds abc: expected a number of at least 1/],
    ['--connections 1.5', /--connections 1\.5: expected a whole number/],
    ['--rounds 0', /--rounds 0: expected a number of at least 1/],
    ['--ratios 1,,2', /--ratios : expected a number/],
    ['--traffic often', /--traffic often: expected uniform, zipf/],
    ['--traffic hot:10', /expected uniform, zipf/],
    ['--traffic hot:0:90', /expected uniform, zipf/],
    ['--manifest a.json', /--manifest needs --method NAME/],
    ['--url http://x', /--url needs --method NAME/],
    ['--url http://x --method a --ratios 1', /--ratios is for servers that are started here/],
    ['--url http://x --method a --wakes 5', /--wakes puts actors to sleep/],
    ['--args 5', /--args 5: expected a JSON array/],
    ['--args [', /--args \[: expected a JSON array/],
    ['--reads 1.5', /--reads 1\.5: expected a number from 0 to 1/],
    ['--reads 0.8 --calls 0.4', /are more than all messages/],
    ['--manifest a.json --method a --reads 0.5', /--reads needs --read NAME/],
    ['--chart a.png', /has to end in \.svg/],
    ['--json nowhere/a.json', /nothing can be written into nowhere/],
    ['--plugin metering', /expected NAME=FILE/],
  ];
  for (const [line, reason] of cases) {
    test(`${line} is told`, () => {
      assert.throws(
        () => liveCapOptions(line.split(' ')),
        (error) => error instanceof Refusal && reason.test(error.message),
      );
    });
  }

  test('what is refused is one line without a stack, and exit code 2', async () => {
    const { code, stderr } = await run(['--frob']);
    assert.equal(code, 2);
    assert.match(stderr, /^scheduler-live-cap: Unknown option '--frob'; [^\n]*\n$/);
  });

  test('each option is explained by --help', () => {
    const names = /there are (.*)/.exec(messageOf(() => liveCapOptions(['--?'])))?.[1]?.split(' ') ?? [];
    assert.ok(names.length > 20);
    for (const name of names) if (name !== '--help') assert.ok(HELP.includes(`${name} `), name);
  });
});

function messageOf(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    return (error as Error).message;
  }
  return '';
}

suite('messages', () => {
  const targets: readonly Target[] = Array.from({ length: 100 }, (_, at) => ({
    name: `a${at}`,
    principal: `p${at}`,
    methods: new Map([
      ['put', 'update'],
      ['get', 'query'],
    ]),
  }));
  const put = { method: 'put', args: [], share: 1 };

  test('a hot set gets its part', () => {
    const counts = new Map<string, number>();
    const messages = messagesOf(targets, trafficOf('hot:10:90'), [put]);
    for (const { path } of messages) counts.set(path, (counts.get(path) ?? 0) + 1);
    const hot = [...counts.values()].toSorted((a, b) => b - a).slice(0, 10);
    const share = hot.reduce((sum, count) => sum + count, 0) / messages.length;
    assert.ok(Math.abs(share - 0.9) < 0.01, String(share));
  });

  test('Zipf: the first is wanted twice as often as the second, uniform: all alike', () => {
    const sorted = (text: string): number[] => {
      const counts = new Map<string, number>();
      for (const { path } of messagesOf(targets, trafficOf(text), [put])) counts.set(path, (counts.get(path) ?? 0) + 1);
      return [...counts.values()].toSorted((a, b) => b - a);
    };
    const [first = 0, second = 1] = sorted('zipf:1');
    assert.ok(Math.abs(first / second - 2) < 0.15, `${first} ${second}`);
    const even = sorted('uniform');
    assert.ok((even[0] ?? 0) / (even.at(-1) ?? 1) < 1.5);
  });

  test('a mix has its shares, reads are queries, and placeholders are filled with another actor', () => {
    const kinds = [
      { method: 'put', args: [], share: 0.5 },
      { method: 'get', args: ['{n}', { to: 'x{name}' }], share: 0.3 },
      { method: 'put', args: ['{principal}'], share: 0.2 },
    ];
    const messages = messagesOf(targets, UNIFORM, kinds);
    const share = (is: RegExp): number => messages.filter(({ path }) => is.test(path)).length / messages.length;
    assert.ok(Math.abs(share(/^\/call\//) - 0.5) < 0.01);
    assert.ok(Math.abs(share(/^\/query-json\//) - 0.3) < 0.01);
    assert.ok(Math.abs(share(/^\/call-json\//) - 0.2) < 0.01);
    for (const { path, body } of messages) {
      if (body === undefined) continue;
      const [first, second] = JSON.parse(body) as [unknown, { to: string } | undefined];
      const own = /\/a(\d+)\//.exec(path)?.[1];
      if (second === undefined) assert.ok(typeof first === 'string' && /^p\d+$/.test(first) && first !== `p${own}`);
      else assert.ok(typeof first === 'number' && /^xa\d+$/.test(second.to) && second.to !== `xa${own}`);
    }
  });

  test('messages go only to actors that have the method', () => {
    const [able = targets[0]] = targets.slice(7);
    const others = targets.map((target) => (target === able ? target : { ...target, methods: new Map() }));
    const paths = new Set(messagesOf(others, UNIFORM, [put], 100).map(({ path }) => path));
    assert.deepEqual([...paths], ['/call/a7/put']);
  });

  test('copies of a manifest have names of their own and paths from its folder', () => {
    const actors = { one: { main: 'One.mo', args: ['One.mo'] }, two: { wasm: '/two.wasm' } };
    assert.deepEqual(copiesOf(actors, 3, '/project'), {
      one: { main: '/project/One.mo', args: ['One.mo'] },
      two: { wasm: '/two.wasm' },
      'one-2': { main: '/project/One.mo', args: ['One.mo'] },
    });
  });
});

suite('load without wrk', () => {
  test('each message is sent with its body, pauses are kept, and answers that are not 2xx are counted', async (t) => {
    const seen = new Map<string, number>();
    const server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const key = `${request.url} ${Buffer.concat(chunks).toString('hex')} ${request.headers.authorization}`;
        seen.set(key, (seen.get(key) ?? 0) + 1);
        response.writeHead(request.url === '/bad' ? 500 : 200).end('answer');
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => server.close());
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const messages = [{ path: '/a' }, { path: '/b', body: '[1]' }, { path: '/bad' }];
    const request = { method: 'POST', path: '/', body: Buffer.from([1, 2]), messages, token: 't', thinkMs: 5 } as const;
    const result = await load(origin, request, 2, 0.5, 'autocannon');
    const total = [...seen.values()].reduce((sum, count) => sum + count, 0);
    assert.equal(total, result.requests);
    assert.deepEqual([...seen.keys()].toSorted(), ['/a 0102 Bearer t', '/b 5b315d Bearer t', '/bad 0102 Bearer t']);
    assert.equal(result.errors, seen.get('/bad 0102 Bearer t'));
    // Two connections that pause 5 ms on average send about 100 requests each in half a second; chance allows some
    // more.
    assert.ok(result.requests < 400, String(result.requests));
  });
});

suite('results', () => {
  const sample = { requestsPerSecond: 100, p50Ms: 1, p99Ms: 2, requests: 50, seconds: 0.5, evictions: 3, wakes: 5 };
  const rows: readonly Row[] = [
    { server: 'a,"b"', hosted: 10, live: 5, traffic: 'uniform', samples: [sample, sample] },
  ];

  test('CSV has a line a load, quoted where it has to be', () => {
    const [head = '', ...lines] = csvOf(rows).split('\r\n');
    assert.equal(head.split(',').length, 12);
    assert.equal(lines[0], '"a,""b""",10,5,uniform,1,50,0.5,100,1,2,5,3');
    assert.equal(lines.length, 3);
  });

  test('JSON has the loads and their medians', () => {
    const parsed = JSON.parse(jsonOf({ sitting: 1 }, rows)) as { rows: { median: { wakesPerMessage: number } }[] };
    assert.equal(parsed.rows[0]?.median.wakesPerMessage, 0.1);
  });

  test('a chart stands for one ratio, for values of 0, and for names with markup', () => {
    const points = [{ x: 10, y: 0 }];
    const svg = lineChart('<a>', '"b" & c', 'x', [
      { heading: 'h', lines: [{ name: '<n>', series: 0, points }] },
      { heading: 'l', scale: 'logarithmic', lines: [{ name: 'n', series: 1, points }] },
    ]);
    assert.doesNotMatch(svg, /NaN|Infinity|<a>|<n>/);
    assert.equal([...svg.matchAll(/<circle /g)].length, 2);
  });
});

test('a server that runs is loaded with its token, and a wrong one is told', async (t) => {
  const wasm = join(folder, 'counter.wasm');
  await writeFile(wasm, await compileCounter());
  const manifest = JSON.stringify({ actors: { counter: { wasm } } });
  const server = await startServer(t, { args: ['--auth-token', 'secret'], manifest });
  const args = ['--url', server.origin, '--method', 'inc', '--read', 'get', '--seconds', '1', '--rounds', '1'];
  args.push('--connections', '4', '--think', '20');
  const refused = await run(args);
  assert.equal(refused.code, 2);
  assert.match(refused.stderr, /answers 401 .*SVC_TOKEN has to be its token/);
  process.env['SVC_TOKEN'] = 'secret';
  t.after(() => delete process.env['SVC_TOKEN']);
  const csv = join(folder, 'running.csv');
  const { code, stdout, stderr } = await run([...args, '--csv', csv, '--traffic', 'uniform']);
  assert.equal(code, 0, stderr);
  assert.match(stdout, /1 : \d+, uniform/);
  assert.match(await readFile(csv, 'utf8'), /\r\nrunning,1,\d+,uniform,1,\d+,/);
  const gone = await run([...args, '--method', 'gone']);
  assert.match(gone.stderr, /no actor has a method gone; there are: .*inc/);
});

test('the run of docs/live-cap.md goes from question to picture', async () => {
  const listings = await listingsOf('live-cap');
  const [manifest, source, shell] = listings.get('One run') ?? [];
  assert.ok(manifest?.file !== undefined && source?.file !== undefined && shell !== undefined);
  await writeFile(join(folder, manifest.file), manifest.text);
  await writeFile(join(folder, source.file), source.text);
  const [command] = commandsOf(shell);
  const [, options = ''] = command?.line.replaceAll('\\\n', ' ').split('scheduler-live-cap ') ?? [];
  const args = [...options.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, word]) => quoted ?? word ?? '');
  const { code, stdout, stderr } = await run([...args, ...SMALL], folder);
  assert.equal(code, 0, stderr);
  for (const column of ['req/s', 'p99 ms', 'woken', 'evictions']) assert.ok(stdout.includes(column), stdout);
  assert.match(stdout, /^4 : 2, /m);
  assert.match(stdout, /^wake, /m);
  for (const file of ['json', 'csv', 'chart'].map((name) => args[args.indexOf(`--${name}`) + 1] ?? '')) {
    assert.ok((await readFile(join(folder, file), 'utf8')).length > 200, file);
  }
  for (const listing of [...listings.values()].flat()) {
    for (const { line } of commandsOf(listing)) {
      const [, rest = ''] = line.split(/scheduler-live-cap(?: |$)/);
      const words = [...rest.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(([, ...parts]) => parts.join(''));
      if (!words.includes('--help'))
        assert.doesNotThrow(() => liveCapOptions(words.filter((word) => word !== '\\')), line);
    }
  }
});
