/** A face for who reads rows that canisters have stored: identities and numbers. */
export { numbersBytes, readIdentity, readNumbers, type StoredIdentity, type StoredNumbers } from '../stored-values.ts';
