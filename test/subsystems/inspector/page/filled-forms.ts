/** Forms of any types, filled in by chance. */
import fc from '../../../support/properties.ts';
import { type DidType, PRIMITIVES, resolve } from '../../../../subsystems/inspector/page/candid/did-types.ts';
import { emptyValue, type FormValue } from '../../../../subsystems/inspector/page/candid/form-value.ts';

/** Type texts as an interface writes them. */
export const typeTexts = fc.letrec<{ type: string }>((tie) => ({
  type: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(...PRIMITIVES.filter((name) => name !== 'empty'), 'blob', 'func (nat) -> () query', 'service {}'),
    tie('type').map((inner) => `opt ${inner}`),
    tie('type').map((inner) => `vec ${inner}`),
    fc.array(tie('type'), { maxLength: 3 }).map((types) => `record { ${types.join('; ')} }`),
    fc
      .uniqueArray(fc.tuple(fc.constantFrom('a', 'zebra', '"$svc"', '"odd \\"name\\""', '17', '0', '1'), tie('type')), {
        minLength: 1,
        maxLength: 4,
        selector: ([label]) => label,
      })
      .chain((fields) =>
        fc
          .constantFrom('record', 'variant')
          .map((kind) => `${kind} { ${fields.map(([label, type]) => `${label} : ${type}`).join('; ')} }`),
      ),
  ),
})).type;

const PRINCIPALS = ['aaaaa-aa', '2vxsx-fae', 'bkyz2-fmaaa-aaaaa-qaaaq-cai'];

/** Makes a value of any shape, as a user may have filled in the form. */
export function filled(named: DidType, random: fc.GeneratorValue): FormValue {
  const type = resolve(named);
  const value = emptyValue(type);
  const pick = (count: number): number => random(fc.integer, { min: 0, max: count - 1 });
  switch (value.kind) {
    case 'opt':
      value.isSome = pick(2) === 1;
      if (type.kind === 'opt') value.value = filled(type.inner, random);
      break;
    case 'vec':
      if (type.kind === 'vec')
        for (let count = pick(3); count > 0; count--) value.items.push(filled(type.inner, random));
      break;
    case 'record':
      if (type.kind === 'record')
        return { kind: 'record', fields: type.fields.map((field) => filled(field.type, random)) };
      break;
    case 'variant':
      if (type.kind !== 'variant') break;
      value.tag = pick(type.fields.length);
      value.values.set(value.tag, filled(type.fields[value.tag]?.type ?? { kind: 'null' }, random));
      break;
    case 'func':
      value.principal = PRINCIPALS[pick(3)] ?? '';
      value.method = random(fc.string);
      break;
    case 'bool':
      value.isTrue = pick(2) === 1;
      break;
    case 'blob':
      value.text = random(fc.string, { unit: 'grapheme' });
      break;
    case 'text':
      value.text = textFor(type.kind, random, pick);
      break;
    case 'nothing':
      break;
  }
  return value;
}

function textFor(kind: string, random: fc.GeneratorValue, pick: (count: number) => number): string {
  if (kind === 'text') return random(fc.string, { unit: 'grapheme' });
  if (kind === 'principal' || kind === 'service') return PRINCIPALS[pick(3)] ?? '';
  if (kind === 'float32') return ['1.5', '-0', 'inf', '2e10'][pick(4)] ?? '';
  if (kind === 'float64') return String(random(fc.double));
  const bits = Number(/\d+$/.exec(kind)?.[0] ?? 100);
  const isSigned = kind.startsWith('int');
  const max = 2n ** BigInt(isSigned ? bits - 1 : bits);
  return String(random(fc.bigInt, { min: isSigned ? -max : 0n, max: max - 1n }));
}
