/** Flags of a start that executes the messages of a capsule again (`docs/time-travel.md`, "Capsule"). */
import { FlagProblem, type Flag, text } from './flag.ts';

/** Endings of a profile's file: a flame graph, a profile for the performance panel of a browser, folded stacks. */
const PROFILE_ENDINGS = ['.svg', '.cpuprofile', '.txt'] as const;

const PROFILE = text({
  group: 'general',
  placeholder: 'OUT',
  defaultValue: undefined,
  summary:
    'With --replay: write the functions in which the instructions of the messages were spent to that file: a flame ' +
    'graph (.svg), a profile for browsers (.cpuprofile), or folded stacks (.txt).',
});

/** The flags, by their long names. */
export const REPLAY_FLAGS = {
  replay: text({
    group: 'general',
    placeholder: 'FILE',
    defaultValue: undefined,
    summary:
      'Execute the messages of a capsule (GET /x/time/capsule) again, say of each whether it ends exactly as it was ' +
      'recorded, and exit: 0 if all do, 1 if not, 2 if the file cannot be read. Nothing is served or stored.',
  }),
  profile: {
    ...PROFILE,
    parse(value: string): string | undefined {
      if (PROFILE_ENDINGS.some((ending) => value.endsWith(ending))) return PROFILE.parse(value);
      throw new FlagProblem(`expected a file whose name ends in ${PROFILE_ENDINGS.join(', ')}, not '${value}'`);
    },
  } satisfies Flag<string | undefined>,
};
