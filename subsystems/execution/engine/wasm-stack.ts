/**
 * Executor thread: names of the guest's functions that were open when an execution ended with an error. V8 reads them
 * from the name section that the instrumenter writes (instrument/function-names.ts).
 *
 * Noting a stack costs V8 up to 16 µs, half as much as a message that traps, and most of that even if nobody reads the
 * stack. So a storm of traps has stacks for STACKS_MAX of them in WINDOW_MS, and the others cost less than they would
 * with V8's own limit.
 *
 * The state is the thread's, as V8's limit is.
 */

/** Functions that a stack has at most, the innermost ones. */
const FUNCTIONS_MAX = 32;
/** Frames that V8 notes with an error: some are the host's, and some the instrumenter's. */
const FRAMES_MAX = FUNCTIONS_MAX + 16;

const STACKS_MAX = 100;
const WINDOW_MS = 100;

/** V8 calls the hook, if there is one, when the stack of an error is first read. */
const v8: { prepareStackTrace?: NonNullable<typeof Error.prepareStackTrace> | undefined } = Error;

let stacksLeft = 0;
let windowMs = Number.NEGATIVE_INFINITY;

/** Lets stacks be noted again when the window is over. `nowMs`: the thread's clock, which has just been read. */
export function allowStacks(nowMs: number): void {
  if (nowMs - windowMs < WINDOW_MS) return;
  windowMs = nowMs;
  stacksLeft = STACKS_MAX;
  Error.stackTraceLimit = FRAMES_MAX;
}

/**
 * Returns the functions that were open, innermost first, one a line, empty if none was; undefined: no stack was noted,
 * because there are too many. The error must not have been printed before.
 */
export function openFunctions(error: unknown): string | undefined {
  if (!(error instanceof Error) || stacksLeft === 0) return undefined;
  if (--stacksLeft === 0) Error.stackTraceLimit = 0;
  v8.prepareStackTrace = namesOf;
  try {
    return error.stack;
  } finally {
    v8.prepareStackTrace = undefined;
  }
}

function namesOf(_error: Error, frames: readonly NodeJS.CallSite[]): string {
  let names = '';
  let count = 0;
  for (const frame of frames) {
    const isGuest = frame.getScriptNameOrSourceURL()?.startsWith('wasm:') === true;
    // The host called the outermost function, and system calls were called by the innermost.
    if (!isGuest && count > 0) break;
    const name = isGuest ? frame.getFunctionName() : null;
    if (name === null) continue;
    names = count === 0 ? name : `${names}\n${name}`;
    if (++count === FUNCTIONS_MAX) break;
  }
  return names;
}
