/** Candid messages of values whose types the program itself knows; see known-values.ts. */
export { blob, type KnownType, messageOf, nat, record, text, vec } from '../known-values.ts';
