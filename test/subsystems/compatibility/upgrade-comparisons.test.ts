/** Findings about two modules, and the decisions of each policy on them. */
import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import type { StableVerdict } from '../../../subsystems/compiler/index.ts';
import type { ComparedCode, ComparedUpgrade, UpgradeFindings } from '../../../subsystems/compatibility/index.ts';
import type { UpgradePolicy } from '../../../subsystems/compatibility/policy.ts';
import type { MethodKind } from '../../../subsystems/ic/index.ts';
import { UpgradeComparisons } from '../../../subsystems/compatibility/upgrade-comparisons.ts';

const COMPATIBLE: StableVerdict = { kind: 'compatible', message: undefined };
const INCOMPATIBLE: StableVerdict = { kind: 'incompatible', message: '[M0169] n is dropped' };
const UNKNOWN: StableVerdict = { kind: 'unknown', reason: 'SVC_BIN hangs' };
const NONE = { added: [], removed: [], changed: [] };

const codeOf = (variables?: string, candid?: string, methods: readonly string[] = []): ComparedCode => ({
  stableTypes: variables === undefined ? undefined : Buffer.from(`// Version: 1.0.0\nactor {\n${variables}\n};\n`),
  candid: candid === undefined ? undefined : { text: candid, methods: describedBy(candid) },
  methods: new Map(methods.map((name) => [name, 'update'])),
});

/** Returns methods with their kinds, from the plain texts of this file. */
function describedBy(candid: string): ReadonlyMap<string, { readonly kind: MethodKind }> {
  const methods = candid.matchAll(/(\w+) : \([^)]*\) -> \([^)]*\)( query)?/g);
  return new Map(
    [...methods].map(([, name = '', query]) => [name, { kind: query === undefined ? 'update' : 'query' }]),
  );
}

interface Asked extends Partial<ComparedUpgrade> {
  readonly policy?: UpgradePolicy;
  readonly verdict?: StableVerdict;
  readonly deadlineMs?: number;
}

async function compare(
  t: TestContext,
  { policy = 'refuse', verdict, deadlineMs, ...upgrade }: Asked,
): Promise<UpgradeFindings> {
  const checker = {
    name: 'svc_bin' as const,
    compareStable: () => {
      assert.ok(verdict !== undefined, 'nobody was to be asked');
      return Promise.resolve(verdict);
    },
  };
  const comparisons = new UpgradeComparisons({ policy, checker: () => checker, deadlineMs });
  t.after(() => comparisons.close());
  return comparisons.compare({ name: 'counter', from: codeOf(), to: codeOf(), isForced: false, ...upgrade });
}

const NAT = codeOf('stable var n : Nat');
const TEXT = codeOf('stable var n : Text');

