/**
 * The long form of the proofs, one after the other: `npm run prove -- [PART] [COUNT]`.
 *
 * Proofs over random cases are tests (`npm test` runs their short form) that take the number of cases from PROOF_SEEDS;
 * here each runs in a process of its own. Every part prints its progress; at the end there is a line for each, and the
 * exit code is 1 if one failed.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

interface Run {
  readonly file: URL;
  /** Options of Node. */
  readonly options?: readonly string[];
  /** Special property of this run. */
  readonly label: string;
}

interface Part {
  readonly name: string;
  readonly claims: string;
  readonly unit: 'seeds' | 'rounds' | 'inputs' | 'modules' | 'kills' | 'seconds';
  /** Default number of cases; undefined: the number is fixed. */
  readonly count: number | undefined;
  readonly runs: readonly Run[];
}

const RANDOM_COUNTS = new URL('../subsystems/instrument/random-counts.test.ts', import.meta.url);

const PARTS: readonly Part[] = [
  {
    name: 'semantics',
    claims: 'instrumented modules do what the plain ones do: results, traps, memory, globals, in both widths',
    unit: 'seeds',
    count: 5000,
    runs: [{ file: new URL('../subsystems/instrument/random-modules.test.ts', import.meta.url), label: '' }],
  },
  {
    name: 'counts',
    claims: 'instructions equal an independent count, suffice exactly, and are the same on both compilers of V8',
    unit: 'seeds',
    count: 5000,
    runs: [
      { file: RANDOM_COUNTS, label: '' },
      { file: RANDOM_COUNTS, label: 'baseline compiler only', options: ['--liftoff-only'] },
      { file: RANDOM_COUNTS, label: 'optimising compiler only', options: ['--no-liftoff'] },
      {
        file: new URL('../subsystems/instrument/endless-loops.test.ts', import.meta.url),
        label: 'loops without end run out of instructions',
      },
    ],
  },
  {
    name: 'rollback',
    claims: 'a message stopped anywhere leaves nothing behind, and the dirty set covers what it changed',
    unit: 'seeds',
    count: 5000,
    runs: [
      {
        file: new URL('../subsystems/execution/trap-points.test.ts', import.meta.url),
        label: 'stopped at random points',
      },
      { file: new URL('../subsystems/instrument/loop-strides.test.ts', import.meta.url), label: 'loops' },
    ],
  },
  {
    name: 'hostile',
    claims: 'each hostile module is refused or run within 2 s and 512 MiB, in a process of its own',
    unit: 'modules',
    count: undefined,
    runs: [{ file: new URL('./hostile-modules.ts', import.meta.url), label: '' }],
  },
  {
    name: 'crashes',
    claims: 'a host that crashes at any write loses nothing that was acknowledged, and does nothing twice',
    unit: 'seeds',
    count: 20_000,
    runs: [
      { file: new URL('./crashes.ts', import.meta.url), label: '' },
      { file: new URL('../subsystems/storage/state-store.test.ts', import.meta.url), label: 'the store by itself' },
    ],
  },
  {
    name: 'schedules',
    claims:
      'messages of any length and size, in any order with changes, deaths and crashes, stay apart and are answered once',
    unit: 'seeds',
    count: 300,
    runs: [
      { file: new URL('../simulation/scheduler.test.ts', import.meta.url), label: '' },
      { file: new URL('../simulation/live-bounds.test.ts', import.meta.url), label: 'more actors than may be live' },
    ],
  },
  {
    name: 'fuzz',
    claims: 'mutated modules are refused with a reason, or become modules that V8 takes',
    unit: 'inputs',
    count: 1_000_000,
    runs: [{ file: new URL('./fuzz-modules.ts', import.meta.url), label: '' }],
  },
  {
    name: 'cbor',
    claims: 'bodies of any bytes for /api are read or refused, none holds the main thread for more than 5 ms',
    unit: 'inputs',
    count: 1_000_000,
    runs: [{ file: new URL('../fuzz/envelopes.test.ts', import.meta.url), label: '' }],
  },
  {
    name: 'witnesses',
    claims: 'witnesses of random rounds prove what was asked for, and neither show nor deny what others asked for',
    unit: 'rounds',
    count: 5000,
    runs: [{ file: new URL('../subsystems/certification/witnesses.test.ts', import.meta.url), label: '' }],
  },
  {
    name: 'flips',
    claims:
      'a bit flipped anywhere in a state directory, or a segment of its log that is lost, is told, or changes nothing',
    unit: 'seeds',
    count: 2000,
    runs: [
      { file: new URL('../subsystems/storage/flipped-bits.test.ts', import.meta.url), label: 'flipped bits' },
      {
        file: new URL('../subsystems/storage/sqlite-tables.test.ts', import.meta.url),
        label: 'flipped bits in SQLite',
      },
      { file: new URL('../subsystems/storage/missing-segments.test.ts', import.meta.url), label: 'lost segments' },
    ],
  },
  {
    name: 'kills',
    claims:
      'a server killed under load, or whose threads stop, has lost nothing that it had answered, and done nothing twice',
    unit: 'kills',
    count: 300,
    runs: [{ file: new URL('../e2e/durability/kills.test.ts', import.meta.url), label: '' }],
  },
  {
    name: 'agents',
    claims: 'a server killed among certified calls and management calls has what was answered, and repeats nothing',
    unit: 'kills',
    count: 100,
    runs: [
      { file: new URL('../e2e/durability/agent-kills.test.ts', import.meta.url), label: 'kills' },
      { file: new URL('../e2e/attackers-agents.test.ts', import.meta.url), label: 'attackers at every version' },
    ],
  },
  {
    name: 'agent-floods',
    claims: 'clients that never read, one request again and again, JWTs without end: the memory is bounded',
    unit: 'inputs',
    count: 100_000,
    runs: [{ file: new URL('../e2e/agent-floods.test.ts', import.meta.url), label: '' }],
  },
  {
    name: 'arm64',
    claims:
      'the package on emulated Linux arm64, with tables in SQLite: killed under load, it has lost nothing that was answered',
    unit: 'kills',
    count: 5,
    runs: [{ file: new URL('./arm64.ts', import.meta.url), label: '' }],
  },
  {
    name: 'image',
    claims: 'the image is built, fits its bounds, serves without rights on a read-only root, and goes on after a kill',
    unit: 'kills',
    count: 3,
    runs: [{ file: new URL('./image.ts', import.meta.url), label: '' }],
  },
  {
    name: 'postgres',
    claims:
      'the owner of a namespace in PostgreSQL is killed under load and its standby goes on: nothing that was answered is lost, nothing done twice',
    unit: 'kills',
    count: 100,
    runs: [
      { file: new URL('../system/postgres-kills.test.ts', import.meta.url), label: 'kills' },
      { file: new URL('../plugins/storage-postgres/lease.test.ts', import.meta.url), label: 'leases' },
      { file: new URL('../plugins/storage-postgres/shard-leases.test.ts', import.meta.url), label: 'leases of shards' },
    ],
  },
  {
    name: 'floods',
    claims: 'strangers without a token flood a real server, and a client with it is answered in time',
    unit: 'seconds',
    count: 30,
    runs: [{ file: new URL('../e2e/floods.test.ts', import.meta.url), label: '' }],
  },
  {
    name: 'siege',
    claims:
      'endless loops, silent and flooding connections and a growing heap at once: a durable counter answers in time',
    unit: 'seconds',
    count: 300,
    runs: [
      { file: new URL('../e2e/siege.test.ts', import.meta.url), label: '' },
      { file: new URL('../e2e/live-bytes.test.ts', import.meta.url), label: 'more bytes of actors than may be live' },
    ],
  },
  {
    name: 'archive',
    claims: 'any moment of an archive, through upgrades, stops and kills, is restored bit by bit',
    unit: 'seeds',
    count: 200,
    runs: [
      { file: new URL('../subsystems/archive/restored-moments.test.ts', import.meta.url), label: 'units and times' },
      { file: new URL('../e2e/durability/archive.test.ts', import.meta.url), label: 'real servers' },
      {
        file: new URL('../subsystems/archive/follow-archive.test.ts', import.meta.url),
        label: 'restores killed at each step',
      },
    ],
  },
  {
    name: 'past',
    claims: 'any past moment of an actor is asked, forked and restored bit by bit, over upgrades and kills',
    unit: 'seeds',
    count: 300,
    runs: [{ file: new URL('../e2e/time-travel.test.ts', import.meta.url), label: '' }],
  },
  {
    name: 'replays',
    claims: 'each message of a random run replays exactly, whatever an operator does between two messages',
    unit: 'seeds',
    count: 200,
    runs: [{ file: new URL('../e2e/replay-random.test.ts', import.meta.url), label: '' }],
  },
  {
    name: 'any-order',
    claims: 'stop, kill, start, evict, wake, upgrade, back up, restore in any order leave every answer as before',
    unit: 'seeds',
    count: 50,
    runs: [{ file: new URL('../e2e/durability/any-order.test.ts', import.meta.url), label: '' }],
  },
  {
    name: 'properties',
    claims: 'what `npm test` says of 100 to 3,000 random values each, of as many others in each round',
    unit: 'rounds',
    count: 20,
    runs: propertyTests(),
  },
  {
    name: 'compilations',
    claims: 'an instance of the compiler that has compiled others, in any order, compiles as one that is new',
    unit: 'seeds',
    count: 20,
    runs: [{ file: new URL('../subsystems/compiler/moc-state.test.ts', import.meta.url), label: '' }],
  },
  {
    name: 'upgrades',
    claims: 'random upgrades, compatible, incompatible, trapping, forced, leave each variable as it must be',
    unit: 'seeds',
    count: 1000,
    runs: [
      { file: new URL('../e2e/upgrades/random-upgrades.test.ts', import.meta.url), label: '' },
      {
        file: new URL('../subsystems/compatibility/compare-interfaces.test.ts', import.meta.url),
        label: 'random interfaces',
      },
    ],
  },
];

