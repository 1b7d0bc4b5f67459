import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { createMetering } from '../../../subsystems/metering/create-metering.ts';
import { factsOf, KnownServers } from '../../../subsystems/timeline/known-servers.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

const { policy } = createMetering({ isEnabled: true, instructionLimit: 5_000, startingCycles: 1n });
const FACTS = factsOf('1.0.0 (abc)', policy);

test('servers are told apart by the units behind which they executed, also after a start', async () => {
  const directory = await temporaryDirectory();
  const first = new KnownServers(directory);
  assert.equal(first.otherAt(1), 'nobody knows which version of svc it was');
  first.begin(10, FACTS);
  first.begin(20, FACTS);
  const servers = new KnownServers(directory);
  servers.begin(30, { ...factsOf('1.1.0 (def)', { ...policy, instructionLimit: 6_000 }), V8: '99' });
  for (const known of [servers, new KnownServers(directory)]) {
    assert.equal(known.otherAt(10), 'nobody knows which version of svc it was', 'unit 10 came before');
    assert.match(
      known.otherAt(30) ?? '',
      /^svc was 1\.0\.0 \(abc\) and is 1\.1\.0 \(def\), V8 was .+ and is 99, the instruction limit was 5000 and is 6000$/,
    );
    assert.equal(known.otherAt(31), undefined);
  }
  servers.begin(40, FACTS);
  assert.equal(servers.otherAt(25), undefined, 'the first one is back');
  assert.match(servers.otherAt(35) ?? '', /^svc was 1\.1\.0/);
  assert.deepEqual(readdirSync(directory), ['servers.json']);
});

test('of very many servers the oldest are forgotten, not taken for others', async () => {
  const servers = new KnownServers(await temporaryDirectory());
  for (let unit = 0; unit < 600; unit++) servers.begin(unit, { svc: String(unit) });
  assert.equal(servers.otherAt(100), 'nobody knows which version of svc it was');
  assert.equal(servers.otherAt(500), 'svc was 499 and is 599');
});
