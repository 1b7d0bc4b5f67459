import { type CallRequest, callPath } from './api.ts';

/**
 * Returns the same call as a command. The token comes from a shell variable: a command that is pasted somewhere should
 * not hold it.
 */
export function curlCommand(origin: string, request: CallRequest, hasToken: boolean): string {
  const parts = ['curl -X POST'];
  if (hasToken) parts.push('-H "Authorization: Bearer $SVC_TOKEN"');
  if (request.caller !== '') parts.push(`-H ${shellQuoted(`x-caller: ${request.caller}`)}`);
  parts.push(`--data-raw ${shellQuoted(request.json)}`, shellQuoted(`${origin}${callPath(request)}`));
  return parts.join(' \\\n  ');
}

/** Quotes the text in single quotes, in which only the quote itself is special. */
function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
