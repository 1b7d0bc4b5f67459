/** Name under which the host's root key stands among the variables of all canisters, in hex. Both sides; a constant. */

/** Longer than the name of a variable may be. */
export const ROOT_KEY_NAME: string = 'root key of the host'.padEnd(129, '.');