/** Returns every test over random values: the files that draw them by `test/support/properties.ts`. */
function propertyTests(): Run[] {
  const root = new URL('../', import.meta.url);
  const paths = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.test.ts'));
  const drawing = paths.filter((path) => /support\/properties\.ts'/.test(readFileSync(new URL(path, root), 'utf8')));
  return drawing.toSorted().map((path) => ({ file: new URL(path, root), label: path }));
}

const HELP = `npm run prove                            all parts
npm run prove -- PART [COUNT]            one of them (one at a time), with so many cases
npm run prove -- crashes --seed N        one case of it again
npm run prove -- crashes COUNT --from N  goes on with what was cut short, from case N on

${PARTS.map(({ name, claims, count, unit }) => {
  const amount = count === undefined ? '' : ` (${count} ${unit})`;
  return `  ${name.padEnd(12)} ${claims}${amount}`;
}).join('\n')}
`;

/** The proof under way. */
let running: ChildProcess | undefined;

const [wanted, counted, ...rest] = process.argv.slice(2);
const chosen = wanted === undefined ? PARTS : PARTS.filter(({ name }) => name === wanted);
const count = counted === undefined ? undefined : Number(counted);
if (wanted === '--help') {
  process.stdout.write(HELP);
} else if (wanted === 'crashes' && counted === '--seed' && isCount(Number(rest[0]), chosen)) {
  process.argv.splice(2, 1);
  await import('./crashes.ts');
} else if (wanted === 'crashes' && rest[0] === '--from' && isCount(count, chosen) && isCount(Number(rest[1]), chosen)) {
  process.argv.splice(2, 1);
  await import('./crashes.ts');
} else if (chosen.length === 0 || rest.length > 0 || !isCount(count, chosen)) {
  process.stderr.write(HELP);
  process.exitCode = 2;
} else {
  // The running proof would go on alone, for hours on all cores.
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const) {
    process.once(signal, () => {
      running?.kill(signal);
      process.exit(code);
    });
  }
  const lines: string[] = [];
  for (const part of chosen) for (const run of part.runs) lines.push(await prove(part, run, count ?? part.count));
  process.stdout.write(`\n${lines.join('\n')}\n`);
}

