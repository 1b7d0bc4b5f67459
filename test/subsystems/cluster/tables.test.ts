import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { NameTable } from '../../../subsystems/cluster/name-table.ts';
import { OwnerTable } from '../../../subsystems/cluster/owner-table.ts';
import { shardOf } from '../../../subsystems/ic/index.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { RecordingLogger } from '../../support/kernel.ts';
import { MemoryService } from '../../support/memory-service.ts';

const ID = Uint8Array.of(0x80, 0, 1, 0, 0, 0x10, 0, 1, 1, 1);

suite('names of actors of other servers', () => {
  test('are asked for once by all who want to know, and again when 30 s are over', async () => {
    const [service, clock] = [new MemoryService(2), new FakeClock()];
    service.names.set('far', ID);
    const names = new NameTable(service.join(0), clock);
    const found = await Promise.all(Array.from({ length: 5 }, async () => names.find('far')));
    assert.deepEqual(new Set(found), new Set([ID]));
    assert.equal(names.find('far'), ID);
    assert.equal(service.asked.length, 1);
    clock.advance(30_000);
    assert.equal(await names.find('far'), ID);
    assert.equal(service.asked.length, 2);
  });

  test('that are nobody’s are asked for again a moment later', async () => {
    const [service, clock] = [new MemoryService(2), new FakeClock()];
    const names = new NameTable(service.join(0), clock);
    assert.equal(await names.find('far'), undefined);
    service.names.set('far', ID);
    assert.equal(names.find('far'), undefined);
    clock.advance(100);
    assert.equal(await names.find('far'), ID);
  });

  test('are forgotten when somebody says so, and those asked for first when there are 10,000', async () => {
    const [service, clock] = [new MemoryService(2), new FakeClock()];
    const names = new NameTable(service.join(0), clock);
    for (let number = 0; number <= 10_000; number++) await names.find(`name-${number}`);
    assert.equal(names.find('name-10000'), undefined);
    assert.ok(names.find('name-0') instanceof Promise);
    names.forget('name-10000');
    assert.ok(names.find('name-10000') instanceof Promise);
  });

  test('are no more than 1,000 at once on their way', async () => {
    const [service, clock] = [new MemoryService(2), new FakeClock()];
    const names = new NameTable(service.join(0), clock);
    const asked = Array.from({ length: 1000 }, async (_none, number) => names.find(`name-${number}`));
    await assert.rejects(async () => names.find('one more'), { code: 'owner-missing' });
    await Promise.all(asked);
    assert.equal(await names.find('one more'), undefined);
  });

  test('that cannot be asked for are asked for again', async () => {
    const [service, clock] = [new MemoryService(2), new FakeClock()];
    const names = new NameTable(service.join(0), clock);
    service.failure = new Error('away');
    await assert.rejects(async () => names.find('far'), /away/);
    service.failure = undefined;
    assert.equal(await names.find('far'), undefined);
  });
});

suite('owners', () => {
  test('are those of the last answer while the store is away, and the log says so once', async () => {
    const [service, clock, log] = [new MemoryService(2), new FakeClock(), new RecordingLogger()];
    const [store, other] = [service.join(0), service.join(1)];
    await other.announce('10.0.0.2:7100');
    const owners = new OwnerTable({ store, key: Buffer.from('key'), clock, log });
    await owners.look();
    assert.equal(owners.owners[1]?.address, '10.0.0.2:7100');
    service.failure = new Error('away');
    for (let look = 0; look < 3; look++) await owners.look();
    assert.equal(owners.owners[1]?.node, other.node);
    assert.equal(log.lines.filter((line) => /cannot be asked now: away/.test(line)).length, 1);
    service.failure = undefined;
    service.leave(1);
    await owners.look();
    assert.equal(owners.owners[1], undefined);
    assert.equal(owners.peerOf(1), undefined);
  });
});

suite('the shard of an id', () => {
  for (const [id, shard] of [
    ['80000000001000010101', 0],
    ['800000ffffffffff0101', 0],
    ['80000100001000010101', 1],
    ['8000ff00001000010101', 255],
    ['80010000001000010101', undefined],
    ['80000000001000000101', undefined],
    ['00000000001000010101', undefined],
    ['80000100001000010102', undefined],
    ['800001000010000101', undefined],
    ['', undefined],
  ] as const)
    test(`${id} is in shard ${shard}`, () => assert.equal(shardOf(Buffer.from(id, 'hex')), shard));
});
