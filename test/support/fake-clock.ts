export { FakeClock } from '../../plugins/api/contracts/support/fake-clock.ts';
