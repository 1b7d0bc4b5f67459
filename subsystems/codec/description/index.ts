/**
 * An interface as people read it: with its comments, the names of types and parameters, everything as plain data that
 * refers to itself where types do. For documents; conversions go through the codec.
 */
export { describeInterface } from './describe-interface.ts';
export { labelWord, nameWord } from './did-words.ts';
export {
  type DescribedField,
  type DescribedInterface,
  type DescribedMethod,
  type DescribedParameter,
  type DescribedType,
  type PlainKind,
  resolveNamed,
} from './described-types.ts';
