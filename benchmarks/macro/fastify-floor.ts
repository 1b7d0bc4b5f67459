/** The floor: a fastify server without any work. `node fastify-floor.ts <port>` */
import { fastify } from 'fastify';

const app = fastify({ logger: false });
app.get('/', (_request, reply) => reply.send({ hello: 'world' }));
app.post('/', (request, reply) => reply.send({ n: (request.body as { readonly by: number }).by }));
await app.listen({ host: '127.0.0.1', port: Number(process.argv[2]) });
process.once('SIGTERM', () => void app.close());
