/**
 * The suites of `svc/contracts/…`: the server's own parts pass them, mistakes are found, and a hanging test is named.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { around, type Auth, type Grant, Scopes } from '../../../plugins/api/plugin.ts';
import { describeAuth, type MadeAuth } from '../../../plugins/api/contracts/auth.ts';
import { describeGateway } from '../../../plugins/api/contracts/gateway.ts';
import { describeInspector } from '../../../plugins/api/contracts/inspector.ts';
import { describeManifest } from '../../../plugins/api/contracts/manifest.ts';
import { describeMetering } from '../../../plugins/api/contracts/metering.ts';
import { describeMopsClosures } from '../../../plugins/api/contracts/mops-closures.ts';
import { describeOpenApi } from '../../../plugins/api/contracts/openapi.ts';
import { describeOutcalls } from '../../../plugins/api/contracts/outcalls.ts';
import { suite, type SuiteRunner } from '../../../plugins/api/contracts/runner.ts';
import { createBearerAuth } from '../../../subsystems/auth/bearer-auth.ts';
import { showing, writeTokens } from '../../support/token-file.ts';
import { failuresOf } from '../../support/failing-suite.ts';

describeAuth('the token', (_t, own) => ({ auth: own('sEcret'), allowed: ['Bearer sEcret', 'bearer sEcret'] }));
describeAuth('no token', (_t, own) => ({ auth: own(undefined), allowed: ['Bearer whatever'] }));
describeAuth('tokens with scopes', async () => ({
  auth: createBearerAuth({ token: 'all', tokensFile: await writeTokens({ a: { may: ['metrics'] }, b: { may: [] } }) }),
  allowed: ['Bearer all'],
  limited: [showing('a').authorization, showing('b').authorization],
}));
describeGateway('CanisterGateway', (_t, { own }) => own());
describeInspector('BuiltInspector', (_t, own) => own());
describeManifest('the manifest’s file', (_t, own) => own());
describeMetering('the price list', (_t, own) => own());
describeMetering('nothing costs', (_t, own) => own({ isEnabled: false }));
describeMopsClosures('ProjectClosures', (_t, _project, own) => own());
describeOpenApi('OpenApiDocuments', (_t, own) => own());

const aGrant = (): Grant => ({ name: 'a', scopes: new Scopes(['metrics']), caller: undefined, isOver: false });

function limitedBy(auth: Auth, isShown: (header: string | undefined) => boolean): MadeAuth {
  const grantOf = (header: string | undefined): Grant | undefined => (isShown(header) ? aGrant() : undefined);
  return { auth: around(auth, { grantOf }), allowed: ['Bearer bll'], limited: ['Bearer a'] };
}

/** Parts with one mistake each, and the number of tests that find it. */
const MISTAKES: Readonly<Record<string, readonly [describe: (runner: SuiteRunner) => void, found: number]>> = {
  'a token that may be longer': [
    (runner) =>
      describeAuth(
        '',
        (_t, own) => ({
          auth: around(own('a'), { allows: (header = '') => header.startsWith('Bearer a') }),
          allowed: ['Bearer a'],
        }),
        runner,
      ),
    1,
  ],
  'a token that works once': [
    (runner) => {
      const seen = new Set<string | undefined>();
      const once = (header: string | undefined): boolean =>
        header === 'Bearer a' && !seen.has(header) && seen.add(header).size > 0;
      describeAuth('', () => ({ auth: { needsToken: true, allows: once }, allowed: ['Bearer a'] }), runner);
    },
    2,
  ],
  'a new grant at each request': [
    (runner) => describeAuth('', (_t, own) => limitedBy(own('bll'), (header) => header === 'Bearer a'), runner),
    1,
  ],
  'a limited token that may be longer': [
    (runner) => {
      const grant = aGrant();
      const grantOf = (header = ''): Grant | undefined => (header.startsWith('Bearer a') ? grant : undefined);
      describeAuth(
        '',
        (_t, own) => ({ ...limitedBy(own('bll'), () => false), auth: around(own('bll'), { grantOf }) }),
        runner,
      );
    },
    1,
  ],
  'half a cycle': [
    (runner) => describeMetering('', (_t, own) => ({ policy: { ...own().policy, cyclesPerMessage: 0.5 } }), runner),
    2,
  ],
  'prices that change': [
    (runner) => {
      let price = 0;
      describeMetering(
        '',
        (_t, own) => ({
          get policy() {
            return { ...own().policy, cyclesPerMessage: price++ };
          },
        }),
        runner,
      );
    },
    1,
  ],
  'a gateway that lets everything through': [
    (runner) =>
      describeGateway(
        '',
        (_t, { own }) =>
          around(own(), {
            respond: async () => ({
              isUpdate: false,
              answer: { status: 200, headers: [], body: new Uint8Array(0), rest: undefined },
            }),
          }),
        runner,
      ),
    4,
  ],
  'a page with a script too many': [
    (runner) =>
      describeInspector(
        '',
        (_t, own) => {
          const page = own().page();
          const html = Buffer.concat([page.html, Buffer.from('<script>alert(1)</script>')]);
          return { page: () => ({ ...page, html }) };
        },
        runner,
      ),
    1,
  ],
  'two actors of one name': [
    (runner) =>
      describeManifest(
        '',
        async (_t, own) => {
          const actors = await (await own()).read();
          return { read: async () => [...actors, ...actors] };
        },
        runner,
      ),
    1,
  ],
  'files from anywhere': [
    (runner) =>
      describeMopsClosures(
        '',
        (_t, _project, own) => ({ closureOf: async (entry) => own().closureOf(entry.replaceAll('../', 'src/')) }),
        runner,
      ),
    1,
  ],
  'the same document for everybody': [
    (runner) =>
      describeOpenApi(
        '',
        (_t, own) => {
          const documents = own();
          return {
            documentOf: (actor) => documents.documentOf({ ...actor, name: 'counter' }),
            typesOf: (actor) => documents.typesOf(actor),
          };
        },
        runner,
      ),
    1,
  ],
};

