/** A server of HTTP that is none of ours: what a client meets behind wrong addresses and broken proxies. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

interface OtherServer {
  readonly origin: string;
  /** The requests so far. */
  readonly requests: IncomingMessage[];
}

interface TestOwner {
  after(end: () => void): void;
}

/** Starts one; `at` counts its requests from 1. */
export async function startOtherServer(
  t: TestOwner,
  answer: (response: ServerResponse, request: IncomingMessage, at: number) => void,
): Promise<OtherServer> {
  const requests: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    request.resume();
    response.on('error', () => undefined);
    answer(response, request, requests.push(request));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
}

/** Sends the same piece without an end, as fast as the client takes it. */
export function sendEndlessly(response: ServerResponse, piece: string): void {
  while (response.write(piece));
  response.once('drain', () => sendEndlessly(response, piece));
}
