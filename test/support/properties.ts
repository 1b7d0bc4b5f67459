/**
 * fast-check, which draws the same cases in every `npm test`: a failure is then caused by the tested change, never by
 * chance. The long form (`npm run prove -- properties`) draws other cases each time, and more of them; its findings
 * become rows of tables.
 *
 *     import fc, { cases } from '../../support/properties.ts';
 *     fc.assert(fc.property(values, check), { numRuns: cases(400) });
 *
 * A failure names its seed: `PROPERTY_SEED=-1628730910 node --test FILE` draws the same cases again.
 */
import fc from 'fast-check';

const LONG = process.env['PROOF_SEEDS'];
const GIVEN = process.env['PROPERTY_SEED'];
const SEED = 20_261_122;

/** Returns the number of cases of a property: `short` in `npm test`, `PROOF_SEEDS` times as many in the long form. */
export function cases(short: number): number {
  return LONG === undefined ? short : short * Number(LONG);
}

const chosen = LONG === undefined ? SEED : Date.now() | 0;
fc.configureGlobal({ seed: GIVEN === undefined ? chosen : Number(GIVEN), numRuns: cases(100) });

export { default } from 'fast-check';
