import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFile, stat, truncate, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import { HostOutcalls } from '../../../subsystems/outcalls/host-outcalls.ts';
import { OUTCALL_FAILURES, type Outcalls } from '../../../subsystems/outcalls/index.ts';
import { NoOutcalls } from '../../../subsystems/outcalls/no-outcalls.ts';
import { checkRecording } from '../../../subsystems/outcalls/recording-file.ts';
import { RecordingOutcalls } from '../../../subsystems/outcalls/recording-outcalls.ts';
import { ReplayedOutcalls } from '../../../subsystems/outcalls/replayed-outcalls.ts';
import type { SuiteContext } from '../../../plugins/api/contracts/runner.ts';
import { describeOutcalls, failureOf, NEVER, requestOf, textOf } from '../../../plugins/api/contracts/outcalls.ts';
import { startOutsideServer } from '../../support/outside-server.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

async function recordTo(t: SuiteContext, file: string): Promise<HostOutcalls> {
  const outcalls = new HostOutcalls({ denyPrivate: false, recordFile: file, replayFile: undefined });
  t.after(() => outcalls.close());
  await outcalls.open();
  return outcalls;
}

async function replay(file: string): Promise<ReplayedOutcalls> {
  const outcalls = new ReplayedOutcalls(file);
  await outcalls.open();
  return outcalls;
}

const freshFile = async (): Promise<string> => join(await temporaryDirectory(), 'outcalls.jsonl');

describeOutcalls('outcalls that are recorded', async (t) => recordTo(t, await freshFile()));

/** Only the recorded part of a request is told. */
describeOutcalls('outcalls from a recording', async (t): Promise<Outcalls> => {
  const directory = await temporaryDirectory();
  let count = 0;
  return {
    send: async (request, options) => {
      const file = join(directory, `${count++}.jsonl`);
      const recorded = await recordTo(t, file);
      await recorded.send(request, options).catch(() => undefined);
      await recorded.close();
      return (await replay(file)).send(request, options);
    },
  };
});

