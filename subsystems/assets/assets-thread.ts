/**
 * The thread that reads folders, compares them and makes the messages of their deployment. The main thread hands these
 * messages to the actors, and their answers to this thread.
 */
import { flushCompileCache } from 'node:module';
import { parentPort } from 'node:worker_threads';
import type { CallKind } from '../ic/index.ts';
import { errorOf, failureOf } from '../threads/index.ts';
import type { AssetActor, AssetReply } from './asset-folders.ts';
import { FolderDeployments } from './deployments.ts';
import type { CallAnswer, FolderWork, FromThread, ToThread } from './thread-messages.ts';

// Saves compiled code for threads of later processes (config/code-cache.ts).
flushCompileCache();

const folders = new FolderDeployments();
/** Resolves calls by their numbers. */
const answers = new Map<number, (answer: CallAnswer) => void>();
let calls = 0;

function send(message: FromThread, transferred: ArrayBuffer[] = []): void {
  parentPort?.postMessage(message, transferred);
}

/** Calls the actor of a job through the main thread. */
async function call(job: number, kind: CallKind, method: string, argument: Uint8Array): Promise<AssetReply> {
  const number = ++calls;
  const answered = new Promise<CallAnswer>((resolve) => answers.set(number, resolve));
  const bytes = whole(argument);
  send({ job, call: number, kind, method, argument: bytes }, [bytes.buffer]);
  const answer = await answered;
  if ('failure' in answer) throw errorOf('main', answer.failure);
  return answer.reply;
}

/** Returns bytes that are all of their buffer, which may be handed over. */
function whole(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer } = bytes;
  return buffer instanceof ArrayBuffer && buffer.byteLength === bytes.byteLength
    ? new Uint8Array(buffer)
    : new Uint8Array(bytes);
}

async function run(job: number, work: FolderWork): Promise<unknown> {
  const { source } = work;
  if (work.kind === 'check') return await folders.check(source);
  if (work.kind === 'foldersOf') return await folders.foldersOf(source);
  const { name, methods } = work;
  const actor: AssetActor = {
    name,
    has: (method) => methods.includes(method),
    call: (...called) => call(job, ...called),
  };
  return await folders.deploy(source, actor);
}

parentPort?.on('message', (message: ToThread) => {
  const { job } = message;
  if ('work' in message) {
    run(job, message.work).then(
      (done) => send({ job, done }),
      (error: unknown) => send({ job, failure: failureOf(error) }),
    );
    return;
  }
  const answered = answers.get(message.call);
  answers.delete(message.call);
  answered?.(message.answer);
});
