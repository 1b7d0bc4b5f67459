import { ServerError } from '../../kernel/index.ts';
import { ImportProblems, type ProblemList } from './import-problems.ts';
import type { ActorReference } from './index.ts';
import type { ImportedActor } from './moc-protocol.ts';
import type { SourceClosure } from './closure.ts';
import { linesByFile } from './text-lines.ts';

/** Refuses every import, for sources that stand alone. */
export const NO_ACTORS = (name: string): Promise<ActorReference> =>
  Promise.reject(new ServerError('invalid', 'actor-unknown', `there is no actor ${JSON.stringify(name)} to import`));

/** Codes of errors that say that nobody has the name. */
const UNKNOWN: ReadonlySet<string> = new Set(['actor-unknown', 'import-unknown']);

/**
 * Returns the actors that a source imports, in the order of their names, then those by principal; an actor that
 * cannot be found is a problem at the place of its import. An actor that `importActor` finds goes before what
 * `--actor-alias` says of its name, and before a file about its principal.
 */
export async function importedActors(
  { actors, files, aliases, unknownAliases, principals }: SourceClosure,
  importActor: (name: string) => Promise<ActorReference>,
): Promise<{ readonly actors: readonly ImportedActor[]; readonly problems: ProblemList }> {
  const found: ImportedActor[] = [];
  const problems = new ImportProblems();
  for (const [name, place] of [...actors].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    try {
      const { principal, candid } = await importActor(name);
      found.push({ name, principal, candid });
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      const alias = aliases.get(name);
      const isUnknown = UNKNOWN.has(error.code);
      const hint = isUnknown ? unknownAliases.get(name) : undefined;
      if (alias === undefined || !isUnknown)
        problems.add(place, () => (hint === undefined ? error.message : `${error.message}; ${hint}`));
      else found.push({ name, principal: alias.principal, candid: alias.candid });
    }
  }
  const known = new Set(found.map(({ principal }) => principal));
  for (const [principal, candid] of [...principals].toSorted(([a], [b]) => (a < b ? -1 : 1)))
    if (!known.has(principal)) found.push({ principal, candid });
  return { actors: found, problems: problems.list(linesByFile((file) => files.get(file))) };
}
