/**
 * A shard process: a child of the node's process, started with the same flags and the same code, that listens for other
 * servers alone and owns one shard. The channel between the two carries the child's notes, and its end is the end of
 * the parent: the child then stops by itself, and hands its shard over.
 */
import { type ChildProcess, fork } from 'node:child_process';

/** The command that starts this server once more. */
export interface ServerCommand {
  /** The script. */
  readonly script: string;
  readonly args: readonly string[];
  /** Returns the environment that makes it a shard process of a group. */
  readonly environmentOf: (group: string) => Readonly<Record<string, string | undefined>>;
}

/** Note of a shard process to its parent: its id when it begins to wait, and the shard when it serves that. */
export interface ShardNote {
  readonly process: string;
  readonly shard: number | undefined;
}

interface ShardProcessEvents {
  /** Called when the process serves a shard. */
  owns(process: ShardProcess): void;
  /** Called when the process is gone. */
  ended(process: ShardProcess, reason: string): void;
}

export class ShardProcess {
  readonly #child: ChildProcess;
  readonly #ended = Promise.withResolvers<void>();
  /** Undefined until it has said so. */
  note: ShardNote | undefined;
  /** True from when it was told to end. */
  isEnding = false;

  constructor(command: ServerCommand, group: string, events: ShardProcessEvents) {
    const { script, args, environmentOf } = command;
    this.#child = fork(script, [...args], {
      env: environmentOf(group),
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    let isOver = false;
    const over = (reason: string): void => {
      if (isOver) return;
      isOver = true;
      events.ended(this, reason);
      this.#ended.resolve();
    };
    this.#child.on('message', (message) => {
      this.note = noteOf(message) ?? this.note;
      if (this.note?.shard !== undefined) events.owns(this);
    });
    this.#child.on('error', (error) => {
      if (this.#child.pid === undefined) over(error.message);
    });
    this.#child.once('exit', (code, signal) => over(signal === null ? `exit code ${code}` : `signal ${signal}`));
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Resolves when the process is gone. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** Has it stop as at SIGTERM: it hands its shard over. */
  end(): void {
    this.isEnding = true;
    this.#child.kill('SIGTERM');
  }

  /** Has it read its files again. */
  reread(): void {
    this.#child.kill('SIGHUP');
  }
}

function noteOf(message: unknown): ShardNote | undefined {
  if (typeof message !== 'object' || message === null) return undefined;
  const { process, shard } = message as Partial<Record<keyof ShardNote, unknown>>;
  if (typeof process !== 'string') return undefined;
  return { process, shard: typeof shard === 'number' ? shard : undefined };
}
