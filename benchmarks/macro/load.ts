/**
 * One load: a number of keep-alive connections that send the same request as fast as it is answered. wrk (a Debian
 * package) where it is installed, since it takes the least from the server; autocannon otherwise, which on two cores
 * is itself the limit: then only the processor time a request is worth comparing.
 */
import { execFile, spawnSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

export interface Request {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly body?: Uint8Array;
  readonly contentType?: string;
  /** Requested in turn instead of `path`, again from the beginning when all have been; needs wrk. */
  readonly paths?: readonly string[];
  /** A header whose value is another one in each request; needs wrk. */
  readonly numbered?: NumberedHeader;
}

export interface NumberedHeader {
  readonly name: string;
  /** In front of the number, which begins with 1 in each load and has 12 digits. */
  readonly prefix: string;
  /** False: made and left out, so that requests without it take as long to make. */
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

const run = promisify(execFile);

export const loadGenerator: 'wrk' | 'autocannon' = spawnSync('wrk', ['-v']).error === undefined ? 'wrk' : 'autocannon';

export function load(origin: string, request: Request, connections: number, seconds: number): Promise<LoadResult> {
  return (loadGenerator === 'wrk' ? withWrk : withAutocannon)(origin, request, connections, seconds);
}

async function withWrk(origin: string, request: Request, connections: number, seconds: number): Promise<LoadResult> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-load-'));
  try {
    const script = join(folder, 'load.lua');
    await writeFile(script, luaOf(request, join(folder, 'paths')));
    await writeFile(join(folder, 'paths'), (request.paths ?? []).join('\n'));
    const { stdout } = await run('wrk', [
      '-t1',
      `-c${connections}`,
      `-d${seconds}s`,
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

function luaOf({ method, body, contentType, paths, numbered }: Request, pathsFile: string): string {
  // Lua takes bytes as three decimal digits; JSON escapes are none of its own.
  const bytes = Array.from(body ?? [], (byte) => `\\${String(byte).padStart(3, '0')}`).join('');
  return [
    `wrk.method = "${method}"`,
    body === undefined ? '' : `wrk.body = "${bytes}"`,
    contentType === undefined ? '' : `wrk.headers["Content-Type"] = "${contentType}"`,
    // Made once, so that sending one is only picking it.
    paths === undefined
      ? ''
      : [
          'local requests, at = {}, 0',
          'init = function()',
          `  for path in io.lines("${pathsFile}") do requests[#requests + 1] = wrk.format(nil, path) end`,
          'end',
          'request = function() at = at % #requests + 1; return requests[at] end',
        ].join('\n'),
    numbered === undefined ? '' : numberedLua(numbered),
    'done = function(summary, latency)',
    '  local e = summary.errors',
    '  io.write(string.format("RESULT %d %d %d %d %d\\n", summary.requests, summary.duration,',
    '    latency:percentile(50), latency:percentile(99), e.status + e.connect + e.read + e.write + e.timeout))',
    'end',
    '',
  ].join('\n');
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

/** Its command line takes bodies for text; they are bytes. */
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
    const { method, path, paths, body, contentType, numbered } = request;
    // Its connections would all go through them in step.
    if (paths !== undefined || numbered !== undefined) throw new Error('requests that differ need wrk');
    const file = join(folder, 'body');
    await writeFile(file, body ?? '');
    const headers = contentType === undefined ? {} : { 'content-type': contentType };
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

interface AutocannonResult {
  readonly '2xx': number;
  readonly non2xx: number;
  readonly errors: number;
  readonly timeouts: number;
  /** Seconds. */
  readonly duration: number;
  readonly latency: { readonly p50: number; readonly p99: number };
}
