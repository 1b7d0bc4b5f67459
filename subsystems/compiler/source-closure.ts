/**
 * Everything that a Motoko file depends on: the one closure that the compilation of a manifest's `main` and `GET
 * /mops/closure/<ENTRY>` are made from.
 *
 * Files are read first (`source-graph.ts`). When all is there, the graph is walked depth first (`closure-walk.ts`),
 * so that the order of files and the files of a cycle do not depend on which of them was read first.
 */
import { ServerError } from '../../kernel/index.ts';
import type { ClosureOptions, SourceClosure } from './closure.ts';
import { ClosureWalk } from './closure-walk.ts';
import { SourceGraph } from './source-graph.ts';
import type { SourceReader } from './source-reader.ts';

/** Reads the main file and what it imports, and all they import. Every problem is found, not only the first. */
export async function collectClosure(
  mainFile: string,
  reader: SourceReader,
  options: ClosureOptions = {},
): Promise<SourceClosure> {
  const text = await reader.read(mainFile);
  if (text === undefined) {
    throw new ServerError(
      'invalid',
      'source-unreadable',
      `cannot read ${mainFile}: there is no such file; \`main\` names a Motoko source file`,
    );
  }
  const graph = new SourceGraph(mainFile, reader, options);
  await graph.load(text);
  return new ClosureWalk(mainFile, graph).walk();
}
