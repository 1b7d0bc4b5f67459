/**
 * Copies of actors that nobody can address, and who plays messages on them: what is tried beside an actor is tried on
 * one of these. They run in the executors of the other actors; nothing of them is stored, and nothing is sent.
 */
export { ActorCopy } from './actor-copy.ts';
export { CopyPlayer, isPlayable, notedCall, type Played, type WaitingCall } from './copy-player.ts';
export { entriesFrom } from './recorded-messages.ts';
export { endOf, type PlayedEnd } from './played-end.ts';
