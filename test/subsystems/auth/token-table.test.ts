import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { suite, test } from 'node:test';
import { createBearerAuth } from '../../../subsystems/auth/bearer-auth.ts';
import { newTokenText } from '../../../subsystems/auth/new-token.ts';
import { RecordingLog } from '../http/counter-host.ts';
import { sha256Of, showing, writeTokens } from '../../support/token-file.ts';

const bearerOf = (name: string): string => showing(name).authorization;

suite('tokens with scopes', () => {
  test('give their rights, and never everything; the shared token stays what it was', async () => {
    const tokensFile = await writeTokens({ a: { may: ['metrics'] }, b: { may: ['call:shop'], caller: 'aaaaa-aa' } });
    const auth = createBearerAuth({ token: 'shared', tokensFile });
    assert.deepEqual([auth.needsToken, auth.allows('Bearer shared'), auth.allows(undefined)], [true, true, false]);
    assert.equal(auth.grantOf?.('Bearer shared'), undefined);
    const grant = auth.grantOf?.(bearerOf('b')) ?? assert.fail();
    assert.deepEqual([grant.name, grant.scopes.texts, grant.caller?.length], ['b', ['call:shop'], 0]);
    assert.equal(auth.grantOf?.(bearerOf('b').replace('Bearer ', 'bearer   ')), grant, 'the same object');
    for (const wrong of [
      undefined,
      '',
      'Bearer',
      'Bearer ',
      'Bearer secret-of-',
      `${bearerOf('a')}x`,
      `Basic ${bearerOf('a')}`,
    ])
      assert.equal(auth.grantOf?.(wrong), undefined, String(wrong));
    for (const name of ['a', 'b']) assert.equal(auth.allows(bearerOf(name)), false);
  });

  test('are needed where there is no shared one, also by a request without any', async () => {
    const auth = createBearerAuth({ token: undefined, tokensFile: await writeTokens({}) });
    assert.deepEqual([auth.needsToken, auth.allows(undefined), auth.allows('Bearer x')], [true, false, false]);
  });

  test('may have the scope * and do everything', async () => {
    const auth = createBearerAuth({ token: undefined, tokensFile: await writeTokens({ root: { may: ['*'] } }) });
    assert.equal(auth.allows(bearerOf('root')), true);
    assert.equal(auth.grantOf?.(bearerOf('root'))?.scopes.hasEveryActor('call'), true);
  });

  test('are not the hash that stands in the file', async () => {
    const tokensFile = await writeTokens({ a: { may: ['*'] } });
    const auth = createBearerAuth({ token: undefined, tokensFile });
    assert.equal(auth.allows(`Bearer ${sha256Of('secret-of-a')}`), false);
  });

  test('are read again: what is the same stays, what is gone or changed is over', async () => {
    const log = new RecordingLog();
    const before = { same: { may: ['metrics'] }, changed: { may: ['metrics'] }, moved: { may: [] }, gone: { may: [] } };
    const tokensFile = await writeTokens(before);
    const auth = createBearerAuth({ token: undefined, tokensFile }, log);
    const grantOf = (name: string) => auth.grantOf?.(bearerOf(name));
    const [same, changed, moved, gone] = ['same', 'changed', 'moved', 'gone'].map(
      (name) => grantOf(name) ?? assert.fail(),
    );
    const after = {
      same: { may: ['metrics'] },
      changed: { may: ['inspect'] },
      moved: { may: [], caller: 'aaaaa-aa' },
      added: { may: [] },
    };
    await writeTokens(after, tokensFile);
    assert.equal(auth.reread?.(), true);
    assert.deepEqual(
      [same, changed, moved, gone].map((grant) => grant?.isOver),
      [false, true, true, true],
    );
    assert.equal(grantOf('same'), same);
    assert.deepEqual(grantOf('changed')?.scopes.texts, ['inspect']);
    assert.equal(grantOf('gone'), undefined);
    assert.ok(grantOf('added'));
    assert.match(log.infos.join(), /4 tokens of .*: 1 as before, 3 new or changed, 3 gone or changed/);
  });

  test('stay as they were when the file is wrong, which the log says, without any secret', async () => {
    const log = new RecordingLog();
    const tokensFile = await writeTokens({ a: { may: ['metrics'] } });
    const auth = createBearerAuth({ token: undefined, tokensFile }, log);
    const grant = auth.grantOf?.(bearerOf('a'));
    await writeFile(tokensFile, '{"a":{"sha256":"my-secret-itself","may":[]}}');
    assert.equal(auth.reread?.(), false);
    assert.deepEqual([auth.grantOf?.(bearerOf('a')), grant?.isOver], [grant, false]);
    assert.match(log.errors.join(), /not read again, and those from before stay: --tokens: .*"sha256" of "a"/);
    assert.doesNotMatch(JSON.stringify(log), /my-secret-itself|secret-of-a/);
  });

  test('are made: a secret that nobody guesses, and a line that may nothing', async () => {
    const text = newTokenText('grafana') ?? assert.fail();
    const [, token = '', line = ''] = /^token {2}(svc_[\w-]{43})\nline {3}(.*)\n$/.exec(text) ?? assert.fail(text);
    const tokensFile = await writeTokens({});
    await writeFile(tokensFile, `{${line}}`);
    const auth = createBearerAuth({ token: undefined, tokensFile });
    assert.deepEqual(auth.grantOf?.(`Bearer ${token}`)?.scopes.texts, []);
    assert.notEqual(newTokenText('grafana'), text);
    assert.equal(newTokenText('a b'), undefined);
  });
});
