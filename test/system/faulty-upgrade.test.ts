/**
 * An upgrade with a fault, by the commands of docs/time-travel.md alone: rehearsed before it happens, and without that
 * found, replayed and taken back behind it.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { assertShows, listingsOf } from '../support/doc-listings.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const ROOT = join(import.meta.dirname, '../..');
const STACK = ['ic_trap', 'B_sub', 'rest', '$lambda', 'bill'];
const UNDERFLOW = "Canister called `ic0.trap` with message: 'Natural subtraction underflow'";
const run = promisify(execFile);

test(
  'the shop whose upgrade misreads a voucher is walked through as the page says',
  { timeout: 300_000 },
  async (t) => {
    const folder = await temporaryDirectory();
    const listings = (await listingsOf('time-travel')).get('When an upgrade goes wrong') ?? [];
    let server: RunningServer | undefined;
    const answers: string[] = [];
    for (const line of listings
      .filter(({ language }) => language === 'sh')
      .flatMap(({ text }) => text.trim().split('\n'))) {
      const [command, ...args] = line.split(' ');
      if (command === 'svc') {
        server = await startServer(t, { directory: folder, args });
        await begun(server);
      } else {
        const here = line.replace('node_modules/svc', ROOT).replaceAll('http://127.0.0.1:7000', server?.origin ?? '');
        const { stdout } = await run('sh', ['-c', command === 'curl' ? `${here} --silent --show-error` : here], {
          cwd: folder,
        });
        if (command === 'curl') answers.push(stdout);
      }
    }
    const [
      first,
      second,
      billed,
      rehearsal = '',
      upgraded,
      failed = '',
      timeline = '',
      replay = '',
      restore = '',
      ...after
    ] = answers;
    assert.deepEqual([first, second, billed], ['[1]', '[2]', '[0]']);

    const { stable, hooks, replayed } = JSON.parse(rehearsal) as {
      stable: { compatible: boolean };
      hooks: { outcome: string };
      replayed: {
        broken: number;
        inexact: number;
        differences: { seq: number; args: string; was: object; is: object }[];
      };
    };
    assert.deepEqual([stable.compatible, hooks.outcome], [true, 'done'], 'all else would let it pass');
    assert.deepEqual([replayed.broken, replayed.inexact, replayed.differences.length], [1, 0, 1]);
    const [difference] = replayed.differences;
    assert.deepEqual([difference?.seq, difference?.args], [6, '(2 : nat)']);
    assert.partialDeepStrictEqual(difference, {
      was: { outcome: 'reply', reply: '(0 : nat)' },
      is: { outcome: 'trap', message: UNDERFLOW, stack: STACK },
    });

    assert.deepEqual([upgraded, JSON.parse(failed)], ['upgraded', { code: 5, message: UNDERFLOW }]);
    const [shown] = listings.filter(({ language }) => language === 'json');
    const entries = JSON.parse(timeline) as object[];
    const last = entries.slice(-2).map((entry) => JSON.stringify(entry));
    assertShows(last.join('\n'), shown?.text.trim() ?? '');
    assert.partialDeepStrictEqual(JSON.parse(replay), { exact: true, seq: 8, outcome: 'trap', stack: STACK });
    assert.partialDeepStrictEqual(JSON.parse(restore), {
      to: { seq: 6 },
      undo: 'seq:8',
      isModuleOther: true,
      openCalls: 0,
    });
    assert.deepEqual(after, ['[0]', '[3]', '[3]'], 'billed again, and shop and warehouse agree');

    const refused = await server?.post('/upgrade/shop?replay=100', '');
    assert.match(refused?.body ?? '', /the new code fails in 1 of the last 1 messages.*Natural subtraction underflow/);
  },
);

/** Resolves when the shop's first state is kept: whoever types has waited that long. */
async function begun(server: RunningServer): Promise<void> {
  while ((await server.get('/x/time/state/shop?at=now')).status !== 200) await sleep(50);
}
