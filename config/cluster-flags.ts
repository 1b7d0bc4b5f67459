/** Flags and variables of a service on several servers (`docs/several-machines.md`). */
import { text } from './flag.ts';

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
