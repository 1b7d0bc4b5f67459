/**
 * Recorded outcalls: a text file of one JSON object a line, so that it can be read, compared and mended by hand.
 *
 *     {"svc-outcalls":1}
 *     {"method":"GET","url":"https://…","body":"","response":{"status":200,"headers":[["etag","…"]],"body":"<base64>"}}
 *     {"method":"GET","url":"https://…","body":"","failure":{"code":"outcall-timeout","message":"…"}}
 *
 * The request's headers are not recorded: they hold keys, and dates and nonces that differ at every run. The calling
 * canister is not recorded either. URLs and bodies are, so only the owner may read the file (mode 0600).
 */
import { isUtf8 } from 'node:buffer';
import { constants, type FileHandle, open } from 'node:fs/promises';
import { messageOf, ServerError, tryAppending } from '../../kernel/index.ts';
import type { OutcallRequest } from './index.ts';
import { parseRecordedLine, recordedKey, type RecordedAnswer } from './recorded-line.ts';

/** A recording of this size is read in half a second, and stays in memory while it is replayed. */
export const RECORDING_BYTES_MAX = 64 * 1024 * 1024;
/** A request and a response of two million bytes each, in base64, with headers. */
const LINE_BYTES_MAX = 8 * 1024 * 1024;
/** Pieces in which the end of a file is read. */
const PIECE_BYTES = 64 * 1024;
const NEWLINE = 0x0a;
const FORMAT = 1;
const HEADING = JSON.stringify({ 'svc-outcalls': FORMAT });

/** Returns the key of an outcall: outcalls with equal keys are the same to a recording. */
export function keyOf({ method, url, body }: Pick<OutcallRequest, 'method' | 'url' | 'body'>): string {
  return recordedKey(method, url, base64(body));
}

export function lineOf({ method, url, body }: OutcallRequest, answer: RecordedAnswer): string {
  const asked = { method, url, body: base64(body) };
  if ('failure' in answer) return inOneLine({ ...asked, failure: answer.failure });
  const { status, headers, body: received } = answer.response;
  const response = { status, headers: headers.map(({ name, value }) => [name, value]), body: base64(received) };
  return inOneLine({ ...asked, response });
}

/** JSON may hold these two unescaped, but many line readers, including Node's, end a line at them. */
const LINE_SEPARATORS = /[\u2028\u2029]/gu;

function inOneLine(value: object): string {
  return JSON.stringify(value).replaceAll(LINE_SEPARATORS, (character) =>
    character === '\u2028' ? '\\u2028' : '\\u2029',
  );
}

/**
 * Opens a recording for writing: continues an existing one after its last whole line. The text after that line was cut
 * off when the writing process died, and no caller has seen that answer. Rejects with ServerError `outcalls-file-bad`,
 * also if a replay would refuse one of its lines; the file is unchanged then.
 */
export async function openRecording(file: string): Promise<{ readonly handle: FileHandle; readonly bytes: number }> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(file, constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK, 0o600);
    const size = await sizeOf(file, handle);
    if (size === 0) {
      await handle.appendFile(`${HEADING}\n`);
      return { handle, bytes: HEADING.length + 1 };
    }
    return { handle, bytes: await endLine(file, handle, size) };
  } catch (error) {
    await handle?.close();
    throw unusable(file, error);
  }
}

/** Without O_NONBLOCK, opening a named pipe waits for another process that may never come. */
async function sizeOf(file: string, handle: FileHandle): Promise<number> {
  const status = await handle.stat();
  if (!status.isFile()) throw bad(file, 'it is not a regular file');
  if (status.size > RECORDING_BYTES_MAX)
    throw bad(file, `it has ${status.size} bytes, and at most ${RECORDING_BYTES_MAX} are read`);
  return status.size;
}

/**
 * Says whether `openRecording` could continue or begin a recording, and changes nothing. Resolves with the number of
 * its answers, and rejects as that does.
 */
export async function checkRecording(file: string): Promise<number> {
  let handle: FileHandle | undefined;
  try {
    await tryAppending(file);
    handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK).catch(ifMissing);
    const size = handle === undefined ? 0 : await sizeOf(file, handle);
    return handle === undefined || size === 0 ? 0 : (await wholeLines(file, handle, size)).answers;
  } catch (error) {
    throw unusable(file, error);
  } finally {
    await handle?.close();
  }
}

function ifMissing(error: unknown): undefined {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
  throw error;
}

/** Counts the answers of a recording. Its last line may be torn, and begins at `start`. */
async function wholeLines(
  file: string,
  handle: FileHandle,
  size: number,
): Promise<{ readonly start: number; readonly isTorn: boolean; readonly answers: number }> {
  const { start, isTorn } = await lastLineIn(handle, size);
  let answers = 0;
  for await (const _good of parsedLines(file, handle, isTorn ? start : size)) answers++;
  return { start, isTorn, answers };
}

