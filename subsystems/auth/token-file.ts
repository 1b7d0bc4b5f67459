/**
 * The file of `--tokens`: a name for each token, the hash of its secret, its scopes, and the principal as which it
 * calls. Secrets themselves are never in it, and no message shows a value of the file that could be one.
 *
 *   {"grafana": {"sha256": "…", "may": ["metrics"]},
 *    "shop": {"sha256": "…", "may": ["call:shop", "watch:shop"], "caller": "<principal>"}}
 */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { messageOf, ServerError } from '../../kernel/index.ts';
import { principalFromText } from '../ic/index.ts';
import { type JsonNode, JsonSyntaxError, placeOf, readJson } from '../manifest/index.ts';
import { Scopes } from './scopes.ts';

/** Some thousand tokens with their scopes. */
const FILE_BYTES_MAX = 1024 * 1024;
const TOKENS_MAX = 4096;
const OTHERS_READ = 0o004;
const OTHERS_WRITE = 0o002;
export const TOKEN_NAME = /^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/;
const SHA256 = /^[0-9a-f]{64}$/;
const KEYS = ['sha256', 'may', 'caller'];
/** Hash of no bytes at all: no header can carry that token. */
const HASH_OF_NOTHING = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

/** One line of the file. */
export interface TokenLine {
  readonly name: string;
  /** SHA-256 of the secret, 64 digits in hex. */
  readonly sha256: string;
  readonly scopes: Scopes;
  readonly caller: Uint8Array | undefined;
}

interface TokenFile {
  readonly lines: readonly TokenLine[];
  /** Faults that do not keep the file from being used. */
  readonly warnings: readonly string[];
}

/** Reads the file at once. Throws ServerError `bad-tokens` with place, reason and fix. */
export function readTokenFile(path: string): TokenFile {
  const { text, mode } = contentOf(path);
  const warnings: string[] = [];
  if ((mode & OTHERS_READ) !== 0) {
    const shown = (mode & 0o777).toString(8);
    warnings.push(`--tokens: ${path} can be read by every user of this machine (mode ${shown}): chmod 600`);
  }
  return { lines: new TokenReader(path, text).lines(), warnings };
}

