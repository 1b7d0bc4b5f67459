/** Candid messages of values whose types are fixed in the program; see known-values.ts. */
export { blob, messageOf, nat, record, text, vec } from '../known-values.ts';
