/**
 * `svc/storage-postgres`: the state of a server in PostgreSQL, and a standby that takes over (docs/postgres.md, ADR
 * 55).
 */
import { API_VERSION, Clock, definePlugin, Logger, Storage } from '../api/plugin.ts';
import { withSslMode } from './connection-url.ts';
import { SHARDS_MAX } from '../api/storage.ts';
import { PostgresStorage } from './postgres-storage.ts';

/** Milliseconds: long enough for a pause of a second, short enough to be waited for. */
const LEASE_MS = 5_000;
const LEASE_MS_MIN = 500;
const LEASE_MS_MAX = 600_000;
/**
 * Milliseconds that a stop may take: uncommitted units wait for a database that comes back; a second signal ends the
 * stop before.
 */
const STOP_DEADLINE_MS = 3_600_000;

export default definePlugin({
  apiVersion: API_VERSION,
  name: 'storage-postgres',
  provides: Storage,
  requires: { log: Logger, clock: Clock },
  isDurable: true,
  stopDeadlineMs: STOP_DEADLINE_MS,
  options: {
    url: {
      type: 'text',
      summary:
        'The database; the environment variables of libpq (PGPASSWORD, PGSSLMODE, …) fill in what it leaves out.',
      placeholder: 'URL',
      variable: 'SVC_POSTGRES_URL',
      required: true,
      isSecret: true,
    },
    sslmode: {
      type: 'text',
      summary: 'What sslmode says in storage.url, where that has none.',
      placeholder: 'MODE',
      variable: 'PGSSLMODE',
    },
    namespace: {
      type: 'text',
      summary: 'Which of the states in this database; a second server with the same one is its standby.',
      placeholder: 'NAME',
      default: 'svc',
    },
    shards: {
      type: 'integer',
      summary: 'Parts of the state, each with a server of its own; fixed when the state is made.',
      unit: 'shards',
      min: 1,
      max: SHARDS_MAX,
      default: 1,
    },
    'lease-ms': {
      type: 'integer',
      summary: 'After this time without a sign of life a standby takes over.',
      unit: 'ms',
      min: LEASE_MS_MIN,
      max: LEASE_MS_MAX,
      default: LEASE_MS,
    },
  },
  create: ({ log, clock }, { config }) =>
    new PostgresStorage({
      url: withSslMode(config.url, config.sslmode),
      namespace: config.namespace,
      shards: config.shards,
      leaseMs: config['lease-ms'],
      log,
      clock,
      onFailure: (error) => {
        // Not within somebody's call: nothing can handle it, and nothing is to be answered any more.
        setImmediate(() => {
          throw error;
        });
      },
    }),
  restore: (storage, backup, context) => storage.restore(backup, context),
  async start(storage, context) {
    await storage.own(context);
    await storage.open();
  },
  stop: (storage, { signal }) => storage.end(signal),
});