function contentOf(path: string): { readonly text: string; readonly mode: number } {
  let descriptor: number | undefined;
  try {
    // A pipe without a writer would be waited for: it is opened without waiting, and refused below.
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const { mode, size } = fstatSync(descriptor);
    if ((mode & constants.S_IFMT) !== constants.S_IFREG) throw bad(path, 'is no regular file: write one');
    if ((mode & OTHERS_WRITE) !== 0)
      throw bad(path, `can be written by every user of this machine (mode ${(mode & 0o777).toString(8)}): chmod 600`);
    const content = Buffer.alloc(FILE_BYTES_MAX + 1);
    let length = 0;
    for (let read = -1; read !== 0 && length < content.length; length += read)
      read = readSync(descriptor, content, length, content.length - length, null);
    if (length > FILE_BYTES_MAX)
      throw bad(
        path,
        `has ${Math.max(size, length)} bytes, and at most ${FILE_BYTES_MAX} are read: is it another file?`,
      );
    const text = new TextDecoder('utf-8', { fatal: true }).decode(content.subarray(0, length));
    return { text, mode };
  } catch (error) {
    if (error instanceof ServerError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA') throw bad(path, 'is not UTF-8 text', error);
    throw bad(path, `cannot be read: ${code === 'ENOENT' ? 'there is no such file' : messageOf(error)}`, error);
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

function bad(path: string, text: string, cause?: unknown): ServerError {
  return new ServerError('invalid', 'bad-tokens', `--tokens: ${path} ${text}`, { cause });
}

type Members = ReadonlyMap<string, JsonNode>;

class TokenReader {
  readonly #path: string;
  readonly #text: string;

  constructor(path: string, text: string) {
    this.#path = path;
    this.#text = text;
  }

  lines(): readonly TokenLine[] {
    const lines: TokenLine[] = [];
    const nameByHash = new Map<string, string>();
    const members = this.#members(this.#document(), 'the file');
    if (members.size > TOKENS_MAX)
      throw bad(this.#path, `has ${members.size} tokens, and at most ${TOKENS_MAX} are taken`);
    for (const [name, node] of members) {
      if (!TOKEN_NAME.test(name)) {
        const rule = 'a name is a letter or _ and up to 63 letters, digits, _, . or -';
        throw this.#fault(node, `the name before this line's value is none: ${rule}`);
      }
      const line = this.#line(name, node);
      const other = nameByHash.get(line.sha256);
      if (other !== undefined)
        throw this.#fault(
          node,
          `"${name}" has the sha256 of "${other}": make a token of its own, svc --make-token ${name}`,
        );
      nameByHash.set(line.sha256, name);
      lines.push(line);
    }
    return lines;
  }

  #document(): JsonNode {
    try {
      return readJson(this.#text);
    } catch (error) {
      if (!(error instanceof JsonSyntaxError)) throw error;
      // The parser's own words may repeat a piece of the file.
      const { line, column } = placeOf(this.#text, error.offset);
      throw bad(this.#path, `is not JSON, in line ${line}, column ${column}`);
    }
  }

  #line(name: string, node: JsonNode): TokenLine {
    const members = this.#members(node, `"${name}"`);
    for (const [key, value] of members)
      if (!KEYS.includes(key))
        throw this.#fault(value, `"${name}" has a key that is not known; known are ${KEYS.join(', ')}`);
    const scopes = this.#scopes(name, node, members.get('may'));
    const caller = this.#caller(name, members.get('caller'));
    if (caller !== undefined && scopes.isWhole)
      throw this.#fault(
        node,
        `"${name}" may do everything, also call as anybody: take "caller" out, or name its scopes`,
      );
    return { name, sha256: this.#hash(name, node, members.get('sha256')), scopes, caller };
  }

  #hash(name: string, line: JsonNode, node: JsonNode | undefined): string {
    const make = `svc --make-token ${name} prints a token and its line`;
    if (node === undefined) throw this.#fault(line, `"${name}" lacks "sha256", the hash of its secret: ${make}`);
    if (node.kind !== 'string' || !SHA256.test(node.value))
      throw this.#fault(
        node,
        `the "sha256" of "${name}" is not 64 hex digits in small letters; if it is the secret itself, take it out of the file ` +
          `and never use it again: ${make}`,
      );
    if (node.value === HASH_OF_NOTHING)
      throw this.#fault(node, `the "sha256" of "${name}" is that of an empty text: ${make}`);
    return node.value;
  }

  #scopes(name: string, line: JsonNode, node: JsonNode | undefined): Scopes {
    const expected = `"may" of "${name}" is an array of scopes, such as ["metrics", "call:shop"]`;
    if (node?.kind !== 'array') throw this.#fault(node ?? line, expected);
    const texts = node.items.map((item) => {
      if (item.kind !== 'string') throw this.#fault(item, expected);
      return item.value;
    });
    try {
      return new Scopes(texts);
    } catch (error) {
      throw this.#fault(node, `"${name}": ${messageOf(error)}`);
    }
  }

  #caller(name: string, node: JsonNode | undefined): Uint8Array | undefined {
    if (node === undefined) return undefined;
    const text = node.kind === 'string' ? node.value : '';
    try {
      return principalFromText(text);
    } catch {
      throw this.#fault(
        node,
        `"caller" of "${name}" is no principal: take it from the tool that made the identity, or leave it out`,
      );
    }
  }

  #members(node: JsonNode, what: string): Members {
    if (node.kind !== 'object') throw this.#fault(node, `${what} is no JSON object`);
    const members = new Map<string, JsonNode>();
    for (const { key, value } of node.members) {
      if (members.has(key.value)) throw this.#fault(key, `${what} has a key twice: remove or rename one`);
      members.set(key.value, value);
    }
    return members;
  }

  #fault({ start }: { readonly start: number }, text: string): ServerError {
    const { line, column } = placeOf(this.#text, start);
    return bad(this.#path, `line ${line}, column ${column}: ${text}`);
  }
}
