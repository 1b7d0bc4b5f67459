/**
 * `--config svc.config.json`: flags by their long names, without the dashes.
 *
 *     { "listen": "127.0.0.1:8000", "watch": true, "live-cap": 100, "outcalls": false,
 *       "plugin": { "storage": "./my-storage.js" }, "plugin-option": { "storage": { "path": "data" } } }
 *
 * The flag's declaration says which values are allowed, and every fault is reported with its line and column.
 */
import { readFileSync, statSync } from 'node:fs';
import { messageOf, suggestionFor } from '../kernel/index.ts';
import { type JsonNode, type JsonObject, JsonSyntaxError, placeOf, readJson } from '../subsystems/manifest/index.ts';
import type { Flag } from './flag.ts';

/** One value of the file, in the form of the command line. */
export interface FileValue {
  /** Name of the flag, or of the plugin that is turned off. */
  readonly name: string;
  readonly text: string;
  /** Place in the file: `svc.config.json:3:5`. */
  readonly place: string;
}

export interface ConfigFile {
  readonly values: readonly FileValue[];
  /** Names of plugins that are turned off, each with its place in the file. */
  readonly disabled: ReadonlyMap<string, string>;
  readonly problems: readonly string[];
}

export interface ConfigFileOptions {
  readonly flags: ReadonlyMap<string, Flag<unknown>>;
  /** Names of plugins that may be turned off. */
  readonly pluginNames: readonly string[];
}

/** Room for thousands of options; refuses, for example, a log file. */
const FILE_BYTES_MAX = 1 << 20;
/** Problems that are listed: a file with hundreds of faults has one cause. */
const PROBLEMS_MAX = 20;
/** Key by which editors find the file's schema. */
const SCHEMA_KEY = '$schema';
/** Flags that ask for something other than a server, or that name this very file. */
const COMMAND_LINE_ONLY: ReadonlySet<string> = new Set([
  'help',
  'version',
  'config',
  'print-config',
  'check',
  'make-token',
  'capacity',
  'replay',
  'profile',
]);

/** Reads the file at `path`; messages call it `shown`. */
export function readConfigFile(path: string, shown: string, options: ConfigFileOptions): ConfigFile {
  const text = textOf(path, shown);
  if ('problem' in text) return { values: [], disabled: new Map(), problems: [text.problem] };
  return new ConfigFileReader(text.text, shown, options).read();
}

function textOf(path: string, shown: string): { readonly text: string } | { readonly problem: string } {
  try {
    const status = statSync(path);
    // Pipes and devices may never end.
    if (!status.isFile() && !status.isDirectory())
      return { problem: `--config: ${shown} (${path}) cannot be read: it is not a regular file` };
    const { size } = status;
    if (size > FILE_BYTES_MAX)
      return { problem: `--config: ${shown} has ${size} bytes, and no configuration has more than ${FILE_BYTES_MAX}` };
    const text = new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path));
    return { text };
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'there is no such file' : messageOf(error);
    return { problem: `--config: ${shown} (${path}) cannot be read: ${reason}` };
  }
}

class ConfigFileReader {
  readonly #text: string;
  readonly #shown: string;
  readonly #options: ConfigFileOptions;
  readonly #values: FileValue[] = [];
  readonly #disabled = new Map<string, string>();
  readonly #problems: string[] = [];

  constructor(text: string, shown: string, options: ConfigFileOptions) {
    this.#text = text;
    this.#shown = shown;
    this.#options = options;
  }

