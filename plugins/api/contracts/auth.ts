/** `svc/contracts/auth`: the suite that every implementation of Auth has to pass. */
import assert from 'node:assert/strict';
import { createBearerAuth } from '../../../subsystems/auth/bearer-auth.ts';
import type { ActorScope, Auth } from '../../../subsystems/auth/index.ts';
import { nodeRunner, suite, type SuiteContext, type SuiteRunner } from './runner.ts';

export interface MadeAuth {
  readonly auth: Auth;
  /** Values of the header `authorization` that are accepted. */
  readonly allowed: readonly string[];
  /** Values that give part of the rights, if there are any. */
  readonly limited?: readonly string[];
}

/** Makes the server's own implementation with this token. */
export type OwnAuth = (token: string | undefined) => Auth;

/** Headers that only an attacker sends. */
const HOSTILE = [
  '',
  ' ',
  'Bearer',
  'Bearer ',
  'Basic Og==',
  '\u0000',
  'Bearer \u{1f388}',
  `Bearer ${'x'.repeat(100_000)}`,
];

/** A name that may stand in a line of a log. */
const NAME = /^[\x21-\x7e]{1,64}$/;
const PRINCIPAL_BYTES_MAX = 29;

export function describeAuth(
  name: string,
  make: (context: SuiteContext, own: OwnAuth) => MadeAuth | Promise<MadeAuth>,
  runner: SuiteRunner = nodeRunner,
): void {
  suite(runner, name, (test) => {
    const made = (t: SuiteContext): MadeAuth | Promise<MadeAuth> => make(t, (token) => createBearerAuth({ token }));

    test('whoever shows nothing is let in where nothing is needed, and nowhere else', async (t) => {
      const { auth } = await made(t);
      assert.equal(typeof auth.needsToken, 'boolean');
      assert.equal(auth.allows(undefined), !auth.needsToken);
    });

    test('what is allowed is let in, as often as it comes', async (t) => {
      const { auth, allowed } = await made(t);
      if (auth.needsToken) assert.ok(allowed.length > 0, 'nobody could ever come in');
      for (let times = 0; times < 3; times++) for (const header of allowed) assert.equal(auth.allows(header), true);
    });

    test('what is nearly allowed, or meant badly, is refused, and the next is judged alone', async (t) => {
      const { auth, allowed } = await made(t);
      const near = allowed.flatMap((header) => [
        header.slice(0, -1),
        `${header}x`,
        header.slice(0, -1) + String.fromCodePoint((header.codePointAt(header.length - 1) ?? 0) ^ 1),
        `${header}, ${header}`,
        header.replace(/^\S+ /, ''),
      ]);
      for (const header of [...near, ...HOSTILE])
        assert.equal(
          auth.allows(header),
          !auth.needsToken || allowed.includes(header),
          JSON.stringify(header.slice(0, 40)),
        );
      for (const header of allowed) assert.equal(auth.allows(header), true);
    });

    test('who may do part of it has a name, scopes and a caller, the same at each request, and no more', async (t) => {
      const { auth, limited = [] } = await made(t);
      if (limited.length > 0) assert.equal(typeof auth.grantOf, 'function', 'there is no grantOf');
      for (const header of limited) {
        assert.equal(auth.allows(header), false, 'part of the rights is not everything');
        const grant = auth.grantOf?.(header);
        assert.ok(grant !== undefined, 'there is no grant');
        assert.equal(auth.grantOf?.(header), grant, 'another object at the next request');
        assert.match(grant.name, NAME);
        assert.ok(
          !grant.scopes.isWhole && !grant.scopes.hasEveryActor('nothing' as ActorScope),
          'the scopes are everything',
        );
        assert.ok(grant.caller === undefined || grant.caller.length <= PRINCIPAL_BYTES_MAX, 'no principal');
        assert.equal(grant.isOver, false);
      }
    });

    test('what is nearly limited, or meant badly, has no rights, and reading again takes none away', async (t) => {
      const { auth, allowed, limited = [] } = await made(t);
      const near = limited.flatMap((header) => [
        header.slice(0, -1),
        `${header}x`,
        `${header}, ${header}`,
        header.replace(/^\S+ /, ''),
      ]);
      const known = [...allowed, ...limited];
      for (const header of [undefined, ...near, ...HOSTILE])
        if (header === undefined || !known.includes(header))
          assert.equal(auth.grantOf?.(header), undefined, JSON.stringify(header?.slice(0, 40)));
      auth.reread?.();
      for (const header of limited) assert.equal(auth.grantOf?.(header)?.isOver, false);
    });
  });
}
