import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import vm from 'node:vm';
import { loadProgram, type Program } from '../../../subsystems/compiler/program-code.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

/** Makes a program like the compiler's, and a place for its code. */
async function place(text = 'module.exports.answer = () => 42;') {
  const root = await temporaryDirectory();
  const kept = join(root, 'kept');
  await mkdir(kept);
  const file = join(root, 'program.js');
  await writeFile(file, text);
  return { file, kept, code: join(kept, 'moc.code') };
}

function answerOf({ script }: Program): unknown {
  const run = script.runInContext(vm.createContext()) as (module: object) => void;
  const module: { exports: { answer?: () => unknown } } = { exports: {} };
  run(module);
  return module.exports.answer?.();
}

test('what was compiled once is taken from where it is kept, and does the same', async () => {
  const { file, kept } = await place();
  const first = loadProgram(file, kept);
  assert.equal(first.isFromKept, false);
  assert.equal(answerOf(first), 42);
  first.keep();
  assert.deepEqual(await readdir(kept), ['moc.code']);
  const second = loadProgram(file, kept);
  assert.equal(second.isFromKept, true);
  assert.equal(answerOf(second), 42);
});

test('another program of the same length is compiled anew', async () => {
  const { file, kept } = await place();
  loadProgram(file, kept).keep();
  await writeFile(file, 'module.exports.answer = () => 43;');
  const other = loadProgram(file, kept);
  assert.equal(other.isFromKept, false);
  assert.equal(answerOf(other), 43);
});

test('damaged code is never run, wherever the damage is, and is replaced', async () => {
  const { file, kept, code } = await place();
  loadProgram(file, kept).keep();
  const whole = await readFile(code);
  const damaged = [0, 31, 32, 40, whole.length >> 1, whole.length - 1].map((at) => {
    const bytes = Buffer.from(whole);
    bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
    return bytes;
  });
  for (const bytes of [...damaged, whole.subarray(0, 20), whole.subarray(0, -1), Buffer.alloc(0)]) {
    await writeFile(code, bytes);
    const program = loadProgram(file, kept);
    assert.equal(program.isFromKept, false);
    assert.equal(answerOf(program), 42);
  }
  loadProgram(file, kept).keep();
  assert.equal(loadProgram(file, kept).isFromKept, true);
});

test('without a place to keep it, or one that cannot be written, the program runs all the same', async () => {
  const { file, kept } = await place();
  const nowhere = loadProgram(file, undefined);
  nowhere.keep();
  assert.equal(answerOf(nowhere), 42);
  const missing = loadProgram(file, join(kept, 'missing'));
  missing.keep();
  assert.equal(answerOf(missing), 42);
});

test('one process writes at a time; the draft of one that was killed is replaced', async () => {
  const { file, kept, code } = await place();
  const draft = `${code}.draft`;
  await writeFile(draft, 'of another process');
  loadProgram(file, kept).keep();
  assert.equal(await readFile(draft, 'utf8'), 'of another process');
  const longAgo = new Date(Date.now() - 120_000);
  await utimes(draft, longAgo, longAgo);
  loadProgram(file, kept).keep();
  assert.ok((await stat(code)).isFile());
  assert.deepEqual(await readdir(kept), ['moc.code']);
});
