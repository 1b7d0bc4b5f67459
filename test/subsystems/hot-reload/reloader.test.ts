import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Clock, ServerError, systemClock } from '../../../kernel/index.ts';
import type { ManifestActors } from '../../../subsystems/canisters/index.ts';
import { Reloader } from '../../../subsystems/hot-reload/reloader.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

/** Actors whose "modules" are the texts of their files; `broken` does not compile. */
class TextActors implements ManifestActors {
  readonly #names: readonly string[];
  readonly root: string;
  readonly has = new Map<string, string>();
  reloads = 0;
  /** Reloads that the server cannot do now. */
  refusals = 0;
  /** Reloads end when this resolves. */
  held: Promise<void> = Promise.resolve();

  constructor(root: string, names: readonly string[]) {
    this.root = root;
    this.#names = names;
    for (const name of names) this.write(name, 'first');
  }

  names(): readonly string[] {
    return this.#names;
  }

  write(name: string, text: string): void {
    writeFileSync(join(this.root, `${name}.mo`), text);
    this.#now.set(name, text);
  }

  readonly #now = new Map<string, string>();

  async filesOf(name: string): Promise<readonly string[]> {
    return [join(this.root, `${name}.mo`)];
  }

  async reload(name: string): Promise<'same' | 'reloaded'> {
    this.reloads++;
    const text = this.#now.get(name) ?? '';
    await this.held;
    if (this.refusals > 0 && this.refusals-- > 0) throw new ServerError('unavailable', 'memory-full', 'no room');
    if (text === 'broken') throw new ServerError('invalid', 'motoko-errors', `${name}.mo:1.1: syntax error`);
    if (this.has.get(name) === text) return 'same';
    this.has.set(name, text);
    return 'reloaded';
  }
}

async function reloading(
  t: TestContext,
  names: readonly string[],
  clock: Clock = systemClock,
): Promise<{ actors: TextActors; lines: string[] }> {
  const lines: string[] = [];
  const tell = (text: string): void => void lines.push(text);
  const log = { event() {}, debug() {}, info: tell, warn: tell, error: tell, announce: tell };
  const actors = new TextActors(await temporaryDirectory(), names);
  const reloader = new Reloader({ actors, clock, log }, { isWatching: true });
  t.after(() => reloader.stop());
  reloader.start();
  await until(() => names.every((name) => actors.has.get(name) === 'first'));
  return { actors, lines };
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await sleep(2);
}

suite('actors that follow their files', { timeout: 120_000 }, () => {
  test('at the start what differs is taken up, then each save, with the file and the time', async (t) => {
    const { actors, lines } = await reloading(t, ['one', 'two']);
    actors.write('two', 'second');
    await until(() => actors.has.get('two') === 'second' && lines.length >= 4);
    assert.equal(lines[0], 'watching the files of 2 actor(s)');
    assert.match(lines[1] ?? '', /^reloaded one in \d+\.\d\d s: its files are other than its state$/);
    assert.match(lines[3] ?? '', /^reloaded two in \d+\.\d\d s: .*two\.mo$/);
    assert.equal(actors.has.get('one'), 'first');
  });

  test('many saves within a moment are one reload', async (t) => {
    const { actors } = await reloading(t, ['one']);
    const before = actors.reloads;
    for (let n = 1; n <= 20; n++) actors.write('one', `save ${n}`);
    await until(() => actors.has.get('one') === 'save 20');
    assert.ok(actors.reloads - before <= 3, `${actors.reloads - before} reloads`);
  });

  test('what does not compile is told, and the next save is taken up', async (t) => {
    const { actors, lines } = await reloading(t, ['one']);
    actors.write('one', 'broken');
    await until(() => lines.some((line) => line.startsWith('WARNING')));
    assert.match(lines.at(-1) ?? '', /^WARNING one was not reloaded, nothing has changed: one\.mo:1\.1: syntax error/);
    assert.equal(actors.has.get('one'), 'first');
    actors.write('one', 'mended');
    await until(() => actors.has.get('one') === 'mended');
  });

  test('a save while the same actor is being reloaded is taken up after that', async (t) => {
    const { actors } = await reloading(t, ['one']);
    const { promise, resolve } = Promise.withResolvers<void>();
    actors.held = promise;
    const before = actors.reloads;
    actors.write('one', 'second');
    await until(() => actors.reloads > before);
    actors.write('one', 'third');
    await sleep(80);
    assert.equal(actors.has.get('one'), 'first');
    resolve();
    await until(() => actors.has.get('one') === 'third');
  });

  test('what the server cannot do at that moment is tried again, told once, and not for ever', async (t) => {
    /** Retries come at once. */
    const clock: Clock = { ...systemClock, after: (ms, work) => systemClock.after(ms === 5_000 ? 1 : ms, work) };
    const { actors, lines } = await reloading(t, ['one'], clock);
    const warnings = (): string[] => lines.filter((line) => line.startsWith('WARNING'));
    actors.refusals = 5;
    actors.write('one', 'second');
    await until(() => actors.has.get('one') === 'second');
    const told = 'WARNING one was not reloaded, nothing has changed: no room';
    assert.deepEqual(warnings(), [`${told}; it is tried again every 5 s`]);
    actors.refusals = 1_000;
    actors.write('one', 'third');
    await until(() => warnings().length === 3);
    await sleep(50);
    assert.deepEqual(warnings().slice(1), [`${told}; it is tried again every 5 s`, told]);
    // The first try, and the tries after it.
    assert.equal(1_000 - actors.refusals, 13);
    actors.write('one', 'fourth');
    await until(() => warnings().length === 4);
    actors.refusals = 0;
    await until(() => actors.has.get('one') === 'fourth');
  });
});
