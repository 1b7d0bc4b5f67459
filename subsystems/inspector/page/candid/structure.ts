import type { DidType, Field, NamedType } from './did-types.ts';

/**
 * Returns a text of the structure on which the values in a form depend: if two lists of types have the same text,
 * values of one are values of the other, field by field. Names of definitions and of parameters are left out.
 */
export function structureOf(types: readonly DidType[]): string {
  const numbers = new Map<DidType, number>();
  // Definitions are written one after the other: if nested, they could exceed the stack.
  const definitions: NamedType[] = [];
  const numberOf = (type: NamedType): number => {
    const known = numbers.get(type);
    if (known !== undefined) return known;
    definitions.push(type);
    numbers.set(type, numbers.size);
    return numbers.size - 1;
  };
  const fields = (of: readonly Field[]): string =>
    of.map(({ id, label, type }) => `${id} ${JSON.stringify(label)} ${write(type)}`).join(';');
  const write = (type: DidType): string => {
    switch (type.kind) {
      case 'name':
        return `#${numberOf(type)}`;
      case 'opt':
      case 'vec':
        return `${type.kind} ${write(type.inner)}`;
      case 'record':
      case 'variant':
        return `${type.kind}{${fields(type.fields)}}`;
      default:
        return type.kind;
    }
  };
  const parts = types.map(write);
  for (let next = definitions[0], index = 0; next !== undefined; next = definitions[++index])
    parts.push(next.target === undefined ? '?' : write(next.target));
  return parts.join('|');
}
