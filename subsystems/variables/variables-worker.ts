/** The thread that reads variables: one request, one answer. */
import { serveJobs } from '../threads/index.ts';
import { answerTo } from './read-variables.ts';

serveJobs(answerTo);