describe('a recording', () => {
  test('answers one after the other, by method, URL and body, and refuses the rest without a connection', async (t) => {
    const file = await freshFile();
    const server = await startOutsideServer(t);
    const recording = await recordTo(t, file);
    const echo = requestOf(`${server.origin}/echo`, { method: 'POST', body: Buffer.from('one') });
    const other = { ...echo, body: Buffer.from('two') };
    const sent = [await recording.send(echo, NEVER), await recording.send(other, NEVER)];
    sent.push(await recording.send({ ...echo, headers: [{ name: 'authorization', value: 'secret' }] }, NEVER));
    await failureOf(recording.send(requestOf(`${server.origin}/close`), NEVER));
    await recording.close();
    await server.close();
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    assert.doesNotMatch((await readFile(file, 'utf8')).replaceAll(/"response":.*/g, ''), /secret/);

    const replayed = await replay(file);
    assert.deepEqual((await replayed.send(other, NEVER)).body, sent[1]?.body);
    assert.deepEqual((await replayed.send(echo, NEVER)).body, sent[0]?.body);
    assert.match(textOf(await replayed.send(echo, NEVER)), /secret/, 'the second answer to the same');
    assert.equal((await failureOf(replayed.send(requestOf(`${server.origin}/close`), NEVER))).code, 'outcall-failed');
    for (const request of [echo, { ...echo, method: 'PUT' } as const, { ...other, body: Buffer.from('three') }]) {
      const { code, message } = await failureOf(replayed.send(request, NEVER));
      assert.equal(code, 'outcall-not-recorded');
      assert.match(message, /the recording has no/);
    }
  });

  test('is gone on with', async (t) => {
    const file = await freshFile();
    const server = await startOutsideServer(t);
    for (let n = 1; n <= 2; n++) {
      const recording = await recordTo(t, file);
      await recording.send(requestOf(`${server.origin}/json/${n}`), NEVER);
      await recording.close();
    }
    const replayed = await replay(file);
    for (let n = 1; n <= 2; n++)
      assert.match(textOf(await replayed.send(requestOf(`${server.origin}/json/${n}`), NEVER)), new RegExp(`"n":${n}`));
  });

  test('is gone on with behind its last whole line, if a process died in the middle of one', async (t) => {
    const server = await startOutsideServer(t);
    const request = requestOf(`${server.origin}/json/1`);
    for (const [cut, count] of [
      [-1, 2],
      [-2, 1],
      [-40, 1],
    ] as const) {
      const file = await freshFile();
      for (let n = 0; n < 2; n++) {
        const recording = await recordTo(t, file);
        await recording.send(request, NEVER);
        await recording.close();
        if (n === 0) await writeFile(file, (await readFile(file)).subarray(0, cut));
      }
      const replayed = await replay(file);
      for (let n = 0; n < count; n++) assert.match(textOf(await replayed.send(request, NEVER)), /"n":1/);
      assert.equal((await failureOf(replayed.send(request, NEVER))).code, 'outcall-not-recorded');
    }
    const file = await freshFile();
    await writeFile(file, '{"svc-outcalls":1}');
    await (await recordTo(t, file)).close();
    assert.equal(await readFile(file, 'utf8'), '{"svc-outcalls":1}\n');
  });

  test('whose last line was cut off answers by its whole lines, and says so', async (t) => {
    const server = await startOutsideServer(t);
    const file = await freshFile();
    const recording = await recordTo(t, file);
    for (const n of [1, 2]) await recording.send(requestOf(`${server.origin}/json/${n}`), NEVER);
    await recording.close();
    const whole = await readFile(file);
    for (const [cut, warnings] of [
      [0, 0],
      [-1, 0],
      [-2, 1],
      [-40, 1],
    ] as const) {
      await writeFile(file, whole.subarray(0, whole.length + cut));
      const told: string[] = [];
      const log = { warn: (text: string): void => void told.push(text) };
      const replayed = new HostOutcalls({ denyPrivate: false, recordFile: undefined, replayFile: file }, log);
      await replayed.open();
      assert.match(textOf(await replayed.send(requestOf(`${server.origin}/json/1`), NEVER)), /"n":1/);
      const second = replayed.send(requestOf(`${server.origin}/json/2`), NEVER);
      if (warnings === 0) assert.match(textOf(await second), /"n":2/);
      else assert.equal((await failureOf(second)).code, 'outcall-not-recorded');
      assert.equal(told.length, warnings, told.join());
      for (const text of told) assert.match(text, /the last line of .* was cut off/);
      assert.equal((await readFile(file)).length, whole.length + cut, 'a replay changes nothing');
    }
  });

  test('has what failed, and not that the server stopped', async () => {
    const file = await freshFile();
    const failures = ['outcall-timeout', 'outcalls-stopping'] as const;
    let at = 0;
    const failing: Outcalls = {
      send: () => Promise.reject(OUTCALL_FAILURES[failures[at++] ?? 'outcall-failed']('why')),
    };
    const recording = new RecordingOutcalls(failing, file);
    await recording.open();
    const request = requestOf('http://example.org/');
    assert.equal((await failureOf(recording.send(request, NEVER))).code, 'outcall-timeout');
    assert.equal((await failureOf(recording.send(request, NEVER))).code, 'outcalls-stopping');
    await recording.close();
    const replayed = await replay(file);
    assert.deepEqual(await failureOf(replayed.send(request, NEVER)), { code: 'outcall-timeout', message: 'why' });
    assert.equal((await failureOf(replayed.send(request, NEVER))).code, 'outcall-not-recorded');
  });

  test('keeps characters that end lines elsewhere, and is read with them', async () => {
    const file = await freshFile();
    const odd = 'one\u2028two\u2029three\u0085four\rfive';
    const long = Buffer.alloc(200_000, 'ä');
    const response = { status: 200, headers: [{ name: 'x-odd', value: odd.replace('\r', '\t') }], body: long };
    const answering: Outcalls = {
      send: ({ url }) =>
        url.endsWith('/fails') ? Promise.reject(OUTCALL_FAILURES['outcall-failed'](odd)) : Promise.resolve(response),
    };
    const recording = new RecordingOutcalls(answering, file);
    await recording.open();
    const request = requestOf('http://example.org/');
    const failing = requestOf('http://example.org/fails');
    await recording.send(request, NEVER);
    await failureOf(recording.send(failing, NEVER));
    await recording.close();
    const text = await readFile(file, 'utf8');
    assert.equal(text.split(/[\n\r\u2028\u2029]/u).length, 4, 'a line for each, for whoever splits them');
    // The text as an earlier version wrote it, and as an editor may save it.
    for (const written of [text, text.replaceAll('\\u2028', '\u2028').replaceAll('\\u2029', '\u2029')]) {
      for (const content of [written, written.replaceAll('\n', '\r\n'), written.trimEnd()]) {
        await writeFile(file, content);
        const replayed = await replay(file);
        assert.deepEqual(await replayed.send(request, NEVER), response);
        assert.deepEqual(await failureOf(replayed.send(failing, NEVER)), { code: 'outcall-failed', message: odd });
      }
    }
  });

  test('that is none is refused at the start, with the line', async (t) => {
    const file = await freshFile();
    const heading = '{"svc-outcalls":1}\n';
    const asked = '"method":"GET","url":"http://x/","body":""';
    for (const [content, message] of [
      ['', /it is empty/],
      ['{"svc-outcalls":2}\n', /does not begin with the line/],
      ['hello\n', /does not begin with the line/],
      [`${heading}{\n`, /line 2: it is no JSON/],
      [`${heading}\n{"method":1}`, /line 3: it needs method, url and body/],
      [`${heading}{${asked}}`, /line 2: it needs a failure, or a response/],
      [`${heading}{${asked},"response":{"status":200,"headers":[["a"]],"body":""}}`, /a header is/],
      [`${heading}{${asked},"failure":{"code":"toString","message":""}}`, /failure needs a code/],
      [`${heading}null`, /line 2/],
      [`${heading}{${asked},"response":{"status":1e400,"headers":[],"body":""}}`, /line 2: status is Infinity/],
      [`${heading}{${asked},"response":{"status":20.5,"headers":[],"body":""}}`, /line 2: status is 20.5/],
      [`${heading}{${asked},"response":{"status":200,"headers":[],"body":"aG!k"}}`, /line 2: body of the response is/],
      [`${heading}{"method":"GET","url":"http://x/","body":"a"}`, /line 2: body is not base64/],
      [`${heading}{${asked},"response":{"status":199,"headers":[],"body":""}}`, /line 2: status is 199: 200 to 999/],
      [`${heading}{${asked},"response":{"status":200,"headers":[["a","b","c"]],"body":""}}`, /line 2: a header is/],
      [notUtf8(`${heading}{"method":"GET","url":"http://x/?","body":""}`), /line 2: it is not UTF-8/],
      [
        notUtf8(`${heading}\n{${asked},"response":{"status":200,"headers":[["a","?"]],"body":""}}\n`),
        /line 3: it is not/,
      ],
      [notUtf8(`${heading}{${asked},"failure":{"code":"outcall-failed","message":"?"}}`), /line 2: it is not UTF-8/],
    ] as const) {
      await writeFile(file, content);
      await assert.rejects(replay(file), { code: 'outcalls-file-bad', message }, String(content));
    }
    execFileSync('mkfifo', [`${file}.pipe`]);
    for (const odd of [`${file}.pipe`, dirname(file), '/dev/zero'])
      await assert.rejects(replay(odd), { code: 'outcalls-file-bad', message: /not a regular file/ }, odd);
    await assert.rejects(recordTo(t, `${file}.pipe`), { code: 'outcalls-file-bad', message: /not a regular file/ });
    await assert.rejects(replay(`${file}.missing`), { code: 'outcalls-file-bad', message: /ENOENT/ });
    await writeFile(file, 'something else\n');
    await assert.rejects(recordTo(t, file), { code: 'outcalls-file-bad', message: /does not begin/ });
    assert.equal(await readFile(file, 'utf8'), 'something else\n', 'and is left as it is');
  });

  test('of what no outcall can have is refused, with the line', async (t) => {
    const file = await freshFile();
    const asked = { method: 'GET', url: 'http://x/', body: '' };
    const ok = { status: 200, headers: [], body: '' };
    const header = (name: string, value: string): object => ({ response: { ...ok, headers: [[name, value]] } });
    const rows: readonly (readonly [object, RegExp])[] = [
      [{ method: 'get' }, /method is "get": GET, HEAD/],
      [{ method: 'OPTIONS' }, /method is "OPTIONS"/],
      [{ method: '' }, /method is ""/],
      [{ url: 'x' }, /url "x" is none of http or https/],
      [{ url: 'ftp://x/' }, /none of http or https/],
      [{ url: 'http://x' }, /is asked for as "http:\/\/x\/"/],
      [{ url: 'HTTP://x/' }, /is asked for as "http:\/\/x\/"/],
      [{ url: 'https://x:443/' }, /is asked for as "https:\/\/x\/"/],
      [{ url: 'http://x/a b' }, /is asked for as "http:\/\/x\/a%20b"/],
      [{ url: 'http://x/\n' }, /is asked for as/],
      [{ url: 'http://x/#a' }, /has a fragment/],
      [{ url: 'http://x/#' }, /has a fragment/],
      [{ url: 'http://u:p@x/' }, /user name or a password/],
      [{ url: 'http://x:0/' }, /port 0/],
      [{ failure: { code: 'outcall-failed', message: '' } }, /a failure and a response/],
      [{ response: undefined, failure: { code: 'outcalls-stopping', message: '' } }, /never recorded/],
      [{ response: { ...ok, status: 101 } }, /status is 101: 200 to 999/],
      [{ response: { ...ok, status: 204, body: 'YQ==' } }, /body, and an answer of status 204 has none/],
      [{ response: { ...ok, status: 304, body: 'YQ==' } }, /body, and an answer of status 304 has none/],
      [{ method: 'HEAD', response: { ...ok, body: 'YQ==' } }, /body, and an answer to HEAD has none/],
      [header('', 'a'), /"" is no name of a header/],
      [header('a b', 'a'), /"a b" is no name/],
      [header('a:', 'a'), /is no name/],
      [header('X-A', 'a'), /"X-A" is no name of a header: letters are small/],
      [header('käse', 'a'), /is no name/],
      [header('transfer-encoding', 'chunked'), /one of the connection/],
      [header('a', 'b\r\nc: d'), /header "a": the value has a control character/],
      [header('a', '\0'), /control character/],
      [header('a', '\x7f'), /control character/],
      [header('a', ' b'), /blanks around it/],
      [header('a', 'b\t'), /blanks around it/],
    ];
    for (const [change, words] of rows) {
      const line = JSON.stringify({ ...asked, response: ok, ...change });
      await writeFile(file, `{"svc-outcalls":1}\n\n${line}\n`);
      const told = { code: 'outcalls-file-bad', message: new RegExp(`line 3: .*${words.source}`, 's') };
      await assert.rejects(replay(file), told, line);
      await assert.rejects(checkRecording(file), told, line);
      await assert.rejects(recordTo(t, file), told, line);
    }
    const odd = {
      ...ok,
      status: 999,
      headers: [
        ['a', 'b\tü\u0085\u2028'],
        ['a', ''],
      ],
    };
    for (const change of [{ method: 'HEAD' }, { url: 'https://[::1]:8443/?' }, { response: odd }]) {
      await writeFile(file, `{"svc-outcalls":1}\n${JSON.stringify({ ...asked, response: ok, ...change })}\n`);
      await replay(file);
    }
  });

  test('with a damaged line is not gone on with either, and stays as it is', async (t) => {
    const file = await freshFile();
    const heading = '{"svc-outcalls":1}\n';
    const asked = '"method":"GET","url":"http://x/","body":""';
    const good = `{${asked},"response":{"status":200,"headers":[],"body":""}}\n`;
    const odd = `{${asked},"response":{"status":1,"headers":[],"body":""}}`;
    for (const [content, message] of [
      [`${heading}${good}{"method":\n${good}`, /line 3: it is no JSON/],
      [`${heading}{"method":\n`, /line 2: it is no JSON/],
      [`${heading}${good}${odd}\n${good}`, /line 3: status is 1/],
      [`${heading}${good}${odd}`, /line 3: status is 1/],
      [`${heading}${odd}\n{"method":"G`, /line 2: status is 1/],
      [`${heading}${good}\n\n${good}{}\n`, /line 6: it needs method/],
      [
        notUtf8(`${heading}{${asked},"response":{"status":200,"headers":[["a","?"]],"body":""}}\n`),
        /line 2: it is not/,
      ],
      ['{"svc-outc', /does not begin with the line/],
    ] as const) {
      await writeFile(file, content);
      await assert.rejects(recordTo(t, file), { code: 'outcalls-file-bad', message }, String(content));
      assert.deepEqual(await readFile(file), Buffer.from(content));
    }
    // A last line that was cut off does not count as damage.
    await writeFile(file, `${heading}${good}\n${good}{"method":"G`);
    await (await recordTo(t, file)).close();
    assert.equal(await readFile(file, 'utf8'), `${heading}${good}\n${good}`);
    await truncate(file, 64 * 1024 * 1024 + 1);
    await assert.rejects(recordTo(t, file), { code: 'outcalls-file-bad', message: /at most 67108864 are read/ });
  });
});

test('with --no-outcalls nothing is sent', async () => {
  assert.equal((await failureOf(new NoOutcalls().send())).code, 'outcalls-off');
});

/** Returns the bytes of a text, with one that no UTF-8 has in place of the last `?`. */
function notUtf8(text: string): Uint8Array {
  const bytes = Buffer.from(text);
  bytes[bytes.lastIndexOf('?')] = 0xff;
  return bytes;
}
