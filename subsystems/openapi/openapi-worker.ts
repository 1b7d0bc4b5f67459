/** The thread that makes documents: one request, one answer. */
import { parentPort } from 'node:worker_threads';
import { ServerError } from '../../kernel/index.ts';
import { type DocumentRequest, openApiDocument } from './document.ts';

/** The document, or an error's parts (an error object would lose its class on the way). */
export type DocumentResponse =
  | { readonly bytes: Uint8Array }
  | { readonly code: string; readonly message: string }
  | { readonly bug: string };

function answer(request: DocumentRequest): DocumentResponse {
  try {
    return { bytes: new TextEncoder().encode(JSON.stringify(openApiDocument(request))) };
  } catch (error) {
    if (error instanceof ServerError) return { code: error.code, message: error.message };
    return { bug: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}

parentPort?.on('message', (request: DocumentRequest) => {
  const response = answer(request);
  const transfer = 'bytes' in response && response.bytes.buffer instanceof ArrayBuffer ? [response.bytes.buffer] : [];
  parentPort?.postMessage(response, transfer);
});