for (const [mistake, [describe, found]] of Object.entries(MISTAKES))
  test(`${mistake}: ${found} of the tests find it`, async () => {
    assert.equal((await failuresOf(describe)).length, found);
  });

/** Returns the messages of a suite's tests, one of each failing test. */
async function messagesOf(describe: (runner: SuiteRunner) => void, testMs: number): Promise<readonly string[]> {
  const bodies: (() => Promise<void>)[] = [];
  describe({ testMs, describe: (_name, body) => body(), test: (_title, body) => void bodies.push(body) });
  const messages: string[] = [];
  for (const body of bodies)
    await body().then(
      () => messages.push('passed'),
      (error: unknown) => messages.push(error instanceof Error ? error.message : String(error)),
    );
  return messages;
}

test('a test that hangs fails by its name, and the others run', async () => {
  const never = (): Promise<never> => new Promise(() => undefined);
  const messages = await messagesOf(
    (runner) =>
      suite(runner, '', (declare) => {
        declare('the first hangs', never);
        declare('the second passes', () => undefined);
        declare('the third hangs at its end', (t) => t.after(never));
        declare('the fourth fails', () => Promise.reject(new ServerError('missing', 'x', 'no luck')));
      }),
    20,
  );
  const hung = 'has not ended after 0.02 s: something that it waits for never comes';
  assert.deepEqual(messages, [
    `'the first hangs' ${hung}`,
    'passed',
    `'the third hangs at its end: what is to be ended with it' ${hung}`,
    'no luck',
  ]);
});

test('outcalls that never answer are named test by test', async () => {
  const messages = await messagesOf(
    (runner) => describeOutcalls('', async () => ({ send: () => new Promise(() => undefined) }), runner),
    100,
  );
  assert.ok(messages.length > 10);
  for (const message of messages) assert.match(message, /^'[^']+' has not ended after 0\.1 s/);
});

test('what is around something has its members and the changed ones, and calls methods on it', () => {
  class Counter {
    #count = 0;
    readonly step: number = 1;
    get count(): number {
      return this.#count;
    }
    inc(): void {
      this.#count += this.step;
    }
    double(): void {
      this.#count *= 2;
    }
  }
  class Faster extends Counter {
    override readonly step = 10;
  }
  const own = new Faster();
  const wrapped = around<Counter & { inc(): void }>(own, { double: () => own.inc() });
  wrapped.inc();
  wrapped.double();
  assert.deepEqual([wrapped.count, wrapped.step, own.count], [20, 10, 20]);
});
