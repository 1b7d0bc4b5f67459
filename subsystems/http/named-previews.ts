/** Candid text with the names of an actor's interface: a message has but their hashes. */
import type { Canister } from '../canisters/index.ts';
import { nameWord } from '../codec/description/index.ts';
import type { CandidInterface, Codec } from '../codec/index.ts';

type Previews = Pick<Codec, 'previewText'>;

/** Matches a text, even a cut one; the hash of a field before `=`; that of a variant without value. */
const HASHES = /"(?:[^"\\]|\\[^])*(?:"|$)|\b(\d{1,10})(?= = )|(?<=variant \{ )(\d{1,10})(?= \})/g;
/** Words of .did text, labels among them, and labels in quotes. */
const LABELS = /"([^"\\]+)"|[A-Za-z_]\w*/g;

const toUtf8 = new TextEncoder();
const known = new WeakMap<CandidInterface, ReadonlyMap<number, string>>();

/** Returns the codec, whose previews have the names of fields and variants that the actor's interface tells. */
export function namedPreviews(codec: Previews, { candid }: Pick<Canister, 'candid'>): Previews {
  if (candid === undefined) return codec;
  return {
    previewText(message, charactersMax, isBegin) {
      const text = codec.previewText(message, charactersMax, isBegin);
      return text?.replaceAll(HASHES, (part: string, field?: string, tag?: string) => {
        const hash = field ?? tag;
        const label = hash === undefined ? undefined : labelsOf(candid).get(Number(hash));
        if (label === undefined) return part;
        return nameWord(label);
      });
    },
  };
}

/** Returns the labels of an interface by their hashes; other words of the text are among them, and hurt nobody. */
function labelsOf(candid: CandidInterface): ReadonlyMap<number, string> {
  const read = known.get(candid);
  if (read !== undefined) return read;
  const labels = new Map<number, string>();
  for (const [word, quoted] of candid.text.matchAll(LABELS)) labels.set(hashOf(quoted ?? word), quoted ?? word);
  known.set(candid, labels);
  return labels;
}

/** Returns a label's hash, as the specification of Candid has it. */
function hashOf(label: string): number {
  let hash = 0;
  for (const byte of toUtf8.encode(label)) hash = (Math.imul(hash, 223) + byte) >>> 0;
  return hash;
}
