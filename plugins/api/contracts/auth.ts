/** `svc/contracts/auth`: the suite that every implementation of Auth has to pass. */
import assert from 'node:assert/strict';
import { createBearerAuth } from '../../../subsystems/auth/bearer-auth.ts';
import type { Auth } from '../../../subsystems/auth/index.ts';
import { nodeRunner, suite, type SuiteContext, type SuiteRunner } from './runner.ts';

export interface MadeAuth {
  readonly auth: Auth;
  /** Values of the header `authorization` that are accepted. */
  readonly allowed: readonly string[];
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
  });
}
