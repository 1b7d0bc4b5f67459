/** Parts that a compilation is made of, and the key under which its module is kept. */
import { type CorePackage, motokoRelease } from './core-package.ts';
import type { Compilation, ImportedActor, Persistence, SourceParts } from './moc-protocol.ts';
import { posix } from 'node:path';
import { type CompilerArgs, compilerArgsOf, MIGRATIONS, NO_ARGS } from './mops/compiler-args.ts';
import { sha256 } from './mops/mops-lock.ts';
import { type MopsOptions, projectOf } from './mops/mops-packages.ts';
import type { SourceClosure } from './closure.ts';
import type { SourceReader } from './source-reader.ts';

/** Returns the parts of a source that the compiler is given. */
export function partsOf(closure: SourceClosure, core: CorePackage, actors: readonly ImportedActor[]): SourceParts {
  const files = new Map([...closure.files, ...core.filesFor(closure.coreModules.keys())]);
  return { main: closure.main, files, blobs: closure.blobs, packages: closure.packages, actors };
}

export function modeOf(
  args: CompilerArgs,
  persistence: Persistence,
  closure: SourceClosure,
): Omit<Compilation, keyof SourceParts> {
  const { collector, publicMetadata } = args;
  const flags = flagsOf(args, closure);
  return { persistence, flags, collector: persistence === 'classical' ? collector : undefined, publicMetadata };
}

/** Returns the flags as the compiler takes them; a folder is where the closure has it. */
function flagsOf({ flags, migrations }: CompilerArgs, { root }: SourceClosure): readonly string[] {
  return migrations === undefined ? flags : [...flags, `${MIGRATIONS}=${posix.relative(root, migrations) || '.'}`];
}

/** Resolves with the arguments that the project gives for compilations. Rejects with ServerError `mops-invalid`. */
export async function argsFor(mainFile: string, reader: SourceReader, mops: MopsOptions): Promise<CompilerArgs> {
  const project = await projectOf(mainFile, reader, mops);
  if (project === undefined) return NO_ARGS;
  const { compilerArgs: args, unusedArgs: unused } = project.manifest;
  return compilerArgsOf({ args, unused }, project.file);
}

/** Everything the module depends on, in an unambiguous form. */
export function keyOf(
  closure: SourceClosure,
  actors: readonly ImportedActor[],
  persistence: Persistence,
  args: CompilerArgs,
): string {
  const { collector, publicMetadata } = args;
  const flags = flagsOf(args, closure);
  const files = [...closure.files].toSorted(([a], [b]) => (a < b ? -1 : 1));
  const packages = [...closure.packages].toSorted(([a], [b]) => (a < b ? -1 : 1));
  const parts: unknown[] = ['svc-motoko-1', motokoRelease, persistence, closure.main, files, actors];
  if (packages.length > 0 || flags.length > 0) parts.push(packages);
  if (flags.length > 0) parts.push(flags);
  const blobs = [...closure.blobs].map(([path, bytes]) => [path, sha256(bytes)]);
  if (blobs.length > 0) parts.push({ blobs: blobs.toSorted(([a = ''], [b = '']) => (a < b ? -1 : 1)) });
  const isOther = persistence === 'classical' && collector !== undefined;
  if (isOther || publicMetadata.length > 0) parts.push({ collector: isOther && collector, publicMetadata });
  const content = JSON.stringify(parts);
  return sha256(content);
}
