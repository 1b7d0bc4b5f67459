/** The floor under pauses: a node:http server without any work. `node http-floor.ts <port>` */
import { createServer } from 'node:http';

const server = createServer((request, response) => {
  request.on('data', () => undefined);
  request.on('end', () => response.writeHead(200, { 'content-type': 'text/plain' }).end('ok'));
});
server.listen(Number(process.argv[2]), '127.0.0.1');
process.once('SIGTERM', () => {
  server.close();
  server.closeAllConnections();
});
