/**
 * The suite that whoever stands in for `Canisters` has to pass: the real service, and the canisters in TypeScript with
 * which HTTP is tested. What one of them says in another way than the other, tests of HTTP would believe in vain. Not
 * for plugins from outside, because this part of the server cannot be replaced.
 */
import assert from 'node:assert/strict';
import { ServerError } from '../../../kernel/index.ts';
import { nodeRunner, suite, type SuiteContext, type SuiteRunner } from '../../../plugins/api/contracts/runner.ts';
import type { Canister, ClientMessage } from '../../../subsystems/canisters/index.ts';
import type { ServedCanisters } from '../../../subsystems/http/route.ts';
import type { Outcome } from '../../../subsystems/ic/index.ts';

/** Canisters with code to be installed: with the methods `inc` (an update), `get` (a query), and one that traps. */
export interface CanistersUnderTest {
  readonly canisters: ServedCanisters;
  readonly module: Uint8Array;
  /** Name of an update that traps. */
  readonly trapping: string;
  /** Makes a canister print a line. */
  print(canister: Canister): Promise<unknown> | void;
}

const ANONYMOUS = Uint8Array.of(4);
const ARGUMENT = Buffer.from('[]');

const refused =
  (kind: ServerError['kind'], message = /./) =>
  (error: unknown): boolean =>
    error instanceof ServerError && error.kind === kind && message.test(error.message);

let yards = 0;

/** Canisters with one of the test's own: its name is new, because tests may share a server. */
class Yard {
  readonly #under: CanistersUnderTest;
  readonly it: Canister;

  static async open(under: CanistersUnderTest): Promise<Yard> {
    const options = { argument: undefined, caller: ANONYMOUS };
    return new Yard(under, await under.canisters.install(`yard-${++yards}`, under.module, options));
  }

  private constructor(under: CanistersUnderTest, it: Canister) {
    this.#under = under;
    this.it = it;
  }

  get canisters(): ServedCanisters {
    return this.#under.canisters;
  }

  call(method: string, more: Partial<ClientMessage> = {}): Promise<Outcome> {
    const message = { kind: 'update', method, caller: ANONYMOUS, argument: ARGUMENT, addressedBy: 'name' } as const;
    return this.canisters.call(this.it, { ...message, ...more });
  }

  async count(): Promise<string> {
    const outcome = await this.call('get', { kind: 'query' });
    assert.equal(outcome.kind, 'reply');
    return Buffer.from(outcome.kind === 'reply' ? outcome.data : []).toString('hex');
  }
}

