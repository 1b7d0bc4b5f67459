/**
 * Turns the text of a manifest into its actors, or into a list of all its faults:
 *
 *     actors.json has 2 problems:
 *       actors.json:4:7 actors.counter.mian: unknown key; did you mean "main"?
 *       actors.json:9:15 actors.ledger.wasm: there is no file dist/ledger.wasm (…); build it or correct the path
 *
 * `config/manifest.schema.json` states the same rules for editors; a test keeps the two in step.
 */
import { readlink, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { messageOf, ServerError } from '../../kernel/index.ts';
import { SITE_FILE } from '../assets/index.ts';
import { parsePrincipal, sameBytes } from '../ic/index.ts';
import { CYCLES_MAX, readDecimalString, readWholeNumber } from './decimal.ts';
import type { ManifestActor } from './index.ts';
import { nearest } from './nearest.ts';
import { JsonSyntaxError, placeOf, readJson } from './positioned-json.ts';
import type { JsonMember, JsonNode, JsonObject } from './positioned-json.ts';

interface ManifestText {
  /** Absolute path; the paths in the manifest are relative to its folder. */
  readonly file: string;
  /** Name of the file in messages. */
  readonly displayName: string;
  readonly text: string;
}

export const SMALLEST_MANIFEST = '{ "actors": { "counter": { "main": "Counter.mo" } } }';

const ACTOR_NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/u;
const TOP_KEYS = ['$schema', 'actors'];
const NO_VARIABLES: ReadonlyMap<string, string> = new Map();
const ACTOR_KEYS = [
  'main',
  'wasm',
  'candid',
  'args',
  'argsHex',
  'cycles',
  'env',
  'certificate',
  'assets',
  'public',
  'controllers',
  'rehearse',
];
/** Messages of a rehearsal. */
const REHEARSED_MAX = 10_000n;
/** The Internet Computer's bound is 10; one is the installer's. */
const CONTROLLERS_MAX = 9;
const ENV_VARIABLES_MAX = 20;
const ENV_BYTES_MAX = 128;
const HOST_VARIABLE_PREFIX = 'PUBLIC_CANISTER_ID:';
/** Problems that are shown: a file with hundreds of faults has one cause. */
const PROBLEMS_SHOWN_MAX = 50;

export async function checkManifest(manifest: ManifestText): Promise<readonly ManifestActor[]> {
  return new ManifestChecker(manifest).check();
}

class ManifestChecker {
  readonly #manifest: ManifestText;
  readonly #problems: { readonly offset: number; readonly text: string }[] = [];
  #problemCount = 0;
  /** Sources by file. */
  readonly #sources = new Map<string, ManifestActor['source']>();
  readonly #faults = new Map<string, Promise<string | undefined>>();

  constructor(manifest: ManifestText) {
    this.#manifest = manifest;
  }

  async check(): Promise<readonly ManifestActor[]> {
    const actors = await this.#document(this.#parse());
    this.#throwProblems();
    return actors;
  }

  #parse(): JsonNode {
    try {
      return readJson(this.#manifest.text);
    } catch (error) {
      if (!(error instanceof JsonSyntaxError)) throw error;
      throw new ServerError('invalid', 'manifest-invalid', `${this.#at(error.offset)}: not JSON: ${error.message}`, {
        cause: error,
      });
    }
  }

  async #document(node: JsonNode): Promise<readonly ManifestActor[]> {
    const members = this.#object(node, '', `write ${SMALLEST_MANIFEST}`);
    if (members === undefined) return [];
    this.#refuseUnknown(members, TOP_KEYS, '');
    const schema = members.get('$schema');
    if (schema !== undefined && schema.value.kind !== 'string') {
      this.#report(schema.value, '$schema', `expected text, not ${nameOf(schema.value)}`);
    }
    const actors = members.get('actors');
    if (actors === undefined) {
      this.#report(node, 'actors', `is missing; write ${SMALLEST_MANIFEST}`);
      return [];
    }
    const declared = this.#object(actors.value, 'actors', 'write "actors": { "<name>": { … } }');
    const checked: (ManifestActor | undefined)[] = [];
    for (const [name, { key, value }] of declared ?? []) checked.push(await this.#actor(name, key, value));
    return checked.filter((actor) => actor !== undefined);
  }

  async #actor(name: string, key: JsonNode, node: JsonNode): Promise<ManifestActor | undefined> {
    const path = `actors${step(name)}`;
    if (!ACTOR_NAME.test(name)) {
      this.#report(
        key,
        path,
        'a name has 1 to 64 letters, digits, "_" and "-" and starts with a letter or "_"; rename the actor',
      );
    }
    const members = this.#object(node, path, 'write { "main": "<file>.mo" } or { "wasm": "<file>.wasm" }');
    if (members === undefined) return undefined;
    this.#refuseUnknown(members, ACTOR_KEYS, path);
    const source = this.#shared(await this.#source(members, key, path));
    const candid = members.get('candid');
    const candidFile = candid === undefined ? undefined : await this.#file(candid.value, `${path}.candid`, 'candid');
    const args = this.#args(members, path);
    const cycles = this.#cycles(members.get('cycles'), `${path}.cycles`);
    const env = this.#env(members.get('env'), `${path}.env`);
    const certificate = this.#certificate(members.get('certificate'), `${path}.certificate`);
    const assets = this.#assets(members, `${path}.assets`);
    const openMethods = this.#public(members, `${path}.public`);
    const controllers = this.#controllers(members, `${path}.controllers`);
    const rehearse = this.#rehearse(members.get('rehearse')?.value, `${path}.rehearse`);
    return source === undefined
      ? undefined
      : {
          name,
          source,
          candidFile,
          args,
          cycles,
          env,
          hasCertificate: certificate === 'placeholder',
          ...(certificate === 'signed' && { isCertified: true }),
          ...(assets && { assets }),
          ...(openMethods && { openMethods }),
          ...(controllers && { controllers }),
          ...(rehearse && { rehearse }),
        };
  }

  /** Reads the list of open methods. The actor's methods are not known yet: names that it lacks are told later. */
  #public(members: Members, path: string): readonly string[] | undefined {
    const kind = { items: 'methods', item: "a method's name", such: 'get' };
    const names = this.#texts(members.get('public')?.value, path, kind);
    return names && [...names.keys()];
  }

  #controllers(members: Members, path: string): readonly Uint8Array[] | undefined {
    const node = members.get('controllers')?.value;
    const kind = { items: 'principals', item: 'a principal', such: 'rrkah-fqaaa-aaaaa-aaaaq-cai' };
    const texts = this.#texts(node, path, kind);
    if (node === undefined || texts === undefined) return undefined;
    const { size } = texts;
    if (size > CONTROLLERS_MAX)
      this.#report(node, path, `names ${size} principals; name at most ${CONTROLLERS_MAX}: the installer is one, too`);
    const principals: Uint8Array[] = [];
    for (const [text, item] of texts) {
      const principal = parsePrincipal(text);
      const known = principals.findIndex((other) => principal !== undefined && sameBytes(other, principal));
      if (principal === undefined)
        this.#report(item.node, item.path, `expected a principal as text, not ${quote(text)}`);
      else if (known >= 0) this.#report(item.node, item.path, `names the principal of [${known}] again; remove one`);
      else principals.push(principal);
    }
    return principals;
  }

  #rehearse(node: JsonNode | undefined, path: string): number | undefined {
    if (node === undefined) return undefined;
    const messages = node.kind === 'number' ? readWholeNumber(node.text) : undefined;
    if (messages !== undefined && messages >= 1n && messages <= REHEARSED_MAX) return Number(messages);
    const given = node.kind === 'number' ? node.text.slice(0, 40) : nameOf(node);
    return this.#report(node, path, `expected a number of messages from 1 to ${REHEARSED_MAX}, not ${given}`);
  }

  /** Reads an array of texts, each there once; returns them with their places. */
  #texts(
    node: JsonNode | undefined,
    path: string,
    { items, item: one, such }: { readonly items: string; readonly item: string; readonly such: string },
  ): ReadonlyMap<string, { readonly node: JsonNode; readonly path: string }> | undefined {
    if (node === undefined) return undefined;
    if (node.kind !== 'array')
      return this.#report(node, path, `expected an array of ${items}, such as ["${such}"], not ${nameOf(node)}`);
    const texts = new Map<string, { readonly node: JsonNode; readonly path: string }>();
    for (const [index, item] of node.items.entries()) {
      const at = `${path}[${index}]`;
      if (item.kind !== 'string') this.#report(item, at, `expected ${one} as text, not ${nameOf(item)}`);
      else if (texts.has(item.value)) this.#report(item, at, `names ${quote(item.value)} again; remove one`);
      else texts.set(item.value, { node: item, path: at });
    }
    return texts;
  }

  #assets(members: Members, path: string): ManifestActor['assets'] {
    const node = members.get('assets')?.value;
    if (node === undefined) return undefined;
    const isSite = !members.has('main') && !members.has('wasm');
    // The folder is looked for when it is read: a build may make it later.
    if (node.kind !== 'string') return this.#report(node, path, `expected a path as text, not ${nameOf(node)}`);
    if (node.value === '' || node.value.includes('\0')) return this.#report(node, path, 'is not a path; name a folder');
    return { folder: resolve(dirname(this.#manifest.file), node.value), isSite };
  }

  /** Returns one object for equal sources: thousands of actors may share one file. */
  #shared(source: ManifestActor['source'] | undefined): ManifestActor['source'] | undefined {
    if (source === undefined) return undefined;
    const known = this.#sources.get(source.file) ?? source;
    this.#sources.set(source.file, known);
    return known;
  }

  async #source(members: Members, key: JsonNode, path: string): Promise<ManifestActor['source'] | undefined> {
    const main = members.get('main');
    const wasm = members.get('wasm');
    if (main !== undefined && wasm !== undefined) {
      this.#report(wasm.key, path, 'has both "main" and "wasm"; keep the one to serve');
      return undefined;
    }
    if (main !== undefined) {
      const file = await this.#file(main.value, `${path}.main`, 'main');
      return file === undefined ? undefined : { kind: 'main', file };
    }
    if (wasm !== undefined) {
      const file = await this.#file(wasm.value, `${path}.wasm`, 'wasm');
      return file === undefined ? undefined : { kind: 'wasm', file };
    }
    if (members.has('assets')) return { kind: 'main', file: SITE_FILE };
    this.#report(
      key,
      path,
      'has neither "main" (Motoko source) nor "wasm" (a module) nor "assets" (a folder); add one of them',
    );
    return undefined;
  }

  async #file(node: JsonNode, path: string, key: 'main' | 'wasm' | 'candid'): Promise<string | undefined> {
    if (node.kind !== 'string') return this.#report(node, path, `expected a path as text, not ${nameOf(node)}`);
    const { value } = node;
    if (value === '' || value.includes('\0')) return this.#report(node, path, 'is not a path; name a file');
    if (key === 'main' && !value.endsWith('.mo')) {
      return this.#report(
        node,
        path,
        `names no Motoko source (.mo): ${quote(value)}; a compiled module goes under "wasm"`,
      );
    }
    if (key === 'wasm' && value.endsWith('.mo')) {
      return this.#report(node, path, `names Motoko source: ${quote(value)}; use "main" instead of "wasm"`);
    }
    const file = resolve(dirname(this.#manifest.file), value);
    let asking = this.#faults.get(file);
    if (asking === undefined) this.#faults.set(file, (asking = faultOf(file)));
    const fault = await asking;
    return fault === undefined
      ? file
      : this.#report(
          node,
          path,
          fault.replace('%', () => `${quote(value)} (${file})`),
        );
  }

  #args(members: Members, path: string): ManifestActor['args'] {
    const args = members.get('args');
    const hex = members.get('argsHex');
    if (args !== undefined && hex !== undefined) {
      this.#report(hex.key, path, 'has both "args" and "argsHex"; keep one');
      return undefined;
    }
    if (args?.value.kind === 'array') {
      this.#refuseDuplicates(args.value, `${path}.args`);
      return { kind: 'json', text: this.#manifest.text.slice(args.value.start, args.value.end) };
    }
    if (args?.value.kind === 'string') return { kind: 'candid', text: args.value.value };
    if (args !== undefined) {
      const expected = 'expected a JSON array with one element an argument, or Candid text like "(5, null)"';
      this.#report(args.value, `${path}.args`, `${expected}, not ${nameOf(args.value)}`);
    }
    if (hex === undefined) return undefined;
    if (hex.value.kind === 'string' && /^(?:[0-9A-Fa-f]{2})*$/u.test(hex.value.value)) {
      return { kind: 'bytes', bytes: new Uint8Array(Buffer.from(hex.value.value, 'hex')) };
    }
    this.#report(hex.value, `${path}.argsHex`, 'expected text of hexadecimal digits, two a byte ("4449444c0000")');
    return undefined;
  }

  #cycles(member: JsonMember | undefined, path: string): bigint | undefined {
    if (member === undefined) return undefined;
    const { value: node } = member;
    let cycles: bigint | undefined;
    if (node.kind === 'string') cycles = readDecimalString(node.value);
    if (node.kind === 'number') cycles = readWholeNumber(node.text);
    if (cycles !== undefined && cycles <= CYCLES_MAX) return cycles;
    const found =
      node.kind === 'string' ? quote(node.value) : node.kind === 'number' ? node.text.slice(0, 60) : nameOf(node);
    this.#report(
      node,
      path,
      `expected a whole number from 0 to 2^128-1, as a number or a decimal string, not ${found}`,
    );
    return undefined;
  }

  #certificate(member: JsonMember | undefined, path: string): 'placeholder' | 'signed' | undefined {
    if (member === undefined) return undefined;
    const { value: node } = member;
    if (node.kind === 'string' && (node.value === 'placeholder' || node.value === 'signed')) return node.value;
    const found = node.kind === 'string' ? quote(node.value) : nameOf(node);
    this.#report(node, path, `expected "signed" or "placeholder", not ${found}; or remove the key`);
    return undefined;
  }

  #env(member: JsonMember | undefined, path: string): ReadonlyMap<string, string> {
    const members = member === undefined ? undefined : this.#object(member.value, path, 'write { "NAME": "value" }');
    if (member === undefined || members === undefined) return NO_VARIABLES;
    const env = new Map<string, string>();
    if (members.size > ENV_VARIABLES_MAX) {
      this.#report(member.value, path, `holds ${members.size} of at most ${ENV_VARIABLES_MAX} variables; remove some`);
    }
    for (const [name, { key, value }] of members) {
      const at = `${path}${step(name)}`;
      const nameBytes = Buffer.byteLength(name);
      if (nameBytes === 0 || nameBytes > ENV_BYTES_MAX) {
        this.#report(key, at, `a variable's name has 1 to ${ENV_BYTES_MAX} bytes, not ${nameBytes}; rename it`);
      }
      if (name.startsWith(HOST_VARIABLE_PREFIX)) {
        this.#report(key, at, `names starting with ${HOST_VARIABLE_PREFIX} are set by the host; rename it`);
      }
      if (value.kind !== 'string') this.#report(value, at, `expected text, not ${nameOf(value)}; put it in quotes`);
      else if (Buffer.byteLength(value.value) > ENV_BYTES_MAX) {
        this.#report(
          value,
          at,
          `holds ${Buffer.byteLength(value.value)} of at most ${ENV_BYTES_MAX} bytes; shorten it`,
        );
      } else env.set(name, value.value);
    }
    return env;
  }

  /** Returns the members of an object by key; a repeated key is reported, and the first one counts. */
  #object(node: JsonNode, path: string, fix: string): Members | undefined {
    if (node.kind !== 'object') {
      this.#report(node, path, `expected an object, not ${nameOf(node)}; ${fix}`);
      return undefined;
    }
    const members = new Map<string, JsonMember>();
    for (const member of node.members) {
      const first = members.get(member.key.value);
      if (first === undefined) members.set(member.key.value, member);
      else this.#reportDuplicate(member, first, path);
    }
    return members;
  }

  #reportDuplicate(again: JsonMember, first: JsonMember, path: string): void {
    const where = this.#problems.length < PROBLEMS_SHOWN_MAX ? this.#at(first.key.start) : '';
    this.#report(
      again.key,
      path + step(again.key.value),
      `is a duplicate of the one at ${where}; remove or rename one`,
    );
  }

  /** Reports repeated keys in arguments. The codec reads arguments later, but only here the place is known. */
  #refuseDuplicates(node: JsonNode, path: string): void {
    if (node.kind === 'array') node.items.forEach((item, index) => this.#refuseDuplicates(item, `${path}[${index}]`));
    if (node.kind !== 'object') return;
    for (const [key, { value }] of this.#object(node, path, '') ?? []) this.#refuseDuplicates(value, path + step(key));
  }

  #refuseUnknown(members: Members, known: readonly string[], path: string): void {
    for (const [name, { key }] of members) {
      if (known.includes(name)) continue;
      const at = path + step(name);
      const near = nearest(name, known);
      const hint = near === undefined ? `known are ${known.join(', ')}` : `did you mean "${near}"?`;
      this.#report(key, at, `unknown key; ${hint}`);
    }
  }

  #report(node: JsonNode | JsonObject, path: string, message: string): undefined {
    this.#problemCount += 1;
    // Finding a place takes time proportional to the text, so the limit on shown faults also limits that time.
    if (this.#problems.length >= PROBLEMS_SHOWN_MAX) return undefined;
    const name = path.replace(/^\./u, '');
    this.#problems.push({
      offset: node.start,
      text: `${this.#at(node.start)}${name === '' ? '' : ` ${name}`}: ${message}`,
    });
    return undefined;
  }

  #at(offset: number): string {
    const { line, column } = placeOf(this.#manifest.text, offset);
    return `${this.#manifest.displayName}:${line}:${column}`;
  }

  #throwProblems(): void {
    if (this.#problemCount === 0) return;
    const shown = this.#problems.toSorted((a, b) => a.offset - b.offset).map(({ text }) => text);
    if (shown.length < this.#problemCount) shown.push(`… and ${this.#problemCount - shown.length} more`);
    const message =
      this.#problemCount === 1
        ? shown.join('')
        : `${this.#manifest.displayName} has ${this.#problemCount} problems:\n${shown.map((line) => `  ${line}`).join('\n')}`;
    throw new ServerError('invalid', 'manifest-invalid', message);
  }
}

