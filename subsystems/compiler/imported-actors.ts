import { ServerError } from '../../kernel/index.ts';
import { ImportProblems, type ProblemList } from './import-problems.ts';
import type { ActorReference } from './index.ts';
import type { ImportedActor } from './moc-protocol.ts';
import type { SourceClosure } from './source-closure.ts';
import { linesByFile } from './text-lines.ts';

/** For sources that stand alone. */
export const NO_ACTORS = (name: string): Promise<ActorReference> =>
  Promise.reject(new ServerError('invalid', 'actor-unknown', `there is no actor ${JSON.stringify(name)} to import`));

/** The actors a source imports, in the order of their names; what cannot be found is a problem at the place of its import. */
export async function importedActors(
  { actors, files }: SourceClosure,
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
      problems.add(place, () => error.message);
    }
  }
  return { actors: found, problems: problems.list(linesByFile((file) => files.get(file))) };
}
