/**
 * Declarations of every flag and every environment variable: parsing, checks, `--help` and `docs/flags.md` all use
 * them. A flag whose feature is not part of this version is not declared: it is refused as unknown, and never accepted
 * and ignored.
 */
import { checkAddressRanges } from './address-ranges.ts';
import * as defaults from './defaults.ts';
import { checkPoint } from './until.ts';
import { AGENT_FLAGS } from './agents.ts';
import { CLUSTER_FLAGS, CLUSTER_VARIABLES } from './cluster-flags.ts';
import { JWT_FLAGS } from './jwt.ts';
import { REPLAY_FLAGS } from './replay-flags.ts';
import { bigInteger, choice, type Flag, integer, named, text, toggle } from './flag.ts';

/** Flags by their long name; the order is that of `--help` within a group. */
export const FLAGS = {
  help: toggle({ group: 'general', summary: 'Print this text and exit.' }),
  version: toggle({ group: 'general', summary: 'Print the version and exit.' }),
  'log-json': toggle({
    group: 'general',
    summary: 'Log one JSON line per event to stderr instead of prose.',
  }),
  config: text({
    group: 'general',
    placeholder: 'FILE',
    defaultValue: undefined,
    summary: 'Read flags from a file too, such as svc.config.json; the command line and the environment win.',
  }),
  'print-config': toggle({
    group: 'general',
    summary: 'Print each value of the configuration and where it comes from, and exit.',
  }),
  check: toggle({
    group: 'general',
    summary:
      'Check flags, the manifest, its modules (compiled and checked) and the state, or the backup of --restore (read ' +
      'whole, nothing changed), and exit: ' +
      '0 if a start would succeed, 1 if not, 2 for bad usage.',
  }),
  capacity: toggle({
    group: 'general',
    summary:
      'Measure this machine for at most 20 s, and exit: what a live actor, a sleeping one and a message cost, with --state DIR ' +
      'also a durable update on the disk of DIR; and how many actors there is room for.',
  }),
  ...REPLAY_FLAGS,
  plugin: named({
    group: 'general',
    placeholder: 'CAPABILITY=MODULE',
    name: /^[a-z][a-z0-9-]*$/,
    nameText: 'name what it provides, and a module by its path (./my-storage.js) or its package',
    isValueNeeded: true,
    summary:
      'Load a plugin: one that takes the place of a part of the server (storage, outcalls, metrics, …), or adds something. May be repeated (docs/plugins.md).',
  }),
  'plugin-option': named({
    group: 'general',
    placeholder: 'CAPABILITY.NAME=VALUE',
    name: /^[a-z][a-z0-9-]*\.[a-z][a-z0-9-]*$/,
    nameText: 'name the capability as with --plugin, and the option',
    summary: 'An option of a plugin that was loaded with --plugin. May be repeated.',
  }),
  manifest: text({
    group: 'manifest',
    short: 'm',
    placeholder: 'FILE',
    defaultValue: defaults.MANIFEST_FILE,
    summary: 'The manifest that declares the actors to host.',
  }),
  watch: toggle({
    group: 'manifest',
    summary:
      "Upgrade the manifest's actors when their files change (sources with all imports, modules, interfaces). They keep their state; " +
      'a change that does not compile or does not fit is reported, and the code from before goes on serving.',
  }),
  listen: text({
    group: 'http',
    short: 'l',
    placeholder: 'ADDR',
    defaultValue: defaults.LISTEN_ADDRESS,
    summary: 'Address to listen on, as host:port or [ipv6]:port. Port 0 takes a free one.',
  }),
  'trust-proxy': {
    ...text({
      group: 'http',
      placeholder: 'ADDRS',
      defaultValue: undefined,
      defaultText: 'none',
      summary:
        "Reverse proxies, as addresses and ranges by commas (127.0.0.1,10.0.0.0/8): a client's address is taken from the " +
        'X-Forwarded-For or Forwarded that they send. It is only told (log, --access-log), and gives nobody a right.',
    }),
    parse: checkAddressRanges,
  },
  'access-log': text({
    group: 'http',
    placeholder: 'FILE',
    defaultValue: undefined,
    defaultText: 'none',
    summary: 'Append a JSON line to this file for each request that has ended; rotate it by renaming it.',
  }),
  audit: toggle({
    group: 'http',
    summary:
      'Tell in the log who changes something or reads the state: the name of the token, the route, the actor, the outcome.',
  }),
  'audit-file': text({
    group: 'http',
    placeholder: 'FILE',
    defaultValue: undefined,
    defaultText: 'none',
    summary:
      'The same in a file of its own, opened again at SIGHUP. What cannot be written there is not done: the request is answered 503.',
  }),
  history: integer({
    group: 'http',
    placeholder: 'N',
    defaultValue: defaults.HISTORY_ENTRIES,
    unit: 'messages',
    min: 0,
    max: 1_000_000,
    summary: 'Recent messages kept for each actor; 0 disables recording.',
  }),
  'auth-token': text({
    group: 'auth',
    placeholder: 'TOKEN',
    defaultValue: undefined,
    variable: 'SVC_TOKEN',
    variableYieldsTo: 'auth-token-file',
    isSecret: true,
    summary:
      'Bearer token that clients must send. Prefer a file or the variable: other users of this machine can read command lines.',
  }),
  'auth-token-file': text({
    group: 'auth',
    placeholder: 'FILE',
    defaultValue: undefined,
    variable: 'SVC_TOKEN_FILE',
    summary:
      'File that holds the bearer token, such as a secret of Docker, Kubernetes or systemd; a line feed at its end is ' +
      'dropped. It is read once, at the start. SVC_TOKEN goes before SVC_TOKEN_FILE.',
  }),
  tokens: text({
    group: 'auth',
    placeholder: 'FILE',
    defaultValue: undefined,
    defaultText: 'none',
    summary:
      'File of tokens that may do part of everything: a name, the hash of a secret and scopes for each (docs/security.md). ' +
      'It is read again at SIGHUP; the token of --auth-token may do everything beside it.',
  }),
  'make-token': text({
    group: 'auth',
    placeholder: 'NAME',
    defaultValue: undefined,
    summary: 'Print a new token and its line for the file of --tokens, and exit.',
  }),
  ...JWT_FLAGS,
  insecure: toggle({
    group: 'auth',
    summary:
      'Listen without a token on an address that other machines reach. Whoever reaches it controls this host process.',
  }),
  'browser-guard': toggle({
    group: 'auth',
    summary:
      'Where no token is configured, refuse requests that browsers send for pages of other sites, or under ' +
      "host names that are not this server's (docs/security.md).",
  }),
  'no-claims': toggle({
    group: 'auth',
    summary:
      'Refuse the header x-caller, so that each caller is proven: by a signature, a JWT or the line of a token; else ' +
      'anonymous (docs/security.md).',
  }),
  ...AGENT_FLAGS,
  ...CLUSTER_FLAGS,
  executors: integer({
    group: 'execution',
    placeholder: 'N',
    defaultValue: defaults.defaultExecutors(),
    unit: 'threads',
    min: 1,
    max: 256,
    defaultText: 'the number of cores, at least 2 threads',
    summary: 'Threads that execute messages.',
  }),
  'memory-bytes': integer({
    group: 'execution',
    placeholder: 'BYTES',
    defaultValue: defaults.defaultMemoryBytes(),
    unit: 'bytes',
    min: 64 * 2 ** 20,
    // Largest number that executors can count.
    max: defaults.MEMORY_BYTES_MAX,
    defaultText: "three quarters of the machine's memory, or of its control group's",
    summary:
      'Memory that all actors may have together. Growth beyond it fails for the actor that asks for it; with --state, idle actors are put to sleep first.',
  }),
  'instruction-limit': integer({
    group: 'execution',
    placeholder: 'N',
    defaultValue: defaults.INSTRUCTION_LIMIT,
    unit: 'instructions',
    min: 1,
    summary: 'WebAssembly instructions that a message may use; beyond them the message is stopped and rolled back.',
  }),
  cycles: bigInteger({
    group: 'metering',
    placeholder: 'N',
    defaultValue: defaults.STARTING_CYCLES,
    unit: 'cycles',
    min: 0n,
    // The IC stores balances in 128 bits, and an actor that reads its own balance gets 128 bits, too.
    max: 2n ** 128n - 1n,
    summary: 'Starting cycles per actor; 0 disables metering.',
  }),
  verbose: toggle({
    group: 'canisters',
    short: 'v',
    summary: "Forward actors' debug output to stderr.",
  }),
  'upgrade-policy': choice({
    group: 'canisters',
    choices: ['refuse', 'warn'],
    defaultValue: 'refuse',
    summary:
      'What to do with an upgrade whose stable variables nobody can check, or whose interface breaks callers: refuse it, or do it and print a WARNING. What is proven to lose stable variables is refused in any case.',
  }),
  'heartbeat-ms': integer({
    group: 'scheduler',
    placeholder: 'MS',
    defaultValue: defaults.HEARTBEAT_MS,
    unit: 'ms',
    min: 0,
    max: defaults.TIMER_MS_MAX,
    summary: 'Time between heartbeats; 0 disables heartbeats.',
  }),
  'timer-ms': integer({
    group: 'scheduler',
    placeholder: 'MS',
    defaultValue: defaults.TIMER_MS,
    unit: 'ms',
    min: 0,
    max: defaults.TIMER_MS_MAX,
    summary: 'Time between checks of the global timers; 0 disables timers.',
  }),
  'live-cap': integer({
    group: 'scheduler',
    placeholder: 'N',
    defaultValue: 0,
    unit: 'instances',
    defaultText: '0 (no limit)',
    min: 0,
    max: 1_000_000,
    summary: 'The most actors that are live at once; the others sleep. Needs --state.',
  }),
  'live-bytes': integer({
    group: 'scheduler',
    placeholder: 'BYTES',
    defaultValue: 0,
    unit: 'bytes',
    defaultText: '0 (no limit)',
    min: 0,
    summary: 'The most memory that live actors hold together. Needs --state.',
  }),
  'idempotency-secs': integer({
    group: 'scheduler',
    placeholder: 'SECS',
    defaultValue: defaults.IDEMPOTENCY_SECS,
    unit: 's',
    min: 1,
    max: 2_592_000,
    summary:
      'Time for which the answer of a call with an Idempotency-Key is kept, and given to whoever repeats the call.',
  }),
  state: text({
    group: 'storage',
    short: 's',
    placeholder: 'DIR',
    defaultValue: undefined,
    defaultText: 'none, in memory',
    summary: 'Directory in which actors are kept durably.',
  }),
  'snapshot-below': integer({
    group: 'storage',
    placeholder: 'BYTES',
    defaultValue: defaults.SNAPSHOT_BELOW_BYTES,
    unit: 'bytes',
    min: 0,
    summary:
      'Heap size up to which each message stores the bytes that it changed; larger actors are stored by a log ' +
      'of their messages. 0: all by the log.',
  }),
  fsync: choice({
    group: 'storage',
    choices: ['always', 'off'],
    defaultValue: 'always',
    summary: 'Whether an answer waits until the disk has confirmed the write.',
  }),
  tables: choice({
    group: 'storage',
    choices: ['rocksdb', 'sqlite'],
    defaultValue: undefined,
    defaultText:
      'those of the directory; for a new one rocksdb, or sqlite where RocksDB has no binary for the platform',
    summary:
      'Store of the tables in a new state directory. A directory of the other kind is refused: a backup moves its state.',
  }),
  'replay-budget-secs': integer({
    group: 'storage',
    placeholder: 'SECS',
    defaultValue: defaults.REPLAY_BUDGET_SECS,
    unit: 's',
    min: 1,
    max: 86_400,
    summary:
      'Time that a start after a crash may take to run the logs of all actors above --snapshot-below again; ' +
      'checkpoints in the background keep it that short. Without effect with --snapshot-below 0.',
  }),
  restore: text({
    group: 'storage',
    placeholder: 'FILE',
    defaultValue: undefined,
    summary: 'Put a backup (from GET /backup) into the directory of --state, which must be empty, and start from it.',
  }),
  archive: text({
    group: 'storage',
    placeholder: 'DIR',
    defaultValue: undefined,
    defaultText: 'none',
    summary:
      'Keep every change in this directory, from which --restore-archive brings back any moment. Another disk, or a mounted bucket.',
  }),
  'archive-secs': integer({
    group: 'storage',
    placeholder: 'SECS',
    defaultValue: defaults.ARCHIVE_SECS,
    unit: 's',
    min: 1,
    max: 86_400,
    summary:
      'Time within which what is durable is in the archive, too: the work that the loss of this machine may cost.',
  }),
  'archive-days': integer({
    group: 'storage',
    placeholder: 'DAYS',
    defaultValue: defaults.ARCHIVE_DAYS,
    unit: 'days',
    min: 0,
    max: 36_500,
    summary: 'Days that moments are kept in the archive; 0: for ever.',
  }),
  'archive-bytes': integer({
    group: 'storage',
    placeholder: 'BYTES',
    defaultValue: 0,
    defaultText: '0 (no limit)',
    unit: 'bytes',
    min: 0,
    summary:
      'Bytes that the archive of this state may have; the oldest moments go, never the newest base with what follows it.',
  }),
  timeline: integer({
    group: 'storage',
    placeholder: 'SECONDS',
    defaultValue: 0,
    defaultText: '0 (off)',
    unit: 's',
    min: 0,
    max: 31_536_000,
    summary:
      'Keep for so long what every message of every actor was and changed, in the directory of --state: the past can be ' +
      'listed, asked, forked and restored.',
  }),
  'timeline-bytes': integer({
    group: 'storage',
    placeholder: 'BYTES',
    defaultValue: defaults.TIMELINE_BYTES,
    unit: 'bytes',
    min: 1_048_576,
    summary: 'Bytes that all timelines may have together; the oldest messages go.',
  }),
  'restore-archive': text({
    group: 'storage',
    placeholder: 'DIR',
    defaultValue: undefined,
    summary:
      'Bring a moment of an archive (--until) into the directory of --state, which must be empty, and start from it. ' +
      'DIR is what --archive named, or a line in it.',
  }),
  until: {
    ...text({
      group: 'storage',
      placeholder: 'POINT',
      defaultValue: 'latest',
      summary: 'The moment: latest, unit:99123, or time:2026-11-21T20:00Z.',
    }),
    parse: checkPoint,
  },
  follow: toggle({
    group: 'storage',
    summary:
      'Go on following the archive of --restore-archive, without serving: a warm copy. Started without --follow it serves.',
  }),
  'outcall-timeout-secs': integer({
    group: 'outcalls',
    placeholder: 'SECS',
    defaultValue: defaults.OUTCALL_TIMEOUT_SECS,
    unit: 's',
    min: 1,
    max: defaults.OUTCALL_TIMEOUT_SECS_MAX,
    summary: 'Time after which an outcall (http_request of an actor) is abandoned; the wait for its turn counts.',
  }),
  'outcalls-record': text({
    group: 'outcalls',
    placeholder: 'FILE',
    defaultValue: undefined,
    summary: 'Write outcalls and their answers to a file, after what it has.',
  }),
  'outcalls-replay': text({
    group: 'outcalls',
    placeholder: 'FILE',
    defaultValue: undefined,
    summary:
      'Answer outcalls from a recorded file and send nothing; an outcall that the file does not have is refused.',
  }),
  'outcalls-deny-private': toggle({
    group: 'outcalls',
    summary:
      'Refuse outcalls to addresses that are not of the public internet: this machine, its networks, metadata of clouds.',
  }),
  web: text({
    group: 'gateway',
    placeholder: 'ACTOR',
    defaultValue: undefined,
    summary: "Serve this actor's http_request at the root; built-in paths keep their meaning.",
  }),
  'site-hosts': toggle({
    group: 'gateway',
    summary:
      "Serve actors' websites at host names, too: NAME.localhost, PRINCIPAL.localhost, and any with ?canisterId=PRINCIPAL.",
  }),
  project: text({
    group: 'mops-closure',
    placeholder: 'DIR',
    defaultValue: undefined,
    summary: 'Directory whose source files GET /mops/closure may read.',
  }),
};

