/** Header of an answer between servers, which no actor can set: a note of the server itself. */
export const LINK_NOTE = 'svc-link-note';
/** The server does not own the actor; nothing was executed. */
export const MISDIRECTED = 'misdirected';
/** The server stops, and nothing was executed. */
export const TURNED_AWAY = 'turned-away';
/** The server stops, and takes nothing more. */
export const LEAVING = 'leaving';
