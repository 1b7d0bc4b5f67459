/**
 * Every row of the table of upgrades: each kind of change, under both policies, with a checker that is there, missing
 * and broken. Compares the answer to the letter, the actor afterwards, the printed output, and the log.
 */
import assert from 'node:assert/strict';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import { type Answer, type InProcessServer, startInProcess } from '../../support/in-process-server.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { argumentOf, MOOD, moduleOf, type SourceName } from './modules.ts';

const endings: (() => Promise<void>)[] = [];
after(async () => {
  for (const end of endings) await end();
});

type Policy = 'refuse' | 'warn';
type Checker = 'bundled' | 'missing' | 'broken';

/** Makes a useless compiler; its path is in the answers. */
async function useless(script: string): Promise<string> {
  const file = join(await temporaryDirectory(), 'moc');
  await writeFile(file, `#!/bin/sh\n${script}\n`);
  await chmod(file, 0o755);
  return file;
}

const BROKEN = await useless('echo garbage');
const HANGING = await useless('sleep 600');
const WHY: Readonly<Record<Checker, string>> = {
  bundled: '',
  missing: 'the bundled compiler is turned off with --no-compiler',
  broken: `SVC_BIN (${BROKEN}) exited with 0 and printed "garbage", which is no answer of a Motoko compiler`,
};
const COMPILER_FIX: Readonly<Record<Checker, string>> = {
  bundled: '',
  missing: 'name a Motoko compiler in SVC_BIN',
  broken: 'let SVC_BIN name a Motoko compiler that answers',
};
const FORCE = 'or give up the check with ?force=true';
const MANUAL =
  'https://internetcomputer.org/docs/motoko/fundamentals/actors/compatibility#explicit-migration-using-a-migration-function';
const unverified = (name: string, checker: Checker): string =>
  `nobody can verify that the new module of ${name} takes over its stable variables: ${WHY[checker]}`;
const BREAKS = 'breaks callers of the old one: get is gone (callers that use the method fail)';
const MEMORY_INCOMPATIBLE = "Canister called `ic0.trap` with message: 'RTS error: Memory-incompatible program upgrade'";

interface Row {
  readonly to: SourceName;
  readonly isForced?: boolean;
  /** Expected result by policy, if the signatures were compared, and if they could not be. */
  expected(policy: Policy, checker: Checker, name: string): Expected;
}

/** Result of an upgrade. Undefined message: `upgraded`. */
interface Expected {
  readonly message?: string;
  readonly code?: number;
  readonly warning?: string;
}

const DONE: Expected = {};
const ofUnverified = (policy: Policy, checker: Checker, name: string): Expected =>
  policy === 'warn'
    ? {
        warning: `${name} was upgraded, though nobody can verify that its new module takes over its stable variables: ${WHY[checker]}`,
      }
    : {
        message: `${unverified(name, checker)}; ${COMPILER_FIX[checker]}, start with --upgrade-policy warn, ${FORCE}`,
      };

const ROWS: Readonly<Record<string, Row>> = {
  'the same module': { to: 'base', expected: () => DONE },
  'a compatible change of stable variables': {
    to: 'wider',
    expected: (policy, checker, name) => (checker === 'bundled' ? DONE : ofUnverified(policy, checker, name)),
  },
  'an incompatible change of stable variables': {
    to: 'unfit',
    expected(policy, checker, name) {
      if (checker === 'bundled') {
        const proof =
          '[M0170] the new type of stable variable `notes` is not compatible with the previous version. The previous type var [Text] is not a subtype of var [Nat] ' +
          `because the type Text is not compatible with type Nat in \`notes\`. Write an explicit migration function, please see ${MANUAL}`;
        const problem = `the new module of ${name} does not take over its stable variables: ${proof}`;
        return { message: `${problem}; keep them, write a migration, ${FORCE}` };
      }
      // An upgrade that is not proven safe is tried, and the runtime refuses it.
      return policy === 'warn' ? { message: MEMORY_INCOMPATIBLE, code: 5 } : ofUnverified(policy, checker, name);
    },
  },
  'an interface that breaks callers': {
    to: 'breaking',
    expected: (policy, _checker, name) =>
      policy === 'warn'
        ? { warning: `${name} was upgraded, though its new interface ${BREAKS}` }
        : {
            message: `the new interface of ${name} ${BREAKS}; keep what they use, start with --upgrade-policy warn, ${FORCE}`,
          },
  },
  'a compatible change, forced': { to: 'wider', isForced: true, expected: () => DONE },
  'an incompatible change, forced': {
    to: 'unfit',
    isForced: true,
    expected: () => ({ message: MEMORY_INCOMPATIBLE, code: 5 }),
  },
  'a break of callers, forced': { to: 'breaking', isForced: true, expected: () => DONE },
};

/** This upgrade takes ten idle seconds, which pass while the others are at work. */
const hung = upgradeThatNobodyChecks();
hung.catch(() => undefined);

