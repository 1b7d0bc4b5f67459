/**
 * The thread that checks, instruments and compiles modules (see module-loader.ts).
 * Module worker: touches uploads and the cache on disk, and no canister.
 */
import { createHash } from 'node:crypto';
import { flushCompileCache } from 'node:module';
import { parentPort, workerData } from 'node:worker_threads';
import { messageOf, ServerError } from '../../../kernel/index.ts';
import { CodeCaches } from './code-caches.ts';
import { loadModule } from './load-module.ts';
import type { ModuleAnswer, ModuleRequest, ModuleWorkerData } from '../pool/module-loader.ts';
import { fingerprintsOf } from '../wire/type-budget.ts';

// Keeps compiled code for threads of later processes (config/code-cache.ts).
flushCompileCache();

const port = parentPort;
if (port === null) throw new Error('module-worker.ts runs as a worker thread');
/** Hashes of modules that the main thread has got from here. */
const sent = new Set<string>();
const cache = new CodeCaches(workerData as ModuleWorkerData);
const NO_TYPES: Float64Array = new Float64Array(0);

port.on('message', (request: ModuleRequest) => {
  if (request.kind === 'forget') sent.delete(request.hash);
  else if (request.kind === 'describe') port.postMessage(descriptionOf(request.bytes));
  else port.postMessage(answerTo(request.bytes, request.wasmStackBytes));
});

/**
 * Returns the description of a module that an earlier process has checked, as its hash and the tag of the kept
 * description confirm.
 */
function descriptionOf(bytes: Uint8Array): ModuleAnswer {
  return { kind: 'described', info: cache.readInfo(hashOf(bytes)) };
}

function hashOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function answerTo(bytes: Uint8Array, wasmStackBytes: number): ModuleAnswer {
  let types = NO_TYPES;
  let notKept: string | undefined;
  try {
    const hash = hashOf(bytes);
    if (sent.has(hash)) return { kind: 'known', hash };
    const module = loadModule(bytes, hash, {
      wasmStackBytes,
      cache,
      notKept: (reason) => {
        notKept = messageOf(reason);
      },
      compiling: (all) => {
        types = fingerprintsOf(all);
      },
    });
    sent.add(hash);
    return { kind: 'loaded', module, types, notKept };
  } catch (error) {
    // Any error other than a refusal would be a bug of the checker; the module is refused all the same.
    const refusal = error instanceof ServerError ? error : undefined;
    return {
      kind: 'refused',
      types,
      error: {
        kind: refusal?.kind ?? 'invalid',
        code: refusal?.code ?? 'module-check-failed',
        message: refusal?.message ?? `the module could not be checked: ${messageOf(error)}`,
      },
    };
  }
}
