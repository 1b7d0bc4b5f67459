import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test, type TestContext } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { codecPlugin } from '../../../plugins/codec.ts';
import { CodecPool } from '../../../subsystems/codec/codec-pool.ts';
import { createCodec } from '../../../subsystems/codec/codec.ts';
import { LARGE_BODY_BYTES } from '../../../subsystems/codec/faults.ts';
import { Codec, type TupleCodec } from '../../../subsystems/codec/index.ts';
import { startKernel } from '../../support/kernel.ts';

const DEFAULT = { lossless: false };
const LOSSLESS = { lossless: true };

function start(t: TestContext, jobDeadlineMs?: number): { untyped: TupleCodec; args: TupleCodec } {
  const pool = new CodecPool(jobDeadlineMs === undefined ? {} : { jobDeadlineMs });
  t.after(() => pool.close());
  const codec = createCodec(pool);
  const args = codec.parseInterface('service : { m : (vec nat) -> () }').methods.get('m')?.args;
  assert.ok(args !== undefined);
  return { untyped: codec.untyped, args };
}

function numbers(count: number): Buffer {
  return Buffer.from(JSON.stringify([Array.from({ length: count }, (_, index) => index)]));
}

test('small input is converted at once, large input in the worker, with the same result', async (t) => {
  const { args } = start(t);
  assert.ok(args.encodeAnySize(numbers(3), DEFAULT) instanceof Uint8Array);
  const json = numbers(100_000);
  assert.ok(json.length > LARGE_BODY_BYTES);
  // A part of a larger buffer, which must stay whole.
  const around = Buffer.concat([Buffer.from('xx'), json]);
  const pending = args.encodeAnySize(around.subarray(2), DEFAULT);
  assert.ok(pending instanceof Promise);
  const message = await pending;
  assert.deepEqual(message, args.encode(json, DEFAULT));
  assert.equal(around.length, json.length + 2);
  for (const options of [DEFAULT, LOSSLESS]) {
    const text = await args.decodeAnySize(new Uint8Array(Buffer.concat([message, Buffer.alloc(0)])), options);
    assert.deepEqual(text, args.decode(message, options));
  }
});

test('untyped values go the same way', async (t) => {
  const { untyped } = start(t);
  const json = Buffer.from(`["${'x'.repeat(LARGE_BODY_BYTES)}"]`);
  const message = await untyped.encodeAnySize(json, LOSSLESS);
  assert.deepEqual(Buffer.from(await untyped.decodeAnySize(message, LOSSLESS)), json);
});

test('Candid text goes the same way, and may be longer there than at once', async (t) => {
  const { args, untyped } = start(t);
  const textOf = (count: number): string => `(vec {${Array.from({ length: count }, (_, at) => at).join(';')}})`;
  for (const tuple of [args, untyped]) {
    const [small, large] = [textOf(10), textOf(50_000)];
    assert.deepEqual(await tuple.encodeTextAnySize(Buffer.from(small)), tuple.encodeText(small));
    assert.ok(large.length > LARGE_BODY_BYTES);
    assert.deepEqual(await tuple.encodeTextAnySize(Buffer.from(large)), tuple.encodeText(large));
  }
  const longer = textOf(200_000);
  assert.throws(() => args.encodeText(longer), /at most 1048576/);
  const encoded = await args.encodeTextAnySize(Buffer.from(longer));
  assert.match(Buffer.from(args.decode(encoded, DEFAULT)).toString().slice(-20), /199999\]\]$/);
  const invalid = Buffer.alloc(LARGE_BODY_BYTES + 1, 0xff);
  await assert.rejects(Promise.resolve(args.encodeTextAnySize(invalid)), { code: 'bad-candid-text' });
  assert.throws(() => args.encodeTextAnySize(Buffer.of(0xff)), { code: 'bad-candid-text' });
});

