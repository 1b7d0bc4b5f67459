/**
 * Asks an external compiler: `moc --stable-compatible BEFORE AFTER`. By its manual it prints nothing and exits with 0
 * if the second signature may follow the first, and otherwise prints `… error [M0170] …` and exits with 1. Any other
 * result (it is missing, hangs, crashes, prints something else, prints without end) means unknown: it is neither a yes
 * nor a no.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { messageOf } from '../../kernel/index.ts';
import type { StableVerdict } from '../compiler/index.ts';
import type { CheckerName } from './index.ts';
import type { StableChecker } from './stable-checker.ts';

/** The native compiler takes some milliseconds. */
const DEADLINE_MS = 10_000;
/** Bytes of output at most; a program that prints more is stopped. */
const OUTPUT_BYTES_MAX = 256 * 1024;
/** Characters of the output that messages show. */
const MESSAGE_CHARACTERS_MAX = 2_000;
/** Codes of errors that make a signature unfit to follow another; any other error keeps the compiler from comparing. */
const UNFIT = /(?:Compatibility error )?\[M0(?:169|170|216|263|267)\]/;
const ERROR = /\berror\b/i;
const WARNING = /\bwarning \[M\d{4}\]/;

interface ProgramCheckerOptions {
  readonly name: CheckerName;
  /** Absolute path. */
  readonly file: string;
  /** Name in messages: `SVC_BIN`. */
  readonly title: string;
  /** PATH, for a checker that is a script. */
  readonly searchPath: string | undefined;
  /** Time limit; for tests. */
  readonly deadlineMs?: number;
}

/** Result of the ended program. */
interface Ended {
  readonly code: number | null;
  readonly output: string;
}

export class ProgramChecker implements StableChecker {
  readonly name: CheckerName;
  readonly #file: string;
  readonly #title: string;
  readonly #searchPath: string | undefined;
  readonly #deadlineMs: number;

  constructor({ name, file, title, searchPath, deadlineMs = DEADLINE_MS }: ProgramCheckerOptions) {
    this.name = name;
    this.#file = file;
    this.#title = title;
    this.#searchPath = searchPath;
    this.#deadlineMs = deadlineMs;
  }

  async compareStable(before: string, after: string): Promise<StableVerdict> {
    let folder: string | undefined;
    try {
      folder = await mkdtemp(join(tmpdir(), 'svc-upgrade-'));
      const files = [join(folder, 'before.most'), join(folder, 'after.most')] as const;
      await Promise.all([writeFile(files[0], before, { mode: 0o600 }), writeFile(files[1], after, { mode: 0o600 })]);
      const ended = await this.#run(['--stable-compatible', ...files], folder);
      return typeof ended === 'string' ? this.#unknown(ended) : this.#verdictOf(ended);
    } catch (error) {
      return this.#unknown(`cannot be asked: ${messageOf(error)}`);
    } finally {
      if (folder !== undefined) await rm(folder, { recursive: true, force: true }).catch(() => undefined);
    }
  }

  #verdictOf({ code, output }: Ended): StableVerdict {
    const text = output.replaceAll(/\s+/g, ' ').trim();
    const shown = text.length > MESSAGE_CHARACTERS_MAX ? `${text.slice(0, MESSAGE_CHARACTERS_MAX)}…` : text;
    if (code === 0 && text === '') return { kind: 'compatible', message: undefined };
    if (code === 0 && WARNING.test(text) && !ERROR.test(text)) return { kind: 'compatible', message: shown };
    if (code === 1 && UNFIT.test(text) && ERROR.test(text)) return { kind: 'incompatible', message: shown };
    const said = shown === '' ? 'nothing' : JSON.stringify(shown.slice(0, 300));
    return this.#unknown(
      `exited with ${code ?? 'a signal'} and printed ${said}, which is no answer of a Motoko compiler`,
    );
  }

  #unknown(what: string): StableVerdict {
    return { kind: 'unknown', reason: `${this.#title} (${this.#file}) ${what}` };
  }

  /** Resolves with the program's result, or with a text of the failure. */
  #run(args: readonly string[], folder: string): Promise<Ended | string> {
    return new Promise((resolve) => {
      const child = spawn(this.#file, args, {
        cwd: folder,
        // The program needs no other variable of this process, least of all its token.
        env: this.#searchPath === undefined ? {} : { PATH: this.#searchPath },
        stdio: ['ignore', 'pipe', 'pipe'],
        // A process group of its own, which is ended with everything that the program has started.
        detached: true,
      });
      // A server that exits without waiting leaves no process behind.
      const leave = (): void => endGroup(child);
      process.once('exit', leave);
      let output = '';
      let bytes = 0;
      const end = (result: Ended | string): void => {
        clearTimeout(deadline);
        process.off('exit', leave);
        endGroup(child);
        // Processes left behind by the program may hold the pipes open forever.
        child.stdout.destroy();
        child.stderr.destroy();
        resolve(result);
      };
      const deadline = setTimeout(() => end(`did not answer within ${this.#deadlineMs} ms`), this.#deadlineMs);
      const take = (piece: Buffer): void => {
        bytes += piece.length;
        if (bytes > OUTPUT_BYTES_MAX) end(`printed more than ${OUTPUT_BYTES_MAX} bytes`);
        else output += piece.toString('utf8');
      };
      child.stdout.on('data', take);
      child.stderr.on('data', take);
      child.on('error', (error) => end(`cannot be started: ${messageOf(error)}`));
      child.on('close', (code) => end({ code, output }));
    });
  }
}

function endGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The process has ended by itself.
  }
}
