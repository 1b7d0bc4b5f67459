/** The thread for comparisons: one request, one answer. */
import { flushCompileCache } from 'node:module';
import { isMainThread } from 'node:worker_threads';
import { serveJobs } from '../threads/index.ts';
import { compareTexts } from './comparison.ts';

// Saves compiled code for threads of later processes (config/code-cache.ts).
if (!isMainThread) flushCompileCache();

serveJobs(compareTexts);
