/** docs/variables.md, "An example": its actor is installed, its commands are executed, its answers are compared. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertShows, commandsOf, listingsOf } from '../support/doc-listings.ts';
import { startInProcess } from '../support/in-process-server.ts';
import { compileMotoko } from '../support/motoko.ts';

const COMMAND = /^curl (?:-g )?(?:-X POST -d '([^']*)' )?'?http:\/\/127\.0\.0\.1:7000(\/[^'\s]*)'?$/;

test('what docs/variables.md shows is what happens', async (t) => {
  const listings = (await listingsOf('variables')).get('An example') ?? [];
  const [source, shell] = listings;
  assert.ok(source?.language === 'motoko' && shell?.language === 'sh');
  const server = await startInProcess(t);
  const installed = await server.post('/install/shop', (await compileMotoko(source.text)).wasm);
  assert.equal(installed.status, 200, installed.body);
  const commands = commandsOf(shell);
  assert.equal(commands.length, 5);
  for (const { line, expected } of commands) {
    const [, body, path] = COMMAND.exec(line) ?? [];
    assert.ok(path !== undefined, line);
    const { body: shown } = body === undefined ? await server.get(path) : await server.post(path, body);
    assertShows(shown, expected);
  }
});
