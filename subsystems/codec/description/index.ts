/**
 * An interface for people to read: with its comments and the names of types and parameters, as plain data that contains
 * itself where types do. For documents; conversions use the codec.
 */
export { describeInterface } from './describe-interface.ts';
export { labelWord, nameWord } from './did-words.ts';
export { TypeTables } from './type-tables.ts';
export {
  type DescribedField,
  type DescribedMethod,
  type DescribedParameter,
  type DescribedType,
  type NamedType,
  type PlainKind,
  resolveNamed,
} from './described-types.ts';
