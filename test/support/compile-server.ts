/**
 * One warm compiler for all files of `npm test`: a compiler that has just been started takes three to five times as
 * long for an actor as one that has compiled a few. The compiler runs in the process of `global-setup.ts`, listens on a
 * Unix socket, and puts its modules into the tests' cache, where the requesting test finds them.
 */
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { join } from 'node:path';
import { buffer, json } from 'node:stream/consumers';
import { createCompiler, type Persistence } from '../../subsystems/compiler/motoko-compiler.ts';
import { MOTOKO_CACHE } from './caches.ts';
import { temporaryDirectory } from './temporary-directory.ts';

/** Name of the environment variable with the socket's path. */
const SOCKET = 'SVC_TEST_COMPILER';

/** Request for a compilation, as JSON. */
interface Order {
  /** Source texts by path, the main file first. */
  readonly files: readonly (readonly [string, string])[];
  readonly persistence?: Persistence;
}

/** Starts the server for all processes that are started from now on; the returned function ends it. */
export async function startCompileServer(): Promise<() => Promise<void>> {
  const compiler = createCompiler({ cacheDirectory: MOTOKO_CACHE, processesMax: 1, idleMs: 600_000 });
  const server = createServer((message, response) => {
    const compile = async (): Promise<void> => {
      const { files, ...options } = (await json(message)) as Order;
      await compiler.compileText(new Map(files), options);
    };
    // Errors in a source are reported to the test by its own compiler.
    compile().then(
      () => response.end(),
      () => response.writeHead(422).end(),
    );
  });
  const path = join(await temporaryDirectory(), 'compiler');
  server.listen(path);
  await once(server, 'listening');
  process.env[SOCKET] = path;
  return async () => {
    server.closeAllConnections();
    server.close();
    await compiler.close();
  };
}

/** Has the server put the compiled module into the cache, if there is a server (`npm test`) and the source compiles. */
export async function compileAhead(order: Order): Promise<void> {
  const socketPath = process.env[SOCKET];
  if (socketPath === undefined) return;
  const sent = request({ socketPath, method: 'POST' });
  sent.end(JSON.stringify(order));
  const [response] = (await once(sent, 'response')) as [NodeJS.ReadableStream];
  await buffer(response);
}