/** Tells whether the last line was cut off when the writing process died; it begins at `start`. */
async function lastLineIn(
  handle: FileHandle,
  size: number,
): Promise<{ readonly start: number; readonly isTorn: boolean }> {
  const start = await lastLineOf(handle, size);
  return { start, isTorn: start > 0 && start < size && !(await isJson(handle, start, size)) };
}

/** Makes sure that the next line begins on a new line. Returns the size of the file. */
async function endLine(file: string, handle: FileHandle, size: number): Promise<number> {
  const { start, isTorn } = await wholeLines(file, handle, size);
  if (isTorn) {
    await handle.truncate(start);
    return start;
  }
  if (start === size) return size;
  await handle.appendFile('\n');
  return size + 1;
}

async function isJson(handle: FileHandle, start: number, end: number): Promise<boolean> {
  const { buffer } = await handle.read(Buffer.alloc(end - start), 0, end - start, start);
  try {
    JSON.parse(buffer.toString());
    return true;
  } catch {
    return false;
  }
}

/** Returns the place after the last newline; 0 if there is none. */
async function lastLineOf(handle: FileHandle, size: number): Promise<number> {
  for (let end = size; end > 0;) {
    const length = Math.min(end, PIECE_BYTES);
    const { buffer } = await handle.read(Buffer.alloc(length), 0, length, end - length);
    const at = buffer.lastIndexOf('\n');
    if (at >= 0) return end - length + at + 1;
    end -= length;
  }
  return 0;
}

/** Yields the parsed lines of the first `size` bytes. Throws ServerError `outcalls-file-bad`, which names the line. */
async function* parsedLines(
  file: string,
  handle: FileHandle,
  size: number,
): AsyncGenerator<{ readonly key: string; readonly answer: RecordedAnswer }> {
  if (size === 0) throw bad(file, 'it is empty');
  let number = 0;
  for await (const bytes of linesOf(handle, size)) {
    number++;
    const line = bytes.toString().replace(/\r$/u, '');
    if (number === 1) expectHeading(file, line);
    else if (!isUtf8(bytes)) throw bad(file, `line ${number}: it is not UTF-8; remove the line, or record anew`);
    else if (line !== '') {
      const wrong = (what: string): ServerError => bad(file, `line ${number}: ${what}`);
      if (line.length > LINE_BYTES_MAX) throw wrong(`it has more than ${LINE_BYTES_MAX} characters`);
      yield parseRecordedLine(line, wrong);
    }
  }
}

/** A recording that was read. */
interface Recording {
  /** All answers, in order, by `keyOf`. */
  readonly answers: ReadonlyMap<string, RecordedAnswer[]>;
  /** Tells of the last line where that was cut off when the writing process died, and is left out. */
  readonly warning: string | undefined;
}

/** Reads the whole lines of a recording. Rejects with ServerError `outcalls-file-bad`, which names the line. */
export async function readRecording(file: string): Promise<Recording> {
  const answers = new Map<string, RecordedAnswer[]>();
  let handle: FileHandle | undefined;
  try {
    handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK);
    const size = await sizeOf(file, handle);
    const { start, isTorn } = await lastLineIn(handle, size);
    for await (const { key, answer } of parsedLines(file, handle, isTorn ? start : size)) {
      const others = answers.get(key);
      if (others === undefined) answers.set(key, [answer]);
      else others.push(answer);
    }
    const warning = `the last line of ${file} was cut off when it was recorded: its outcall has no answer`;
    return { answers, warning: isTorn ? warning : undefined };
  } catch (error) {
    throw unusable(file, error);
  } finally {
    await handle?.close().catch(() => undefined);
  }
}

/** Yields the bytes of each line, without the newline at its end. */
async function* linesOf(handle: FileHandle, size: number): AsyncGenerator<Buffer> {
  // A line may arrive in many chunks.
  let pieces: Buffer[] = [];
  for await (const chunk of handle.createReadStream({ start: 0, end: size - 1, autoClose: false })) {
    const bytes = chunk as Buffer;
    let start = 0;
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, start)) {
      yield Buffer.concat([...pieces, bytes.subarray(start, end)]);
      pieces = [];
      start = end + 1;
    }
    if (start < bytes.length) pieces.push(bytes.subarray(start));
  }
  if (pieces.length > 0) yield Buffer.concat(pieces);
}

function expectHeading(file: string, line: string): void {
  if (line !== HEADING) throw bad(file, `it does not begin with the line ${HEADING}: it is no recording of outcalls`);
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64');
}

function unusable(file: string, error: unknown): ServerError {
  return error instanceof ServerError ? error : bad(file, messageOf(error));
}

function bad(file: string, reason: string): ServerError {
  return new ServerError(
    'invalid',
    'outcalls-file-bad',
    `${file} cannot be used as a recording of outcalls: ${reason}`,
  );
}
