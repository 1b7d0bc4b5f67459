export { type Seeded, seeded } from '../../plugins/api/contracts/support/seeded.ts';
