/**
 * Measures the comparison of the two modules of an upgrade: the first one after a start, and later ones with running
 * threads.
 *
 *   node benchmarks/micro/compatibility.bench.ts [--rounds 7] [--quick]
 *
 * The modules are a counter that gets a stable variable and a method, and an actor of 200 stable variables of records
 * and variants that gets ten more of them and a method. Stable signatures are compared by the bundled compiler,
 * interfaces by the server's own checker, each in a thread. Cold: both threads start, and the compiler's program is
 * read as an earlier process has left it; the first time ever, when nothing is left yet, is reported separately.
 */
import { once } from 'node:events';
import { enableCompileCache } from 'node:module';
import { fork } from 'node:child_process';
import { optionsOf } from '../options.ts';
import type { ComparedCode } from '../../subsystems/compatibility/index.ts';
import { UpgradeComparisons } from '../../subsystems/compatibility/upgrade-comparisons.ts';
import { createCompiler } from '../../subsystems/compiler/motoko-compiler.ts';
import { compileMotoko } from '../../test/support/motoko.ts';
import { report } from '../figures.ts';
import { median } from '../macro/quantile.ts';
import { scratchFolder } from '../macro/scratch.ts';

const COLD_REACH_MS = 1500;
const WARM_REACH_MS = 150;
const WARM_ROUNDS = 10;

interface Question {
  readonly name: string;
  readonly from: ComparedCode;
  readonly to: ComparedCode;
}
interface Took {
  readonly coldMs: number;
  readonly warmMs: readonly number[];
}

const COMPARE = '--compare';
if (process.argv[2] === COMPARE) {
  enableCompileCache(process.argv[3]);
  process.once('message', (questions: Question[]) => void compareAll(questions));
} else await measure();

/** Compares in a process of its own, where nothing is warm: the first question is the cold one. */
async function compareAll(questions: readonly Question[]): Promise<void> {
  const took: Took[] = [];
  for (const question of questions) {
    const compiler = createCompiler({ cacheDirectory: undefined });
    const comparisons = new UpgradeComparisons({
      policy: 'refuse',
      checker: () => ({ name: 'bundled', compareStable: (before, after) => compiler.compareStable(before, after) }),
    });
    const coldMs = await compared(comparisons, question);
    const warmMs: number[] = [];
    for (let round = 0; round < WARM_ROUNDS; round++) warmMs.push(await compared(comparisons, question));
    took.push({ coldMs, warmMs });
    await comparisons.close();
    await compiler.close();
  }
  process.send?.(took);
  process.disconnect?.();
}

async function compared(comparisons: UpgradeComparisons, { name, from, to }: Question): Promise<number> {
  const startMs = performance.now();
  const { stable, candid, refusal } = await comparisons.compare({ name, from, to, isForced: false });
  const ms = performance.now() - startMs;
  if (refusal !== undefined) throw refusal;
  if (
    stable.checker !== 'bundled' ||
    stable.compatible !== true ||
    stable.added.length === 0 ||
    candid.compatible !== true
  )
    throw new Error(`${name}: it was not compared: ${JSON.stringify({ stable, candid })}`);
  return ms;
}

async function measure(): Promise<void> {
  const values = optionsOf({ rounds: { type: 'string', default: '7' }, quick: { type: 'boolean', default: false } });
  const rounds = values.quick ? 1 : Number(values.rounds);
  const questions: readonly Question[] = [
    { name: 'counter', from: await codeOf(counter(1)), to: await codeOf(counter(2)) },
    { name: '200 stable variables', from: await codeOf(wide(200)), to: await codeOf(wide(210)) },
  ];
  await using scratch = await scratchFolder(undefined);
  const took = questions.map((): Took[] => []);
  for (let round = 0; round <= rounds; round++) {
    for (const [at, question] of questions.entries()) {
      const child = fork(import.meta.filename, [COMPARE, scratch.path], { serialization: 'advanced' });
      const answered = once(child, 'message') as Promise<[Took[]]>;
      child.send([question]);
      const [[answer]] = await answered;
      await once(child, 'exit');
      if (answer === undefined) throw new Error('nothing was compared');
      // The very first comparison has found no kept program.
      if (round === 0 && at === 0)
        report({ panel: 'time', name: 'the first time ever', value: answer.coldMs, unit: 'ms' });
      if (round > 0) took[at]?.push(answer);
    }
  }
  for (const [at, { name }] of questions.entries()) {
    const coldMs = median(took[at]?.map((each) => each.coldMs) ?? []);
    const warmMs = median(took[at]?.flatMap((each) => each.warmMs) ?? []);
    report({ panel: 'time', name: `${name}, cold`, value: coldMs, unit: 'ms', reach: COLD_REACH_MS });
    report({ panel: 'time', name: `${name}, warm`, value: warmMs, unit: 'ms', reach: WARM_REACH_MS });
  }
}

/** Returns the host's data about a module. */
async function codeOf(source: string): Promise<ComparedCode> {
  const { candid, stableTypes } = await compileMotoko(source);
  return {
    candid: { text: candid, methods: new Map() },
    stableTypes: Buffer.from(stableTypes ?? ''),
    methods: new Map(),
  };
}

function counter(version: number): string {
  const more = version === 1 ? '' : 'var more = 0; public query func also() : async Nat { more };';
  return `persistent actor { var count = 0; public func inc() : async Nat { count += 1; count }; ${more} }`;
}

/**
 * Makes an actor whose variables have types of their own, as those of large actors have: the types form chains of five.
 * In one chain of all 200, the compiler would take the third power of its length: 1 s for 160, more than its deadline
 * of 10 s for 200 of these.
 */
function wide(variables: number): string {
  const of = (k: number): string => `
  type Item${k} = { id : Nat; name : Text; state : { #open; #closed : Int; #field${k} }; tags : [Text]; next : ?Item${k % 5 === 0 ? k : k - 1} };
  var items${k} : [Item${k}] = [];
  ${k % 10 === 0 ? `public query func get${k}(at : Nat) : async Item${k} { items${k}[at] };` : ''}`;
  return `persistent actor {${Array.from({ length: variables }, (_, k) => of(k)).join('')}\n}`;
}
