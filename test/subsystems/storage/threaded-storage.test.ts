import assert from 'node:assert/strict';
import { cpSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { describeStorage } from '../../../plugins/api/contracts/storage.ts';
import { ThreadedStorage } from '../../../subsystems/storage/threaded-storage.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

for (const tables of ['rocksdb', 'sqlite'] as const)
  describeStorage(`ThreadedStorage on ${tables}`, async (t) => {
    const directory = await temporaryDirectory();
    const open = async (path = directory): Promise<ThreadedStorage> => {
      const onFailure = (error: Error): void => assert.ifError(error);
      const opened = new ThreadedStorage({
        directory: path,
        tables,
        isSynced: false,
        onFailure,
        onWarning: assert.fail,
      });
      await opened.open();
      return opened;
    };
    let storage = await open();
    t.after(() => storage.close());
    const reopen = async (): Promise<ThreadedStorage> => {
      await storage.close();
      storage = await open();
      return storage;
    };
    const crash = async (): Promise<ThreadedStorage> => {
      const image = await temporaryDirectory();
      cpSync(directory, image, { recursive: true });
      rmSync(join(image, 'lock'));
      const survived = await open(image);
      t.after(() => survived.close());
      return survived;
    };
    return { storage, reopen, crash };
  });

test('a thread that was prepared touches nothing before the state is opened, and ends with the storage', async () => {
  const directory = join(await temporaryDirectory(), 'state');
  const make = (): ThreadedStorage =>
    new ThreadedStorage({ directory, isSynced: false, onFailure: assert.ifError, onWarning: assert.fail });
  const never = make();
  never.prepare();
  never.prepare();
  await sleep(300);
  assert.ok(!existsSync(directory));
  await never.close();

  const opened = make();
  opened.prepare();
  await opened.open();
  assert.ok(existsSync(directory));
  await opened.close();
});

test('a thread that expected a unit which does not come rests', async () => {
  const directory = join(await temporaryDirectory(), 'state');
  const storage = new ThreadedStorage({
    directory,
    isSynced: false,
    onFailure: assert.ifError,
    onWarning: assert.fail,
  });
  await storage.open();
  await sleep(300);
  const before = process.cpuUsage();
  storage.expectUnit();
  await sleep(1_500);
  const { user, system } = process.cpuUsage(before);
  await storage.close();
  assert.ok(user + system < 500_000, `${(user + system) / 1000} ms of processor time in 1.5 s`);
});
