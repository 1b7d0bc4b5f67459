import { defineCapability } from './capability.ts';

/** Whether the server takes work, and if not, what it waits for. */
export interface Readiness {
  readonly isReady: boolean;
  /** What start-up is doing right now (`reading the manifest`), or `shutting down`; the newest note wins. */
  readonly note: string;
}
export const Readiness = defineCapability<Readiness>('readiness');
