/** Pages that use `svc/client`, from a server of their own: the module as it is shipped, and as a bundle has it. */
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { buildClient } from '../../.ci/build-client.ts';

interface TestOwner {
  after(end: () => void): void;
}

/** Code of the page: `watch` notes what each listener is told in `told`, by the name of the query. */
const PAGE = `<!doctype html><meta charset="utf-8"><title>tab</title><link rel="icon" href="data:,"><script type="module">
  const { Client } = await import(new URLSearchParams(location.search).get('client'));
  window.told = {};
  window.open = (options) => { window.client = new Client(options); };
  window.watch = (name, actor, method, args) => {
    const told = window.told[name] ??= [];
    return window.client.watch(actor, method, args, {
      value: (results) => told.push(results[0]),
      error: (error) => told.push(error.name),
      end: (error) => told.push('end ' + error.code),
    });
  };
  window.isReady = true;
</script>`;

/** Starts the server of the pages; returns its port on 127.0.0.1. */
export async function servePages(t: TestOwner, more: Readonly<Record<string, string>> = {}): Promise<number> {
  const client = await buildClient();
  const files: Readonly<Record<string, string>> = {
    '/': PAGE,
    '/other': '<!doctype html><title>other</title><link rel="icon" href="data:,">',
    '/svc-client.mjs': client,
    '/bundle.mjs': client,
    ...more,
  };
  const server = createServer(({ url = '' }, response) => {
    const { pathname } = new URL(url, 'http://a');
    const file = files[pathname];
    response.setHeader('content-type', /\.m?js$/.test(pathname) ? 'text/javascript' : 'text/html');
    response.writeHead(file === undefined ? 404 : 200).end(file);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}
