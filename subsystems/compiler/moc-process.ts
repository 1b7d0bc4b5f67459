/**
 * Entry of the compiler's process: hands requests to the compiler's thread, and its answers back, each with its
 * bytes.
 *
 * The compiler runs in a thread because it needs a large stack; a main thread has its stack from the system, too
 * small for the compiler. While the compiler's thread compiles, this thread notices that the server is gone, and ends
 * the process. Imported elsewhere, this file does nothing.
 */
import { writeFileSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { messageOf } from '../../kernel/index.ts';
import { MOC_MEMORY_MB, MOC_STACK_MB, type MocReply, type MocRequest, type MocResponse } from './moc-protocol.ts';

const RESOURCE_LIMITS = {
  stackSizeMb: MOC_STACK_MB,
  maxOldGenerationSizeMb: MOC_MEMORY_MB,
  // The compiler allocates a lot that dies young; with V8's default a third of the time went into collecting it.
  maxYoungGenerationSizeMb: 96,
};

function serve(): void {
  const thread = new Worker(new URL('./moc-thread.ts', import.meta.url), {
    name: 'motoko',
    resourceLimits: RESOURCE_LIMITS,
    stdin: false,
  });
  const fail = (error: unknown): void => {
    const isMemory = error instanceof Error && 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY';
    reply({ failure: isMemory ? 'memory' : { reason: messageOf(error) } }, () => process.exit(1));
  };
  process.on('message', (request: MocRequest) => thread.postMessage(request));
  thread.on('message', (response: MocResponse | 'begun') => reply({ response }));
  thread.on('error', fail);
  thread.on('exit', (code) => fail(new Error(`its thread ended with code ${code}`)));
  // A signal from a terminal goes to the whole process group: the server ends this process when it is ready.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const)
    process.on(signal, () => undefined);
  process.on('disconnect', () => process.exit());
}

/** Makes Linux end a compilation before the server and its actors when memory runs out. */
function offerToBeKilled(): void {
  try {
    writeFileSync('/proc/self/oom_score_adj', '1000');
  } catch {
    // Another system, or one that does not let us.
  }
}

function reply(message: MocReply, then?: () => void): void {
  process.send?.(message, undefined, undefined, then);
}

if (process.send !== undefined) {
  if (process.connected) {
    offerToBeKilled();
    serve();
  } else process.exit();
}
