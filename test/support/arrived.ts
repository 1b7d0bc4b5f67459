import { setTimeout as sleep } from 'node:timers/promises';

const TURNS = 30;
const TURN_MS = 5;

/**
 * Resolves when bytes written to a connection between two ends in this process have been read and handled. That takes
 * several turns of the event loop rather than a time: a thread that was held up runs its timers before it reads a
 * socket.
 */
export async function arrived(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn++) await sleep(TURN_MS);
}

/** Resolves when the figure has stayed the same for as long as `arrived` takes. */
export async function settled(figure: () => number): Promise<void> {
  for (let before = NaN; before !== figure();) {
    before = figure();
    await arrived();
  }
}
