import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { AGENT_ROUTES } from '../../../../subsystems/http/agent-routes.ts';
import { actorOfPath } from '../../../../subsystems/http/peers/actor-of-path.ts';
import { type RouteSpec, ROUTES } from '../../../../subsystems/http/route-table.ts';

const SPECS: readonly RouteSpec[] = [...ROUTES, ...AGENT_ROUTES];

suite('the actor that a target names', () => {
  test('is found in every route that names one, and in no other', () => {
    for (const { method, path } of SPECS) {
      const names = /:(?:actor|name)\b|canister\/:principal/.test(path);
      const target = path.replaceAll(/:(?:actor|name|principal)/g, 'far%20one').replaceAll(/:\w+|\*/g, 'x');
      for (const query of ['', '?a=/call/b/c', '?'])
        assert.equal(actorOfPath(target + query)?.reference, names ? 'far one' : undefined, `${method} ${target}`);
    }
  });

  test('may be new where something is installed alone', () => {
    for (const { path } of SPECS) {
      const named = actorOfPath(path.replaceAll(/:\w+|\*/g, 'x'));
      assert.equal(named?.isNew === true, path.startsWith('/install/'), path);
    }
  });

  for (const target of [
    '/',
    '',
    '/call',
    '/call/a',
    '/call/a/b/c',
    '/nothing/a/b',
    '/actors',
    '/call/%ff/b',
    '/x/time/state',
  ])
    test(`${target} names none`, () => assert.equal(actorOfPath(target), undefined));
});