test('text that takes more memory than the thread has is refused, and the next one gets a new worker', async (t) => {
  // A busy machine may take long to fill the memory.
  const { args } = start(t, 200_000);
  const hostile = Buffer.from(`(vec {${'1;'.repeat(8_000_000)}})`);
  await assert.rejects(Promise.resolve(args.encodeTextAnySize(hostile)), { code: 'codec-quota' });
  const fitting = Buffer.from(`(vec {${'1;'.repeat(200_000)}})`);
  assert.ok((await args.encodeTextAnySize(fitting)).length >= 200_000);
});

test('errors come back as they are thrown at once', async (t) => {
  const { args } = start(t);
  const bad = Buffer.from(`[[1,${' '.repeat(LARGE_BODY_BYTES)}-1]]`);
  await assert.rejects(Promise.resolve(args.encodeAnySize(bad, DEFAULT)), (error) => {
    assert.ok(error instanceof ServerError);
    assert.deepEqual(
      [error.kind, error.code, error.message],
      ['invalid', 'bad-json', 'args[0][1]: expected nat, found the negative number -1'],
    );
    return true;
  });
});

test('a conversion that takes too long is ended, and the next one gets a new worker', async (t) => {
  const { args } = start(t, 1);
  await assert.rejects(Promise.resolve(args.encodeAnySize(numbers(500_000), DEFAULT)), {
    code: 'codec-timeout',
    kind: 'invalid',
  });
  const patient = start(t);
  assert.ok((await patient.args.encodeAnySize(numbers(100_000), DEFAULT)).length > 0);
  await assert.rejects(Promise.resolve(args.encodeAnySize(numbers(500_000), DEFAULT)), { code: 'codec-timeout' });
});

test('several at once are done in turn', async (t) => {
  const { args } = start(t);
  const results = await Promise.all(
    [60_000, 70_000, 80_000].map(async (count) => args.encodeAnySize(numbers(count), DEFAULT)),
  );
  assert.deepEqual(
    results,
    [60_000, 70_000, 80_000].map((count) => args.encode(numbers(count), DEFAULT)),
  );
});

test('too many at once are refused, and closing rejects what has not ended', async () => {
  const pool = new CodecPool();
  const codec = createCodec(pool);
  const args = codec.parseInterface('service : { m : (vec nat) -> () }').methods.get('m')?.args;
  assert.ok(args !== undefined);
  const json = numbers(60_000);
  const outcomes = Array.from({ length: 40 }, () =>
    Promise.resolve(args.encodeAnySize(json, DEFAULT)).then(
      () => 'done',
      (error: unknown) => (error instanceof ServerError ? error.code : 'bug'),
    ),
  );
  await pool.close();
  const counts = Map.groupBy(await Promise.all(outcomes), (outcome) => outcome);
  assert.equal(counts.get('codec-busy')?.length, 7);
  assert.equal(counts.get('codec-closed')?.length, 33);
  await assert.rejects(Promise.resolve(args.encodeAnySize(json, DEFAULT)), {
    code: 'codec-closed',
    kind: 'unavailable',
  });
  await pool.close();
});

test('the plugin ends the worker when it has stopped', async (t) => {
  const kernel = await startKernel(t, [codecPlugin]);
  const codec = kernel.get(Codec);
  const json = Buffer.from(`["${'x'.repeat(LARGE_BODY_BYTES)}"]`);
  assert.ok((await codec.untyped.encodeAnySize(json, LOSSLESS)).length > 0);
  await kernel.stop();
  await assert.rejects(Promise.resolve(codec.untyped.encodeAnySize(json, LOSSLESS)), { code: 'codec-closed' });
});

test('a worker that waits for work does not keep the process alive', () => {
  const file = new URL('../../../subsystems/codec/codec.ts', import.meta.url).href;
  const script = `
    import { createCodec } from ${JSON.stringify(file)};
    const message = await createCodec().untyped.encodeAnySize(Buffer.from('["' + 'x'.repeat(300_000) + '"]'), { lossless: true });
    console.log(message.length);`;
  const child = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    timeout: 10_000,
    encoding: 'utf8',
  });
  assert.equal(child.status, 0, child.stderr);
  // DIDL, no type table, one argument, text, its length in three bytes.
  assert.equal(child.stdout.trim(), String(4 + 1 + 1 + 1 + 3 + 300_000));
});
