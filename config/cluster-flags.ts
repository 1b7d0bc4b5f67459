/** Flags and variables of a service on several servers (`docs/several-machines.md`). */
import { CLUSTER_PROCESSES, CLUSTER_SPARES } from './defaults.ts';
import { integer, text } from './flag.ts';

/** Shards of one service at most. */
const PROCESSES_MAX = 256;

/** The flags, by their long names. */
export const CLUSTER_FLAGS = {
  'cluster-listen': text({
    group: 'cluster',
    placeholder: 'ADDR',
    defaultValue: undefined,
    defaultText: 'none: this server is the whole service',
    summary:
      'Address at which the other servers of this service reach this one, as host:port: a private network alone, ' +
      'nothing is encrypted. Needs a key, and a storage with shards (docs/several-machines.md).',
  }),
  'cluster-key-file': text({
    group: 'cluster',
    placeholder: 'FILE',
    defaultValue: undefined,
    defaultText: 'none',
    variable: 'SVC_CLUSTER_KEY_FILE',
    summary: 'File with the key that all servers of one service have: 32 characters or more.',
  }),
  'cluster-processes': integer({
    group: 'cluster',
    placeholder: 'N',
    defaultValue: CLUSTER_PROCESSES,
    unit: 'processes',
    min: 1,
    max: PROCESSES_MAX,
    summary:
      'Processes of this node at most, each with a shard of the service: this one starts the others itself. ' +
      '1: it starts none.',
  }),
  'cluster-spares': integer({
    group: 'cluster',
    placeholder: 'N',
    defaultValue: CLUSTER_SPARES,
    unit: 'processes',
    min: 1,
    max: PROCESSES_MAX,
    summary: 'Processes of this node at most that wait for a shard of a node that is lost, or has too many.',
  }),
} as const;

/** Variables that are no flags: a key does not belong on a command line. */
export const CLUSTER_VARIABLES = {
  SVC_CLUSTER_KEY: text({
    group: 'cluster',
    placeholder: 'KEY',
    defaultValue: undefined,
    defaultText: 'none',
    isSecret: true,
    summary: 'The key itself, in place of --cluster-key-file.',
  }),
} as const;
