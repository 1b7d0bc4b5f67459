/**
 * One page of numbers of several processes: that of the first as it is, and the samples of the others in the same
 * families, with the label `shard`. The format wants each family in one piece.
 */
import { TimeSlices } from '../../kernel/index.ts';
import { TextPieces } from './text-pieces.ts';

const HELP = '# HELP ';
const COMMENT = '#';
/** Lines between two looks at the clock. */
const LINES = 256;

/** Samples of the families, in the order of the page; the first two lines of a family are its description. */
interface Family {
  description: string;
  readonly samples: string[];
}

/** Returns the pieces of the joined page. `others` are pages with the values of their label. */
export async function joinPages(
  first: readonly Uint8Array[],
  others: readonly (readonly [shard: number, page: Uint8Array])[],
): Promise<readonly Uint8Array[]> {
  const families = new Map<string, Family>();
  const slices = new TimeSlices();
  await addPage(families, Buffer.concat(first).toString('latin1'), '', slices);
  for (const [shard, page] of others)
    await addPage(families, Buffer.from(page).toString('latin1'), `shard="${shard}"`, slices);
  const pieces = new TextPieces();
  for (const { description, samples } of families.values()) {
    pieces.add(description);
    for (const text of samples) pieces.add(text);
    if (slices.isOver) await slices.next();
  }
  return pieces.end();
}

async function addPage(families: Map<string, Family>, page: string, label: string, slices: TimeSlices): Promise<void> {
  let family: Family | undefined;
  let isNew = false;
  let lines = 0;
  for (let at = 0; at < page.length;) {
    const feed = page.indexOf('\n', at);
    const end = feed < 0 ? page.length : feed;
    const line = page.slice(at, end);
    at = end + 1;
    if (++lines % LINES === 0 && slices.isOver) await slices.next();
    if (line.startsWith(HELP)) {
      const name = line.slice(HELP.length, line.indexOf(' ', HELP.length));
      family = families.get(name);
      isNew = family === undefined;
      family ??= { description: '', samples: [] };
      families.set(name, family);
    }
    if (line === '' || family === undefined) continue;
    if (!line.startsWith(COMMENT)) family.samples.push(`${labelled(line, label)}\n`);
    else if (isNew) family.description += `${line}\n`;
  }
}

function labelled(sample: string, label: string): string {
  if (label === '') return sample;
  const brace = sample.indexOf('{');
  const space = sample.indexOf(' ');
  return brace >= 0 && brace < space
    ? `${sample.slice(0, brace + 1)}${label},${sample.slice(brace + 1)}`
    : `${sample.slice(0, space)}{${label}}${sample.slice(space)}`;
}
