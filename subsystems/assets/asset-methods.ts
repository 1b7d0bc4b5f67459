/** Methods without which an actor takes no files. */
export const METHODS_NEEDED: readonly string[] = ['list', 'create_batch', 'create_chunk', 'commit_batch'];
/** Method that takes several chunks in one message. */
export const SEVERAL_CHUNKS = 'create_chunks';
