/**
 * Instrumented modules on disk, one file each, so that a restart need not instrument every module anew:
 *
 *     <hash>.code   svc-code-1\n          kind of file, and version of this layout
 *                   <tag>                 32 bytes: HMAC-SHA-256 of version · hash of the upload · all that follows
 *                   <length of layout>    4 bytes, big-endian
 *                   <layout>              as V8 serializes it
 *                   <module>              to the end
 *     <hash>.info   svc-info-1\n          facts about the module besides its code, small: a start reads only it
 *                   <tag>                 as above, of `info ` and the same, so that files cannot be mixed up
 *                   <ModuleInfo>          as V8 serializes it, to the end
 *     key           32 random bytes, of this directory
 *
 * The tag stands between a file and a module that runs unmetered. A valid tag proves that this directory's server made
 * the entry of that upload, with this version of the instrumenter. An entry that is damaged, cut, renamed, from another
 * version or another directory counts as absent, and is made anew. The tag does not stop a user who can read the key:
 * such a user can as well change the server. V8 sees no byte of an entry whose tag is wrong. The upload itself is
 * decoded and validated at every load.
 *
 * A file is written beside its place and renamed. No failure to read or write is an error: the cache is only a
 * shortcut.
 *
 * Module worker: reads and writes entries, and waits for the disk. Main thread: removes them.
 */
