/** Faults of interfaces, which the compiler finds in a folder of its own, are told of the files that have them. */
import type { Diagnostic } from './diagnostics.ts';
import type { ImportedActor } from './moc-protocol.ts';
import { INTERFACES_ROOT, interfaceFile } from './moc-instance.ts';
import { TextLines } from './text-lines.ts';

const IMPORT = /\bimport\s+("[^"\n]*")/gu;

/** Returns the fault with the place and the words of the interface that it is about. */
export function inInterfaces(
  fault: Diagnostic,
  actors: readonly Pick<ImportedActor, 'principal' | 'candid'>[],
  displayName: (file: string) => string,
): Diagnostic {
  const [, missing] = /^cannot open "(.*)"$/u.exec(fault.message) ?? [];
  if (missing !== undefined && fault.file === '') return importIn(fault, missing, actors);
  const message = fault.message.replaceAll(new RegExp(`${INTERFACES_ROOT}/([^\\s"]+)`, 'gu'), (_, file: string) =>
    displayName(file),
  );
  return { ...fault, message };
}

/** The compiler says which file an interface imports, and not where. */
function importIn(
  fault: Diagnostic,
  missing: string,
  actors: readonly Pick<ImportedActor, 'principal' | 'candid'>[],
): Diagnostic {
  for (const { principal, candid } of actors)
    for (const found of candid.matchAll(IMPORT)) {
      const [whole, quoted = ''] = found;
      if (`${INTERFACES_ROOT}/${quoted.slice(1, -1)}` !== missing) continue;
      const lines = new TextLines(candid);
      const at = found.index + whole.length - quoted.length;
      const message = `import ${quoted} of an interface is not followed; write what that file has into this one`;
      const [start, end] = [lines.positionAt(at), lines.positionAt(at + quoted.length)];
      return { ...fault, file: interfaceFile(principal), start, end, message };
    }
  return fault;
}
