export { IC0_SIGNATURES, ic0Signature } from './ic0-signatures.ts';
export type { HostType, Ic0Name, Ic0Signature } from './ic0-signatures.ts';