  read(): ConfigFile {
    try {
      this.#document(readJson(this.#text));
    } catch (error) {
      if (!(error instanceof JsonSyntaxError)) throw error;
      this.#report(error.offset, `not JSON: ${error.message}`);
    }
    const more = this.#problems.length - PROBLEMS_MAX;
    const problems = this.#problems.slice(0, PROBLEMS_MAX);
    if (more > 0) problems.push(`${this.#shown}: ${more} more problems`);
    return { values: this.#values, disabled: this.#disabled, problems };
  }

  #document(node: JsonNode): void {
    if (node.kind !== 'object') {
      this.#report(
        node.start,
        `expected an object of flags, not ${kindOf(node)}: write { "listen": "127.0.0.1:7000" }`,
      );
      return;
    }
    for (const [name, { key, value }] of this.#members(node)) {
      if (name === SCHEMA_KEY) continue;
      const flag = this.#options.flags.get(name);
      const isPlugin = this.#options.pluginNames.includes(name);
      if (COMMAND_LINE_ONLY.has(name))
        this.#report(key.start, `--${name} is for the command line only: take the key out`);
      // Files are copied, committed and read by others, so they hold no secrets.
      else if (flag?.isSecret === true)
        this.#report(
          key.start,
          `this file cannot hold the token: name the token's own file with "auth-token-file", or set SVC_TOKEN, and take the key out`,
        );
      else if (isPlugin && value.kind === 'false') this.#disabled.set(name, this.#placeOf(value.start));
      else if (flag !== undefined) this.#flag(name, flag, value);
      else if (isPlugin) {
        if (value.kind !== 'true') this.#report(value.start, `${name}: expected true or false, not ${kindOf(value)}`);
      } else {
        const known = [...this.#options.flags]
          .filter(([each, { isSecret }]) => !COMMAND_LINE_ONLY.has(each) && isSecret !== true)
          .map(([each]) => each);
        this.#report(
          key.start,
          `unknown key "${name.slice(0, 80)}"${suggestionFor(name, [...known, ...this.#options.pluginNames])}`,
        );
      }
    }
  }

  #flag(name: string, { kind }: Flag<unknown>, value: JsonNode): void {
    if (kind === 'names') this.#names(name, value);
    else if (kind === 'switch') {
      if (value.kind === 'true' || value.kind === 'false') this.#add(name, value.kind, value);
      else this.#report(value.start, `${name}: expected true or false, not ${kindOf(value)}`);
    } else if (value.kind === 'string') this.#add(name, value.value, value);
    else if (kind === 'number' && value.kind === 'number') this.#add(name, value.text, value);
    else
      this.#report(
        value.start,
        `${name}: expected ${kind === 'number' ? 'a whole number' : 'text in double quotes'}, not ${kindOf(value)}`,
      );
  }

  /** Takes `{ "storage": "./my-storage.js" }`; options of plugins are nested one level deeper. */
  #names(name: string, node: JsonNode): void {
    const isNested = name === 'plugin-option';
    const form = isNested ? '{ "storage": { "path": "data" } }' : '{ "storage": "./my-storage.js" }';
    if (node.kind !== 'object') {
      this.#report(node.start, `${name}: expected an object, not ${kindOf(node)}: write ${form}`);
      return;
    }
    for (const [first, { value }] of this.#members(node)) {
      if (!isNested) this.#named(name, first, value);
      else if (value.kind !== 'object')
        this.#report(value.start, `${name}.${first}: expected an object, not ${kindOf(value)}: write ${form}`);
      else
        for (const [second, { value: inner }] of this.#members(value)) this.#named(name, `${first}.${second}`, inner);
    }
  }

  #named(name: string, key: string, value: JsonNode): void {
    if (key.includes('=')) {
      this.#report(value.start, `${name}: "${key.slice(0, 80)}" is no name: write the value behind the colon`);
      return;
    }
    const isOption = name === 'plugin-option';
    if (value.kind === 'string') this.#add(name, `${key}=${value.value}`, value);
    else if (isOption && value.kind === 'number') this.#add(name, `${key}=${value.text}`, value);
    else if (isOption && (value.kind === 'true' || value.kind === 'false'))
      this.#add(name, `${key}=${value.kind}`, value);
    else
      this.#report(
        value.start,
        `${name}.${key}: expected ${isOption ? 'text, a number, true or false' : 'text in double quotes'}, not ${kindOf(value)}`,
      );
  }

  #add(name: string, text: string, { start }: JsonNode): void {
    this.#values.push({ name, text, place: this.#placeOf(start) });
  }

  /** Returns the members by key. A repeated key is reported, and its first value counts. */
  #members({ members }: JsonObject): ReadonlyMap<string, JsonObject['members'][number]> {
    const byKey = new Map<string, JsonObject['members'][number]>();
    for (const member of members) {
      const { value, start } = member.key;
      if (byKey.has(value)) this.#report(start, `the key "${value.slice(0, 80)}" is there twice: keep one`);
      else byKey.set(value, member);
    }
    return byKey;
  }

  #report(offset: number, text: string): void {
    this.#problems.push(`${this.#placeOf(offset)} ${text}`);
  }

  #placeOf(offset: number): string {
    const { line, column } = placeOf(this.#text, offset);
    return `${this.#shown}:${line}:${column}`;
  }
}

function kindOf({ kind }: JsonNode): string {
  if (kind === 'string') return 'text';
  return kind === 'object' || kind === 'array' ? `an ${kind}` : kind === 'number' ? 'a number' : kind;
}
