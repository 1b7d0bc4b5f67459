export { toldStep } from '../../plugins/api/contracts/support/told-step.ts';
