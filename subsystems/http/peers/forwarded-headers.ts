/** Headers that go along when a request or an answer is handed on from one server to another (RFC 9110, 7.6.1). */
import type { IncomingMessage } from 'node:http';
import { LINK_NOTE } from '../../cluster/index.ts';
import { CLIENT_HEADER, VERDICT_HEADER } from './verdict.ts';

/** Headers of one connection. */
const OF_THE_CONNECTION: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);
/** The server that took the request has looked at these, and speaks for itself. */
const LEFT_BEHIND: ReadonlySet<string> = new Set([
  'authorization',
  'expect',
  'host',
  'content-length',
  VERDICT_HEADER,
  CLIENT_HEADER,
]);

/** Headers that count whatever `Connection` names: without its claim a request would be somebody else's. */
const ALWAYS_HANDED_ON: ReadonlySet<string> = new Set(['x-caller']);

/** Returns the headers of a request, names and values by turns, without what is not handed on. */
export function requestHeadersOf({ rawHeaders, headers }: IncomingMessage): string[] {
  const dropped = namedBy(headers.connection);
  const kept: string[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? '';
    const lower = name.toLowerCase();
    const isDropped = dropped.has(lower) && !ALWAYS_HANDED_ON.has(lower);
    if (OF_THE_CONNECTION.has(lower) || LEFT_BEHIND.has(lower) || isDropped) continue;
    kept.push(name, rawHeaders[at + 1] ?? '');
  }
  // As it was understood: the target may have named another host.
  if (headers.host !== undefined) kept.push('host', headers.host);
  return kept;
}

/** Returns the headers of an answer, names and values by turns, without what is not handed on. */
export function answerHeadersOf(headers: readonly string[]): string[] {
  const kept: string[] = [];
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const name = headers[at] ?? '';
    const lower = name.toLowerCase();
    if (!OF_THE_CONNECTION.has(lower) && lower !== 'date' && lower !== LINK_NOTE)
      kept.push(name, headers[at + 1] ?? '');
  }
  return kept;
}

function namedBy(connection: string | undefined): ReadonlySet<string> {
  if (connection === undefined || /^(?:keep-alive|close)$/i.test(connection)) return new Set();
  return new Set(connection.split(',').map((name) => name.trim().toLowerCase()));
}
