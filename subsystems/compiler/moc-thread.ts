/** Entry of the compiler's thread: one request after the other. Imported on the main thread, it does nothing. */
import { parentPort } from 'node:worker_threads';
import { messageOf } from '../../kernel/index.ts';
import { runMoc } from './moc-instance.ts';
import type { MocRequest, MocResponse } from './moc-protocol.ts';

function answer(request: MocRequest): MocResponse {
  try {
    return runMoc(request);
  } catch (error) {
    return { kind: 'crashed', reason: messageOf(error) };
  }
}

parentPort?.on('message', (request: MocRequest) => {
  const response = answer(request);
  parentPort?.postMessage(response, response.kind === 'compiled' ? [response.wasm.buffer] : []);
});
