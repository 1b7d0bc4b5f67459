/**
 * Instrumented code beside the state: a restart uses it, and also works without it, or with bytes that belong to
 * another module.
 */
import assert from 'node:assert/strict';
import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, suite, test } from 'node:test';
import { compileActor, Deployment } from './deployment.ts';
import { WITNESS } from './witness.ts';

let keeper: Uint8Array;
before(async () => {
  keeper = await compileActor('Keeper');
});

/** Returns the inode of each file that holds code: it differs if the file was written again. */
async function filesIn(directory: string): Promise<ReadonlyMap<string, number>> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.code'));
  return new Map(
    await Promise.all(names.map(async (name) => [name, (await stat(join(directory, name))).ino] as const)),
  );
}

suite('instrumented code', () => {
  test('is made once, and again when it is damaged, exchanged or gone; the actors notice nothing', async (t) => {
    const deployment = await Deployment.create(t, { modules: { keeper, witness: WITNESS } });
    const directory = join(deployment.state, 'modules');
    const numbers: number[] = [];
    /** Costs of the same message in each run; there must be only one, whichever run has made the code. */
    const costs = new Set<bigint>();
    const serve = async (): Promise<void> => {
      const host = await deployment.start();
      const actor = await host.find('keeper');
      assert.equal(await host.call(actor, 'append', [numbers.length]), numbers.push(numbers.length));
      assert.deepEqual(await host.query(actor, 'all'), numbers);
      const balance = async (): Promise<bigint> => BigInt((await host.server.get('/cycles/witness')).body);
      const beforehand = await balance();
      assert.equal((await host.server.post('/call/witness/write', 'as ever')).status, 200);
      costs.add(beforehand - (await balance()));
      await deployment.kill();
    };

    await serve();
    const made = await filesIn(directory);
    assert.equal(made.size, 2);
    await serve();
    assert.deepEqual(await filesIn(directory), made, 'nothing was made again');

    const [one = '', two = ''] = [...made.keys()].map((name) => join(directory, name));
    const [first, second] = [await readFile(one), await readFile(two)];
    await writeFile(one, second);
    await writeFile(two, first);
    await serve();
    const again = await filesIn(directory);
    for (const [name, number] of made) assert.notEqual(again.get(name), number, 'the other one is not taken');

    first.writeUInt8(first.readUInt8(first.length - 10) ^ 1, first.length - 10);
    await writeFile(one, first);
    await writeFile(two, '');
    await serve();
    await rm(directory, { recursive: true });
    await serve();
    assert.equal((await filesIn(directory)).size, 2);
    assert.equal(costs.size, 1, [...costs].join(' '));
  });
});
