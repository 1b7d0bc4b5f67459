/** Compares docs/plugins.md with the types and tables that it copies. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import type { ErrorKind } from '../../../kernel/index.ts';
import { NOT_REPLACEABLE } from '../../../plugins/loader/shapes.ts';
import { OWN_MODULES } from '../../../plugins/loader/own-modules.ts';
import { OUTCALL_FAILURES } from '../../../subsystems/outcalls/index.ts';
import { HTTP_STATUS } from '../../../subsystems/http/http-status.ts';

const ROOT = resolve(import.meta.dirname, '../../..');
const page = await readFile(join(ROOT, 'docs/plugins.md'), 'utf8');

/** Sections by title, without their subsections. */
const parts = new Map(page.split(/^##+ /m).map((part) => [part.slice(0, part.indexOf('\n')), part]));

function rowsOf(title: string): readonly (readonly string[])[] {
  const rows = (parts.get(title) ?? '').split('\n').filter((line) => line.startsWith('| `'));
  return rows.map((row) => row.split('|').map((cell) => cell.trim().replaceAll('`', '')));
}

/** Returns names of interfaces with their text, without comments and layout. */
function interfacesIn(source: string): ReadonlyMap<string, string> {
  const found = source.matchAll(/^(?:export )?interface (\w+)([^{]*\{[^]*?^\})/gm);
  const plain = (text: string): string => text.replaceAll(/\/\*\*[^]*?\*\//g, '').replaceAll(/\s+/g, ' ');
  return new Map([...found].map(([, name = '', body = '']) => [name, plain(body)]));
}

for (const [title, folder, faces] of [
  ['auth', 'auth', ['Auth', 'Grant']],
  ['metering', 'metering', ['Metering', 'MeteringPolicy']],
  ['metrics', 'metrics', ['Metrics', 'RequestTally', 'ShownNumber', 'Tally']],
  ['gateway', 'gateway', ['Gateway', 'SiteAnswer', 'SiteOutcome', 'SiteRequest']],
  ['mops-closures', 'mops-closure', ['ClosureDocument', 'MopsClosures']],
] as const)
  test(`the face of ${title} stands on the page as it is`, async () => {
    const listing = /^```ts\n([^]*?)^```$/m.exec(parts.get(title) ?? '')?.[1] ?? '';
    const shown = interfacesIn(listing);
    const real = interfacesIn(await readFile(join(ROOT, 'subsystems', folder, 'index.ts'), 'utf8'));
    assert.deepEqual([...shown.keys()].toSorted(), [...faces]);
    for (const [name, text] of shown) assert.equal(text, real.get(name), name);
  });

test('kinds of errors, and failures of outcalls, are those that there are', () => {
  const kinds = rowsOf('Errors').map(([, kind = '', status]) => [kind, Number(status)]);
  assert.deepEqual(kinds, Object.entries(HTTP_STATUS satisfies Readonly<Record<ErrorKind, number>>));
  const failures = Object.entries(OUTCALL_FAILURES).map(([code, make]) => [code, make('').kind]);
  assert.deepEqual(
    rowsOf('outcalls').map(([, code, kind]) => [code, kind]),
    failures,
  );
});

test('abilities that a scheduler may lack are those that there are', async () => {
  const face = interfacesIn(await readFile(join(ROOT, 'subsystems/scheduler/index.ts'), 'utf8'));
  const abilities = face.get('SchedulerSupports')?.matchAll(/readonly (\w+): boolean/g) ?? [];
  const [, ...shown] = rowsOf('A scheduler of your own').map(([, ability]) => ability);
  assert.deepEqual(
    shown,
    Array.from(abilities, ([, ability]) => ability),
  );
});

test('what cannot be replaced, and every suite, is named', () => {
  const places = parts.get('Which, and from where') ?? '';
  for (const capability of Object.keys(NOT_REPLACEABLE)) assert.ok(places.includes(`\`${capability}\``), capability);
  const suites = parts.get('Contract suites') ?? '';
  for (const name of Object.keys(OWN_MODULES).filter((each) => each.startsWith('svc/contracts/')))
    assert.ok(suites.includes(`\`${name}\``), name);
});
