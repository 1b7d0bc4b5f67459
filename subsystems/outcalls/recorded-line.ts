/** Reads one line of a recording: only what an outcall can have sent and received is taken. */
import { messageOf } from '../../kernel/index.ts';
import { isOutcallFailure, type OutcallFailure } from './outcall-failures.ts';
import { BODILESS, OF_THE_CONNECTION } from './response-collector.ts';
import type { OutcallHeader, OutcallRequest, OutcallResponse } from './index.ts';

/** Recorded result of an outcall. */
export type RecordedAnswer =
  | { readonly response: OutcallResponse }
  | { readonly failure: { readonly code: OutcallFailure; readonly message: string } };

/** Failures of this server, not of an outcall. */
export const NOT_RECORDED: ReadonlySet<string> = new Set<OutcallFailure>([
  'outcalls-stopping',
  'outcall-recording-failed',
]);

/** Makes the error of a line from what is wrong with it. */
type Wrong = (what: string) => Error;

const METHODS: ReadonlySet<string> = new Set<OutcallRequest['method']>([
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'DELETE',
  'PATCH',
]);
const SHOWN_CHARACTERS = 100;

/** Returns the key of an outcall: outcalls with equal keys are the same to a recording. `body` is base64. */
export function recordedKey(method: string, url: string, body: string): string {
  return `${method} ${url} ${body}`;
}

/** Returns the key and the answer of a line. Throws the error that `wrong` makes. */
export function parseRecordedLine(
  line: string,
  wrong: Wrong,
): { readonly key: string; readonly answer: RecordedAnswer } {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    throw wrong(`it is no JSON: ${messageOf(error)}; remove the line, or record anew`);
  }
  const { method, url, body, response, failure } = fieldsOf(value) ?? {};
  if (typeof method !== 'string' || typeof url !== 'string' || typeof body !== 'string')
    throw wrong('it needs method, url and body, all strings');
  if (!METHODS.has(method)) throw wrong(`method is ${shown(method)}: ${[...METHODS].join(', ')} are`);
  expectUrl(url, wrong);
  if (!isBase64(body)) throw wrong('body is not base64');
  if (failure !== undefined && response !== undefined) throw wrong('it has a failure and a response: one of them is');
  const key = recordedKey(method, url, body);
  const failed = fieldsOf(failure);
  if (failed === undefined) return { key, answer: { response: parseResponse(method, response, wrong) } };
  const { code, message } = failed;
  if (typeof code !== 'string' || !isOutcallFailure(code) || typeof message !== 'string')
    throw wrong('failure needs a code, as in docs/errors.md, and a message');
  if (NOT_RECORDED.has(code)) throw wrong(`failure is ${code}, which is never recorded`);
  return { key, answer: { failure: { code, message } } };
}

/** Expects a URL as requests have it: another form of it would never be asked for. */
function expectUrl(text: string, wrong: Wrong): void {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) throw wrong(`url ${shown(text)} is none of http or https`);
  if (url.username !== '' || url.password !== '') throw wrong('url holds a user name or a password');
  if (url.href.includes('#')) throw wrong(`url ${shown(text)} has a fragment, which is never sent`);
  if (url.href !== text) throw wrong(`url is ${shown(text)}, and is asked for as ${shown(url.href)}`);
  if (url.port === '0') throw wrong(`url ${shown(text)} has port 0, where nobody listens`);
}

function parseResponse(method: string, value: unknown, wrong: Wrong): OutcallResponse {
  const { status, headers, body } = fieldsOf(value) ?? {};
  if (typeof status !== 'number' || !Array.isArray(headers) || typeof body !== 'string')
    throw wrong('it needs a failure, or a response with status, headers and body');
  if (!Number.isInteger(status) || status < 200 || status > 999) throw wrong(`status is ${status}: 200 to 999 are`);
  if (!isBase64(body)) throw wrong('body of the response is not base64');
  if (body !== '' && (method === 'HEAD' || BODILESS.has(status)))
    throw wrong(`it has a body, and an answer ${method === 'HEAD' ? 'to HEAD' : `of status ${status}`} has none`);
  return { status, headers: headers.map((header) => parseHeader(header, wrong)), body: Buffer.from(body, 'base64') };
}

function parseHeader(header: unknown, wrong: Wrong): OutcallHeader {
  const [name, value, ...more] = Array.isArray(header) ? (header as readonly unknown[]) : [];
  if (typeof name !== 'string' || typeof value !== 'string' || more.length > 0)
    throw wrong('a header is [name, value]');
  if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name))
    throw wrong(`${shown(name)} is no name of a header: letters are small there, and blanks and colons are none`);
  if (OF_THE_CONNECTION.has(name)) throw wrong(`header ${shown(name)} is one of the connection, which is left out`);
  if (/[\x00-\x08\x0a-\x1f\x7f]/.test(value)) throw wrong(`header ${shown(name)}: the value has a control character`);
  if (/^[ \t]|[ \t]$/.test(value)) throw wrong(`header ${shown(name)}: the value has blanks around it`);
  return { name, value };
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> | undefined {
  return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : undefined;
}

/** Returns true for valid base64. Node's decoder silently skips other characters. */
function isBase64(text: string): boolean {
  return Buffer.from(text, 'base64').toString('base64') === text;
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, SHOWN_CHARACTERS));
}
