/** The thread for comparisons: one request, one answer. */
import { flushCompileCache } from 'node:module';
import { parentPort } from 'node:worker_threads';
import { compareTexts, type ComparisonRequest, type ComparisonResponse } from './comparison.ts';

// For threads of later processes (config/code-cache.ts).
if (parentPort !== null) flushCompileCache();

function answer(request: ComparisonRequest): ComparisonResponse {
  try {
    return compareTexts(request);
  } catch (error) {
    return { bug: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}

parentPort?.on('message', (request: ComparisonRequest) => parentPort?.postMessage(answer(request)));
