/** An option of a plugin as a flag; apart from reading options, because help needs no more. */
import type { OptionSpec } from '../plugins/api/options.ts';
import { choice, type Flag, integer, text } from './flag.ts';

/** Returns the option as a flag, whose parser reads its value. */
export function flagOf(spec: OptionSpec): Flag<unknown> {
  const described = {
    group: 'general',
    summary: spec.summary,
    ...(spec.variable !== undefined && { variable: spec.variable }),
  } as const;
  switch (spec.type) {
    case 'text': {
      const { placeholder = 'TEXT', default: value } = spec;
      return value === undefined
        ? text({ ...described, placeholder, defaultValue: undefined })
        : text({ ...described, placeholder, defaultValue: value });
    }
    case 'integer': {
      const { unit, min, max, default: value } = spec;
      const flag = integer({ ...described, placeholder: 'N', unit, min, max, defaultValue: value ?? min });
      return value === undefined ? { ...flag, defaultText: undefined } : flag;
    }
    case 'choice': {
      const [first] = spec.choices;
      const flag = choice({ ...described, choices: spec.choices, defaultValue: spec.default ?? first });
      return spec.default === undefined ? { ...flag, defaultText: undefined } : flag;
    }
    case 'switch': {
      const words = choice({
        ...described,
        choices: ['true', 'false'],
        defaultValue: spec.default === true ? 'true' : 'false',
      });
      return { ...words, defaultValue: spec.default === true, parse: (value) => words.parse(value) === 'true' };
    }
  }
}
