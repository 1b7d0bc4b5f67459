/** A proxy of TCP that can lose answers, cut connections, and count them. */
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

interface CuttingProxy {
  readonly origin: string;
  /** Connections so far. */
  readonly connections: number;
  /** Cuts the connection instead of handing on the first byte of each of the next `count` answers. */
  loseAnswers(count: number): void;
  /** Cuts each further connection behind a number of bytes of answers; undefined: none. */
  cutBehind(bytes: (() => number) | undefined): void;
  /** Cuts all connections that are open. */
  cutAll(): void;
  /** Sends what comes to another port. */
  target(port: number): void;
}

interface TestOwner {
  after(end: () => Promise<void>): void;
}

/** Starts a proxy before a port of this machine; it ends with the test. */
export async function startCuttingProxy(t: TestOwner, port: number): Promise<CuttingProxy> {
  const open = new Set<Socket>();
  let target = port;
  let losing = 0;
  let connections = 0;
  let limit: (() => number) | undefined;
  const server = createServer((client) => {
    connections++;
    const upstream = connect(target, '127.0.0.1');
    for (const socket of [client, upstream]) {
      open.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        open.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.pipe(upstream);
    let left = limit?.() ?? Infinity;
    upstream.on('data', (chunk: Buffer) => {
      if (losing > 0) {
        losing--;
        client.destroy();
        return;
      }
      client.write(chunk.subarray(0, Math.min(chunk.length, left)));
      left -= chunk.length;
      if (left <= 0) client.end();
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cutAll = (): void => {
    for (const socket of open) socket.destroy();
  };
  t.after(async () => {
    server.close();
    cutAll();
    await Promise.resolve();
  });
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get connections() {
      return connections;
    },
    loseAnswers: (count) => (losing = count),
    cutBehind: (bytes) => (limit = bytes),
    cutAll,
    target: (to) => (target = to),
  };
}