import { createHmac, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto';
import {
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { geteuid } from 'node:process';
import { deserialize, serialize } from 'node:v8';
import { pruneCache } from '../../../kernel/index.ts';
import type { InstrumentedModule, ModuleLayout } from '../../instrument/index.ts';
import type { ModuleInfo } from '../index.ts';

const KEY_BYTES = 32;
const TAG_BYTES = 32;
const LENGTH_BYTES = 4;
/** Three times the largest module: larger entries are not kept, and not read. */
const ENTRY_BYTES_MAX = 300 * 1024 * 1024;
/** Custom sections are most of the facts. If a module has more, nothing is known of it before it is loaded. */
const INFO_BYTES_MAX = 4 * 1024 * 1024;
/** Bytes of some hundred modules in the user's cache folder. */
const SHARED_BYTES_MAX = 256 * 1024 * 1024;
const KEY_NAME = 'key';
const CODE_NAME = /^[0-9a-f]{64}\.code$/;
const ENTRY_NAME = /^([0-9a-f]{64})\.(?:code|info)$/;
const UNFINISHED_NAME = /^\.(?:key|[0-9a-f]{64}\.(?:code|info))\.[0-9a-f-]{36}$/;
const PRIVATE = { file: 0o600, directory: 0o700 } as const;

/** One of the two kinds of file that a module has. `label` precedes the bytes that are tagged. */
interface Kind {
  readonly magic: Buffer;
  readonly label: string;
  readonly bytesMax: number;
  readonly nameOf: (hash: string) => string;
}

const CODE: Kind = {
  magic: Buffer.from('svc-code-1\n'),
  label: '',
  bytesMax: ENTRY_BYTES_MAX,
  nameOf: (hash) => `${hash}.code`,
};
const INFO: Kind = {
  magic: Buffer.from('svc-info-1\n'),
  label: 'info ',
  bytesMax: INFO_BYTES_MAX,
  nameOf: (hash) => `${hash}.info`,
};

export class CodeCache {
  readonly #directory: string;
  readonly #version: string;
  #key: Uint8Array | undefined;

  /** `version` is that of the code's maker. Nothing is read or made yet. */
  constructor(directory: string, version: string) {
    this.#directory = directory;
    this.#version = version;
  }

  /** Returns the instrumented module of the upload with this hash; undefined: there is none that can be trusted. */
  read(hash: string): InstrumentedModule | undefined {
    try {
      const content = this.#open(CODE, hash);
      if (content === undefined || content.length < LENGTH_BYTES) return undefined;
      const layoutEnd = LENGTH_BYTES + content.readUInt32BE();
      const layout = deserialize(ownBytes(content.subarray(LENGTH_BYTES, layoutEnd))) as ModuleLayout;
      return { bytes: content.subarray(layoutEnd), layout };
    } catch {
      return undefined;
    }
  }

  /** Returns the reason why nothing was kept, or undefined. */
  write(hash: string, { bytes, layout }: InstrumentedModule): unknown {
    const description = serialize(layout);
    const length = Buffer.alloc(LENGTH_BYTES);
    length.writeUInt32BE(description.length);
    return this.#keep(CODE, hash, [length, description, bytes]);
  }

  /** Notes that the module was used now. */
  touch(hash: string): void {
    const now = new Date();
    try {
      utimesSync(join(this.#directory, CODE.nameOf(hash)), now, now);
    } catch {
      // Another process may have removed the file.
    }
  }

  /** Returns the facts of the upload with this hash; undefined: there are none that can be trusted. */
  readInfo(hash: string): ModuleInfo | undefined {
    try {
      const content = this.#open(INFO, hash);
      return content && (deserialize(ownBytes(content)) as ModuleInfo);
    } catch {
      return undefined;
    }
  }

  /** Does the same as `write` for a module's facts. */
  writeInfo(info: ModuleInfo): unknown {
    return this.#keep(INFO, info.hash, [serialize(info)]);
  }

  /** Returns a file's content if its tag is right. Throws if there is no file, or it cannot be read. */
  #open({ magic, label, bytesMax, nameOf }: Kind, hash: string): Buffer | undefined {
    const file = this.#read(nameOf(hash), bytesMax);
    const contentAt = magic.length + TAG_BYTES;
    if (file.length < contentAt || !file.subarray(0, magic.length).equals(magic)) return undefined;
    const content = file.subarray(contentAt);
    const isOurs = timingSafeEqual(file.subarray(magic.length, contentAt), this.#tagOf(label, hash, [content]));
    return isOurs ? content : undefined;
  }

  #keep({ magic, label, bytesMax, nameOf }: Kind, hash: string, content: readonly Uint8Array[]): unknown {
    try {
      const total = content.reduce((sum, part) => sum + part.length, magic.length + TAG_BYTES);
      if (total <= bytesMax) this.#write(nameOf(hash), [magic, this.#tagOf(label, hash, content), ...content]);
      return undefined;
    } catch (error) {
      return error;
    }
  }

  #tagOf(label: string, hash: string, content: readonly Uint8Array[]): Uint8Array {
    const hmac = createHmac('sha256', (this.#key ??= this.#openKey())).update(`${label}${this.#version} ${hash}\n`);
    for (const part of content) hmac.update(part);
    return hmac.digest();
  }

  /** Reads the key, or makes a new one, with which all present entries are foreign. */
  #openKey(): Uint8Array {
    const present = this.#presentKey();
    if (present !== undefined) return present;
    const key = randomBytes(KEY_BYTES);
    this.#write(KEY_NAME, [key]);
    // Another server may have made one at the same time: the last one stands.
    return this.#presentKey() ?? key;
  }

  /** Returns undefined if there is no key yet, or none that can be read; a key of another user's proves nothing. */
  #presentKey(): Uint8Array | undefined {
    try {
      const key = this.#read(KEY_NAME, KEY_BYTES);
      const isOurs = lstatSync(join(this.#directory, KEY_NAME)).uid === geteuid?.();
      return isOurs && key.length === KEY_BYTES ? key : undefined;
    } catch {
      return undefined;
    }
  }

  #read(name: string, bytesMax: number): Buffer {
    const path = join(this.#directory, name);
    const status = lstatSync(path);
    if (!status.isFile() || status.size > bytesMax) throw new Error(`${path} is none of ours`);
    return readFileSync(path);
  }

  #write(name: string, parts: readonly Uint8Array[]): void {
    this.#makeDirectory();
    const unfinished = join(this.#directory, `.${name}.${randomUUID()}`);
    try {
      const file = openSync(unfinished, 'wx', PRIVATE.file);
      try {
        for (const part of parts) writeFileSync(file, part);
      } finally {
        closeSync(file);
      }
      renameSync(unfinished, join(this.#directory, name));
    } catch (error) {
      rmSync(unfinished, { force: true });
      throw error;
    }
  }

  /** Makes the directory and two above it, level by level: for one like /proc, Node's recursive form never returns. */
  #makeDirectory(): void {
    const above = dirname(this.#directory);
    for (const path of [dirname(above), above, this.#directory])
      if (!existsSync(path)) mkdirSync(path, PRIVATE.directory);
  }
}

/** Copies bytes that `deserialize` returned as views, since they go from thread to thread. */
function ownBytes(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes);
}

/** Removes the entries of a module that nobody uses any more. */
export async function removeCode(directory: string, hash: string): Promise<void> {
  // Files that cannot be removed now are found again after the next start.
  for (const { nameOf } of [CODE, INFO])
    await rm(join(directory, nameOf(hash)), { force: true }).catch(() => undefined);
}

/** Removes the least recently used modules of a directory that no single server looks after. */
export function pruneCode(directory: string): Promise<void> {
  const kindOf = (name: string): 'finished' | 'unfinished' | undefined => {
    if (ENTRY_NAME.test(name)) return 'finished';
    return UNFINISHED_NAME.test(name) ? 'unfinished' : undefined;
  };
  return pruneCache(directory, { bytesMax: SHARED_BYTES_MAX, kindOf });
}

/** Returns the number of modules that an earlier process has left there, whether or not they can be trusted. */
export async function countKept(directory: string): Promise<number> {
  const names = await readdir(directory).catch(() => []);
  return names.filter((name) => CODE_NAME.test(name)).length;
}

/** Removes the entries of other modules than these, and files that were not written to their end. */
export async function keepOnlyCode(directory: string, hashes: ReadonlySet<string>): Promise<void> {
  for (const name of await readdir(directory).catch(() => [])) {
    const hash = ENTRY_NAME.exec(name)?.[1];
    const isUseless = hash === undefined ? UNFINISHED_NAME.test(name) : !hashes.has(hash);
    if (isUseless) await rm(join(directory, name), { force: true }).catch(() => undefined);
  }
}
