/** Memory that the process may use, according to the kernel's files. */
import assert from 'node:assert/strict';
import { totalmem } from 'node:os';
import { test } from 'node:test';
import { type Machine, memoryWarnings, usableMemoryBytes } from '../../config/machine-memory.ts';

const GIB = 2 ** 30;

function machine(files: Readonly<Record<string, string>>, totalBytes = 64 * GIB): Machine {
  return { totalBytes, read: (file) => files[file] };
}

test('without a control group it is the machine’s', () => {
  assert.equal(usableMemoryBytes(machine({})), 64 * GIB);
  assert.equal(usableMemoryBytes(machine({ '/proc/self/cgroup': '0::/\n' })), 64 * GIB);
  assert.ok(usableMemoryBytes() > 0 && usableMemoryBytes() <= totalmem());
});

test('of version 2 the smallest bound above the process counts', () => {
  const files = {
    '/proc/self/cgroup': '0::/system.slice/svc.service\n',
    '/sys/fs/cgroup/system.slice/svc.service/memory.max': 'max\n',
    '/sys/fs/cgroup/system.slice/memory.max': `${8 * GIB}\n`,
  };
  assert.equal(usableMemoryBytes(machine(files)), 8 * GIB);
  assert.equal(usableMemoryBytes(machine(files, 4 * GIB)), 4 * GIB);
  const own = { ...files, '/sys/fs/cgroup/system.slice/svc.service/memory.max': `${GIB}\n` };
  assert.equal(usableMemoryBytes(machine(own)), GIB);
  const container = { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/memory.max': `${2 * GIB}\n` };
  assert.equal(usableMemoryBytes(machine(container)), 2 * GIB);
});

test('so it does of version 1, where no limit is a number larger than any memory', () => {
  const groups = '12:cpu,cpuacct:/docker/abc\n9:memory:/docker/abc\n0::/\n';
  const none = '9223372036854771712\n';
  const outside = {
    '/proc/self/cgroup': groups,
    '/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes': `${3 * GIB}\n`,
    '/sys/fs/cgroup/memory/docker/memory.limit_in_bytes': none,
    '/sys/fs/cgroup/memory/memory.limit_in_bytes': none,
  };
  assert.equal(usableMemoryBytes(machine(outside)), 3 * GIB);
  // Within the container the path is the one outside, and the container's own group is the root.
  const inside = { '/proc/self/cgroup': groups, '/sys/fs/cgroup/memory/memory.limit_in_bytes': `${GIB}\n` };
  assert.equal(usableMemoryBytes(machine(inside)), GIB);
  assert.equal(
    usableMemoryBytes(machine({ ...inside, '/sys/fs/cgroup/memory/memory.limit_in_bytes': none })),
    64 * GIB,
  );
});

test('what cannot be read, or is no number, bounds nothing', () => {
  const files = { '/proc/self/cgroup': 'nonsense\n:::\n0::relative\n0::/a\n', '/sys/fs/cgroup/a/memory.max': 'lots\n' };
  assert.equal(usableMemoryBytes(machine(files)), 64 * GIB);
});

test('memory in which no server fits is warned of at the start, with the number and the way out', () => {
  const limited = (mebibytes: number): Machine =>
    machine({ '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/memory.max': `${mebibytes * 2 ** 20}\n` });
  const [warning = '', ...more] = memoryWarnings(limited(64));
  assert.match(warning, /^64 MiB of memory may be used here, .*needs some 96 MiB: raise the limit .*137\)$/);
  assert.deepEqual([more, memoryWarnings(limited(96)), memoryWarnings()], [[], [], []]);
});
