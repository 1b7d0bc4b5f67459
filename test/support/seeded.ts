export { type Seeded, seeded } from '../../api/contracts/support/seeded.ts';
