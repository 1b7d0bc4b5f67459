/**
 * Entry of the thread in the compiler's process that compiles: one request after the other. Imported on a main
 * thread, it does nothing.
 */
import { flushCompileCache } from 'node:module';
import { parentPort } from 'node:worker_threads';
import { messageOf } from '../../kernel/index.ts';
import { collectGarbage } from '../threads/index.ts';
import { keepProgram, runMoc, reset } from './moc-instance.ts';
import type { MocRequest, MocResponse } from './moc-protocol.ts';

function answer(request: MocRequest): MocResponse {
  try {
    return runMoc(request, () => parentPort?.postMessage('begun'));
  } catch (error) {
    return { kind: 'crashed', reason: messageOf(error) };
  }
}

// For threads of later processes (config/code-cache.ts).
if (parentPort !== null) flushCompileCache();

parentPort?.on('message', (request: MocRequest) => {
  const response = answer(request);
  parentPort?.postMessage(response, response.kind === 'compiled' ? [response.wasm.buffer] : []);
  reset();
  if (response.kind === 'compiled' || response.kind === 'compared') keepProgram();
  // Until the next source comes, which may be minutes.
  if (response.kind === 'warm') collectGarbage('full');
});
