/** The commands of docs/time-travel.md do what the page says. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as nextTurn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { listingsOf } from '../support/doc-listings.ts';
import { replayIn } from '../support/replay-file.ts';
import { startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const run = promisify(execFile);

test('each command of the page is answered as the page says', async (t) => {
  const server = await startServer(t, { args: ['--state', await temporaryDirectory(), '--timeline', '86400'] });
  // The first state is kept when the actor's first base has been read.
  while ((await server.get('/x/time/state/counter?at=now')).status !== 200) await nextTurn();
  for (let n = 0; n < 3; n++) assert.equal((await server.post('/call-json/counter/inc', '[]')).status, 200);
  const folder = await temporaryDirectory();
  const listings = [...(await listingsOf('time-travel'))];
  const answers = new Map<string, string[]>();
  // That is walked through in test/system/faulty-upgrade.test.ts.
  const elsewhere = 'When an upgrade goes wrong';
  for (const [title, all] of listings.filter(([each]) => each !== elsewhere))
    for (const { text } of all.filter(({ language }) => language === 'sh'))
      for (const line of text.split('\n').filter((each) => each.startsWith('curl '))) {
        const command = line.replaceAll('http://127.0.0.1:7000', server.origin);
        const { stdout } = await run('sh', ['-c', `${command} --silent --show-error --fail-with-body`], {
          cwd: folder,
        });
        answers.set(title, [...(answers.get(title) ?? []), stdout]);
      }
  const [messages = '[]'] = answers.get('Messages') ?? [];
  assert.deepEqual(
    (JSON.parse(messages) as { kind: string }[]).map(({ kind }) => kind),
    ['install', 'update'],
  );
  assert.deepEqual(answers.get('Queries of the past'), ['[1]']);
  const [rehearsed = '{}'] = answers.get('Rehearsal') ?? [];
  const { hooks, replayed } = JSON.parse(rehearsed) as Record<string, Record<string, unknown>>;
  assert.deepEqual([hooks?.['outcome'], replayed?.['inexact'], replayed?.['differences']], ['done', 0, []]);
  assert.equal(replayed?.['same'], replayed?.['count']);
  assert.ok(Number(replayed?.['count']) >= 3);
  const [exact, other] = (answers.get('Replay') ?? []).map((text) => JSON.parse(text) as Record<string, unknown>);
  assert.deepEqual([exact?.['exact'], exact?.['reply'], exact?.['method']], [true, '(1 : nat)', 'inc']);
  assert.deepEqual(Object.keys(exact ?? {}).slice(1), Object.keys(other ?? {}));
  const [shown = '{}'] = (listings.find(([title]) => title === 'Replay')?.[1] ?? [])
    .filter(({ language }) => language === 'json')
    .map(({ text }) => text);
  assert.deepEqual(Object.keys(JSON.parse(shown) as object), Object.keys(exact ?? {}), 'the page shows these keys');
  assert.equal(other?.['caller'], 'aaaaa-aa');
  const shownReplay = (listings.find(([title]) => title === 'Capsule')?.[1] ?? []).find(
    ({ language }) => language === 'text',
  );
  const fromFile = await replayIn(folder, '--replay', 'counter-2.capsule');
  const withoutNumbers = (text: string): string => text.trim().replaceAll(/\d+ instructions/g, 'N instructions');
  assert.equal(withoutNumbers(fromFile.stdout), withoutNumbers(shownReplay?.text ?? ''), fromFile.stderr);
  assert.equal(fromFile.code, 0);
  const withProfile = await replayIn(folder, '--replay', 'counter-2.capsule', '--profile', 'counter.svg');
  assert.equal(withProfile.code, 0, withProfile.stderr);
  assert.match(await readFile(join(folder, 'counter.svg'), 'utf8'), /^<svg /);
  const [profiled = '{}', , folded = '', many = '{}'] = answers.get('Profile') ?? [];
  const { instructions, profile } = JSON.parse(profiled) as {
    instructions: number;
    profile: { samples: number; tree: { name: string; total: number; children: { name: string }[] } };
  };
  assert.deepEqual([profile.tree.name, profile.tree.total, profile.samples], ['inc seq:2', instructions, 500]);
  assert.deepEqual(
    profile.tree.children.map(({ name }) => name),
    ['inc'],
  );
  assert.match(await readFile(join(folder, 'flame.svg'), 'utf8'), /^<svg .*<title>inc: /s);
  assert.deepEqual(Object.keys(JSON.parse(many) as object), ['from', 'to', 'messages', 'leftOut', 'profile']);
  assert.match(folded, /^inc seq:2;inc \d+$/m);
  const [restored = '{}'] = answers.get('Restore') ?? [];
  const { undo, ...told } = JSON.parse(restored) as Record<string, unknown>;
  assert.equal(undo, 'seq:4');
  assert.deepEqual(Object.keys(told), ['from', 'to', 'module', 'isModuleOther', 'openCalls', 'ms']);
  assert.match(answers.get('Fork')?.[0] ?? '', /^[0-9a-f]{20}$/);
  assert.equal(answers.get('Labels')?.length, 3);
  // The restore of the page, and its fork, stay.
  assert.equal((await server.post('/query-json/counter/get')).body, '[1]');
  await server.post('/start/counter_then');
  assert.equal((await server.post('/query-json/counter_then/get')).body, '[1]');
});
