/**
 * fast-check, drawing the same cases at every `npm test`: a red run is then the work of the change that is tested, never of chance.
 * The long form (`npm run prove -- properties`) draws others each time, and more of them; what it finds becomes a row of a table.
 *
 *     import fc, { cases } from '../../support/properties.ts';
 *     fc.assert(fc.property(values, check), { numRuns: cases(400) });
 *
 * A failure names its seed: `PROPERTY_SEED=-1628730910 node --test FILE` draws it again.
 */
import fc from 'fast-check';

const LONG = process.env['PROOF_SEEDS'];
const GIVEN = process.env['PROPERTY_SEED'];
const SEED = 20_261_122;

/** How many cases a property draws: so many in `npm test`, `PROOF_SEEDS` times as many in the long form. */
export function cases(short: number): number {
  return LONG === undefined ? short : short * Number(LONG);
}

const chosen = LONG === undefined ? SEED : Date.now() | 0;
fc.configureGlobal({ seed: GIVEN === undefined ? chosen : Number(GIVEN), numRuns: cases(100) });

export { default } from 'fast-check';
