/**
 * One load: a number of keep-alive connections that send requests as fast as they are answered. Uses wrk (a Debian
 * package) if it is installed, since it takes the least from the server. Otherwise autocannon sends loads of equal
 * messages, and `mixed-load.ts` loads of different ones; on two cores they are themselves the limit: compare processor
 * time, or ratios of one sitting.
 */
import { execFile, fork, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export interface Request {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly body?: Uint8Array;
  readonly contentType?: string;
  /** Messages to send in turn instead of `path` and `body`; after the last one comes the first again. */
  readonly messages?: readonly Message[];
  /** Bodies to send in turn instead of `body`, of any bytes; needs wrk. */
  readonly bodies?: readonly Uint8Array[];
  /** Mean wait in milliseconds, of an exponential distribution, between an answer and the connection's next request. */
  readonly thinkMs?: number;
  /** Bearer token. */
  readonly token?: string;
  /** A header whose value differs in each request; needs wrk. */
  readonly numbered?: NumberedHeader;
}

export interface Message {
  readonly path: string;
  /** The body as one line of text; if left out, the request's body is sent. */
  readonly body?: string;
}

/** Order of `mixed-load.ts`. */
export interface MixedLoad {
  readonly origin: string;
  readonly method: 'GET' | 'POST';
  readonly messages: readonly Message[];
  /** The body of messages without one of their own. */
  readonly bodyHex: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly thinkMs: number;
  readonly connections: number;
  readonly seconds: number;
}

interface NumberedHeader {
  readonly name: string;
  /** Text in front of the number, which begins with 1 in each load and has 12 digits. */
  readonly prefix: string;
  /** False: the header is made and left out, so that requests without it take as long to make. */
  readonly isSent: boolean;
}

export interface LoadResult {
  readonly requests: number;
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Answers that were not 2xx, and connections that failed. */
  readonly errors: number;
}

/** A server that does not answer within this time has failed. */
const ANSWER_SECONDS_MAX = 60;

const run = promisify(execFile);

export const loadGenerator: 'wrk' | 'autocannon' = spawnSync('wrk', ['-v']).error === undefined ? 'wrk' : 'autocannon';

/** `generator`: the installed one unless a test wants another. */
export function load(
  origin: string,
  request: Request,
  connections: number,
  seconds: number,
  generator: 'wrk' | 'autocannon' = loadGenerator,
): Promise<LoadResult> {
  if (generator === 'wrk') return withWrk(origin, request, connections, seconds);
  return (request.messages === undefined ? withAutocannon : withUndici)(origin, request, connections, seconds);
}

async function withWrk(origin: string, request: Request, connections: number, seconds: number): Promise<LoadResult> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-load-'));
  try {
    const script = join(folder, 'load.lua');
    await writeFile(script, luaOf(request, folder));
    if (request.bodies !== undefined) await writeFile(join(folder, 'bodies'), framed(request.bodies));
    const lines = (request.messages ?? []).map(({ path, body = '' }) => `${path}\t${body}`);
    await writeFile(join(folder, 'messages'), lines.join('\n'));
    const { stdout } = await run('wrk', [
      '-t1',
      `-c${connections}`,
      `-d${seconds}s`,
      // A slow answer shows in the quantiles; it is no error.
      `--timeout=${ANSWER_SECONDS_MAX}s`,
      '-s',
      script,
      origin + request.path,
    ]);
    const [, line = ''] = /^RESULT (.*)$/m.exec(stdout) ?? [];
    const [requests = 0, microseconds = 1, p50 = 0, p99 = 0, errors = 0] = line.split(' ').map(Number);
    return {
      requests,
      requestsPerSecond: (requests / microseconds) * 1e6,
      p50Ms: p50 / 1000,
      p99Ms: p99 / 1000,
      errors,
    };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Returns the bodies one after the other, each behind its length in four bytes. */
function framed(bodies: readonly Uint8Array[]): Buffer {
  return Buffer.concat(
    bodies.flatMap((body) => {
      const length = Buffer.alloc(4);
      length.writeUInt32LE(body.length);
      return [length, body];
    }),
  );
}

function luaOf(request: Request, folder: string): string {
  const { method, body, bodies, contentType, messages, numbered, thinkMs = 0, token } = request;
  return [
    `wrk.method = "${method}"`,
    body === undefined ? '' : `wrk.body = ${luaText(body)}`,
    contentType === undefined ? '' : `wrk.headers["Content-Type"] = "${contentType}"`,
    token === undefined ? '' : `wrk.headers["Authorization"] = ${luaText(`Bearer ${token}`)}`,
    thinkMs > 0 ? `delay = function() return math.floor(-math.log(1 - math.random()) * ${thinkMs} + 0.5) end` : '',
    // The messages are made once, so that sending one is only picking it.
    messages === undefined
      ? ''
      : [
          'local requests, at = {}, 0',
          'init = function()',
          `  for line in io.lines("${join(folder, 'messages')}") do`,
          '    local path, body = line:match("^([^\\t]*)\\t(.*)$")',
          '    if body == "" then body = nil end',
          '    requests[#requests + 1] = wrk.format(nil, path, nil, body)',
          '  end',
          'end',
          'request = function() at = at % #requests + 1; return requests[at] end',
        ].join('\n'),
    bodies === undefined ? '' : bodiesLua(join(folder, 'bodies')),
    numbered === undefined ? '' : numberedLua(numbered),
    'done = function(summary, latency)',
    '  local e = summary.errors',
    '  io.write(string.format("RESULT %d %d %d %d %d\\n", summary.requests, summary.duration,',
    '    latency:percentile(50), latency:percentile(99), e.status + e.connect + e.read + e.write + e.timeout))',
    'end',
    '',
  ].join('\n');
}

/** Bodies are made requests when they are sent: tens of thousands at the beginning would hold up all connections. */
function bodiesLua(file: string): string {
  return [
    'local bodies, at = {}, 0',
    'init = function()',
    `  local file = io.open("${file}", "rb")`,
    '  local head = file:read(4)',
    '  while head do',
    '    local a, b, c, d = head:byte(1, 4)',
    '    bodies[#bodies + 1] = file:read(a + b * 256 + c * 65536 + d * 16777216)',
    '    head = file:read(4)',
    '  end',
    'end',
    'request = function() at = at % #bodies + 1; return wrk.format(nil, nil, nil, bodies[at]) end',
  ].join('\n');
}

/** Lua takes bytes as three decimal digits; it does not know JSON's escapes. */
function luaText(text: string | Uint8Array): string {
  return `"${Array.from(Buffer.from(text), (byte) => `\\${String(byte).padStart(3, '0')}`).join('')}"`;
}

function numberedLua({ name, prefix, isSent }: NumberedHeader): string {
  return [
    'local plain, head, tail, sent = "", "", "", 0',
    'init = function()',
    '  plain = wrk.format()',
    '  local at = plain:find("\\r\\n", 1, true) + 1',
    `  head, tail = plain:sub(1, at) .. "${name}: ${prefix}", "\\r\\n" .. plain:sub(at + 1)`,
    'end',
    'request = function()',
    '  sent = sent + 1',
    '  local numbered = head .. string.format("%012d", sent) .. tail',
    `  return ${isSent ? 'numbered' : '#numbered > 0 and plain'}`,
    'end',
  ].join('\n');
}

/** Program that runs autocannon, whose command line takes bodies for text; here they are bytes. */
const AUTOCANNON = `
  const [program, options, file] = process.argv.slice(1);
  const body = file === '' ? undefined : require('node:fs').readFileSync(file);
  require(program)({ ...JSON.parse(options), body }).then((result) => console.log(JSON.stringify(result)));
`;

async function withAutocannon(
  origin: string,
  request: Request,
  connections: number,
  seconds: number,
): Promise<LoadResult> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-load-'));
  try {
    const { method, path, body, bodies, numbered } = request;
    if (numbered !== undefined) throw new Error('requests with numbered headers need wrk, a Debian package');
    if (bodies !== undefined) throw new Error('requests with bodies of their own need wrk, a Debian package');
    const file = join(folder, 'body');
    await writeFile(file, body ?? '');
    const headers = headersOf(request);
    const options = { url: origin + path, connections, duration: seconds, method, headers };
    const program = createRequire(import.meta.url).resolve('autocannon');
    const args = [AUTOCANNON, program, JSON.stringify(options), body === undefined ? '' : file];
    const { stdout } = await run(process.execPath, ['-e', ...args]);
    const result = JSON.parse(stdout) as AutocannonResult;
    const requests = result['2xx'] + result.non2xx;
    return {
      requests,
      requestsPerSecond: requests / result.duration,
      p50Ms: result.latency.p50,
      p99Ms: result.latency.p99,
      errors: result.non2xx + result.errors + result.timeouts,
    };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function withUndici(origin: string, request: Request, connections: number, seconds: number): Promise<LoadResult> {
  const { method, messages = [], body, thinkMs = 0 } = request;
  const order: MixedLoad = {
    origin,
    method,
    messages,
    bodyHex: Buffer.from(body ?? []).toString('hex'),
    headers: headersOf(request),
    thinkMs,
    connections,
    seconds,
  };
  const child = fork(fileURLToPath(new URL('mixed-load.ts', import.meta.url)));
  child.send(order);
  const [result] = (await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(([code]) => Promise.reject(new Error(`the load generator ended with ${String(code)}`))),
  ])) as [LoadResult];
  await once(child, 'exit');
  return result;
}

function headersOf({ contentType, token }: Request): Readonly<Record<string, string>> {
  return {
    ...(contentType !== undefined && { 'content-type': contentType }),
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
  };
}

interface AutocannonResult {
  readonly '2xx': number;
  readonly non2xx: number;
  readonly errors: number;
  readonly timeouts: number;
  /** Seconds. */
  readonly duration: number;
  readonly latency: { readonly p50: number; readonly p99: number };
}
