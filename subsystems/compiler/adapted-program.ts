/**
 * moc's program as it runs here. It differs in two points from the npm package. Both changes are known for one
 * program only, by its checksum (`known-program.ts`); any other program runs as it is.
 */
import { createHash } from 'node:crypto';
import { assert } from '../../kernel/index.ts';
import { KNOWN_PROGRAM, REBOUND, SOURCE_MAP_TEST, VARIABLES } from './known-program.ts';

/** Before this text of the program all of its variables have their values. */
const EXPORT = 'e.Motoko=';

/**
 * Returns the program's text, changed so that it exports its state (`ShownState`) as `state`, and that a compilation
 * makes no source map, which takes 3 to 5 % of it and which nobody reads. Returns the text of an unknown program as
 * it is.
 */
export function adaptedProgram(text: string): string {
  if (createHash('sha256').update(text).digest('hex') !== KNOWN_PROGRAM) return text;
  return withoutSourceMap(withState(text));
}

function withState(text: string): string {
  const at = text.lastIndexOf(EXPORT);
  assert(at >= 0, `the program has no ${EXPORT}`);
  // Shown as they are now: for a function that shows them later V8 would make all of them slower.
  const values = VARIABLES.replaceAll(' ', ',');
  const rebound = REBOUND.join(',');
  const shown = `{values:[${values}],get(){return[${rebound}]},set(values){[${rebound}]=values}}`;
  return `${text.slice(0, at)}module.exports.state=${shown};${text.slice(at)}`;
}

/** An instruction's place goes into the map if it has one; this says that none has. */
function withoutSourceMap(text: string): string {
  return SOURCE_MAP_TEST === undefined ? text : text.replace(SOURCE_MAP_TEST, () => 'if(false){');
}