type Members = ReadonlyMap<string, JsonMember>;

/** Returns the reason why a path is no readable file, with `%` for the path; undefined if it is one. */
async function faultOf(file: string): Promise<string | undefined> {
  try {
    const status = await stat(file);
    if (status.isDirectory()) return 'names a folder: %; name a file in it';
    if (!status.isFile()) return 'names no regular file: %; name a file';
    return undefined;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    const target = code === 'ENOENT' ? await readlink(file).catch(() => undefined) : undefined;
    if (target !== undefined) return `% is a link to ${target}, which is not there; build it or correct the link`;
    if (code === 'ENOENT' || code === 'ENOTDIR') return 'there is no file %; build it or correct the path';
    if (code === 'ELOOP') return 'the symbolic links of % form a loop; point them at a file';
    return `cannot use %: ${messageOf(error)}`;
  }
}

/** Returns one step of a JSON path: `.name`, or `["odd name"]`. */
function step(key: string): string {
  return /^[A-Za-z_$][\w$-]*$/u.test(key) ? `.${key.slice(0, 80)}` : `[${quote(key)}]`;
}

function quote(text: string): string {
  return JSON.stringify(text.length > 120 ? `${text.slice(0, 120)}…` : text);
}

function nameOf(node: JsonNode): string {
  const names = { object: 'an object', array: 'an array', string: 'text', number: 'a number' } as const;
  return node.kind === 'true' || node.kind === 'false' || node.kind === 'null' ? node.kind : names[node.kind];
}