suite('stable variables', () => {
  test('equal signatures, and modules without any, need nobody', async (t) => {
    const equal = await compare(t, { from: NAT, to: NAT });
    assert.deepEqual(equal.stable, { ...NONE, checked: true, checker: null, compatible: true, message: null });
    const none = await compare(t, {});
    const message = 'neither module says what its stable variables are';
    assert.deepEqual(none.stable, { ...NONE, checked: false, checker: null, compatible: null, message });
    for (const { refusal, warnings } of [equal, none]) assert.deepEqual([refusal, warnings], [undefined, []]);
  });

  test('a change that is compatible is done, with what was found', async (t) => {
    const { stable, refusal, warnings } = await compare(t, { from: NAT, to: TEXT, verdict: COMPATIBLE });
    const changed = [{ path: 'n', from: 'Nat', to: 'Text' }];
    assert.deepEqual(stable, { ...NONE, changed, checked: true, checker: 'svc_bin', compatible: true, message: null });
    assert.deepEqual([refusal, warnings], [undefined, []]);
  });

  test('one that is proven to lose state is refused under either policy', async (t) => {
    for (const policy of ['refuse', 'warn'] as const) {
      const { stable, refusal } = await compare(t, { from: NAT, to: TEXT, verdict: INCOMPATIBLE, policy });
      assert.deepEqual([stable.checked, stable.compatible, stable.message], [true, false, '[M0169] n is dropped']);
      assert.deepEqual([refusal?.kind, refusal?.code], ['invalid', 'upgrade-incompatible']);
      assert.equal(
        refusal?.message,
        'the new module of counter does not take over its stable variables: [M0169] n is dropped; keep them, write a migration, or give up the check with ?force=true',
      );
    }
  });

  test('one that nobody can verify is refused, or warned of; so is a signature on one side only', async (t) => {
    const problem = 'nobody can verify that the new module of counter takes over its stable variables';
    for (const [from, to, why, fix] of [
      [NAT, TEXT, 'SVC_BIN hangs', 'let SVC_BIN name a Motoko compiler that answers, start with --upgrade-policy warn'],
      [NAT, codeOf(), 'the new module does not say what its stable variables are', 'start with --upgrade-policy warn'],
      [
        codeOf(),
        NAT,
        'the installed module does not say what its stable variables are',
        'start with --upgrade-policy warn',
      ],
    ] as const) {
      const refused = await compare(t, { from, to, verdict: UNKNOWN });
      assert.equal(refused.refusal?.code, 'upgrade-unverified');
      assert.equal(refused.refusal.message, `${problem}: ${why}; ${fix}, or give up the check with ?force=true`);
      assert.deepEqual([refused.stable.checked, refused.stable.compatible], [false, null]);
      const warned = await compare(t, { from, to, verdict: UNKNOWN, policy: 'warn' });
      const doubt = `counter was upgraded, though nobody can verify that its new module takes over its stable variables: ${why}`;
      assert.deepEqual([warned.refusal, warned.warnings], [undefined, [doubt]]);
    }
    const gone = await compare(t, { from: NAT, to: codeOf(), verdict: UNKNOWN });
    assert.deepEqual(gone.stable.removed, [{ path: 'n', type: 'var Nat' }]);
  });

  test('force asks nobody and refuses nothing, and what is different is found all the same', async (t) => {
    const from = codeOf('stable var n : Nat', 'service : { a : () -> () }');
    const to = codeOf('stable var n : Text', 'service : {}');
    const forced = await compare(t, { from, to, isForced: true });
    assert.deepEqual([forced.refusal, forced.warnings], [undefined, []]);
    assert.deepEqual([forced.stable.checked, forced.stable.message], [false, 'not checked: ?force=true']);
    assert.equal(forced.stable.changed.length, 1);
    assert.equal(forced.candid.compatible, false);
  });
});