async function upgradeThatNobodyChecks(): Promise<{
  readonly answer: Answer;
  readonly servedMeanwhile: Answer;
  readonly after: Answer;
}> {
  const environment = { SVC_BIN: HANGING };
  const server = await startInProcess({ after: (end) => endings.push(end) }, { environment });
  await server.post(`/install/ledger?${argumentOf(MOOD.works)}`, await moduleOf('base'));
  const answered = server.post(`/upgrade/ledger?${argumentOf(MOOD.works)}`, await moduleOf('wider'));
  const servedMeanwhile = await server.post('/call-json/ledger/inc');
  assert.equal(
    await Promise.race([answered, server.post('/query-json/ledger/get').then(() => 'nothing yet')]),
    'nothing yet',
  );
  return { answer: await answered, servedMeanwhile, after: await server.post('/query-json/ledger/digest') };
}

for (const policy of ['refuse', 'warn'] as const) {
  for (const checker of ['bundled', 'missing', 'broken'] as const) {
    suite(`--upgrade-policy ${policy}, the checker is ${checker === 'bundled' ? 'there' : checker}`, () => {
      let server: InProcessServer;
      const started = async (): Promise<InProcessServer> =>
        (server ??= await startInProcess(
          { after: (end) => endings.push(end) },
          {
            // That turns off the bundled one alone: the program of SVC_BIN is asked all the same.
            args: ['--upgrade-policy', policy, ...(checker === 'bundled' ? [] : ['--no-compiler'])],
            environment: checker === 'broken' ? { SVC_BIN: BROKEN } : {},
          },
        ));

      for (const [at, [change, row]] of Object.entries(ROWS).entries()) {
        test(change, async () => {
          await started();
          const name = `ledger_${at}`;
          const installed = await server.post(`/install/${name}?${argumentOf(MOOD.works)}`, await moduleOf('base'));
          assert.equal(installed.status, 200, installed.body);
          await server.post(`/call-json/${name}/inc`);
          const [announced, events] = [server.log.announced.length, server.log.events.length];

          const { message, code = 400, warning } = row.expected(policy, checker, name);
          const path = `/upgrade/${name}?${argumentOf(MOOD.works)}${row.isForced === true ? '&force=true' : ''}`;
          const answer = await server.post(path, await moduleOf(row.to));
          if (message === undefined) assert.deepEqual(answer, { status: 200, body: 'upgraded' });
          else {
            const logs = code === 5 ? { logs: [message] } : {};
            const withoutStack = answer.body.replaceAll(/\\nCanister Backtrace:[^"]*/g, '');
            assert.deepEqual([answer.status, JSON.parse(withoutStack)], [400, { code, message, ...logs }]);
          }

          const isDone = message === undefined;
          const digest = isDone && row.to === 'wider' ? '(1, ["1!"], 0, 7)' : '(1, ["1!"], 0)';
          const { body } = await server.post(`/query-json/${name}/digest`);
          assert.deepEqual(JSON.parse(body), [digest], 'no state is lost');
          assert.equal((await server.post(`/call-json/${name}/inc`)).body, '[2]', 'it serves');
          const hasGet = (await server.post(`/query-json/${name}/get`)).status === 200;
          assert.equal(hasGet, !(isDone && row.to === 'breaking'));
          const lines = warning === undefined ? [] : [`WARNING ${warning}`];
          assert.deepEqual(server.log.announced.slice(announced), lines);
          const isUnverified = message?.startsWith('nobody can verify') === true;
          assert.equal(server.log.lines.includes(`warn: an upgrade of ${name} is refused: ${message}`), isUnverified);
          const changed = server.log.events.slice(events).filter(({ event }) => event === 'stable-types-changed');
          assert.equal(changed.length, isDone && row.to === 'wider' ? 1 : 0);
          for (const { fields } of changed) {
            assert.deepEqual(Object.keys(fields), ['actor', 'old', 'new']);
            assert.equal(fields['actor'], installed.body);
            assert.match(String(fields['old']), /^\/\/ Version: 1\.0\.0\nactor \{\n  stable var armed : Nat;/);
            assert.doesNotMatch(String(fields['old']), /extra/);
            assert.match(String(fields['new']), /\n  stable var extra : Nat;\n/);
          }
        });
      }
    });
  }
}

test('a checker that hangs ends after ten seconds, the actor serves meanwhile, and the upgrade is refused with the reason', async () => {
  const { answer, servedMeanwhile, after: left } = await hung;
  const why = `SVC_BIN (${HANGING}) did not answer within 10000 ms`;
  const problem = `nobody can verify that the new module of ledger takes over its stable variables: ${why}`;
  const fix = `let SVC_BIN name a Motoko compiler that answers, start with --upgrade-policy warn, ${FORCE}`;
  assert.deepEqual([answer.status, JSON.parse(answer.body)], [400, { code: 400, message: `${problem}; ${fix}` }]);
  assert.deepEqual(servedMeanwhile, { status: 200, body: '[1]' });
  assert.equal(left.body, JSON.stringify(['(1, ["1!"], 0)']));
});
