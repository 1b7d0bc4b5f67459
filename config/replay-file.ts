/**
 * `--replay FILE`: executes the messages of a capsule again, and says of each whether it ended exactly as it was
 * recorded. Nothing is served, and nothing is stored but the file of `--profile`: a capsule may come from anybody.
 *
 * Each message is a line on stdout, or with `--log-json` a JSON object, and a line at the end has their number. Exit
 * codes: 0 if all are exact, 1 if not, or if there is no profile, 2 for a file that cannot be read, or written.
 */
import { access, constants, stat, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { messageOf, readRegularFile, ServerError, systemClock } from '../kernel/index.ts';
import { CodecPool } from '../subsystems/codec/codec-pool.ts';
import { createCodec } from '../subsystems/codec/codec.ts';
import { ExecutorPool } from '../subsystems/execution/pool/executor-pool.ts';
import { callTreeOf } from '../subsystems/http/profile/call-tree.ts';
import { cpuProfileOf } from '../subsystems/http/profile/cpu-profile.ts';
import { flameGraphOf } from '../subsystems/http/profile/flame-graph.ts';
import { foldedStacks } from '../subsystems/http/profile/folded-stacks.ts';
import { lineOf as lineOfName } from '../subsystems/http/profile/profile-answer.ts';
import { CAPSULE_FILE_BYTES_MAX } from '../subsystems/replay/capsule/capsule-format.ts';
import type { CapsuleServer } from '../subsystems/replay/capsule/capsules.ts';
import { type Capsule, decodeCapsule } from '../subsystems/replay/capsule/decode-capsule.ts';
import { type CapsuleReplay, CapsuleReplays } from '../subsystems/replay/capsule/replay-capsule.ts';
import type { ReplayDifference } from '../subsystems/replay/index.ts';
import { createLog, type ServerLog } from './log.ts';
import { inert, singleLine } from './printable.ts';
import type { ReplayRequest } from './task-flags.ts';
import { hasColors, tell } from './terminal.ts';

const BAD_FILE = 2;

/** Replays, prints what came out, and returns the exit code. */
export async function replayFile(request: ReplayRequest): Promise<number> {
  const capsule = await capsuleIn(request.file);
  if (typeof capsule === 'string') {
    await tell([`--replay: ${request.file} cannot be read: ${capsule}`]);
    return BAD_FILE;
  }
  const { profile } = request;
  const problem = profile === undefined ? undefined : await problemOfWriting(profile);
  if (problem !== undefined) {
    await tell([`--profile: ${profile} cannot be written: ${problem}`]);
    return BAD_FILE;
  }
  const log = createLog({
    ...request.log,
    hasColor: hasColors(process.stderr),
    clock: systemClock,
    announce: (line) => void process.stdout.write(`${line}\n`),
  });
  // Threads keep no process alive.
  const alive = setInterval(() => undefined, 2 ** 30);
  try {
    return (await isExact(capsule, request, log)) ? 0 : 1;
  } catch (error) {
    log.error('the replay ends because of a bug', error);
    return 1;
  } finally {
    clearInterval(alive);
    await log.close();
  }
}

/** Resolves with the reason why a file cannot be written, before anything is executed for it; undefined: it may be. */
async function problemOfWriting(file: string): Promise<string | undefined> {
  try {
    const there = await stat(file).catch(() => undefined);
    if (there?.isDirectory() === true) return 'it is a directory';
    await access(there === undefined ? dirname(file) : file, constants.W_OK);
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

/** Resolves with the capsule of a file, or with the reason why it cannot be read. */
async function capsuleIn(file: string): Promise<Capsule | string> {
  let bytes: Buffer;
  try {
    bytes = await readRegularFile(file, CAPSULE_FILE_BYTES_MAX);
  } catch (error) {
    return messageOf(error);
  }
  try {
    return await decodeCapsule(bytes);
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    return error.message;
  }
}

/** Replays all messages; false: one of them is not exact, none executes anything, or the profile cannot be written. */
async function isExact(capsule: Capsule, request: ReplayRequest, log: ServerLog): Promise<boolean> {
  const policy = { ...capsule.head.policy, startingCycles: 0n };
  const server: CapsuleServer = { version: request.version, policy };
  const execution = new ExecutorPool({ policy, clock: systemClock, log }, { ...request.execution, executors: 1 });
  const codecs = new CodecPool();
  try {
    const needs = { execution, codec: createCodec(codecs), clock: systemClock, server };
    const replays = new CapsuleReplays(needs, capsule);
    const isWhole = await areExact(replays, capsule, request, log);
    const { profile } = request;
    return profile === undefined ? isWhole : (await hasProfile(replays, capsule, profile, log)) && isWhole;
  } finally {
    await execution.close();
    await codecs.close();
  }
}

async function areExact(
  replays: CapsuleReplays,
  capsule: Capsule,
  { log: { isJson } }: ReplayRequest,
  log: ServerLog,
): Promise<boolean> {
  const { otherServer } = replays;
  if (!isJson) for (const line of headLines(capsule, otherServer)) log.announce(line);
  let [messages, exact, executed] = [0, 0, 0];
  for await (const replay of replays.messages()) {
    messages++;
    if (replay.verdict.kind !== 'none') executed++;
    if (replay.verdict.kind === 'exact') exact++;
    log.announce(isJson ? inert(JSON.stringify(jsonOf(replay))) : lineOf(replay));
  }
  const told = { messages, exact, otherServer: otherServer ?? null, why: capsule.end.why ?? null };
  log.announce(isJson ? inert(JSON.stringify(told)) : `${exact} of ${messages} message(s) exact`);
  return executed > 0 && exact === executed;
}

/** Writes the profile; false: there is none, or the file cannot be written, which the log tells. */
async function hasProfile(replays: CapsuleReplays, { head }: Capsule, file: string, log: ServerLog): Promise<boolean> {
  try {
    const profile = await replays.profile();
    const name = lineOfName(head.actor);
    const text = file.endsWith('.cpuprofile')
      ? JSON.stringify(cpuProfileOf(name, profile))
      : (file.endsWith('.svg') ? flameGraphOf : foldedStacks)(callTreeOf(name, profile));
    await writeFile(file, text);
    return true;
  } catch (error) {
    if (!(error instanceof ServerError) && (error as NodeJS.ErrnoException).syscall === undefined) throw error;
    log.error(`--profile: ${file} cannot be written: ${messageOf(error)}`);
    return false;
  }
}

function headLines({ head, end }: Capsule, other: string | undefined): readonly string[] {
  const lines = [`messages of ${head.actor} from seq:${head.from} on`];
  if (other !== undefined) lines.push(`made by another server, so that differences may come from that: ${other}`);
  if (end.why !== undefined) lines.push(`fewer messages than were asked for: ${end.why}`);
  return lines.map(singleLine);
}

function lineOf({ entry, verdict }: CapsuleReplay): string {
  const { kind, method, outcome, instructions } = entry.note;
  const what = method === '' ? kind : `${kind} ${method}`;
  return singleLine(`seq:${entry.seq} ${what}: ${outcome}, ${instructions} instructions: ${textOf(verdict)}`);
}

function textOf(verdict: CapsuleReplay['verdict']): string {
  switch (verdict.kind) {
    case 'exact':
      return 'exact';
    case 'different':
      return `different: ${differenceText(verdict.difference)}`;
    case 'unsure':
      return `unsure: ${differenceText(verdict.difference)}; ${verdict.why}`;
    case 'failed':
      return `not replayed: ${verdict.why}`;
    case 'none':
      return verdict.why;
  }
}

function differenceText({ what, was, is }: ReplayDifference): string {
  return `${what} was ${was ?? 'none'} and is ${is ?? 'none'}`;
}

function jsonOf({ entry, verdict }: CapsuleReplay): object {
  const { kind, method, outcome, instructions } = entry.note;
  const message = { seq: entry.seq, kind, method, outcome, instructions };
  switch (verdict.kind) {
    case 'exact':
      return { ...message, exact: true };
    case 'different':
      return { ...message, exact: false, difference: verdict.difference };
    case 'unsure':
      return { ...message, exact: null, difference: verdict.difference, why: verdict.why };
    default:
      return { ...message, exact: null, why: verdict.why };
  }
}
