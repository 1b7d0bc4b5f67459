/** A backup into a namespace that has nothing: in one transaction, so wholly or not at all. */
import { type BackupFile, ServerError } from '../api/plugin.ts';
import type { RestoredBackup } from '../api/plugin.ts';
import type { Change } from '../api/storage.ts';
import { bufferOf, type Database } from './database.ts';
import { writePieces } from './fold.ts';
import { type Starting, stopped } from './lease.ts';
import { SQL } from './schema.ts';

export async function restoreInto(
  database: Database,
  backup: BackupFile,
  { readiness, signal }: Starting,
): Promise<RestoredBackup> {
  const { namespace } = database;
  // Not again if it breaks: the file may be a pipe. The transaction is gone then, and the namespace as empty as before.
  const session = await database.session();
  const { entries, fence } = session;
  for (const statement of [SQL.hasEntries, SQL.hasLog]) {
    const { rows } = await entries.query(statement, [namespace]);
    if (rows.length > 0) throw notEmpty(namespace);
  }
  // The file may come slowly, and nobody waits for what this transaction has locked.
  await entries.setPatient(true);
  await entries.transaction(async () => {
    for await (const changes of backup.changes()) {
      await writePieces(changes.map(written), {
        remove: () => Promise.resolve(),
        write: (values) => entries.query(SQL.insert, [namespace, ...values]),
      });
      if (signal.aborted) throw stopped();
      readiness.waiting(`restoring ${backup.path}: ${backup.entries} entries`);
    }
    await entries.setPatient(false);
    // Last, so that nobody waits for this lock for long.
    const { rows } = await entries.query(SQL.own, [namespace, fence]);
    if (rows.length === 0) throw takenMeanwhile(namespace);
  });
  // The session's newest unit is that of an empty namespace: units would be numbered as if there were none.
  await database.leave(session);
  return { entries: backup.entries, bytes: backup.bytes };
}

function written({ family, key, value }: Change): { family: Change['family']; key: Buffer; value: Change['value'] } {
  return { family, key: bufferOf(key), value };
}

function takenMeanwhile(namespace: string): ServerError {
  return new ServerError(
    'unavailable',
    'namespace-lost',
    `another server has taken the namespace '${namespace}' while the backup was read, and nothing of it was restored: stop the other one, or name another namespace`,
  );
}

function notEmpty(namespace: string): ServerError {
  return new ServerError(
    'invalid',
    'restore-not-empty',
    `the namespace '${namespace}' holds a state already (drop --restore to serve it): a backup is restored into a namespace that has nothing, --plugin-option storage.namespace=NAME`,
  );
}
