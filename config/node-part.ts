/**
 * The part of a process in its node (ADR 129): the one that an operator starts, and shard processes, which it starts
 * itself with the same flags (`subsystems/cluster/group`). Loaded only beside `--cluster-listen`.
 */
import type { ShardNote } from '../subsystems/cluster/group/shard-process.ts';
import type { LogOptions } from './log.ts';
import type { ServeRequest } from './make-kernel.ts';

/** Variable that makes a server a shard process; its value is the group. */
const GROUP_VARIABLE = 'SVC_SHARD_PROCESS';
/** Lines of the start-up protocol that the first process alone prints. */
const OF_THE_FIRST = /^(?:ready:|shutdown:|watching)/;

type Environment = Readonly<Record<string, string | undefined>>;

/** Returns the part of a process; `group` is undefined for the one that an operator has started. */
export function partOf(group: string | undefined, given: Environment, isHangupIgnored: boolean): NodePart {
  // The command takes it out of the environment; shard processes are to outlive the terminal as well.
  const environment = isHangupIgnored ? { ...given, SVC_HANGUP: 'ignored' } : given;
  return group === undefined ? new FirstProcess(environment) : new ShardProcessPart(group);
}

interface NodePart {
  logOptions(options: LogOptions): LogOptions;
  /** Returns the request with what differs for this part. */
  requestOf(request: ServeRequest): ServeRequest;
  /** Calls back when the process that has started this one is gone. */
  onOrphaned(stop: () => void): void;
}

class FirstProcess implements NodePart {
  readonly #environment: Environment;

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  logOptions(options: LogOptions): LogOptions {
    return options;
  }

  requestOf(request: ServeRequest): ServeRequest {
    const { config } = request;
    const { processesMax, sparesMax } = config.cluster;
    const [, script = '', ...args] = process.argv;
    const environmentOf = (group: string): Environment => ({ ...this.#environment, [GROUP_VARIABLE]: group });
    const processes = { processesMax, sparesMax, command: { script, args, environmentOf } };
    return { ...request, config: { ...config, cluster: { ...config.cluster, processes } } };
  }

  onOrphaned(): void {
    // An operator has started it.
  }
}

class ShardProcessPart implements NodePart {
  readonly #group: string;
  #shard: number | undefined;

  constructor(group: string) {
    this.#group = group;
  }

  /** Lines name the shard, as soon as there is one; those that operators wait for are the first process's. */
  logOptions(options: LogOptions): LogOptions {
    const announce = (line: string): void => (OF_THE_FIRST.test(line) ? undefined : options.announce(line));
    return { ...options, announce, shard: () => String(this.#shard ?? 'none') };
  }

  requestOf(request: ServeRequest): ServeRequest {
    const { config } = request;
    const { http, cluster } = config;
    const link = cluster.link && { ...cluster.link, port: 0 };
    const member = { group: this.#group, tell: (note: ShardNote) => this.#tell(note) };
    const hidden = { ...http, isHidden: true, accessLog: undefined };
    return { ...request, config: { ...config, http: hidden, cluster: { ...cluster, link, member } } };
  }

  #tell(note: ShardNote): void {
    this.#shard = note.shard ?? this.#shard;
    // A channel that has ended tells the rest.
    if (process.connected) process.send?.(note, undefined, {}, () => undefined);
  }

  onOrphaned(stop: () => void): void {
    process.once('disconnect', stop);
    if (!process.connected) setImmediate(stop);
  }
}
