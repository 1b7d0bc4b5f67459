/**
 * `node:http` without a browser's WebSocket and fetch. An `import` of the module asks for each of its exports, some
 * of which load undici when they are asked for: 30 ms and 16 MB at every start, for what the server never uses.
 */
export const { createServer, IncomingMessage, ServerResponse } = process.getBuiltinModule('node:http');
