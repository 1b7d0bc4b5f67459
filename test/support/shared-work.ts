/**
 * Work that a run of tests needs once for all of its files: the process of `global-setup.ts` does it, and test files
 * ask for it through a Unix socket. A file that runs alone does its work itself.
 */
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import type { Persistence } from '../../subsystems/compiler/motoko-compiler.ts';
import { temporaryDirectory } from './temporary-directory.ts';

/** Name of the environment variable with the socket's path. */
const SOCKET = 'SVC_TEST_SHARED_WORK';

/** A request for a compilation. */
interface CompilationOrder {
  /** Source texts by path, the main file first. */
  readonly files: readonly (readonly [string, string])[];
  readonly persistence?: Persistence;
}

/** Kinds of work; orders and results are JSON. */
interface SharedWork {
  /** Puts the compiled module into the tests' cache; the asker's own compiler reports errors in the source. */
  compile(order: CompilationOrder): Promise<null>;
  /** Packs the server; returns the tarball's path. */
  packServer(order: null): Promise<string>;
  /** Makes the files of an empty PostgreSQL; returns their directory, which may be copied. */
  makePostgres(order: null): Promise<string>;
}

/** Offers the work to all processes that are started from now on; the returned function ends that. */
export async function shareWork(work: SharedWork): Promise<() => void> {
  const server = createServer((message, response) => {
    const kind = message.url?.slice(1) as keyof SharedWork;
    const done = async (): Promise<unknown> => await work[kind]((await json(message)) as CompilationOrder & null);
    done().then(
      (result) => response.end(JSON.stringify({ result })),
      (error: unknown) => response.end(JSON.stringify({ error: String(error) })),
    );
  });
  const path = join(await temporaryDirectory(), 'work');
  server.listen(path);
  await once(server, 'listening');
  process.env[SOCKET] = path;
  return () => {
    // Files that are run again later do their work themselves.
    delete process.env[SOCKET];
    server.closeAllConnections();
    server.close();
  };
}

/** Has work done; resolves with its result, undefined if nobody shares work. Rejects if it fails. */
export async function sharedWork<K extends keyof SharedWork>(
  kind: K,
  order: Parameters<SharedWork[K]>[0],
): Promise<Awaited<ReturnType<SharedWork[K]>> | undefined> {
  const socketPath = process.env[SOCKET];
  if (socketPath === undefined) return undefined;
  // A connection that is kept may be closed by the other process in the moment in which it is used again.
  const sent = request({ socketPath, method: 'POST', path: `/${kind}`, agent: false });
  sent.end(JSON.stringify(order));
  const [response] = (await once(sent, 'response')) as [NodeJS.ReadableStream];
  const { result, error } = (await json(response)) as { result?: never; error?: string };
  if (error !== undefined) throw new Error(`shared work ${kind}: ${error}`);
  return result;
}