function isCount(given: number | undefined, parts: readonly Part[]): boolean {
  if (given === undefined) return true;
  return Number.isSafeInteger(given) && given > 0 && parts.every((part) => part.count !== undefined);
}

/** Runs one part and returns its line of the summary. */
async function prove(
  { name, unit }: Part,
  { file, options = [], label }: Run,
  cases: number | undefined,
): Promise<string> {
  const title = `${name}${label === '' ? '' : `, ${label}`}`;
  process.stdout.write(`\n== ${title}\n`);
  const path = fileURLToPath(file);
  const isTest = path.endsWith('.test.ts');
  const args = [...options, ...(isTest ? ['--test-reporter=spec'] : []), path];
  if (!isTest && cases !== undefined) args.push(String(cases));
  const env = isTest ? { ...process.env, PROOF_SEEDS: String(cases) } : process.env;
  const start = performance.now();
  running = spawn(process.execPath, args, { stdio: 'inherit', env });
  const [code, signal] = (await once(running, 'exit')) as [number | null, string | null];
  if (code !== 0) process.exitCode = 1;
  const verdict = code === 0 ? 'holds' : `FAILS (${signal ?? `exit code ${code}`})`;
  const many = cases === undefined ? 'all modules' : `${cases} ${unit}`;
  return `${title}: ${many} in ${Math.round((performance.now() - start) / 1000)} s: ${verdict}`;
}