/** Settings that only the environment carries. */
export const VARIABLES = {
  ...CLUSTER_VARIABLES,
  SVC_WASM_STACK: integer({
    group: 'execution',
    placeholder: 'BYTES',
    defaultValue: defaults.WASM_STACK_BYTES,
    unit: 'bytes',
    min: 64 * 1024,
    // An executor thread reserves a multiple of it.
    max: 64 * 1024 * 1024,
    defaultText: '4,194,304 bytes (4 MiB)',
    summary: 'Stack that an actor may use; deeper recursion traps.',
  }),
  SVC_BIN: text({
    group: 'compiler',
    placeholder: 'FILE',
    defaultValue: undefined,
    defaultText: 'a moc beside the server, else the bundled compiler',
    summary:
      'Motoko compiler (moc) that is asked on an upgrade whether the new module takes over the stable ' +
      'variables. If that one cannot be used, no other compiler is asked.',
  }),
};

type Values<F extends Readonly<Record<string, Flag<unknown>>>> = {
  readonly [N in keyof F]: F[N] extends Flag<infer T> ? T : never;
};

export type FlagName = keyof typeof FLAGS;
/** The value of every flag: from the command line, the environment, or its default. */
export type FlagValues = Values<typeof FLAGS>;
export type VariableValues = Values<typeof VARIABLES>;

/** The declarations without their value types, for code that treats all flags alike. */
export const flagsByName: ReadonlyMap<string, Flag<unknown>> = new Map(Object.entries(FLAGS));
export const variablesByName: ReadonlyMap<string, Flag<unknown>> = new Map(Object.entries(VARIABLES));