suite('interfaces', () => {
  const OLD = 'service : { a : () -> (nat); b : () -> (); c : () -> (); d : () -> (); e : () -> () }';
  const NEW = 'service : { a : () -> (int); f : () -> () }';

  test('a break is refused, or warned of, and the first places are named', async (t) => {
    const [from, to] = [codeOf(undefined, OLD), codeOf(undefined, NEW)];
    const breaks =
      'breaks callers of the old one: b is gone (callers that use the method fail), ' +
      'c is gone (callers that use the method fail), d is gone (callers that use the method fail), and 2 more';
    const { refusal, candid } = await compare(t, { from, to });
    assert.deepEqual([refusal?.kind, refusal?.code], ['invalid', 'upgrade-breaks-callers']);
    assert.ok(
      refusal?.message.startsWith(
        `the new interface of counter ${breaks}; keep what they use, start with --upgrade-policy warn, or`,
      ),
    );
    assert.deepEqual([candid.compatible, candid.added.length, candid.removed.length], [false, 1, 4]);
    assert.deepEqual((await compare(t, { from, to, policy: 'warn' })).warnings, [
      `counter was upgraded, though its new interface ${breaks}`,
    ]);
    assert.equal((await compare(t, { from: to, to: from })).refusal?.code, 'upgrade-breaks-callers');
    assert.equal((await compare(t, { from, to: from })).candid.compatible, true);
  });

  test('where an interface is not known, nothing is said of it, but for methods that are not exported any more', async (t) => {
    const unknown = { ...NONE, compatible: null };
    const [text, bare] = [codeOf(undefined, OLD, ['a']), codeOf(undefined, undefined, ['a', 'b'])];
    assert.deepEqual((await compare(t, { from: bare, to: text })).candid, unknown);
    assert.deepEqual((await compare(t, { from: text, to: bare })).candid, unknown);
    const lost = await compare(t, { from: codeOf(undefined, OLD, ['a', 'c']), to: bare });
    assert.deepEqual(
      lost.candid.removed.map(({ path, breaks }) => [path, breaks]),
      [['c', true]],
    );
    assert.equal(lost.refusal?.code, 'upgrade-breaks-callers');
  });

  test('a method that the same interface describes and the new module does not export any more is a break', async (t) => {
    const from = codeOf(undefined, OLD, ['a', 'b', 'c']);
    const { refusal, candid } = await compare(t, { from, to: codeOf(undefined, OLD, ['a', 'd']) });
    assert.equal(refusal?.code, 'upgrade-breaks-callers');
    assert.equal(candid.compatible, false);
    assert.deepEqual(
      candid.removed.map(({ path, type, breaks }) => [path, type, breaks]),
      [
        ['b', 'func () -> ()', true],
        ['c', 'func () -> ()', true],
      ],
    );
    // A method that the former module did not have either is not lost.
    assert.equal((await compare(t, { from: codeOf(undefined, OLD, ['a']), to: from })).candid.compatible, true);
    // The new text differs, but describes the former module as well.
    const described = codeOf(undefined, `// described\n${OLD}`, ['a', 'b']);
    assert.deepEqual(
      (await compare(t, { from, to: described })).candid.removed.map(({ path }) => path),
      ['c'],
    );
  });

  test('a method that is exported as another kind is lost if it cannot be called as it was', async (t) => {
    const text = 'service : { a : () -> (nat) query; b : () -> (nat) }';
    const exporting = (a: MethodKind, b: MethodKind): ComparedCode => ({
      ...codeOf(undefined, text),
      methods: new Map([
        ['a', a],
        ['b', b],
      ]),
    });
    for (const [from, to, lost] of [
      [exporting('query', 'update'), exporting('update', 'update'), ['a']],
      [exporting('query', 'update'), exporting('query', 'query'), []],
      [exporting('query', 'query'), exporting('query', 'composite_query'), ['b']],
      [exporting('update', 'composite_query'), exporting('query', 'update'), []],
      [exporting('update', 'composite_query'), exporting('composite_query', 'composite_query'), []],
    ] as const) {
      const { candid } = await compare(t, { from, to });
      assert.deepEqual([candid.compatible, candid.removed.map(({ path }) => path)], [lost.length === 0, lost]);
    }
  });

  test('an interface that cannot be read alone is a break that says why', async (t) => {
    const { candid } = await compare(t, { from: codeOf(undefined, OLD), to: codeOf(undefined, 'service : X') });
    assert.equal(candid.compatible, false);
    assert.match(candid.changed[0]?.why ?? '', /"X"/);
  });

  test('when the server stops, what is being compared is refused', async () => {
    const comparisons = new UpgradeComparisons({ policy: 'warn', checker: () => assert.fail() });
    const [from, to] = [codeOf(undefined, OLD), codeOf(undefined, NEW)];
    const compared = comparisons.compare({ name: 'counter', from, to, isForced: false });
    const forced = comparisons.compare({ name: 'counter', from, to, isForced: true });
    const closed = { code: 'comparison-closed' };
    await Promise.all([comparisons.close(), assert.rejects(compared, closed), assert.rejects(forced, closed)]);
  });
});

suite('a comparison that fails', () => {
  const [from, to] = [codeOf('stable var n : Nat', 'service : {}'), codeOf('stable var n : Text', 'service : { }')];

  test('is no obstacle to an upgrade that is forced, and to any other it is', async (t) => {
    // A thread is not even started within this time.
    const late = { from, to, verdict: COMPATIBLE, deadlineMs: 0 };
    await assert.rejects(compare(t, late), { code: 'comparison-failed', message: /took longer than 0 ms/ });
    const { stable, candid, refusal, warnings } = await compare(t, { ...late, isForced: true });
    assert.deepEqual([refusal, warnings], [undefined, []]);
    assert.deepEqual(candid, { ...NONE, compatible: null });
    const message = 'not checked: ?force=true';
    assert.deepEqual(stable, { ...NONE, checked: false, checker: null, compatible: null, message });
  });

  test('because too many wait is no obstacle to a forced one either', async (t) => {
    const comparisons = new UpgradeComparisons({ policy: 'refuse', checker: () => assert.fail() });
    t.after(() => comparisons.close());
    const compared = (isForced: boolean) =>
      comparisons.compare({ name: 'counter', from: codeOf(undefined, 'service : {}'), to, isForced });
    const waiting = Array.from({ length: 33 }, () => compared(true));
    await assert.rejects(compared(false), { code: 'upgrade-busy' });
    assert.equal((await compared(true)).candid.compatible, null);
    for (const { candid } of await Promise.all(waiting)) assert.equal(candid.compatible, true);
  });
});
