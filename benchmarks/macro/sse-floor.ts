/** The floor under streams: node:http keeps them open, and does nothing when they end. `node sse-floor.ts <port>` */
import { createServer } from 'node:http';

createServer((_request, response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream', connection: 'close' });
  response.useChunkedEncodingByDefault = false;
  response.write('data: [0]\n\n');
}).listen(Number(process.argv[2]), '127.0.0.1', () => console.log('listening'));
