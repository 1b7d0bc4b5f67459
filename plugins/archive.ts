import { Clock, definePlugin, Logger, Random } from '../kernel/index.ts';
import { ArchiveWriter, type ArchiveOptions } from '../subsystems/archive/archive-writer.ts';
import { Archive, UnitSource } from '../subsystems/archive/index.ts';
import { Metrics } from '../subsystems/metrics/index.ts';

/** Part of a server with `--archive` only (`config/serve.ts`). */
export const archivePlugin = definePlugin({
  name: 'archive',
  provides: Archive,
  requires: { source: UnitSource, metrics: Metrics, clock: Clock, random: Random, log: Logger },
  create: ({ metrics, ...needs }, { config }: { readonly config: ArchiveOptions }) => {
    const archive = new ArchiveWriter(needs, config);
    for (const number of archive.numbers) metrics.show(number);
    return archive;
  },
  start: (archive) => archive.start(),
  stop: (archive) => archive.stop(),
  // A mount that does not answer holds up nothing.
  stopDeadlineMs: 10_000,
});
