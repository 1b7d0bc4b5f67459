/**
 * Random sequences of upgrades (compatible, incompatible, breaking callers, trapping, endless, forced) and messages on
 * durable actors of both modes of persistence, compared with a model of each variable: after every step the digest of
 * all variables is the model's, and the last actors are unchanged after a restart.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Persistence } from '../../../subsystems/compiler/motoko-compiler.ts';
import { type Answer, type InProcessServer, startInProcess } from '../../support/in-process-server.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { type Seeded, seeded } from '../../support/seeded.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { argumentOf, MOOD, type Mood, moduleOf, type SourceName } from './modules.ts';

const endings: (() => Promise<void>)[] = [];
after(async () => {
  for (const end of endings) await end();
});
const owner = { after: (end: () => Promise<void>) => void endings.push(end) };
const STEPS = 12;
const NAMES: readonly [SourceName, ...SourceName[]] = ['base', 'wider', 'unfit', 'breaking'];
const MOODS: readonly [Mood, ...Mood[]] = [MOOD.works, MOOD.works, MOOD.works, MOOD.traps, MOOD.endless];
/** Number of actors that are left for the restart. */
const KEPT_MAX = 8;

type Refusal = 'incompatible' | 'breaks' | 'pre' | 'runtime' | 'post';

/** Expected state of an actor of `modules.ts`. */
class Model {
  readonly persistence: Persistence;
  #module: SourceName = 'base';
  #count = 0;
  /** Content of the only note. */
  #note: string | undefined;
  #armed: Mood = MOOD.works;
  #extra: number | undefined;

  constructor(persistence: Persistence) {
    this.persistence = persistence;
  }

  get module(): SourceName {
    return this.#module;
  }

  get digest(): string {
    const extra = this.#extra === undefined ? '' : `, ${this.#extra}`;
    return `(${this.#count}, [${this.#note ?? ''}], ${this.#armed}${extra})`;
  }

  inc(): void {
    this.#count++;
    this.#note = this.#module === 'unfit' ? String(this.#count) : `"${this.#count}!"`;
  }

  more(): void {
    this.#extra = (this.#extra ?? 0) + 1;
  }

  arm(mood: Mood): void {
    this.#armed = mood;
  }

  /** Returns the reason why an upgrade must be refused; undefined: it succeeds. */
  upgrade(to: SourceName, mood: Mood, isForced: boolean): Refusal | undefined {
    const losesExtra = this.#module === 'wider' && to !== 'wider';
    const losesNotes = (this.#module === 'unfit') !== (to === 'unfit');
    if (!isForced && (losesExtra || losesNotes)) return 'incompatible';
    if (!isForced && to === 'breaking' && this.#module !== 'breaking') return 'breaks';
    if (this.#armed !== MOOD.works) return 'pre';
    // A heap that stays is not fitted to other types; stable memory is read as far as its types fit.
    if (this.persistence === 'enhanced' && (losesExtra || losesNotes)) return 'runtime';
    if (mood !== MOOD.works) return 'post';
    if (losesNotes) this.#note = undefined;
    this.#extra = to === 'wider' ? (this.#extra ?? 7) : undefined;
    this.#module = to;
    return undefined;
  }
}

const SAYS: Readonly<Record<Refusal, RegExp>> = {
  incompatible: /does not take over its stable variables: \[M0(169|170)\]/,
  breaks: /breaks callers of the old one: get is gone/,
  pre: /assertion failed|exceeded the limit/,
  runtime: /Memory-incompatible program upgrade/,
  post: /assertion failed|exceeded the limit/,
};

async function step(
  server: InProcessServer,
  name: string,
  model: Model,
  random: Seeded,
): Promise<Refusal | 'done' | 'message'> {
  const call = (method: string, body = '[]'): Promise<Answer> => server.post(`/call-json/${name}/${method}`, body);
  switch (random.below(6)) {
    case 0:
      model.inc();
      assert.equal((await call('inc')).status, 200);
      return 'message';
    case 1: {
      const mood = random.oneIn(4) ? MOOD.traps : random.oneIn(4) ? MOOD.endless : MOOD.works;
      model.arm(mood);
      assert.equal((await call('arm', `[${mood}]`)).status, 200);
      return 'message';
    }
    case 2:
      if (model.module === 'wider') {
        model.more();
        assert.equal((await call('more')).status, 200);
      }
      return 'message';
    default: {
      const [to, mood, isForced] = [random.pick(NAMES), random.pick(MOODS), random.oneIn(3)];
      const query = `${argumentOf(mood)}${isForced ? '&force=true' : ''}`;
      const answer = await server.post(`/upgrade/${name}?${query}`, await moduleOf(to, model.persistence));
      const refusal = model.upgrade(to, mood, isForced);
      if (refusal === undefined) {
        assert.deepEqual(answer, { status: 200, body: 'upgraded' });
        // The hook resets its mood.
        model.arm(MOOD.works);
        return 'done';
      }
      assert.equal(answer.status, 400, `${refusal} was expected: ${answer.body}`);
      assert.match(answer.body, SAYS[refusal]);
      return refusal;
    }
  }
}

const digestOf = async (server: InProcessServer, name: string): Promise<unknown> =>
  JSON.parse((await server.post(`/query-json/${name}/digest`)).body);

test('after any sequence of upgrades and messages each variable is what it must be, also after a restart', async () => {
  const args = ['--instruction-limit', '3000000', '--state', await temporaryDirectory()];
  const server = await startInProcess(owner, { args });
  const kept: (readonly [name: string, model: Model])[] = [];
  const seeds = new ProofSeeds(20);
  const counts = { done: 0, message: 0, incompatible: 0, breaks: 0, pre: 0, runtime: 0, post: 0 };
  for (const seed of seeds) {
    const random = seeded(seed);
    const model = new Model(random.oneIn(2) ? 'enhanced' : 'classical');
    const name = `ledger_${seed}`;
    const installed = await server.post(
      `/install/${name}?${argumentOf(MOOD.works)}`,
      await moduleOf('base', model.persistence),
    );
    assert.equal(installed.status, 200, installed.body);
    const steps: string[] = [];
    for (let at = 0; at < STEPS; at++) {
      const came = await step(server, name, model, random);
      counts[came]++;
      steps.push(came);
      assert.deepEqual(await digestOf(server, name), [model.digest], `seed ${seed}: ${steps.join(', ')}`);
    }
    kept.push([name, model]);
    const [oldest] = kept.length > KEPT_MAX ? kept.splice(0, 1) : [];
    if (oldest !== undefined) await fetch(`${server.origin}/actors/${oldest[0]}?force=true`, { method: 'DELETE' });
  }
  assert.ok(!seeds.isLong || Object.values(counts).every((count) => count > seeds.count / 10), JSON.stringify(counts));
  seeds.saw(counts);
  await server.stop();
  const again = await startInProcess(owner, { args });
  for (const [name, model] of kept) assert.deepEqual(await digestOf(again, name), [model.digest], name);
});