export function describeCanisters(
  name: string,
  make: (context: SuiteContext) => CanistersUnderTest | Promise<CanistersUnderTest>,
  runner: SuiteRunner = nodeRunner,
): void {
  suite(runner, name, (test) => {
    test('a canister is found by its name and its hex id, and listed in the order of ids', async (t) => {
      const { canisters, it } = await Yard.open(await make(t));
      assert.equal(canisters.resolve(it.name), it);
      assert.equal(canisters.resolve(it.idHex), it);
      const ids = canisters.list().map(({ idHex }) => idHex);
      assert.ok(ids.includes(it.idHex));
      assert.deepEqual(ids, ids.toSorted());
      assert.throws(() => canisters.resolve('nobody'), refused('missing', /nobody/));
    });

    test('a name is taken once', async (t) => {
      const under = await make(t);
      const { canisters, it } = await Yard.open(under);
      const again = canisters.install(it.name, under.module, { argument: undefined, caller: ANONYMOUS });
      await assert.rejects(again, refused('invalid', /yard-.* is already installed/));
    });

    test('an update is kept, and a query sees it; both count by the way they were addressed', async (t) => {
      const yard = await Yard.open(await make(t));
      const before = await yard.count();
      const [byName, byId] = [yard.it.messagesByName, yard.it.messagesById];
      assert.equal((await yard.call('inc')).kind, 'reply');
      assert.notEqual(await yard.count(), before);
      assert.equal((await yard.call('inc', { addressedBy: 'id' })).kind, 'reply');
      assert.deepEqual([yard.it.messagesByName, yard.it.messagesById], [byName + 2, byId + 1]);
    });

    test('a method that is not there, and an update as a query, are refused; a trap is an outcome', async (t) => {
      const under = await make(t);
      const yard = await Yard.open(under);
      await assert.rejects(yard.call('nothing'), refused('missing', /nothing/));
      await assert.rejects(yard.call('inc', { kind: 'query' }), refused('invalid', /inc/));
      await assert.rejects(yard.canisters.ask(yard.it, 'inc', ANONYMOUS, ARGUMENT), refused('invalid', /inc/));
      assert.equal((await yard.canisters.ask(yard.it, 'get', ANONYMOUS, ARGUMENT)).kind, 'reply');
      const before = await yard.count();
      assert.equal((await yard.call(under.trapping)).kind, 'trap');
      assert.equal(await yard.count(), before);
    });

    test('a stopped canister rejects messages until it is started', async (t) => {
      const yard = await Yard.open(await make(t));
      const { canisters, it } = yard;
      await canisters.stop(it);
      assert.equal(it.status, 'stopped');
      assert.equal((await yard.call('inc')).kind, 'reject');
      await canisters.start(it);
      assert.equal(it.status, 'running');
      assert.equal((await yard.call('inc')).kind, 'reply');
    });

    test('only a stopped canister is deleted, unless its calls are to be ended; then nobody finds it', async (t) => {
      for (const endsCalls of [false, true]) {
        const { canisters, it } = await Yard.open(await make(t));
        await assert.rejects(canisters.remove(it), refused('invalid', /yard-.* is running/));
        assert.equal(canisters.resolve(it.name), it);
        if (!endsCalls) await canisters.stop(it);
        await canisters.remove(it, { endsCalls });
        assert.throws(() => canisters.resolve(it.name), refused('missing'));
        assert.ok(!canisters.list().includes(it));
      }
    });

    test('a watcher hears of updates and of the deletion, until it is disposed of', async (t) => {
      const yard = await Yard.open(await make(t));
      const { canisters, it } = yard;
      const heard: string[] = [];
      const watcher = (whose: string) => ({
        changed: () => void heard.push(`${whose} changed`),
        codeChanged: () => void heard.push(`${whose} code`),
        removed: () => void heard.push(`${whose} removed`),
      });
      using _watching = canisters.watch(it, watcher('one'));
      const other = canisters.watch(it, watcher('other'));
      await yard.call('inc');
      assert.ok(heard.includes('one changed') && heard.includes('other changed'), heard.join());
      other[Symbol.dispose]();
      heard.length = 0;
      await yard.call('inc');
      assert.ok(heard.includes('one changed') && !heard.includes('other changed'), heard.join());
      await canisters.remove(it, { endsCalls: true });
      assert.equal(heard.at(-1), 'one removed');
    });

    test('added cycles are the balance', async (t) => {
      const { canisters, it } = await Yard.open(await make(t));
      const before = it.balance;
      assert.equal(await canisters.addCycles(it, 7n), before + 7n);
      assert.equal(it.balance, before + 7n);
    });

    test('a printed line goes to one reader: whoever takes it, or follows', async (t) => {
      const under = await make(t);
      const { canisters, it } = await Yard.open(under);
      await under.print(it);
      assert.equal(canisters.takeLogs(it).length, 1);
      assert.equal(canisters.takeLogs(it).length, 0);
      const followed: unknown[] = [];
      const reader = {
        hasRoom: true,
        write: (lines: readonly unknown[]) => void followed.push(...lines),
        ended: () => {},
      };
      const following = canisters.followOutput(it, reader);
      await under.print(it);
      for (let turn = 0; turn < 1_000 && followed.length === 0; turn++) await new Promise(setImmediate);
      assert.equal(followed.length, 1);
      assert.equal(canisters.takeLogs(it).length, 0);
      following.end();
    });

    test('settings are changed one by one, and those of another type are refused with the place', async (t) => {
      const { canisters, it } = await Yard.open(await make(t));
      const { operator } = canisters;
      const before = (await operator.settingsOf(it)) as Record<string, unknown>;
      const after = await operator.changeSettings(it, '{"log_visibility":{"public":null}}');
      assert.deepEqual(after, { ...before, log_visibility: { public: null } });
      assert.deepEqual(await operator.settingsOf(it), after);
      await assert.rejects(
        operator.changeSettings(it, '{"controllers":7}'),
        refused('invalid', /args\[0\]\.settings\.controllers/),
      );
      assert.deepEqual(await operator.settingsOf(it), after);
    });

    test('a snapshot brings back what was, until it is deleted', async (t) => {
      const yard = await Yard.open(await make(t));
      const { operator } = yard.canisters;
      // The operator needs nobody's leave.
      await operator.changeSettings(yard.it, '{"controllers":[]}');
      await yard.call('inc');
      const then = await yard.count();
      const taken = await operator.takeSnapshot(yard.it);
      assert.deepEqual(await operator.snapshotsOf(yard.it), [taken]);
      await yard.call('inc');
      assert.notEqual(await yard.count(), then);
      await operator.loadSnapshot(yard.it, taken.id);
      assert.equal(await yard.count(), then);
      const other = await operator.takeSnapshot(yard.it, taken.id);
      assert.deepEqual(await operator.snapshotsOf(yard.it), [other]);
      for (const gone of [taken.id, 'nonsense', ''])
        await assert.rejects(operator.loadSnapshot(yard.it, gone), refused('missing', /has no snapshot/));
      await operator.deleteSnapshot(yard.it, other.id);
      assert.deepEqual(await operator.snapshotsOf(yard.it), []);
      await assert.rejects(operator.deleteSnapshot(yard.it, other.id), refused('missing', /has no snapshot/));
    });

    test('an upgrade and a reinstallation leave the canister where it is', async (t) => {
      const under = await make(t);
      const yard = await Yard.open(under);
      const options = { argument: undefined, caller: ANONYMOUS, isForced: true };
      assert.ok((await yard.canisters.upgrade(yard.it, under.module, options)).isUpgraded);
      await yard.canisters.reinstall(yard.it, under.module, options);
      assert.equal(yard.canisters.resolve(yard.it.name), yard.it);
      assert.equal((await yard.call('inc')).kind, 'reply');
    });
  });
}
