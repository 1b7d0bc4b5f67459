/**
 * Loaded before each test file: ends a file that has not ended within twenty minutes, so that it fails by its name and
 * the others go on. A test that has failed can leave behind what keeps the process alive, such as clients of a service.
 *
 * Plain JavaScript, because threads that run no TypeScript load it, too.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

/** Milliseconds that a test file may take: the longest took 316 s on two busy cores, and some machines are slower. */
const FILE_MS_MAX = Number(process.env['SVC_TEST_FILE_MS_MAX'] ?? 1_200_000);

if (isMainThread && process.env['NODE_TEST_CONTEXT'] !== undefined) setTimeout(end, FILE_MS_MAX).unref();

function end() {
  const kept = [...new Set(process.getActiveResourcesInfo())].join(', ');
  process.stderr.write(`${process.argv[1]} has not ended within ${FILE_MS_MAX / 1000} s; it waits for: ${kept}\n`);
  killChildren(process.pid);
  process.exit(1);
}

/**
 * Kills all processes below this one, as the end of its tests would have ended them.
 * @param {number} pid
 */
function killChildren(pid) {
  for (const child of childrenOf(pid)) {
    killChildren(child);
    try {
      process.kill(child, 'SIGKILL');
    } catch {
      // The child has ended by itself.
    }
  }
}

/**
 * @param {number} pid
 * @returns {number[]} the process ids of its children; none where there is no such file system
 */
function childrenOf(pid) {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
    );
  } catch {
    return [];
  }
}
