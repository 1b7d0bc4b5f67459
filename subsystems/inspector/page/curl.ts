import { type CallRequest, callPath, rawPath } from './api.ts';
import { quote } from './candid/encode-form.ts';
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

/**
 * Returns the same call as TypeScript with `svc/client`; with `isTyped`, its arguments are checked by the declarations
 * that the server makes.
 */
export function clientCode(
  origin: string,
  request: CallRequest,
  { hasToken, isTyped }: { readonly hasToken: boolean; readonly isTyped: boolean },
): string {
  const { actor, method, isQuery, isLossless, caller, hex } = request;
  const verb = `${isQuery ? 'query' : 'call'}${hex === undefined ? '' : 'Candid'}`;
  const options = [...(isLossless ? ['lossless: true'] : []), ...(caller === '' ? [] : [`caller: ${quoted(caller)}`])];
  const more = options.length === 0 ? '' : `, { ${options.join(', ')} }`;
  const args = hex === undefined ? literalOf(request.json) : bytesCode(hex);
  const file = actor.replaceAll(/[^\w.-]/g, '_');
  const url = shellQuoted(`${origin}/x/actors/${encodeURIComponent(actor)}/types`);
  const header = hasToken ? '-H "Authorization: Bearer $SVC_TOKEN" ' : '';
  return [
    ...(isTyped ? [`// Types: curl ${header}${url} > ${file}.d.mts`] : []),
    "import { Client } from 'svc/client';",
    ...(isTyped ? [`import type { Actor } from './${file}.mjs';`] : []),
    '',
    `const client = new Client({ url: ${quoted(origin)}${hasToken ? ", token: process.env['SVC_TOKEN'] ?? ''" : ''} });`,
    isTyped
      ? `const result = await client.actor<Actor>(${quoted(actor)}).${verb}(${quoted(method)}, ${args}${more});`
      : `const result = await client.${verb}(${quoted(actor)}, ${quoted(method)}, ${args}${more});`,
    'console.log(result);',
  ].join('\n');
}

/** Returns JSON as code of the same value: long integers as texts, so that none is rounded. */
function literalOf(json: string): string {
  return json.replaceAll(/"(?:[^"\\]|\\.)*"(\s*:)?|-?\d[\d.eE+-]*/g, (part: string, colon?: string) => {
    if (colon !== undefined) {
      const key = part.slice(0, -colon.length);
      // Written as it is, this key would set the prototype.
      return JSON.parse(key) === '__proto__' ? `[${key}]${colon}` : part;
    }
    return /^-?\d{16,}$/.test(part) ? `"${part}"` : part;
  });
}

function quoted(text: string): string {
  return `'${quote(text)
    .slice(1, -1)
    .replaceAll(String.raw`\"`, '"')
    .replaceAll("'", String.raw`\'`)}'`;
}

function bytesCode(hex: string): string {
  return `new Uint8Array([${Array.from(bytesOfHex(hex) ?? []).join(', ')}])`;
}

/** Returns the same call as code for browsers and Node; the token is a variable. */
export function fetchCode(origin: string, request: CallRequest, hasToken: boolean): string {
  const isRaw = request.hex !== undefined;
  const url = JSON.stringify(`${origin}${isRaw ? rawPath(request) : callPath(request)}`);
  const headers = [
    ...(hasToken ? ['authorization: `Bearer ${token}`'] : []),
    ...(request.caller === '' ? [] : [`'x-caller': ${JSON.stringify(request.caller)}`]),
  ];
  return [
    `const response = await fetch(${url}, {`,
    "  method: 'POST',",
    ...(headers.length > 0 ? [`  headers: { ${headers.join(', ')} },`] : []),
    `  body: ${request.hex === undefined ? JSON.stringify(request.json) : bytesCode(request.hex)},`,
    '});',
    `const result = await response.${isRaw ? 'bytes' : 'json'}();`,
    "if (!response.ok) throw new Error(typeof result.message === 'string' ? result.message : `status ${response.status}`);",
  ].join('\n');
}
