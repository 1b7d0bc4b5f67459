import { type CallRequest, callPath, rawPath } from './api.ts';
import { bytesOfHex } from './hex.ts';

/**
 * Returns the same call as a command. The token comes from a shell variable: a command that is pasted somewhere should
 * not hold it.
 */
export function curlCommand(origin: string, request: CallRequest, hasToken: boolean): string {
  const parts = ['curl -X POST'];
  if (hasToken) parts.push('-H "Authorization: Bearer $SVC_TOKEN"');
  if (request.caller !== '') parts.push(`-H ${shellQuoted(`x-caller: ${request.caller}`)}`);
  if (request.hex !== undefined) {
    // The only escapes of bytes that each shell's printf knows are octal.
    const octal = Array.from(bytesOfHex(request.hex) ?? [], (byte) => `\\${byte.toString(8).padStart(3, '0')}`).join(
      '',
    );
    parts.push('--data-binary @-', shellQuoted(`${origin}${rawPath(request)}`));
    return `printf ${shellQuoted(octal)} | ${parts.join(' \\\n  ')}`;
  }
  parts.push(`--data-raw ${shellQuoted(request.json)}`, shellQuoted(`${origin}${callPath(request)}`));
  return parts.join(' \\\n  ');
}

/** Quotes the text in single quotes, in which only the quote itself is special. */
function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** Returns the same call as code for browsers and Node; the token is a variable. */
export function fetchCode(origin: string, request: CallRequest, hasToken: boolean): string {
  const isRaw = request.hex !== undefined;
  const url = JSON.stringify(`${origin}${isRaw ? rawPath(request) : callPath(request)}`);
  const headers = [
    ...(hasToken ? ['authorization: `Bearer ${token}`'] : []),
    ...(request.caller === '' ? [] : [`'x-caller': ${JSON.stringify(request.caller)}`]),
  ];
  const bytes = isRaw ? Array.from(bytesOfHex(request.hex ?? '') ?? []).join(', ') : '';
  return [
    `const response = await fetch(${url}, {`,
    "  method: 'POST',",
    ...(headers.length > 0 ? [`  headers: { ${headers.join(', ')} },`] : []),
    `  body: ${isRaw ? `new Uint8Array([${bytes}])` : JSON.stringify(request.json)},`,
    '});',
    `const result = await response.${isRaw ? 'bytes' : 'json'}();`,
    "if (!response.ok) throw new Error(typeof result.message === 'string' ? result.message : `status ${response.status}`);",
  ].join('\n');
}
