/** The thread that reads folders: its work, the faults of folders and actors, and its own end. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import type { AssetActor, AssetReply } from '../../../subsystems/assets/asset-folders.ts';
import { PIECE_BYTES } from '../../../subsystems/assets/folder.ts';
import { ThreadedFolders } from '../../../subsystems/assets/threaded-folders.ts';
import { createCodec } from '../../../subsystems/codec/codec.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

const codec = createCodec();
/** Answers with values as the asset canister does: the numbers of batches and chunks are texts of Candid. */
const answers: Readonly<Record<string, string>> = {
  list:
    '(vec {} : vec record { key : text; content_type : text; headers : opt vec record { text; text }; ' +
    'encodings : vec record { content_encoding : text; sha256 : opt blob } })',
  create_batch: '(record { batch_id = 7 : nat })',
  create_chunk: '(record { chunk_id = 1 : nat })',
  create_chunks: '(record { chunk_ids = vec { 1 : nat; 2 : nat } })',
  commit_batch: '()',
};

interface Called {
  readonly method: string;
  readonly bytes: number;
}

function actorOf(called: Called[], change: (method: string) => AssetReply | undefined = () => undefined): AssetActor {
  return {
    name: 'site',
    has: (method) => method in answers,
    call: async (_kind, method, argument) => {
      called.push({ method, bytes: argument.length });
      // A part of a larger buffer, as a message of an actor may be.
      const data = Buffer.concat([Buffer.from('xx'), codec.encodeText(answers[method] ?? '()')]).subarray(2);
      return change(method) ?? { kind: 'reply', data };
    },
  };
}

async function folderOf(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = join(await temporaryDirectory(), 'dist');
  await mkdir(folder);
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content);
  return folder;
}

suite('the thread that reads folders', () => {
  test('sends small files together and large ones in pieces, and commits once', async () => {
    const folders = new ThreadedFolders();
    const source = { folder: await folderOf({ a: 'a', b: 'b'.repeat(PIECE_BYTES + 1) }), isSite: true };
    await folders.check(source);
    assert.deepEqual(await folders.foldersOf(source), [source.folder, `${source.folder}/`]);
    const called: Called[] = [];
    assert.deepEqual(await folders.deploy(source, actorOf(called)), { files: 2, bytes: PIECE_BYTES + 2 });
    assert.deepEqual(
      called.map(({ method }) => method),
      ['list', 'create_batch', 'create_chunks', 'create_chunks', 'create_chunks', 'commit_batch'],
    );
    assert.ok(called.every(({ bytes }) => bytes < 2 * 1024 * 1024));
  });

  test('folders of different actors at once, each with its own answers', async () => {
    const folders = new ThreadedFolders();
    const deployments = await Promise.all(
      [1, 2, 3].map(async (count) => {
        const files = Object.fromEntries(Array.from({ length: count }, (_, at) => [`f${at}`, 'x'.repeat(count)]));
        const names = (method: string): AssetReply | undefined =>
          method === 'create_chunks'
            ? { kind: 'reply', data: codec.encodeText(`(record { chunk_ids = vec { ${'1 : nat;'.repeat(count)} } })`) }
            : undefined;
        const actor = { ...actorOf([], names), name: `site-${count}` };
        return await folders.deploy({ folder: await folderOf(files), isSite: true }, actor);
      }),
    );
    assert.deepEqual(
      deployments,
      [1, 2, 3].map((count) => ({ files: count, bytes: count * count })),
    );
  });

  test('faults of a folder and of an actor come as their own errors', async () => {
    const folders = new ThreadedFolders();
    const isError =
      (code: string, message: RegExp) =>
      (error: unknown): boolean =>
        error instanceof ServerError && error.code === code && message.test(error.message);
    const missing = { folder: join(await temporaryDirectory(), 'dist'), isSite: true };
    await assert.rejects(folders.check(missing), isError('assets-folder', /build it, or correct "assets"/));
    const source = { folder: await folderOf({ a: 'a' }), isSite: true };
    const full = (method: string): AssetReply | undefined =>
      method === 'create_batch' ? { kind: 'trap', message: 'full' } : undefined;
    await assert.rejects(folders.deploy(source, actorOf([], full)), isError('assets-refused', /create_batch: full/));
    const deleted: AssetActor = {
      ...actorOf([]),
      call: () => Promise.reject(new ServerError('missing', 'actor-missing', 'it has been deleted')),
    };
    await assert.rejects(folders.deploy(source, deleted), isError('actor-missing', /^it has been deleted$/));
    const poor: AssetActor = { ...actorOf([]), has: (method) => method === 'list' };
    await assert.rejects(folders.deploy(source, poor), isError('assets-refused', /no method create_batch/));
    // The thread goes on.
    assert.equal((await folders.deploy(source, actorOf([]))).files, 1);
  });

  test('a thread that ends is told to all who wait, and replaced', async () => {
    const source = { folder: await folderOf({ a: 'a' }), isSite: true };
    const failed = (error: unknown): boolean =>
      error instanceof ServerError && error.code === 'assets-failed' && error.kind === 'unavailable';
    for (const script of ['process.exit(3)', 'throw new Error("no")', 'const all=[];for(;;)all.push([all.length])']) {
      const folders = new ThreadedFolders(new URL(`data:text/javascript,${encodeURIComponent(script)}`), 64);
      const waiting = [folders.check(source), folders.deploy(source, actorOf([]))];
      for (const each of waiting) await assert.rejects(each, failed, script);
      await assert.rejects(folders.check(source), failed, script);
    }
  });
});
