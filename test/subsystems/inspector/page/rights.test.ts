/** Rights as the page tells them, beside those that the server gives: the same for every row of the route table. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from '../../../support/properties.ts';
import { isHostScope, Scopes } from '../../../../subsystems/auth/index.ts';
import { type RouteSpec, ROUTES } from '../../../../subsystems/http/route-table.ts';
import { type ActorScope, Rights } from '../../../../subsystems/inspector/page/rights.ts';

const SPECS: readonly RouteSpec[] = ROUTES;
/** Scopes that the page has words for: it has nothing of the past yet. */
const SCOPES = [...new Set(SPECS.flatMap(({ scope = 'any' }) => (scope === 'any' || scope === 'time' ? [] : [scope])))];
const SHOP = { name: 'shop', id: '80000000001000010101', principal: 'bkyz2-fmaaa-aaaaa-qaaaq-cai' };
const BLOG = { name: 'blog', id: '80000000001000020101', principal: 'rrkah-fqaaa-aaaaa-aaaaq-cai' };
const ACTORS = [SHOP, BLOG];

/** Scopes as somebody may write them, each once. */
const WRITTEN = SCOPES.flatMap((scope) =>
  isHostScope(scope)
    ? [scope]
    : ['*', ...ACTORS.flatMap(({ name, id, principal }) => [name, id, principal])].map((actor) => `${scope}:${actor}`),
);
const drawn = fc.uniqueArray(fc.constantFrom('*', ...WRITTEN), { maxLength: 12 });

test('the page finds lacking what the server refuses, and nothing else', () => {
  let [lacked, had] = [0, 0];
  fc.assert(
    fc.property(drawn, fc.constantFrom(...SCOPES), fc.constantFrom(...ACTORS), (may, scope, actor) => {
      const rights = new Rights({ name: 'one', may, caller: null, claims: false });
      const scopes = new Scopes(may);
      if (isHostScope(scope)) {
        assert.equal(rights.lacking(scope), scopes.hasHost(scope) ? undefined : scope);
        return;
      }
      const named = scopes.actorsOf(scope);
      const has = scopes.hasEveryActor(scope) || Object.values(actor).some((way) => named.includes(way));
      assert.equal(rights.lackingFor(scope, actor), has ? undefined : `${scope}:${actor.name}`);
      const hasAny = scopes.isWhole || named.length > 0;
      assert.equal(rights.lackingForAll(scope), hasAny ? undefined : `${scope}:<name>`);
      if (has) had++;
      else lacked++;
    }),
    { numRuns: 2_000 },
  );
  assert.ok(lacked > 100 && had > 100, `${lacked} and ${had}`);
});

test('each scope of the server stands in plain words, with its actors', () => {
  for (const scope of SCOPES) {
    const may = isHostScope(scope) ? [scope] : [`${scope}:shop`, `${scope}:*`];
    const { permissions } = new Rights({ name: 'one', may, caller: null, claims: false });
    assert.equal(permissions.length, 1, scope);
    const [{ words, actors } = { words: scope, actors: [] }] = permissions;
    assert.ok(isHostScope(scope) ? words !== scope : !words.includes(':'), scope);
    assert.deepEqual(actors, isHostScope(scope) ? [] : ['shop', 'every actor']);
  }
  const everything = new Rights({ name: null, may: ['*'], caller: null, claims: true });
  assert.deepEqual(everything.permissions, [{ words: 'do everything', actors: [] }]);
  assert.deepEqual(new Rights({ name: 'one', may: [], caller: null, claims: false }).permissions, []);
  const later = new Rights({ name: 'one', may: ['fly:shop'], caller: null, claims: false });
  assert.deepEqual(later.permissions, [{ words: 'fly:shop', actors: ['shop'] }], 'a scope that the page does not know');
});

test('actors are listed once, as the scopes write them', () => {
  const may = ['call:shop', 'query:shop', 'logs:*', 'inspect', 'call:blog'];
  assert.deepEqual(new Rights({ name: 'one', may, caller: null, claims: false }).actors, ['shop', 'blog']);
  assert.equal(new Rights().lackingFor('call' satisfies ActorScope, SHOP), undefined);
});
