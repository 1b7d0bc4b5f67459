/**
 * The usual alternative: fastify and pg, with one `UPDATE … RETURNING` a request, committed by itself.
 * `PGURL=postgres://… node fastify-postgres.ts <port>`: POST /inc/<row>, rows 0 to 63.
 */
import { fastify } from 'fastify';
import pg from 'pg';

const CONNECTIONS = 16;
const ROWS = 64;
const INCREMENT = { name: 'increment', text: 'UPDATE counter SET n = n + 1 WHERE id = $1 RETURNING n' };

const pool = new pg.Pool({ connectionString: process.env['PGURL'], max: CONNECTIONS, idleTimeoutMillis: 0 });
await pool.query(
  'CREATE TABLE IF NOT EXISTS counter (id integer PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 50)',
);
await pool.query(`INSERT INTO counter SELECT id, 0 FROM generate_series(0, ${ROWS - 1}) AS id ON CONFLICT DO NOTHING`);
const app = fastify({ logger: false });
app.get('/', (_request, reply) => reply.send({ hello: 'world' }));
app.post<{ Params: { readonly row: string } }>('/inc/:row', async ({ params: { row } }) => {
  const { rows } = await pool.query<{ readonly n: string }>({ ...INCREMENT, values: [Number(row)] });
  return { n: rows[0]?.n };
});
await app.listen({ host: '127.0.0.1', port: Number(process.argv[2]) });
process.once('SIGTERM', () => process.exit(0));
